"""From the fault to the pager with real programs: a fault becomes the page of its phase, and its end the all-clear.

Prometheus, Alertmanager and the sidecar are the real programs, over HTTP, with the shipped rules and routes fifteen
times as fast and the receivers at a sink. The engine is the simulated one, because it can be broken on request.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from sidecar.commands.demo.incidents import INCIDENTS as SHIPPED
from sidecar.commands.demo.incidents import Incident
from sidecar.commands.demo.load import Load
from sidecar.commands.demo.stage import Stage
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from sidecar.commands.simulator.workload import Shape, Workload
from tests.support.alert_stack import POD, AlertStack, alert_stack
from tests.support.background import Background, background
from tests.support.prometheus import explained
from tests.support.sidecar_process import SidecarProcess, running_sidecar


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(400)]

CONFIG = """
lanes: {default: interactive}
objectives:
  interactive: {ttft: {threshold_seconds: 1.5}, tpot: {threshold_seconds: 0.06, target: 0.9}}
proxy: {client_buffer_bytes: 4096}
"""
LOAD = Workload((Shape(1.0, 600, 180, spread=0.3),))
"""Answers of some 39 kB: half of that fits into the buffers between the sidecar and a client that reads slowly."""
REQUESTS_PER_SECOND = 4.0
"""A low rate, so that two busy cores can play it in time; it is enough for ten misses in eight seconds."""

INCIDENTS = {
    "queue": Incident("queue", "one slot is left of 32", {"slots": 1}),
    "stream": SHIPPED["stream"],
    "engine": Incident("engine", "the engine has crashed", down=True),
}


@dataclass(frozen=True, slots=True)
class Theatre:
    """The engine, its load, the sidecar, and the alert stack that scrapes it."""

    sidecar: SidecarProcess
    thread: Background
    stage: Stage
    stack: AlertStack


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """One setup for all tests, which play one after the other, as in the demo."""
    folder = tmp_path_factory.mktemp("pages")
    config = folder / "sidecar.yml"
    config.write_text(CONFIG)
    with (
        background() as thread,
        thread.entered(lambda: SimulatedEngine(SMALL_CHAT)) as engine,
        running_sidecar(engine.url, folder, flags=[f"--config.file={config}"]) as sidecar,
        alert_stack(thread, sidecar) as stack,
    ):
        load = Load(f"http://127.0.0.1:{sidecar.port}", engine.model, REQUESTS_PER_SECOND, workload=LOAD)
        with thread.going_on(load.run()):
            yield Theatre(sidecar, thread, Stage(engine, load), stack)


@pytest.mark.parametrize("phase", INCIDENTS)
def test_an_incident_is_paged_by_its_phase_and_its_end_is_told(theatre: Theatre, phase: str) -> None:
    incident, stack = INCIDENTS[phase], theatre.stack
    before = stack.wait_until_calm()
    with explained(stack.prometheus, stack.sink):
        theatre.thread.run(theatre.stage.begin(incident))
        page = stack.page(phase, before)
        theatre.thread.run(theatre.stage.end(incident))
        assert page, "no page came"
        resolution = stack.resolution(page, phase, before)

        assert resolution, "the page came, but no message that it is over"
        assert stack.paged(before) == [phase]
        assert page["labels"] | {"phase": phase, "severity": "page", "namespace": "demo"} == page["labels"]
        assert POD in (page["annotations"].get("worst_pod"), page["annotations"]["summary"].partition(":")[0])
        assert page["annotations"]["runbook_url"].partition("?")[0].endswith(f"/runbooks/{page['labels']['alertname']}")


@contextmanager
def starved(sidecar: SidecarProcess, *, stopped_seconds: float, running_seconds: float) -> Iterator[None]:
    """The process gets the CPU for a part of the time only, as behind a small CPU limit."""
    over = threading.Event()

    def throttle() -> None:
        while not over.wait(running_seconds):
            os.kill(sidecar.process.pid, signal.SIGSTOP)
            over.wait(stopped_seconds)
            os.kill(sidecar.process.pid, signal.SIGCONT)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_sidecar_without_cpu_pages_itself_and_no_phase_of_the_engine(theatre: Theatre) -> None:
    """The engine is as fast as ever; what a late sidecar measures says nothing about it."""
    stack = theatre.stack
    before = stack.wait_until_calm()
    with explained(stack.prometheus, stack.sink):
        with starved(theatre.sidecar, stopped_seconds=1.8, running_seconds=0.2):
            page = stack.page("sidecar", before)
        assert page, "no page came"

        over = stack.resolution(page, "sidecar", before)
        assert over, "the page came, but no message that it is over"
        assert stack.paged(before) == ["sidecar"]


def test_a_person_would_notice_if_alerting_itself_were_dead(theatre: Theatre) -> None:
    """The watchdog alert is sent again and again: if it stops, alerting itself is broken."""
    since = len(theatre.stack.sink.notifications)

    assert len(theatre.stack.sink.wait_for("/llm", since=since, at_least=2)) >= 2
