"""Sampled incidents change something on every engine and at every load."""

from random import Random

import pytest

from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.fault import NOTHING
from bench.incidents.kinds import BY_NAME, KINDS, Kind
from bench.incidents.play import Incident


UTILISATIONS = (0.3, 0.58, 0.75, 0.9)
"""Loads before the fault, as shares of saturation: all that an unkind world draws."""
MAGNITUDES = (0.0, 0.5, 1.0)


def sampled(name: str, engine: EngineConfig, utilisation: float, magnitude: float, seed: int = 1) -> Incident:
    return BY_NAME[name].sample(engine, utilisation * engine.saturates_at, magnitude, Random(seed))


def everywhere(name: str) -> list[tuple[EngineConfig, float, Incident]]:
    """Incidents of one kind on all engines, at all loads, of all magnitudes."""
    return [
        (engine, utilisation, sampled(name, engine, utilisation, magnitude, seed))
        for seed, engine in enumerate(ENGINES)
        for utilisation in UTILISATIONS
        for magnitude in MAGNITUDES
    ]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_fault_changes_something_on_every_engine_at_every_load(kind: Kind) -> None:
    for engine, utilisation, incident in everywhere(kind.name):
        faults = [episode.fault for episode in incident.episodes]
        assert faults
        for fault in faults:
            assert fault != NOTHING
            assert all(factor > 1.0 for factor in fault.load.values()), (engine.name, utilisation)
            assert all(factor > 1.0 for factor in {**fault.prompts, **fault.outputs}.values())
            assert all(stranger.per_second > 0.0 for stranger in fault.strangers)
            assert fault.knobs.get("slots", 0) < engine.slots
            assert all(fault.knobs.get(name, 2.0) > 1.0 for name in ("prefill_factor", "decode_factor"))
