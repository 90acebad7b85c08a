"""Bounds on the results of the incident bench (issue 4), and a sentence for each bound that is broken.

It knows shares and counts. It refuses to know rules, and the source of cases. The sample in CI is small: its bounds are
loose enough that one unlucky run does not break them, and they do not replace the bounds of the whole bench.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.incidents.grade import RIGHT, WRONG, Case, FalsePage
from bench.incidents.report import late, share


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares are relative to the lanes that had to page, seconds are times to page."""

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
    """False pages allowed over all runs; on healthy days none is allowed."""


WITH_REPORTS = Bounds(0.95, 0.03, 0.90, 10, 0.90, 120.0, 300.0, 0.90, 0)
ESTIMATOR_ONLY = Bounds(0.80, 0.05, 0.0, 10, 0.0, 120.0, 300.0, 0.0, 0)
"""Front-end incidents are left out: the estimator cannot see them."""
SAMPLE_WITH_REPORTS = Bounds(0.90, 0.08, 0.0, 10, 0.80, 120.0, 480.0, 0.0, 0)
SAMPLE_ESTIMATOR_ONLY = Bounds(0.70, 0.10, 0.0, 10, 0.0, 120.0, 480.0, 0.0, 0)


def judged(cases: Sequence[Case], *, reports: bool) -> list[Case]:
    """The cases of one mode to which bounds apply."""
    return [case for case in cases if case.reports is reports and (reports or not case.front_end)]


def broken(cases: Sequence[Case], false: Sequence[FalsePage], bounds: Bounds, *, reports: bool) -> list[str]:
    """Every broken bound of one mode, in words. Without a lane that had to page, that is reported as broken."""
    mode = "with reports" if reports else "estimator only"
    of_mode = judged(cases, reports=reports)
    pages = [case for case in of_mode if case.severity == "page"]
    if not pages:
        return [f"{mode}: no lane had to page, so the bounds were not tested"]
    found = list(_of_pages(pages, bounds))
    tickets = [case for case in of_mode if case.severity == "ticket"]
    if tickets and share(tickets, RIGHT) < bounds.tickets_right:
        found.append(f"{share(tickets, RIGHT):.1%} of the tickets right, not {bounds.tickets_right:.0%}")
    pages_false = [each for each in false if each.reports is reports]
    if len(pages_false) > bounds.false_pages:
        found.append(f"{len(pages_false)} false pages, not {bounds.false_pages}")
    return [f"{mode}: {words}" for words in found]


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
    seconds = sorted(case.seconds for case in pages if case.seconds is not None)
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
