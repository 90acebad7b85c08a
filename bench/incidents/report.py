"""Results of all runs, in words and tables: for a terminal while they run, and for a page of docs/.

It knows graded cases and false pages, and how to write them. It refuses to compute figures (`measures.py`) and to
judge them (`bounds.py`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from bench.incidents.bounds import ISSUE_10, TODAY, low_classes, not_kept
from bench.incidents.grade import MISSED, RIGHT, UNATTRIBUTED, WRONG, Case, FalsePage
from bench.incidents.measures import (
    FALSE_WHYS,
    Band,
    Figure,
    Measure,
    Woken,
    bands,
    false_pages,
    figures,
    late,
    measured,
    modes_of,
    pages_of,
    s2,
    share,
)
from bench.incidents.run import Done
from bench.incidents.world import Mode


COLUMNS = ("queue", "prefill", "first_token", "unattributed", "decode", "stream", "engine", "sidecar", "none")
MODE_SIGNS = {Mode.REPORTS: "", Mode.ESTIMATOR: "e:", Mode.BLIND: "b:"}
MODE_TITLES = {Mode.REPORTS: "with reports", Mode.ESTIMATOR: "estimator only", Mode.BLIND: "blind"}
_M = TypeVar("_M", Case, FalsePage, Woken)
SECONDS = (Figure.MEDIAN_SECONDS, Figure.P95_SECONDS)
COUNTS = (
    Figure.RECEIVERS,
    Figure.NOTIFICATIONS,
    Figure.NOTIFICATIONS_OF_TWO,
    Figure.PAGES_SENT,
    Figure.WOKEN_AFTER_HEAL,
)
SUMMARY = (
    Figure.LENIENT,
    Figure.S1,
    Figure.S2,
    Figure.S2_TPOT,
    Figure.WRONG,
    Figure.UNATTRIBUTED,
    Figure.MISSED,
    Figure.RECEIVERS,
    Figure.NOTIFICATIONS,
    Figure.PAGES_SENT,
    Figure.WOKEN_AFTER_HEAL,
    Figure.CHANGED_AGAIN,
    Figure.RIGHT_POD,
    Figure.MEDIAN_SECONDS,
    Figure.P95_SECONDS,
)
"""Figures of the page; the terminal has all."""


def line(done: Done, left: int) -> str:
    """One finished run, as a line of text."""
    words = []
    for case in done.cases:
        sign = {RIGHT: "+", WRONG: "WRONG ", UNATTRIBUTED: "?", MISSED: "MISSED "}[case.result]
        mode = MODE_SIGNS[case.mode]
        seconds = "" if case.seconds_since_fault is None else f"@{case.seconds_since_fault:.0f}"
        severity = "ticket " if case.severity == "ticket" else "" if case.owed else "(welcome) "
        why = f" ({case.cause}, waited {case.waited_in})" if case.result == WRONG else ""
        words.append(f"{mode}{severity}{'/'.join(case.key)} {sign}{case.said or ''}{seconds}{why}")
    words += [f"FALSE {MODE_SIGNS[each.mode]}{each.alert} {each.key} ({each.why})" for each in done.false]
    told = ", ".join(words) or "nothing burns"
    if any(case.result == WRONG for case in done.cases):
        told += "; evidence " + " ".join(
            f"{name} {low:.2f}-{high:.2f}"
            for evidence in done.evidence.values()
            for name, (low, high) in evidence.items()
        )
    job = done.job
    return f"{left:4d} left  {job.kind} {job.engine} {job.seed} (m {done.magnitude:.2f}, load {done.factor:.2f}, {done.seconds:.0f} s): {told}"


@dataclass(frozen=True, slots=True)
class Group:
    """One mode in one sort of world: a column of results."""

    title: str
    mode: Mode
    cases: Sequence[Case]
    false: Sequence[FalsePage]
    woken: Sequence[Woken]

    @property
    def figures(self) -> dict[Figure, Measure]:
        return figures(self.cases, self.woken)


def grouped(cases: Sequence[Case], false: Sequence[FalsePage], woken: Sequence[Woken], world: str = "") -> list[Group]:
    """A group for each mode that was played, called by its mode behind the word for the world."""
    return [
        Group(f"{world} {MODE_TITLES[mode]}".strip(), mode, _of(cases, mode), _of(false, mode), _of(woken, mode))
        for mode in modes_of(cases)
    ]


def scoreboard(cases: Sequence[Case], false: Sequence[FalsePage], woken: Sequence[Woken] = ()) -> str:
    """The table of issue 10 as Markdown: each figure with its 95 % bracket, a column for each mode that was played.

    Below it, for each mode: the classes and figures that miss their bound by name, and the bands of stated confidence.
    """
    groups = grouped(cases, false, woken)
    past = ["in November 2026", *map(_past, Figure), "none stated", *("-" for _ in FALSE_WHYS)]
    rows = [[*row, before] for row, before in zip(_rows(groups, Figure), past, strict=True)]
    return "\n".join([_markdown(rows), *map(misses, groups)])


def summary(groups: Sequence[Group]) -> str:
    """The figures that are read together, as Markdown: a column for each group."""
    return _markdown(_rows(groups, SUMMARY))


def by_kind(groups: Sequence[Group]) -> str:
    """The share of right first pages of each kind of incident, by the lenient grade, over the lanes that had to page."""
    rows = [["kind", *(group.title for group in groups)]]
    owed = [pages_of(group.cases, owed=True) for group in groups]
    for kind in sorted({case.kind for cases in owed for case in cases}):
        of_kind = [[case for case in cases if case.kind == kind] for cases in owed]
        rows.append([kind, *(f"{share(cases, RIGHT):.1%} of {len(cases)}" if cases else "-" for cases in of_kind)])
    return _markdown(rows)


def _rows(groups: Sequence[Group], shown: Iterable[Figure]) -> list[list[str]]:
    found = [group.figures for group in groups]
    rows = [["figure", *(group.title for group in groups)]]
    rows += [[figure, *(_cell(figure, each[figure]) for each in found)] for figure in shown]
    rows.append(["confidence", *(_confidence(group.cases) for group in groups)])
    counts = [false_pages(group.false) for group in groups]
    return rows + [[f"false pages: {why}", *(str(each[why]) for each in counts)] for why in FALSE_WHYS]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *others = (f"| {' | '.join(row)} |\n" for row in rows)
    return "".join([head, f"|{'---|' * len(rows[0])}\n", *others])


def _of(each: Sequence[_M], mode: Mode) -> list[_M]:
    return [one for one in each if one.mode is mode]


def _cell(figure: Figure, measure: Measure) -> str:
    if not measure.size:
        return "-"
    if figure in SECONDS:
        return f"{measure.value:.0f} [{measure.low:.0f}, {measure.high:.0f}]"
    if figure in COUNTS:
        return f"{measure.value:.2f} [{measure.low:.2f}, {measure.high:.2f}] of {measure.runs}"
    return f"{measure.value:.1%} [{measure.low:.1%}, {measure.high:.1%}] of {measure.size}"


def _past(figure: Figure) -> str:
    """The same figure before the bench became unkind, in the modes for which it is known."""
    words = []
    for (mode, known), past in TODAY.items():
        if known is figure:
            scale = 1 if figure in SECONDS + COUNTS else 100
            bracket = "" if past.low is None or past.high is None else f" [{past.low * scale:g}, {past.high * scale:g}]"
            title = "" if mode is Mode.REPORTS else f" ({MODE_TITLES[mode]})"
            words.append(f"{past.value * scale:g}{bracket}{title}")
    return ", ".join(words) or "-"


def _confidence(cases: Sequence[Case]) -> str:
    found = bands(cases)
    large = [each.kept for each in found if each.kept is not None]
    if not large:
        return "too few pages" if found else "none stated"
    return f"{sum(large)} of {len(large)} bands kept"


def misses(group: Group) -> str:
    """The figures and classes that miss their bound, and the bands of stated confidence."""
    words = [*not_kept(group.figures, group.mode, ISSUE_10), *low_classes(group.cases, ISSUE_10)]
    lines = [f"- {each}\n" for each in words] or ["- every class and figure keeps its bound\n"]
    lines += [f"- {_band(each)}\n" for each in bands(group.cases)]
    return f"{group.title[0].upper()}{group.title[1:]}:\n\n{''.join(lines)}"


def _band(band: Band) -> str:
    right = f"{band.right.value:.1%} [{band.right.low:.1%}, {band.right.high:.1%}] right of {band.right.size}"
    kept = {True: "kept", False: "not kept", None: "too few pages"}[band.kept]
    return f"stated confidence {band.low:.0%} to {band.high:.0%}, mean {band.stated:.1%}: {right}, {kept}"


def table(cases: Sequence[Case], false: Sequence[FalsePage], runs: int) -> str:
    """All results of one mode, as Markdown."""
    pages = pages_of(cases, owed=True)
    if not pages:
        return f"{runs} runs, and no lane had to page.\n"
    parts = [f"{runs} runs with {len(pages)} lanes that had to page.\n", _shares("All", pages), _welcome(cases)]
    parts.append(_confusion(pages))
    parts.append(_by("root", pages, lambda case: "|".join(case.root)))
    parts.append(_by("kind", pages, lambda case: case.kind))
    parts.append(_by("engine", pages, lambda case: case.engine))
    parts.append(_by("objective", pages, lambda case: case.key[1]))
    parts.append(_times(pages))
    parts.append(_waited(pages))
    tickets = [case for case in cases if case.severity == "ticket"]
    if tickets:
        parts.append(_shares("Tickets of slow burns", tickets))
    parts.append(_false(false))
    return "\n".join(parts)


def interval(cases: Sequence[Case], result: str) -> tuple[float, float]:
    """95 % interval of the share of cases with this lenient grade, by resampling runs."""
    found = measured([(case.run, float(case.result == result)) for case in cases])
    return found.low, found.high


def _welcome(cases: Sequence[Case]) -> str:
    others = pages_of(cases, owed=False)
    missed = sum(case.phase_result == MISSED for case in others)
    return f"{len(others)} more lanes burned and did not have to page; {missed} of them got no page.\n"


def _shares(title: str, cases: Sequence[Case]) -> str:
    low, high = interval(cases, RIGHT)
    others = ", ".join(f"{result} {share(cases, result):.1%}" for result in (WRONG, UNATTRIBUTED, MISSED))
    return f"{title}: right {share(cases, RIGHT):.1%} [{low:.1%}, {high:.1%}] of {len(cases)}, {others}.\n"


def _confusion(cases: Sequence[Case]) -> str:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        counts["|".join(case.root)][case.said or "none"] += 1
    head = "| truth \\ page | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|\n"
    rows = (
        f"| {root} | " + " | ".join(str(found[column] or "") for column in COLUMNS) + " |\n"
        for root, found in sorted(counts.items())
    )
    return head + "".join(rows)


def _by(title: str, cases: Sequence[Case], of: Callable[[Case], str]) -> str:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[of(case)].append(case)
    rows = [
        f"| {name} | {len(group)} | {share(group, RIGHT):.1%} | {s2(group).value:.1%} | {share(group, WRONG):.1%} | {share(group, UNATTRIBUTED):.1%}"
        f" | {share(group, MISSED):.1%} | {_seconds(group)} |\n"
        for name, group in sorted(groups.items())
    ]
    return (
        f"| {title} | cases | right | by S2 | wrong | unattributed | missed | to page, median s |\n|---|---|---|---|---|---|---|---|\n"
        + "".join(rows)
    )


def _seconds(cases: Iterable[Case]) -> str:
    known = [case.seconds for case in cases if case.seconds is not None]
    return f"{median(known):.0f}" if known else "-"


def _times(cases: Sequence[Case]) -> str:
    since_burn = [case.seconds for case in cases if case.seconds is not None]
    since_fault = [case.seconds_since_fault for case in cases if case.seconds_since_fault is not None]
    if not since_fault:
        return "No lane was paged.\n"
    return (
        f"Seconds to page: median {median(since_burn):.0f}, p95 {late(since_burn):.0f}, from the fault or, if a lane began to burn later,"
        " from the start of the first window of five minutes that burned fast enough to page. Always from the fault:"
        f" median {median(since_fault):.0f}, p95 {late(since_fault):.0f}.\n"
    )


def _waited(cases: Sequence[Case]) -> str:
    told = [case.waited_right for case in cases if case.waited_right is not None]
    if not told:
        return "No page named a phase in which requests waited.\n"
    return (
        f"Phase in which requests waited: right {sum(told) / len(told):.1%} of the {len(told)} pages that name one.\n"
    )


def _false(false: Sequence[FalsePage]) -> str:
    counts = Counter((each.why, each.alert) for each in false)
    words = ", ".join(f"{alert} {why} {count}" for (why, alert), count in counts.most_common())
    return f"False pages: {len(false)}{': ' + words if words else ''}.\n"
