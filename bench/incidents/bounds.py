"""Bounds on the results of the incident bench, and a sentence for each bound that is broken.

It knows shares and counts. It refuses to know rules, and the source of cases. The sample is small: its bounds are loose enough that one
unlucky run does not break them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.incidents.grade import CHANGED, RIGHT, WRONG, Case, FalsePage
from bench.incidents.measures import late, pages_of, share
from bench.incidents.world import Mode


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares are lenient and relative to the lanes that had to page, seconds are times to page."""

    right: float
    wrong: float
    waited_right: float
    median_seconds: float
    p95_seconds: float
    false_pages: int
    """False pages allowed over all runs; on healthy days none is allowed. A page of another phase between the heal and
    the end of its consequences is not counted here."""


BOUNDS: Mapping[Mode, Bounds] = {
    Mode.REPORTS: Bounds(0.90, 0.08, 0.80, 120.0, 480.0, 0),
    Mode.ESTIMATOR: Bounds(0.70, 0.10, 0.0, 120.0, 480.0, 0),
}
"""Bounds of the sample; the blind mode has none. Of the estimator, front-end incidents are left out: it cannot see them."""


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
    pages_false = [each for each in false if each.mode is mode and each.why != CHANGED]
    if len(pages_false) > bounds.false_pages:
        found.append(f"{len(pages_false)} false pages, not {bounds.false_pages}")
    return [f"{title}: {words}" for words in found]


def _of_pages(pages: Sequence[Case], bounds: Bounds) -> Iterator[str]:
    if share(pages, RIGHT) < bounds.right:
        yield f"{share(pages, RIGHT):.1%} right, not {bounds.right:.0%}"
    if share(pages, WRONG) > bounds.wrong:
        yield f"{share(pages, WRONG):.1%} wrong, more than {bounds.wrong:.0%}"
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
