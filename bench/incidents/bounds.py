"""Bounds on the results of the incident bench, and a sentence for each bound that is broken.

It knows shares and counts: the bounds of issue 4 (`Bounds`, which the sample is asked for too), those of issue 10 (`ISSUE_10`), and the
figures of November 2026 (`TODAY`). It refuses to know rules, and the source of cases. The sample is small: its
bounds are loose enough that one unlucky run does not break them, and they do not replace those of the whole bench.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.incidents.grade import CHANGED, RIGHT, WRONG, Case, FalsePage
from bench.incidents.measures import Figure, Measure, by_class, late, pages_of, share
from bench.incidents.world import Mode


# --- issue 10 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """A figure of an earlier bench, with its 95 % bracket where one was published."""

    value: float
    low: float | None = None
    high: float | None = None


TODAY: Mapping[tuple[Mode, Figure], Past] = {
    (Mode.REPORTS, Figure.LENIENT): Past(0.946, 0.91, 0.98),
    (Mode.REPORTS, Figure.S1): Past(0.914, 0.86, 0.95),
    (Mode.REPORTS, Figure.S2): Past(0.784, 0.72, 0.85),
    (Mode.REPORTS, Figure.S2_TPOT): Past(0.53),
    (Mode.ESTIMATOR, Figure.S2): Past(0.627),
    (Mode.REPORTS, Figure.RECEIVERS): Past(1.7),
    (Mode.REPORTS, Figure.NOTIFICATIONS): Past(5.1),
    (Mode.REPORTS, Figure.MEDIAN_SECONDS): Past(90.0),
    (Mode.REPORTS, Figure.P95_SECONDS): Past(315.0),
}
"""Results on the kind world (`world.KIND_WORLD`) before issue 10."""


def agrees(measure: Measure, past: Past) -> bool | None:
    """Whether a result is the same as an earlier one: it lies within the earlier bracket or, where none was published,
    the earlier value lies within the result's own. None without a result."""
    if not measure.size:
        return None
    if past.low is not None and past.high is not None:
        return past.low <= measure.value <= past.high
    return measure.low <= past.value <= measure.high


def not_as_before(found: Mapping[Figure, Measure], mode: Mode) -> list[str]:
    """Every figure of one mode on the kind world that does not agree with `TODAY`, in words."""
    words = []
    for (of_mode, figure), past in TODAY.items():
        measure = found[figure]
        if of_mode is mode and agrees(measure, past) is False:
            bracket = "" if past.low is None else f" [{past.low:g}, {past.high:g}]"
            now = f"{measure.value:.3g} [{measure.low:.3g}, {measure.high:.3g}]"
            words.append(f"{figure}: {now}, and {past.value:g}{bracket} in November 2026")
    return words


@dataclass(frozen=True, slots=True)
class Limit:
    """Lowest and highest value of a figure; None: no limit on that side."""

    at_least: float | None = None
    at_most: float | None = None

    def keeps(self, value: float) -> bool:
        """Whether the value lies within the limits, both included."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the figures, and on S2 of each class."""

    engine: float
    """Least S2 of each engine in lanes that burn."""
    kind: float
    """Least S2 of each kind that has `kind_runs` runs or more."""
    kind_runs: int = 10
    figures: Mapping[tuple[Mode, Figure], Limit] = field(default_factory=dict)


ISSUE_10 = Limits(
    engine=0.80,
    kind=0.70,
    figures={
        (Mode.REPORTS, Figure.LENIENT): Limit(at_least=0.97),
        (Mode.REPORTS, Figure.S1): Limit(at_least=0.95),
        (Mode.REPORTS, Figure.S2): Limit(at_least=0.90),
        (Mode.REPORTS, Figure.S2_TPOT): Limit(at_least=0.85),
        (Mode.REPORTS, Figure.RECEIVERS): Limit(at_most=1.1),
        (Mode.REPORTS, Figure.NOTIFICATIONS): Limit(at_most=1.5),
        (Mode.REPORTS, Figure.NOTIFICATIONS_OF_TWO): Limit(at_most=2.0),
        (Mode.REPORTS, Figure.WOKEN_AFTER_HEAL): Limit(at_most=0.0),
        (Mode.REPORTS, Figure.CHANGED_AGAIN): Limit(at_most=0.0),
        (Mode.REPORTS, Figure.RIGHT_POD): Limit(at_least=0.98),
        (Mode.REPORTS, Figure.MEDIAN_SECONDS): Limit(at_most=75.0),
        (Mode.REPORTS, Figure.P95_SECONDS): Limit(at_most=240.0),
        (Mode.ESTIMATOR, Figure.S2): Limit(at_least=0.85),
        (Mode.ESTIMATOR, Figure.WRONG): Limit(at_most=0.05),
        (Mode.BLIND, Figure.S2): Limit(at_least=0.80),
        (Mode.BLIND, Figure.WRONG): Limit(at_most=0.07),
    },
)
"""The bounds that the whole bench has to keep at the end of issue 10."""


def not_kept(found: Mapping[Figure, Measure], mode: Mode, limits: Limits) -> list[str]:
    """Every figure of one mode that breaks its limit, in words. A figure without cases keeps none."""
    words = []
    for (of_mode, figure), limit in limits.figures.items():
        if of_mode is not mode:
            continue
        measure = found[figure]
        wanted = f"at least {limit.at_least:g}" if limit.at_most is None else f"at most {limit.at_most:g}"
        if not measure.size:
            words.append(f"{figure}: no cases, {wanted} wanted")
        elif not limit.keeps(measure.value):
            words.append(f"{figure}: {measure.value:.3g}, {wanted} wanted")
    return words


