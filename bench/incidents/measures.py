"""Statistics over runs: a value with its 95 % bracket, and the figures of one mode of the bench.

It knows which cases a figure counts. It refuses to know tables (`report.py`) and limits (`bounds.py`). Cases of one run
are not independent, so that brackets come from resampling runs (kind and seed) and not cases.

S1 and S2 count each lane that burned, owed a page or not: `unattributed` and no page are not right. The lenient grade
counts only lanes that were owed a page.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from math import nan
from random import Random
from statistics import fmean, median
from typing import NamedTuple

from bench.incidents.grade import (
    AFTER_RECOVERY,
    BEFORE_FAULT,
    CHANGED,
    LANE_CALM,
    MISSED,
    NEW_PHASE,
    NOTHING_BURNS,
    RIGHT,
    UNATTRIBUTED,
    WRONG,
    Case,
    FalsePage,
)
from bench.incidents.world import Mode


BOOTSTRAPS = 400
BAND_EDGES = (0.6, 0.8, 0.95, 1.0)
"""Edges of the bands of stated confidence, below which a page names no phase. A value on an edge belongs to the band
above, and 1 to the highest."""
BAND_PAGES = 50
"""A band of fewer pages keeps or breaks no bound."""
BAND_POINTS = 0.10
"""Largest difference between what a band states and the share that is right."""
RunKey = tuple[str, int]
"""Kind and seed."""
Values = Sequence[tuple[RunKey, float]]
"""A value of each case, or of each run, with the run that it belongs to."""


class Measure(NamedTuple):
    """A statistic with its 95 % bracket, over `size` values of `runs` runs; all NaN if `size` is 0."""

    value: float
    low: float
    high: float
    size: int
    runs: int


class Figure(StrEnum):
    """Figures of one mode. Shares are 0 to 1."""

    LENIENT = "right first page, lenient"
    S1 = "right first page, S1"
    S2 = "right first page, S2"
    S2_TTFT = "S2 of TTFT"
    S2_TPOT = "S2 of TPOT"
    S2_E2E = "S2 of E2E"
    S2_OWED = "S2 of lanes that must page"
    S2_WELCOME = "S2 of lanes that burn and need not page"
    WRONG = "wrong by S2"
    UNATTRIBUTED = "unattributed"
    MISSED = "missed"
    RECEIVERS = "receivers woken per incident"
    NOTIFICATIONS = "new notifications per incident"
    PAGES_RIGHT = "new notifications of pages at the right receiver"
    PAGES_WRONG = "new notifications of pages at a wrong receiver"
    UNPAGED = "incidents that burn at page speed without any page"
    RIGHT_POD = "right pod"
    MEDIAN_SECONDS = "median seconds to page"
    P95_SECONDS = "95th percentile of seconds to page"


class Woken(NamedTuple):
    """One run's notifications, from the injection to 15 minutes after the heal."""

    kind: str
    seed: int
    mode: Mode
    two_faults: bool
    receivers: int
    """Number of receivers of pages that got one."""
    new: int
    """New notifications of all receivers (`notifications.py` says which are new)."""
    new_pages: int
    """Those of receivers of pages."""
    right_pages: int = 0
    wrong_pages: int = 0
    """The part of `new_pages` at the receiver of a right phase and of another one."""


class Band(NamedTuple):
    """Pages that state a confidence in one band: the mean of what they state, and the share that S2 finds right."""

    low: float
    high: float
    stated: float
    right: Measure

    @property
    def kept(self) -> bool | None:
        """Whether what they state is within ten points of what is right; None for fewer than 50 pages."""
        return None if self.right.size < BAND_PAGES else abs(self.right.value - self.stated) <= BAND_POINTS


FALSE_WHYS = (BEFORE_FAULT, NOTHING_BURNS, LANE_CALM, AFTER_RECOVERY, NEW_PHASE, CHANGED)
_OBJECTIVES = {Figure.S2_TTFT: "ttft", Figure.S2_TPOT: "tpot", Figure.S2_E2E: "e2e"}


def measured(values: Values, statistic: Callable[[Sequence[float]], float] = fmean) -> Measure:
    """The statistic of these values, with its bracket."""
    by_run: dict[RunKey, list[float]] = defaultdict(list)
    for run, value in values:
        by_run[run].append(value)
    if not by_run:
        return Measure(nan, nan, nan, 0, 0)
    groups, rng = list(by_run.values()), Random(0)
    drawn = sorted(
        statistic([value for group in rng.choices(groups, k=len(groups)) for value in group]) for _ in range(BOOTSTRAPS)
    )
    low, high = drawn[int(0.025 * BOOTSTRAPS)], drawn[int(0.975 * BOOTSTRAPS)]
    return Measure(statistic([value for _, value in values]), low, high, len(values), len(groups))


def late(values: Iterable[float]) -> float:
    """The 95th percentile of values."""
    known = sorted(values)
    return known[min(len(known) - 1, int(0.95 * len(known)))]


def pages_of(cases: Iterable[Case], *, owed: bool | None = None) -> list[Case]:
    """Cases of lanes that burn fast; only those that are owed a page, or only the others, if `owed` is given."""
    return [case for case in cases if case.severity == "page" and owed in (None, case.owed)]


