"""A rolling restart: the engines of a model restart one after the other. A planned one pages nothing; harm that lasts does."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from sidecar.pod.causes import PHASE_OF, Cause
from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane


SUITE = Suite("rolling")
COUNTED, COLD, END = 0.25, 1.25, 24.0
"""Minutes: in which a restart is counted, for which a planned one misses, and at which scenarios end."""


@dataclass(frozen=True, slots=True)
class Spell:
    """Minutes in which a pod misses, all for this cause."""

    begin: float
    end: float
    cause: Cause
    missing: float = 0.9


@dataclass(frozen=True, slots=True)
class Engine:
    """One pod: when it misses, and the minutes at which its engine restarts. It is well else."""

    spells: tuple[Spell, ...] = ()
    restarts: tuple[float, ...] = ()
    usual: Traffic = WELL
    lane: str = LANE

    def at(self, minute: float) -> tuple[Traffic, Cause | None]:
        """Traffic from this minute on, with the cause of its misses."""
        for spell in self.spells:
            if spell.begin <= minute < spell.end:
                return broken(PHASE_OF[spell.cause], spell.missing, self.usual.per_minute), spell.cause
        return self.usual, None


def planned(minute: float) -> Engine:
    return Engine((Spell(minute, minute + COLD, Cause.RESTART),), (minute,))


def cold(*restarts: float) -> Engine:
    """It is never warm again."""
    return Engine((Spell(restarts[0], END, Cause.RESTART),), restarts)


def down(minute: float, missing: float = 0.9) -> Engine:
    return Engine((Spell(minute, END, Cause.DOWN, missing),))


def then(first: Engine, minute: float, cause: Cause) -> Engine:
    """From this minute on it misses for another cause."""
    before = tuple(Spell(one.begin, min(one.end, minute), one.cause, one.missing) for one in first.spells)
    return Engine((*before, Spell(minute, END, cause)), first.restarts)


def instants(engines: tuple[Engine, ...]) -> list[float]:
    """The minutes at which something changes."""
    edges = {edge for engine in engines for spell in engine.spells for edge in (spell.begin, spell.end)}
    counted = {edge for engine in engines for minute in engine.restarts for edge in (minute, minute + COUNTED)}
    return sorted({0.0, END} | edges | counted)


def play(scenario: Scenario, engines: tuple[Engine, ...], target: float) -> None:
    begins = instants(engines)[:-1]
    for number, engine in enumerate(engines):
        pod = f"engine-{number}"
        spans = [engine.at(minute) for minute in begins]
        lane(scenario, *(traffic for traffic, _ in spans), pod=pod, target=target, lane=engine.lane)
        for cause in sorted({Cause.RESTART} | {spell.cause for spell in engine.spells}):
            who = {"model": MODEL, "pod": pod, "phase": str(PHASE_OF[cause]), "cause": str(cause)}
            rates = [traffic.misses() if found == cause else 0.0 for traffic, found in spans]
            scenario.counts("llm_slo_root_cause_misses_total", *rates, **who)
        counts = [any(at <= minute < at + COUNTED for at in engine.restarts) / COUNTED for minute in begins]
        scenario.counts("llm_engine_restarts_total", *counts, pod=pod)


def tell(
    name: str, promise: str, engines: tuple[Engine, ...], pages: Mapping[float, str], target: float = 0.95
) -> None:
    """`pages`: minute to the pages that fire then, each as `name phase`, for one lane or pod each. 0: no page at any time."""

    def told(scenario: Scenario) -> None:
        play(scenario, engines, target)
        firing = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",severity="page"}}'
        for minute, names in pages.items():
            if not minute:
                scenario.yields(f"count_over_time({firing}[{END:g}m])", END)
                continue
            found = [dict(zip(("alertname", "phase"), one.split(), strict=True)) for one in names.split(", ") if one]
            scenario.yields(f"count by (alertname, phase) ({firing})", minute, *(("", one, 1) for one in found))

    told.__name__, told.__doc__ = name, promise
    SUITE.scenario(*(after - before for before, after in pairwise(instants(engines))))(told)


for gaps in ((0.25,), (1.0,), (2.0,), (5.0,), (1.0, 1.0)):
    for target in (0.95, 0.99, 0.999):
        engines = tuple(planned(6 + sum(gaps[:place])) for place in range(len(gaps) + 1))
        name = f"{len(engines)} pods {gaps[0]:g} minutes apart at a target of {target:g}".replace(".", "")
        tell(name, "No page, not for one evaluation.", engines, {0: ""}, target)


# --- harm that lasts -------------------------------------------------------------------------------------------------------

LANES, PODS = "LLMEngineBurn engine", "LLMPodBurn engine"
tell("two cold engines at once", "They have 150 s to warm up.", (cold(6), cold(6)), {8.25: "", 9: LANES})
tell(
    "two cold engines one after the other",
    "The first has its page, then the lane of the second.",
    (cold(6), cold(7)),
    {8.25: "", 9: PODS, 10: f"{LANES}, {PODS}"},
)
tell(
    "all engines in a crash loop",
    "Their second restart is not planned: the page at once.",
    (cold(6, 7.5, 9, 10.5), cold(6, 7.5, 9, 10.5)),
    {7.25: "", 8: LANES},
)
tell("the only pod", "While it warms up, nothing serves: the page at once.", (planned(6),), {7: LANES})
tell("a second pod that serves nothing", "The same.", (planned(6), Engine(usual=NOTHING)), {7: LANES})
tell(
    "an engine that was down before it restarted",
    "Its first misses are of no restart.",
    tuple(Engine((Spell(6, 7, Cause.DOWN), Spell(7, END, Cause.RESTART)), (7.0,)) for _ in range(2)),
    {7: LANES, 8: LANES, 9: LANES, 12: LANES},
)
tell(
    "all engines go down in a rolling restart",
    "A page within a minute.",
    (then(planned(6), 7.5, Cause.DOWN), then(planned(7), 7.5, Cause.DOWN)),
    {7.5: "", 8.5: f"{LANES}, {PODS}"},
)
tell(
    "prefill breaks in a rolling restart",
    "Its page does not wait.",
    (then(planned(6), 7.5, Cause.PREFILL_COST), then(planned(7), 7.5, Cause.PREFILL_COST)),
    {7.5: "", 8.25: "LLMPrefillBurn prefill"},
)
tell(
    "the second engine goes down after the first restarted",
    "The misses of the first, which is left out of the lane, excuse nothing.",
    (planned(6), down(7.5)),
    {7.5: "", 8.5: LANES},
)
tell(
    "the third engine goes down in a rolling restart",
    "Its misses are of no restart.",
    (planned(6), planned(8), down(8.25)),
    {8.25: "", 9.25: LANES},
)
tell(
    "a small lane breaks in a rolling restart",
    "The many misses of the other lane excuse nothing.",
    (planned(6), planned(8), Engine((Spell(8.25, END, Cause.DOWN),), usual=Traffic(per_minute=20), lane="batch")),
    {8.25: "", 9.75: LANES},
)
for missing, told in ((0.4, ""), (0.5, LANES)):
    share = 1.8 / (1.8 + missing)
    tell(
        f"restarts with {share:.0%} of the misses of a lane".replace("%", " percent"),
        "They explain them from four fifths on.",
        (cold(6), cold(6), down(6, missing)),
        {7.5: told},
    )