def low_classes(cases: Sequence[Case], limits: Limits) -> list[str]:
    """Every engine and every kind whose S2 misses its limit, in words."""
    engines = by_class(cases, lambda case: case.engine)
    kinds = by_class(cases, lambda case: case.kind)
    words = [
        _class("engine", name, each, limits.engine) for name, each in engines.items() if each.value < limits.engine
    ]
    words += [
        _class("kind", name, each, limits.kind)
        for name, each in kinds.items()
        if each.runs >= limits.kind_runs and each.value < limits.kind
    ]
    return words


def _class(of: str, name: str, found: Measure, least: float) -> str:
    share_right = f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"
    return f"{of} {name}: S2 {share_right} of {found.size} lanes in {found.runs} runs, not {least:.0%}"


# --- issue 4 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares are lenient and relative to the lanes that had to page, seconds are times to page."""

    right: float
    wrong: float
    right_in_every_group: float
    """Least share right in each class of truth and each engine configuration with at least `group_cases` cases."""
    group_cases: int
    waited_right: float
    median_seconds: float
    p95_seconds: float
    tickets_right: float
    false_pages: int
    """False pages allowed over all runs; on healthy days none is allowed. A page of another phase between the heal and
    the end of its consequences is not counted here."""


WITH_REPORTS = Bounds(0.95, 0.03, 0.90, 10, 0.90, 120.0, 300.0, 0.90, 0)
ESTIMATOR_ONLY = Bounds(0.80, 0.05, 0.0, 10, 0.0, 120.0, 300.0, 0.0, 0)
"""Front-end incidents are left out: the estimator cannot see them."""
SAMPLE_WITH_REPORTS = Bounds(0.90, 0.08, 0.0, 10, 0.80, 120.0, 480.0, 0.0, 0)
SAMPLE_ESTIMATOR_ONLY = Bounds(0.70, 0.10, 0.0, 10, 0.0, 120.0, 480.0, 0.0, 0)
BOUNDS: Mapping[Mode, Bounds] = {Mode.REPORTS: WITH_REPORTS, Mode.ESTIMATOR: ESTIMATOR_ONLY}
"""Bounds of the whole bench; the blind mode has none."""
SAMPLE_BOUNDS: Mapping[Mode, Bounds] = {Mode.REPORTS: SAMPLE_WITH_REPORTS, Mode.ESTIMATOR: SAMPLE_ESTIMATOR_ONLY}


def judged(cases: Sequence[Case], *, mode: Mode) -> list[Case]:
    """The cases of one mode to which bounds apply."""
    return [case for case in cases if case.mode is mode and (mode is Mode.REPORTS or not case.front_end)]


def broken(cases: Sequence[Case], false: Sequence[FalsePage], bounds: Bounds, *, mode: Mode) -> list[str]:
    """Every broken bound of one mode, in words. Without a lane that had to page, that is reported as broken."""
    title = {Mode.REPORTS: "with reports", Mode.ESTIMATOR: "estimator only", Mode.BLIND: "blind"}[mode]
    of_mode = judged(cases, mode=mode)
    pages = pages_of(of_mode, owed=True)
    if not pages:
        return [f"{title}: no lane had to page, so the bounds were not tested"]
    found = list(_of_pages(pages, bounds))
    tickets = [case for case in of_mode if case.severity == "ticket"]
    if tickets and share(tickets, RIGHT) < bounds.tickets_right:
        found.append(f"{share(tickets, RIGHT):.1%} of the tickets right, not {bounds.tickets_right:.0%}")
    pages_false = [each for each in false if each.mode is mode and each.why != CHANGED]
    if len(pages_false) > bounds.false_pages:
        found.append(f"{len(pages_false)} false pages, not {bounds.false_pages}")
    return [f"{title}: {words}" for words in found]


def _of_pages(pages: Sequence[Case], bounds: Bounds) -> Iterator[str]:
    if share(pages, RIGHT) < bounds.right:
        yield f"{share(pages, RIGHT):.1%} right, not {bounds.right:.0%}"
    if share(pages, WRONG) > bounds.wrong:
        yield f"{share(pages, WRONG):.1%} wrong, more than {bounds.wrong:.0%}"
    yield from _of_groups(pages, bounds, lambda case: "|".join(case.root))
    yield from _of_groups(pages, bounds, lambda case: case.engine)
    waited = [case.waited_right for case in pages if case.waited_right is not None]
    if waited and sum(waited) / len(waited) < bounds.waited_right:
        yield f"the phase waited in is right for {sum(waited) / len(waited):.1%}, not {bounds.waited_right:.0%}"
    seconds = [case.seconds for case in pages if case.seconds is not None]
    if not seconds:
        yield "no lane was paged"
        return
    if median(seconds) > bounds.median_seconds:
        yield f"median time to page {median(seconds):.0f} s, more than {bounds.median_seconds:.0f}"
    if late(seconds) > bounds.p95_seconds:
        yield f"95 % are paged within {late(seconds):.0f} s, not {bounds.p95_seconds:.0f}"


def _of_groups(pages: Sequence[Case], bounds: Bounds, of: Callable[[Case], str]) -> Iterator[str]:
    named: dict[str, list[Case]] = defaultdict(list)
    for case in pages:
        named[of(case)].append(case)
    for name, group in sorted(named.items()):
        if len(group) >= bounds.group_cases and share(group, RIGHT) < bounds.right_in_every_group:
            yield f"{name}: {share(group, RIGHT):.1%} of {len(group)} right, not {bounds.right_in_every_group:.0%}"