def share(cases: Sequence[Case], result: str) -> float:
    """Share of the cases with this lenient grade, 0 to 1."""
    return sum(case.result == result for case in cases) / len(cases) if cases else 1.0


def s2(cases: Iterable[Case], result: str = RIGHT) -> Measure:
    """Share of cases with this result by S2."""
    return measured([(case.run, float(case.phase_result == result)) for case in cases])


def figures(cases: Iterable[Case], woken: Iterable[Woken] = ()) -> dict[Figure, Measure]:
    """The figures of one mode, from its cases and notifications. A figure without cases has size 0."""
    burning = pages_of(cases)
    owed = pages_of(burning, owed=True)
    told = list(woken)
    timed = [(case.run, case.seconds) for case in owed if case.seconds is not None]

    def lenient(result: str) -> Measure:
        return measured([(case.run, float(case.result == result)) for case in owed])

    return {
        Figure.LENIENT: lenient(RIGHT),
        Figure.S1: measured([(case.run, float(case.strict_result == RIGHT)) for case in burning]),
        Figure.S2: s2(burning),
        **{
            figure: s2(case for case in burning if case.key[1] == objective)
            for figure, objective in _OBJECTIVES.items()
        },
        Figure.S2_OWED: s2(owed),
        Figure.S2_WELCOME: s2(pages_of(burning, owed=False)),
        Figure.WRONG: s2(burning, WRONG),
        Figure.UNATTRIBUTED: s2(burning, UNATTRIBUTED),
        Figure.MISSED: s2(burning, MISSED),
        Figure.RECEIVERS: _mean(told, lambda each: each.receivers),
        Figure.NOTIFICATIONS: _mean([each for each in told if not each.two_faults], lambda each: each.new),
        Figure.PAGES_RIGHT: _of_pages(told, lambda each: each.right_pages),
        Figure.PAGES_WRONG: _of_pages(told, lambda each: each.wrong_pages),
        Figure.UNPAGED: unpaged(owed),
        Figure.RIGHT_POD: right_pod(owed),
        Figure.MEDIAN_SECONDS: measured(timed, median),
        Figure.P95_SECONDS: measured(timed, late),
    }


def _mean(told: Iterable[Woken], value: Callable[[Woken], int]) -> Measure:
    return measured([((each.kind, each.seed), float(value(each))) for each in told])


def _of_pages(told: Iterable[Woken], counted: Callable[[Woken], int]) -> Measure:
    """Share of the new notifications of pages that are counted, over all of them."""
    return measured(
        [((each.kind, each.seed), float(number < counted(each))) for each in told for number in range(each.new_pages)]
    )


def unpaged(cases: Iterable[Case]) -> Measure:
    """Share of the runs of these cases in which no lane has a page."""
    paged: dict[RunKey, bool] = defaultdict(bool)
    for case in pages_of(cases):
        paged[case.run] |= case.said is not None
    return measured([(run, float(not each)) for run, each in paged.items()])


def right_pod(cases: Iterable[Case]) -> Measure:
    """Share of runs whose first page names the one pod at fault of 2 to 16, at most two minutes after it is due.

    Runs in which no lane is owed a page are left out. Of several first pages at one instant, one is enough.
    """
    by_run: dict[RunKey, list[Case]] = defaultdict(list)
    for case in pages_of(cases, owed=True):
        if 2 <= case.pods <= 16 and len(case.at_fault) == 1:
            by_run[case.run].append(case)
    return measured([(run, float(any(case.pod_right for case in _first(found)))) for run, found in by_run.items()])


def _first(cases: Iterable[Case]) -> list[Case]:
    paged = [(case.seconds_since_fault, case) for case in cases if case.seconds_since_fault is not None]
    earliest = min((seconds for seconds, _ in paged), default=None)
    return [case for seconds, case in paged if seconds == earliest]


def by_class(cases: Iterable[Case], of: Callable[[Case], str]) -> dict[str, Measure]:
    """S2 of each class, such as each engine: over lanes that burn fast."""
    classes: dict[str, list[Case]] = defaultdict(list)
    for case in pages_of(cases):
        classes[of(case)].append(case)
    return {name: s2(found) for name, found in sorted(classes.items())}


def false_pages(false: Iterable[FalsePage]) -> dict[str, int]:
    """Number of false pages for each reason, the reasons without any included."""
    counts = Counter(each.why for each in false)
    return {why: counts[why] for why in FALSE_WHYS}


def bands(cases: Iterable[Case]) -> list[Band]:
    """Bands of stated confidence that hold at least one page; none if no page states a confidence."""
    stated = [(case.confidence, case) for case in pages_of(cases) if case.confidence is not None and case.said]
    found = []
    for low, high in pairwise(BAND_EDGES):
        inside = [each for each in stated if low <= each[0] < high or each[0] == high == BAND_EDGES[-1]]
        if inside:
            right = s2(case for _, case in inside)
            found.append(Band(low, high, fmean(confidence for confidence, _ in inside), right))
    return found
