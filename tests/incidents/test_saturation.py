"""A healthy engine keeps the objectives that it is given."""

import pytest

from bench.incidents.drawn import drawn
from bench.incidents.engines import CHUNKS_2048, EngineConfig
from bench.incidents.request import Run
from bench.incidents.saturation import fair, healthy_run, saturates_at
from bench.incidents.truth import verdicts
from bench.incidents.world import World
from sidecar.objectives.objective import Objective


UNKIND = World(step_noise=0.12, length_sigma=0.4, coalesced=0.2, pods=4, at_fault=2, utilisation=0.8)


def used(engine: EngineConfig, run: Run) -> dict[tuple[str, str], float]:
    """Lane and objective to the share of its allowed misses that a run used."""
    shares = {}
    for (lane, objective), each in verdicts(run, engine.objectives()).items():
        aim = engine.lane(lane).aims.aim(Objective(objective))
        assert aim is not None
        shares[lane, objective] = sum(verdict.missed for verdict in each) / len(each) / aim.allowed_misses
    return shares


@pytest.mark.bench
@pytest.mark.parametrize("engine", [CHUNKS_2048, drawn("tests", 3)], ids=lambda engine: engine.name)
def test_fair_objectives_are_kept_by_another_healthy_hour(engine: EngineConfig) -> None:
    factor = 0.85 * saturates_at(engine, UNKIND)

    promised = fair(engine, UNKIND, factor)

    assert max(used(promised, healthy_run(promised, 9, 3600.0, UNKIND, factor)).values()) < 1.0
