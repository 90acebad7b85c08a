"""Passes a played run through the product, and keeps the series that decide a page: how each root was found.

It takes only what `rules.py` and `show.py` read, because this passage is repeated at each change of the product. It
refuses to know rules and grades.
"""

import gc
from bisect import bisect_right
from dataclasses import dataclass

from bench.incidents.engines import EngineConfig
from bench.incidents.product import SCRAPE_SECONDS, Product
from bench.incidents.request import Run
from bench.incidents.samples import Column, Labels
from bench.incidents.truth import verdicts
from bench.incidents.world import Mode
from sidecar.objectives.objective import Objective


MISSES, REQUESTS, ALLOWED = "llm_slo_misses_total", "llm_slo_requests_total", "llm_slo_allowed_misses_total"
ROOTS, BLAMED = "llm_slo_root_misses_total", "llm_slo_blamed_misses_total"
CAUSES, UNDECIDED = "llm_slo_root_cause_misses_total", "llm_slo_undecided_misses"
EVIDENCE, AGE = "llm_evidence_ratio", "llm_incident_age_seconds"
COST, COST_LOW, COST_HIGH = "llm_engine_cost_ratio", "llm_engine_cost_ratio_low", "llm_engine_cost_ratio_high"
NAMES = frozenset(
    (*(MISSES, REQUESTS, ALLOWED, ROOTS, BLAMED, CAUSES, UNDECIDED), *(EVIDENCE, AGE, COST, COST_LOW, COST_HIGH))
)
"""Series that are sampled."""

Columns = dict[tuple[str, Labels], Column]


@dataclass(frozen=True, slots=True)
class Scraped:
    """The samples of all pods: one value a scrape, None where the page lacked the series."""

    pods: tuple[Columns, ...]
    scrapes: int
    """Number of scrapes; the first one is at instant 0."""
    every_seconds: float = SCRAPE_SECONDS


def scraped(
    engine: EngineConfig, run: Run, mode: Mode, *, estimated_lengths: bool = False, quick: bool = False
) -> Scraped:
    """The samples of a run, as the sidecars of all its pods would be scraped.

    `quick`: pods that are not at fault do not pass through the product. Their requests and misses are those of the
    run, their few misses have no root, and they show no evidence.
    """
    scrapes = int(run.ends_at / SCRAPE_SECONDS) + 1
    pods = []
    # The product makes many small objects and next to no circles of them.
    gc.disable()
    try:
        for pod in range(run.pods):
            if quick and pod not in run.at_fault:
                pods.append(_counted(engine, run.of_pod(pod), scrapes))
                continue
            product = Product(engine, run, mode=mode, pod=pod, estimated_lengths=estimated_lengths)
            pods.append(filled(product.play(NAMES).columns, scrapes))
    finally:
        gc.enable()
        gc.collect()
    return Scraped(tuple(pods), scrapes)


def _counted(engine: EngineConfig, run: Run, scrapes: int) -> Columns:
    """The requests and misses of a pod, counted from the run as its truth is."""
    found: Columns = {}
    for (lane, objective), told in verdicts(run, engine.objectives()).items():
        load = engine.lane(lane)
        aim = load.aims.aim(Objective(objective))
        assert aim is not None
        labels: Labels = (("model", load.model), ("lane", lane), ("objective", objective))
        decided = [each.at for each in told]
        missed = [each.at for each in told if each.missed]
        instants = [SCRAPE_SECONDS * scrape for scrape in range(scrapes)]
        found[REQUESTS, labels] = [float(bisect_right(decided, at)) for at in instants]
        found[MISSES, labels] = [float(bisect_right(missed, at)) for at in instants]
        found[ALLOWED, labels] = [aim.allowed_misses * bisect_right(decided, at) for at in instants]
    return found


def filled(columns: Columns, scrapes: int) -> Columns:
    """The columns, each as long as there were scrapes, without those that were always 0 or absent."""
    found: Columns = {}
    for key, column in columns.items():
        if any(column):
            found[key] = [*column, *[None] * (scrapes - len(column))]
    return found
