"""Five incidents in virtual time, each up to a minute after its fault, and the admin listener of the sidecar that saw it.

It plays a simulated engine through the product's own modules (bench/incidents), so that the instant of the fault is known and a slow
machine changes nothing. It refuses to know how the page is drawn.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from bench.incidents import play as playing
from bench.incidents.engines import CHUNKS_2048, MODEL
from bench.incidents.fault import Episode, Fault, SlowClients
from bench.incidents.play import Incident
from bench.incidents.product import TICK, Product
from bench.incidents.request import Run
from bench.incidents.world import Mode
from sidecar.admin import listener
from sidecar.admin.listener import AdminListener
from sidecar.admin.page.page import Facts
from sidecar.history.ring import PERIOD_SECONDS
from sidecar.history.slices import run_now
from tests.support.admin import Double


HEALTHY_SECONDS = 300.0
"""Long enough to learn what is usual, and shorter than the half hour of the curves."""
FAULT_SECONDS = 60.0
BASE_UNIX = 1_795_171_000.0
"""Unix time of the virtual clock's 0."""
SEED, LOAD = 2, 1.0
POD, ENGINE, VERSION = "llm-0", "http://127.0.0.1:8000 (vLLM 0.25.0)", "0.1"
FAULTS: Mapping[str, Fault] = {
    "queue": Fault(knobs={"slots": 1}),
    "prefill": Fault(knobs={"prefill_factor": 6.0}),
    "decode": Fault(knobs={"decode_factor": 6.0}),
    "stream": Fault(slow_clients={"interactive": SlowClients(1.0, 12.0)}),
    "engine": Fault(down=True),
}
"""Keyed by the phase that is truly at fault. So large that the first request misses within seconds."""


class _Over(Exception):  # noqa: N818  the end of the play, no error
    pass


class _App(Double):
    """The rest of the process: its name, and the instant at which it is asked."""

    now = 0.0

    def facts(self) -> Facts:
        return Facts(VERSION, ENGINE, self.now, "as loaded", placement=f"pod {POD} in serving")


class _Watched(Product):
    """A run that passes through the sidecar, and its admin listener, whose history ticks on the run's clock."""

    def __init__(self, run: Run) -> None:
        super().__init__(CHUNKS_2048, run, mode=Mode.REPORTS)
        self._until = run.fault_at + FAULT_SECONDS
        self._process._slo.roots.unix_of = lambda at: BASE_UNIX + at
        self.app = _App(self.metrics)
        self.admin = AdminListener(
            self.app, self.metrics, lambda: self._process.now, unix=lambda: BASE_UNIX + self._process.now
        )

    def _other(self, what: int, number: int, at: float) -> None:
        super()._other(what, number, at)
        if what == TICK and at % PERIOD_SECONDS == 0:
            self.app.now = at
            self.admin._diagnoses.learn(run_now(self.admin._history.tick(at)))
            if at >= self._until:
                raise _Over


@dataclass(frozen=True, slots=True)
class Played:
    """One incident, a minute after its fault."""

    admin: AdminListener
    fault_at_unix: float
    model: str = MODEL


def played(phase: str) -> Played:
    """Play the incident of this phase. Takes some seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(playing, "HEALTHY_SECONDS", HEALTHY_SECONDS)
        run = playing.play(
            CHUNKS_2048, SEED, Incident((Episode(FAULTS[phase]),), seconds=2 * FAULT_SECONDS), factor=LOAD
        )
    product = _Watched(run)
    with pytest.raises(_Over):
        product.play(frozenset())
    return Played(product.admin, BASE_UNIX + run.fault_at)


@asynccontextmanager
async def listening(of: Played) -> AsyncIterator[str]:
    """The address of its admin listener, whose clock stands still."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listener, "PERIOD_SECONDS", 3600.0)
        ((host, port),) = await of.admin.start("127.0.0.1", 0)
        try:
            yield f"http://{host}:{port}"
        finally:
            await of.admin.stop()
