"""The programs that a reader of a page has running already, and the variables that docs/quickstart.md asks for.

Knows their usual ports and when each is ready. The engine is a simulated one, Grafana a server that only knows its dashboards; Prometheus and
Alertmanager are real. `doc_stories.py` starts and ends the programs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sidecar.commands.demo.servers import INSTALL, programs
from tests.support.grafana import grafana
from tests.support.sink import listening_sink
from tests.support.tools import missing


_DEMO = ("sidecar", "demo", "--plain", "--engine-port=8000")
_ADMIN = "http://127.0.0.1:9901"
_DIAGNOSED = r'"time_to_first_token": \{[^}]*"samples": ([2-9]\d|\d{3})'
"""The diagnosis gives no verdict on fewer first tokens."""
PROMETHEUS = """\
global:
  scrape_interval:     15s
  evaluation_interval: 15s
alerting:
  alertmanagers:
  - static_configs:
    - targets: ['localhost:9093']
rule_files:
scrape_configs:
  - job_name: 'prometheus'
    static_configs:
      - targets: ['localhost:9090']
"""
"""As Debian's package has it, without the comments and the node exporter."""
ALERTMANAGER = "route: {receiver: default}\nreceivers: [{name: default}]\n"


@dataclass(frozen=True, slots=True)
class Program:
    """A program that goes on, an address, and a pattern in what it answers there with 200 once it is ready."""

    command: Sequence[str | Path]
    url: str
    text: str = ""
    place: str = ""


def neighbours(what: str, folder: Path) -> Iterator[Program]:
    """The programs that `what` names, in one of the words that a mark may have behind `beside`."""
    if what == "an engine":
        # Nearly no load of its own: what goes past the sidecar of the page would be a fault to tell of.
        yield Program((*_DEMO, "--port=0", "--admin-port=0", "--rate=0.01"), "http://127.0.0.1:8000/v1/models")
    elif what == "a demo":
        yield Program(_DEMO, f"{_ADMIN}/diagnosis?lane=interactive", _DIAGNOSED)
    elif what == "a sidecar":
        yield Program(("sidecar", "serve", "--engine.url=http://127.0.0.1:8000"), f"{_ADMIN}/-/healthy")
    else:
        (folder / "prometheus.yml").write_text(PROMETHEUS)
        (folder / "alertmanager.yml").write_text(ALERTMANAGER)
        found = programs()
        if found is None:
            missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
        own = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        address = "127.0.0.1:9090"
        flags = [*own, f"--web.listen-address={address}", "--web.enable-lifecycle"]
        yield Program((found.prometheus, *flags), f"http://{address}/-/ready")
        own = [f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'alertmanager'}"]
        address = "127.0.0.1:9093"
        flags = [*own, f"--web.listen-address={address}", "--cluster.listen-address="]
        yield Program((found.alertmanager, *flags), f"http://{address}/-/ready")


@contextmanager
def said_at_the_top(folder: Path) -> Iterator[Mapping[str, str]]:
    """The variables of docs/quickstart.md, for the length of a `with` block. WHEEL is a folder, which the caller fills."""
    with listening_sink() as sink, grafana() as grafana_url:
        yield {
            "WHEEL": str(folder / "checkout"),
            "PROMETHEUS": str(folder),
            "ALERTMANAGER": str(folder / "alertmanager.yml"),
            "PAGER": f"{sink.url}/pager",
            "WATCHDOG": f"{sink.url}/watchdog",
            "GRAFANA": grafana_url,
        }
