"""A run with every unkindness of a world is the same each time."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.fault import Episode, Fault
from bench.incidents.play import (
    Incident,
    play,
)
from bench.incidents.request import Request, Run
from bench.incidents.world import Throttle, Topology, World
from sidecar.timeline.outcome import Outcome


pytestmark = pytest.mark.bench


def incident(fault: Fault, ends: float | None = None, setup: Fault | None = None) -> Incident:
    return Incident((Episode(fault, 0.0, ends),), Fault() if setup is None else setup)


def done(run: Run) -> list[Request]:
    """Requests with a whole answer, streamed."""
    return [each for each in run.requests if each.outcome is Outcome.OK and each.ended_at is not None and each.reads]


def test_all_unkindnesses_together_give_a_run_that_is_the_same_each_time() -> None:
    world = World(
        utilisation=0.25,
        step_noise=0.2,
        length_sigma=0.7,
        coalesced=0.2,
        throttle=Throttle(0.06),
        stream_interval=4,
        tokens_a_step=1.8,
        topology=Topology.RANKS,
        pods=2,
    )
    faults = incident(Fault(load={"code": 2.0}, knobs={"decode_factor": 2.0}))

    one, other = (play(CHUNKS_2048, 9, faults, world=world) for _ in range(2))

    assert one == other
    assert one != play(CHUNKS_2048, 9, faults, world=replace(world, step_noise=0.1))
    for each in done(one):
        assert each.reads[0] >= each.received_at
        assert all(earlier < later for earlier, later in pairwise(each.reads))
        assert each.ended_at is not None
        assert each.flushed_at is not None
        assert each.reads[-1] <= each.ended_at <= each.flushed_at
