"""The configurations are healthy at every load that a seed draws."""

import pytest

from bench.incidents.engines import ENGINES, HIGHEST_LOAD, EngineConfig
from bench.incidents.play import NO_INCIDENT, play
from bench.incidents.truth import verdicts
from sidecar.objectives.objective import Objective


@pytest.mark.bench
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_healthy_day_at_the_highest_load_spends_less_than_half_of_any_budget(engine: EngineConfig) -> None:
    told = verdicts(play(engine, 40, NO_INCIDENT, factor=HIGHEST_LOAD), engine.objectives())

    for (lane, objective), each in told.items():
        aim = engine.lane(lane).aims.aim(Objective(objective))
        assert aim is not None
        assert sum(verdict.missed for verdict in each) / len(each) < 0.5 * aim.allowed_misses
