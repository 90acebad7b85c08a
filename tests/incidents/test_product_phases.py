"""An engine that is nearly full before a fault: its misses are given to what became dear."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from bench.incidents.engines import BY_NAME, EngineConfig
from bench.incidents.kinds import BY_NAME as KINDS_BY_NAME
from bench.incidents.play import play
from bench.incidents.product import Product
from bench.incidents.request import Run
from bench.incidents.saturation import fair, saturates_at
from bench.incidents.world import Mode, World


pytestmark = pytest.mark.bench

MISSES = "llm_slo_root_misses_total"
JUDGED_SECONDS = 420.0
"""Pages come within these."""
NEARLY = 0.75
"""Share of all that the engine can do which arrives before the fault."""


@cache
def nearly_full(name: str, kind: str) -> tuple[EngineConfig, Run]:
    """An engine of this name that is nearly full, and then an incident of this kind."""
    world = World(utilisation=NEARLY, step_noise=0.1)
    factor = NEARLY * saturates_at(BY_NAME[name], world)
    engine = fair(BY_NAME[name], world, factor)
    incident = KINDS_BY_NAME[kind].sample(engine, factor, 0.6, Random(0))
    return engine, play(engine, 301, replace(incident, seconds=JUDGED_SECONDS), world=world, factor=factor)


@pytest.mark.parametrize("mode", [Mode.REPORTS, Mode.ESTIMATOR])
@pytest.mark.parametrize(("kind", "phase"), [("decode-slow", "decode"), ("prefill-slow", "prefill")])
@pytest.mark.parametrize("name", ["chunks-2048", "unchunked"])
def test_a_nearly_full_engine_misses_for_what_became_dear(name: str, kind: str, phase: str, mode: Mode) -> None:
    """The fault takes all slots within seconds, so that requests wait without end and each step may hold a part of a prompt. Up to two
    thirds of the misses of dear decodes were given to prefill.
    """
    engine, run = nearly_full(name, kind)

    samples = Product(engine, run, mode=mode).play(frozenset({MISSES}))

    begins, ends = (round(at // samples.every_seconds) for at in (run.fault_at, run.fault_at + JUDGED_SECONDS))
    misses: defaultdict[str, float] = defaultdict(float)
    for (_, labels), column in samples.columns.items():
        misses[dict(labels)["phase"]] += (column[ends] or 0.0) - (column[begins] or 0.0)
    assert sum(misses.values()) > 300
    assert misses[phase] > 0.9 * sum(misses.values()), misses
