"""A real Prometheus and a real Alertmanager with the shipped rules and routes, for the length of a `with` block.

It contains the two programs' flags and their names on Debian and elsewhere. `shipped.py` makes their configuration,
with shortened durations; the caller passes the receivers' address. Both listen on loopback, on any free port.
"""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from sidecar.commands.demo.shipped import Shipped, prometheus_config


INSTALL = "apt-get install prometheus prometheus-alertmanager"


@dataclass(frozen=True, slots=True)
class Programs:
    prometheus: str
    alertmanager: str


@dataclass(frozen=True, slots=True)
class Servers:
    """Base URLs of the two servers, which are both ready."""

    prometheus_url: str
    alertmanager_url: str


def programs() -> Programs | None:
    """The two programs on PATH; None unless both are found. Alertmanager may have upstream's name or Debian's."""
    prometheus = shutil.which("prometheus")
    alertmanager = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    return Programs(prometheus, alertmanager) if prometheus and alertmanager else None


@asynccontextmanager
async def alerting(
    found: Programs, shipped: Shipped, pods: Mapping[str, str], sink_url: str, *, runbooks_url: str | None = None
) -> AsyncIterator[Servers]:
    """Scrape `pods` (name to host:port), send alerts to `sink_url`. Raises DemoError if one of both does not start."""
    with TemporaryDirectory(prefix="llm-phase-sidecar-") as name:
        folder = Path(name)
        prometheus, alertmanager = (f"{LOOPBACK}:{port}" for port in free_ports(2))
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
            # Both defaults, 5 minutes and 1 minute, shortened by the same factor. An alert that began before Prometheus
            # found Alertmanager reaches it only when Prometheus sends the alert again, after the resend delay.
            f"--query.lookback-delta={shipped.pace.seconds(300)}",
            f"--rules.alert.resend-delay={shipped.pace.seconds(60)}",
        ]
        async with (
            running("Alertmanager", command_of_alertmanager, ready_url=f"http://{alertmanager}/-/ready"),
            running("Prometheus", command_of_prometheus, ready_url=f"http://{prometheus}/-/ready"),
        ):
            yield Servers(f"http://{prometheus}", f"http://{alertmanager}")
