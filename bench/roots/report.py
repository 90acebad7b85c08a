"""Writes the grades of all runs as text: the figures of each mode, and tables by kind and engine.

It refuses to grade (`verdicts.py`) and to compute the figures (`measures.py`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean

from bench.incidents.grade import MISSED, RIGHT, Case
from bench.incidents.measures import Figure, Measure, bands, false_pages, figures
from bench.incidents.world import Mode
from bench.roots.verdicts import Told


SHARES = (
    *(Figure.S2, Figure.S1, Figure.LENIENT, Figure.S2_TTFT, Figure.S2_TPOT, Figure.S2_E2E, Figure.S2_OWED),
    *(Figure.S2_WELCOME, Figure.WRONG, Figure.UNATTRIBUTED, Figure.MISSED, Figure.RIGHT_POD),
)
SECONDS = (Figure.MEDIAN_SECONDS, Figure.P95_SECONDS)
SIGNS = {"reports": "r", "estimator": "e", "blind": "b"}


def report(told: Sequence[Told]) -> str:
    """All figures and tables."""
    modes = [mode for mode in Mode if any(each.mode is mode for each in told)]
    parts = [scoreboard(told, modes)]
    for mode in modes:
        of_mode = [each for each in told if each.mode is mode]
        cases = [case for each in of_mode for case in each.cases]
        parts.append(f"\n## {mode}: by kind\n\n{classes(cases, lambda case: case.kind)}")
        parts.append(f"\n## {mode}: by engine\n\n{classes(cases, lambda case: case.engine)}")
        confident = [
            f"  stated {band.low:.1f}-{band.high:.1f}: {band.stated:.2f}, right {_share(band.right)}"
            f" of {band.right.size}"
            for band in bands(cases)
        ]
        parts.append(f"\n## {mode}: stated share of the phase, and share that is right by S2\n")
        parts.append("\n".join(confident) or "  no page states a share")
    return "\n".join(parts)


def scoreboard(told: Sequence[Told], modes: Sequence[Mode]) -> str:
    """One line for each figure, one column for each mode."""
    lines = [f"{'':42}" + "".join(f"{mode:>26}" for mode in modes)]
    found = {mode: figures(case for each in told if each.mode is mode for case in each.cases) for mode in modes}
    for figure in (*SHARES, *SECONDS):
        write = _seconds if figure in SECONDS else _share
        cells = (f"{write(found[mode][figure])} n={found[mode][figure].size:<4}" for mode in modes)
        lines.append(f"{figure:42}" + "".join(f"{cell:>26}" for cell in cells))
    lines.append(_line("phases paged per run that must page", told, modes, _phases))
    lines.append(_line("runs", told, modes, lambda of: str(len(of))))
    lines.append(_line("seconds of the product per run", told, modes, _product))
    lines += [_line(f"false pages: {why}", told, modes, partial(_false, why)) for why in false_pages(())]
    return "\n".join(lines)


def classes(cases: Iterable[Case], of: Callable[[Case], str]) -> str:
    """One line for each class of cases: their number, S2, S1, and what was said instead."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[of(case)].append(case)
    lines = [f"  {'':24}{'n':>4}{'S2':>6}{'S1':>6}  right | instead"]
    for name, each in sorted(found.items()):
        s2, s1 = (fmean(result == RIGHT for result in results) for results in _results(each))
        right = Counter(case.said or MISSED for case in each if case.phase_result == RIGHT)
        instead = Counter(case.said or MISSED for case in each if case.phase_result != RIGHT)
        lines.append(f"  {name:24}{len(each):>4}{s2:>6.0%}{s1:>6.0%}  {_counts(right)} | {_counts(instead)}")
    return "\n".join(lines)


def line(told: Told) -> str:
    """One run and mode, as a line of text."""
    words = []
    for case in told.cases:
        sign = {RIGHT: "+", MISSED: "MISSED "}.get(case.phase_result, f"{case.phase_result.upper()} ")
        at = "" if case.seconds_since_fault is None else f"@{case.seconds_since_fault:.0f}"
        words.append(f"{'/'.join(case.key)} {sign}{case.said or ''}{at}")
    words += [f"FALSE {each.alert} {each.key} ({each.why})" for each in told.false]
    job = told.job
    where = f"{job.kind}/{job.seed}/{told.mode} {'un' if job.unkind else ''}kind {job.engine}"
    return f"{where} ({told.product_seconds:.1f} s): {', '.join(words) or 'nothing burns'}"


def _results(cases: Sequence[Case]) -> tuple[list[str], list[str]]:
    return [case.phase_result for case in cases], [case.strict_result for case in cases]


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "-"


def _share(measure: Measure) -> str:
    return f"{measure.value:.1%} ({measure.low:.0%}-{measure.high:.0%})" if measure.size else "-"


def _seconds(measure: Measure) -> str:
    return f"{measure.value:.0f} s ({measure.low:.0f}-{measure.high:.0f})" if measure.size else "-"


def _line(words: str, told: Sequence[Told], modes: Sequence[Mode], write: Callable[[Sequence[Told]], str]) -> str:
    return f"{words:42}" + "".join(f"{write([each for each in told if each.mode is mode]):>26}" for mode in modes)


def _phases(told: Sequence[Told]) -> str:
    counts = [len(each.phases) for each in told if each.paged]
    return f"{fmean(counts):.2f}" if counts else "-"


def _product(told: Sequence[Told]) -> str:
    return f"{fmean(each.product_seconds for each in told):.1f}" if told else "-"


def _false(why: str, told: Sequence[Told]) -> str:
    return str(sum(page.why == why for each in told for page in each.false))
