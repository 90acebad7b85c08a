"""What speaks for a phase, in sentences: evidence beside a verdict, each with its number and where that came from.

Knows which number bears on which phase. Refuses to repeat an unknown: what nobody told has no sentence.
"""

from collections.abc import Iterable
from math import isinf

from sidecar.diagnosis import bound
from sidecar.diagnosis.findings import Number
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import WORTH_NAMING, Verdict
from sidecar.diagnosis.wording import digits, percent, phase_name, seconds, times
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


_GROWN = {
    Cause.PREFILL_COST: "Prefill costs {times} what it usually does, per expected second",
    Cause.UNCACHED: "{times} the usual share of the prompts is not cached",
    Cause.LOAD: "Arrivals are {times} the usual",
    Cause.PROMPT_MIX: "Prompts are {times} as long as usual",
    Cause.DECODE_COST: "The quiet gap between tokens is {times} the usual",
}
_CAUSES = {
    Cause.DOWN: "The engine is down, or has come back within five minutes.",
    Cause.SILENCE: "The engine was silent for longer than the work explains that was pending.",
    Cause.PREEMPTION: "One request in twenty or more was preempted: thrown out, and computed again.",
    Cause.KV: "Over the last minute the KV cache was as good as full while requests waited, and nothing else has grown.",
    Cause.SLOTS: "Nothing has grown that is measured: what is left is room in the batch.",
}
NAMES = {Objective.TTFT: "time to first token", Objective.TPOT: "time between tokens", Objective.E2E: "whole answer"}


def of_verdict(m: Measured, objective: Objective, verdict: Verdict) -> list[str]:
    """For a phase that the page would have as well."""
    said = [*_votes(objective, verdict), *_causes(m, verdict)]
    if verdict.provisional:
        said.append(
            "Too few ledgers have closed to count votes: by the engine's own state those who wait now"
            f" are in {phase_name(Blame.QUEUE if verdict.moved else verdict.phase)}."
        )
    if verdict.phase is Blame.UNATTRIBUTED:
        said.append(
            f"Of the requests that missed their {NAMES[objective]}, fewer than one in five has a split, or none at all."
        )
    return said + state(m)


def _votes(objective: Objective, verdict: Verdict) -> list[str]:
    if not verdict.waited_in:
        return []
    ordered = sorted(verdict.waited_in.items(), key=lambda item: -item[1])
    where = ", ".join(f"{phase_name(phase)} {percent(share)}" for phase, share in ordered[:3])
    return [f"Requests that missed their {NAMES[objective]} waited in {where} ({digits(verdict.votes)} votes)."]


def _causes(m: Measured, verdict: Verdict) -> list[str]:
    said = [_CAUSES[verdict.cause]] if verdict.cause in _CAUSES else []
    if verdict.collected:
        said.append(
            "Tokens suddenly come together, so they are collected somewhere: what looks like waiting was held back."
        )
    if verdict.moved:
        said.append(
            "They waited in queue because prefill is dearer: the verdict is where it broke, not where it shows."
        )
    return said + grown(m)


def grown(m: Measured) -> list[str]:
    """What has grown, engine-wide, largest first; and what has not, where that speaks too."""
    ordered = sorted(m.ratios.items(), key=lambda item: -item[1])
    said = [f"{_GROWN[which].format(times=times(ratio))}." for which, ratio in ordered if ratio >= WORTH_NAMING]
    same = [which.value for which, ratio in ordered if ratio < WORTH_NAMING]
    if same and said:
        said.append(f"Not grown: {', '.join(same)}.")
    elif same:
        said.append(f"Nothing has grown against the baseline: {', '.join(same)}.")
    return said


def without_verdict(m: Measured, objective: Objective, number: Number, phase: Blame) -> list[str]:
    """For a phase that no vote decided: the number that is broken, and for the time to first token its parts."""
    said = _number(m, objective, number)
    if objective is Objective.TPOT:
        return said + state(m)
    parts = _parts(m, phase) if objective is Objective.TTFT else []
    return [*said, *parts, *state(m), *grown(m)]


