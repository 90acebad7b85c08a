"""Results of all runs, in words and tables: for a terminal while they run, and for a page of docs/.

It knows graded cases and false pages. It refuses to judge them: the bounds are in `bounds.py`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import median

from bench.incidents.grade import MISSED, RIGHT, UNATTRIBUTED, WRONG, Case, FalsePage
from bench.incidents.healthy import HealthyDay
from bench.incidents.prometheus import Firing
from bench.incidents.run import Done


BOOTSTRAPS = 400
COLUMNS = ("queue", "prefill", "first_token", "unattributed", "decode", "stream", "engine", "none")


def line(done: Done, left: int) -> str:
    """One finished run, as a line of text."""
    words = []
    for case in done.cases:
        sign = {RIGHT: "+", WRONG: "WRONG ", UNATTRIBUTED: "?", MISSED: "MISSED "}[case.result]
        mode = "" if case.reports else "e:"
        seconds = "" if case.seconds_since_fault is None else f"@{case.seconds_since_fault:.0f}"
        severity = "" if case.severity == "page" else "ticket "
        why = f" ({case.cause}, waited {case.waited_in})" if case.result == WRONG else ""
        words.append(f"{mode}{severity}{'/'.join(case.key)} {sign}{case.said or ''}{seconds}{why}")
    words += [f"FALSE {'' if each.reports else 'e:'}{each.alert} {each.key} ({each.why})" for each in done.false]
    told = ", ".join(words) or "nothing burns"
    if any(case.result == WRONG for case in done.cases):
        told += "; evidence " + " ".join(
            f"{name} {low:.2f}-{high:.2f}"
            for heard in done.heard.values()
            for name, (low, high) in heard.evidence.items()
        )
    job = done.job
    return f"{left:4d} left  {job.kind} {job.engine} {job.seed} (m {done.magnitude:.2f}, load {done.factor:.2f}, {done.seconds:.0f} s): {told}"


def days_line(day: HealthyDay) -> str:
    """One healthy day, as a line of text."""

    def named(fired: Sequence[Firing]) -> str:
        counts = Counter(f"{each.alert} {'/'.join(each.lane or ())}".strip() for each in fired)
        return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"

    return f"{day.number + 1} on {day.engine}: {day.requests:,} requests, pages: {named(day.pages)}; tickets: {named(day.tickets)}"


def table(cases: Sequence[Case], false: Sequence[FalsePage], runs: int) -> str:
    """All results of one mode, as Markdown."""
    pages = [case for case in cases if case.severity == "page"]
    if not pages:
        return f"{runs} runs, and no lane had to page.\n"
    parts = [f"{runs} runs with {len(pages)} lanes that had to page.\n", _shares("All", pages), _confusion(pages)]
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


def share(cases: Sequence[Case], result: str) -> float:
    """Share of the cases with this result, 0 to 1."""
    return sum(case.result == result for case in cases) / len(cases) if cases else 1.0


def interval(cases: Sequence[Case], result: str) -> tuple[float, float]:
    """95 % interval of the share, by resampling seeds, because cases of one run are not independent."""
    by_seed: dict[int, list[Case]] = defaultdict(list)
    for case in cases:
        by_seed[case.seed].append(case)
    groups, rng = list(by_seed.values()), Random(0)
    shares = sorted(
        share([case for group in rng.choices(groups, k=len(groups)) for case in group], result)
        for _ in range(BOOTSTRAPS)
    )
    return shares[int(0.025 * BOOTSTRAPS)], shares[int(0.975 * BOOTSTRAPS)]


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
        f"| {name} | {len(group)} | {share(group, RIGHT):.1%} | {share(group, WRONG):.1%} | {share(group, UNATTRIBUTED):.1%}"
        f" | {share(group, MISSED):.1%} | {_seconds(group)} |\n"
        for name, group in sorted(groups.items())
    ]
    return (
        f"| {title} | cases | right | wrong | unattributed | missed | to page, median s |\n|---|---|---|---|---|---|---|\n"
        + "".join(rows)
    )


def _seconds(cases: Iterable[Case]) -> str:
    known = [case.seconds for case in cases if case.seconds is not None]
    return f"{median(known):.0f}" if known else "-"


def _times(cases: Sequence[Case]) -> str:
    since_burn = sorted(case.seconds for case in cases if case.seconds is not None)
    since_fault = sorted(case.seconds_since_fault for case in cases if case.seconds_since_fault is not None)
    if not since_fault:
        return "No lane was paged.\n"
    return (
        f"Seconds to page: median {median(since_burn):.0f}, p95 {late(since_burn):.0f}, from the fault or, if a lane began to burn later,"
        " from the start of the first window of five minutes that burned fast enough to page. Always from the fault:"
        f" median {median(since_fault):.0f}, p95 {late(since_fault):.0f}.\n"
    )


def late(values: Sequence[float]) -> float:
    """The 95th percentile of sorted values."""
    return values[min(len(values) - 1, int(0.95 * len(values)))]


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
