"""A real Prometheus and a real Alertmanager on the shipped rules and routes, in a hurry, for the length of a `with` block.

It knows the two programs, their flags and their names on Debian and elsewhere. What they are told is `shipped.py`'s, and who
listens at the receivers' addresses is for the caller to say. Both listen on loopback, on any free port.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from sidecar.demo.processes import HOST, free_ports, running
from sidecar.demo.shipped import Shipped, prometheus_config


INSTALL = "apt-get install prometheus prometheus-alertmanager"


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths."""

    prometheus: str
    alertmanager: str


@dataclass(frozen=True, slots=True)
class Servers:
    """Both are ready."""

    prometheus_url: str
    alertmanager_url: str


def programs() -> Programs | None:
    """What is on PATH; None unless both are. Alertmanager has the name that upstream gives it, or Debian's."""
    prometheus = shutil.which("prometheus")
    alertmanager = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    return Programs(prometheus, alertmanager) if prometheus and alertmanager else None


@asynccontextmanager
async def alerting(
    found: Programs, shipped: Shipped, pods: Mapping[str, str], sink_url: str, *, runbooks_url: str | None = None
) -> AsyncIterator[Servers]:
    """Scrape `pods` (name to host:port) and tell `sink_url` what fires. Raises DemoError where one of the two does not start."""
    with TemporaryDirectory(prefix="llm-phase-sidecar-") as name:
        folder = Path(name)
        prometheus, alertmanager = (f"{HOST}:{port}" for port in free_ports(2))
        rules = shipped.rules(runbooks_url)
        for file, text in rules.items():
            (folder / file).write_text(text)
        routes = shipped.routes(sink_url, folder)
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(routes))
        scraping = prometheus_config([str(folder / file) for file in rules], alertmanager, pods, shipped.pace)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(scraping))
        command_of_alertmanager = [
            *(found.alertmanager, f"--config.file={folder / 'alertmanager.yml'}"),
            *(f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address={alertmanager}"),
            "--cluster.listen-address=",
        ]
        command_of_prometheus = [
            *(found.prometheus, f"--config.file={folder / 'prometheus.yml'}"),
            *(f"--storage.tsdb.path={folder / 'prometheus'}", f"--web.listen-address={prometheus}"),
            # Both by the same factor from their defaults, 5 minutes and 1. Until an alert that fires is told again, one that
            # began before Prometheus had found Alertmanager is known to nobody.
            f"--query.lookback-delta={shipped.pace.seconds(300)}",
            f"--rules.alert.resend-delay={shipped.pace.seconds(60)}",
        ]
        async with (
            running("Alertmanager", command_of_alertmanager, ready_url=f"http://{alertmanager}/-/ready"),
            running("Prometheus", command_of_prometheus, ready_url=f"http://{prometheus}/-/ready"),
        ):
            yield Servers(f"http://{prometheus}", f"http://{alertmanager}")
