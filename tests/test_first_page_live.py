"""From an empty folder and an artefact of the release to the first page, on one machine: the three commands of docs/releases.md.

The engine is a simulated one, because it can be broken on request; Prometheus and Alertmanager are this machine's, with configurations of
their own, which name the files that the second command writes. Rules and routes are the shipped ones with their own durations.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sidecar.commands.demo.load import Load
from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from sidecar.commands.demo.servers import INSTALL, Programs, programs
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from sidecar.commands.simulator.workload import Shape, Workload
from tests.support.artefacts import artefact
from tests.support.background import Background, background
from tests.support.doc_blocks import CHECKOUT, commands_of_page
from tests.support.prometheus import Prometheus, explained
from tests.support.sink import listening_sink
from tests.support.tools import missing
from tools.release import OUT


TO_THE_FIRST_PAGE_SECONDS = 300.0
PAGE = CHECKOUT / "docs/releases.md"
LOAD = Workload((Shape(1.0, 200, 40, spread=0.3),))
REQUESTS_PER_SECOND = 4.0
HEALTHY = 'sum(increase(llm_requests_total{outcome="ok"}[1m])) > 20'


@pytest.mark.release
@pytest.mark.timed
@pytest.mark.timeout(900)
def test_an_artefact_and_three_commands_lead_to_the_first_page_within_five_minutes(tmp_path: Path) -> None:
    """The clock runs from the first command on. The engine crashes once Prometheus has counted requests that went well."""
    found = programs()
    if found is None:
        missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
    artefact("*-VERSION-py3-none-any.whl")
    (block,) = commands_of_page(PAGE)
    install, export, serve = block.text.splitlines()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True, timeout=120)
    empty = tmp_path / "empty"
    empty.mkdir()
    traffic, admin = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    with (
        background() as thread,
        thread.entered(lambda: SimulatedEngine(SMALL_CHAT)) as engine,
        listening_sink() as sink,
    ):
        variables = {name: value for name, value in os.environ.items() if name not in own} | {
            "PATH": f"{tmp_path / 'environment/bin'}:{os.environ['PATH']}",
            "RELEASE_URL": str(OUT),
            "PAGER": f"{sink.url}/pager",
            "ENGINE": engine.url,
            # Another test may have the usual ports.
            "SIDECAR__PROXY__LISTEN_ADDRESS": traffic,
            "SIDECAR__WEB__LISTEN_ADDRESS": admin,
        }
        began_at = time.monotonic()
        for line in (install, export):
            words, quiet = ["bash", "-euc", line], subprocess.DEVNULL
            subprocess.run(words, cwd=empty, env=variables, stdout=quiet, check=True, timeout=200)
        serving = ["env", f"--chdir={empty}", "bash", "-euc", f"exec {serve}"]
        with (
            thread.entered(lambda: running("the sidecar", serving, ready_url=f"http://{admin}/-/ready", env=variables)),
            alerting(thread, found, empty, admin) as prometheus,
            thread.going_on(Load(f"http://{traffic}", engine.model, REQUESTS_PER_SECOND, workload=LOAD).run()),
            explained(prometheus, sink),
        ):
            assert prometheus.wait_for(HEALTHY, patience_seconds=120), "Prometheus counted no requests"
            assert sink.at("/pager", about='"page"') == []
            thread.run(engine.crash())
            left = TO_THE_FIRST_PAGE_SECONDS - (time.monotonic() - began_at)
            told = sink.wait_for("/pager", about='"page"', patience_seconds=left)
            assert told, "no page came in time"
            thread.run(engine.restart())
    page, seconds = told[0].body["alerts"][0], told[0].arrived_at - began_at
    print(f"from the first command to the first page: {seconds:.0f} s")  # noqa: T201  `make release` shows it

    assert seconds <= TO_THE_FIRST_PAGE_SECONDS
    assert (page["status"], page["labels"]["phase"], page["labels"]["severity"]) == ("firing", "engine", "page")
    assert page["labels"]["namespace"] == "default"
    assert page["annotations"]["runbook_url"].startswith(
        f"http://127.0.0.1:9901/runbooks/{page['labels']['alertname']}"
    )


@contextmanager
def alerting(thread: Background, found: Programs, folder: Path, admin: str) -> Iterator[Prometheus]:
    """This machine's Prometheus and Alertmanager: they load what was exported, with one target and the product's own intervals."""
    prometheus, alertmanager = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    target = {"targets": [admin], "labels": {"namespace": "default", "pod": "llm-0"}}
    config = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "rule_files": ["llm/alert_rules/llm-*.yml"],
        "scrape_configs": [{"job_name": "llm", "static_configs": [target]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    commands = {
        alertmanager: [
            *(found.alertmanager, f"--config.file={folder / 'llm/alert_rules/alertmanager.yml'}"),
            *(
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address={alertmanager}",
                "--cluster.listen-address=",
            ),
        ],
        prometheus: [
            *(found.prometheus, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"),
            f"--web.listen-address={prometheus}",
        ],
    }
    (first, then) = commands
    with (
        thread.entered(lambda: running("Alertmanager", commands[first], ready_url=f"http://{first}/-/ready")),
        thread.entered(lambda: running("Prometheus", commands[then], ready_url=f"http://{then}/-/ready")),
    ):
        yield Prometheus(f"http://{prometheus}")
