"""One finished run in words, for a terminal, and what figures and modes are called there."""

from bench.incidents.grade import MISSED, RIGHT, UNATTRIBUTED, WRONG
from bench.incidents.measures import Figure
from bench.incidents.run import Done
from bench.incidents.world import Mode


MODE_SIGNS = {Mode.REPORTS: "", Mode.ESTIMATOR: "e:", Mode.BLIND: "b:"}
MODE_TITLES = {Mode.REPORTS: "with reports", Mode.ESTIMATOR: "estimator only", Mode.BLIND: "blind"}
SECONDS = (Figure.MEDIAN_SECONDS, Figure.P95_SECONDS)
COUNTS = (Figure.RECEIVERS, Figure.NOTIFICATIONS)


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