def _number(m: Measured, objective: Objective, number: Number) -> list[str]:
    """How far it is broken: by its misses, and by its p99. Empty for a number that is not broken."""
    latency, said = number.latency, []
    if latency.misses is not None and number.over:
        window = "within the window" if m.window_seconds is None else f"in the last {seconds(m.window_seconds)}"
        longer = "" if latency.misses_long is None else f", {digits(latency.misses_long)} in the last half hour"
        misses = f"{digits(latency.misses)} requests {window}{longer}"
        said.append(f"The {NAMES[objective]} is missed {times(number.over)} as often as is allowed: {misses}.")
    p99, threshold = latency.p99_seconds, latency.threshold_seconds
    if p99 is None or threshold is None or p99 <= threshold:
        return said
    if objective is Objective.TPOT:
        apart = f"Tokens come {seconds(p99)} apart at the p99, where {seconds(threshold)} is promised"
        return [*said, f"{apart}; the first one comes after {seconds(m.ttft.p99_seconds)}."]
    what = "first token" if objective is Objective.TTFT else NAMES[objective]
    if isinf(p99):
        return [*said, f"The {what} comes later, at the p99, than the last edge of its histogram."]
    whole = m.e2e.p99_seconds if objective is Objective.TTFT else None
    of = "" if whole is None else f", of {seconds(whole)} for the whole request"
    return [*said, f"The {what} takes {seconds(p99)} at the p99{of}: {seconds(p99 - threshold)} more than is promised."]


def _parts(m: Measured, phase: Blame) -> list[str]:
    """The parts of the time to first token, the largest first."""
    said = []
    ordered = sorted(m.phases.items(), key=lambda item: -(item[1].p99_seconds or item[1].mean_seconds or 0.0))
    for of, time in ordered:
        name = phase_name(of)
        if time.p99_seconds is not None:
            said.append(f"{name[:1].upper()}{name[1:]}: {seconds(time.p99_seconds)} at the p99.")
        elif time.mean_seconds is not None:
            told = f", {percent(time.sources['estimated'])} of it estimated" if "estimated" in time.sources else ""
            said.append(f"{name[:1].upper()}{name[1:]}: {seconds(time.mean_seconds)} in the mean{told}.")
    if phase not in m.phases and m.ttft.p99_seconds is not None and phase is not Blame.UNATTRIBUTED:
        said.append(
            f"What those parts leave of a time to first token of {seconds(m.ttft.p99_seconds)} is most of it."
            " A difference of quantiles is rough."
        )
    return said


def state(m: Measured) -> list[str]:
    load, said = m.load, []
    if load.waiting is not None:
        wait = _by_littles_law(m)
        more = "" if not wait else f": at this rate each waits about {seconds(wait)}"
        said.append(f"{digits(load.waiting)} requests wait in the engine's queue{more}.")
    if load.kv_usage is not None:
        said.append(f"The KV cache is {percent(load.kv_usage)} full.")
    if load.preempted:
        said.append(f"{percent(load.preempted)} of the arrivals were preempted.")
    if load.cached is not None:
        said.append(f"{percent(load.cached)} of the prompt tokens came from the prefix cache.")
    return said + list(_bound(m))


def _bound(m: Measured) -> Iterable[str]:
    least, load = bound.prefill_seconds(m), bound.load(m)
    if least is None:
        return
    yield f"A mean prompt alone takes at least {seconds(least)} of these GPUs, at the peak of their data sheet."
    if load is not None and load > 1.0:
        yield (
            f"So each second brings prompts for at least {digits(load)} seconds of work: as told, the queue cannot drain."
        )
    elif load is not None:
        yield f"So each second brings prompts for at least {digits(load)} seconds of work."


def _by_littles_law(m: Measured) -> float | None:
    rate = m.load.arrivals_per_second
    return m.load.waiting / rate if m.load.waiting is not None and rate else None


def queue_by_state(m: Measured) -> float | None:
    """The mean wait in the queue by Little's law, where nobody told the wait itself."""
    return _by_littles_law(m) if m.source == "hand" else None
