"""The evidence for a phase, in sentences: each states a number and its source.

This module knows which number bears on which phase. An unknown number has no sentence.
"""

from collections.abc import Iterable
from math import inf, isinf

from sidecar.diagnosis import bound
from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.judging import judged
from sidecar.diagnosis.measured import Latency, Measured
from sidecar.diagnosis.verdict import FEWEST_MISSES, WORTH_NAMING, Verdict
from sidecar.diagnosis.wording import digits, percent, phase_name, seconds, times
from sidecar.history.series import LONG_SECONDS
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
    Cause.SLOTS: "No measured number has grown: the remaining explanation is a batch without a free slot.",
}
NAMES = {Objective.TTFT: "time to first token", Objective.TPOT: "time between tokens", Objective.E2E: "whole answer"}


def of_verdict(m: Measured, objective: Objective, verdict: Verdict) -> list[str]:
    """Evidence for a phase that the page names too."""
    said = [*_votes(m, objective, verdict), *_delivery(m, objective, verdict.phase), *_causes(m, verdict)]
    if verdict.provisional:
        said.append(
            "Too few ledgers have closed to count votes: by the engine's own state the requests that wait now"
            f" are in {phase_name(Blame.QUEUE if verdict.moved else verdict.phase)}."
        )
    if verdict.phase is Blame.UNATTRIBUTED:
        said.append(
            f"Of the requests that missed their {NAMES[objective]}, fewer than one in five has a split, or none at all."
        )
    return said + state(m)


def of_window(m: Measured, objective: Objective) -> str:
    """The window of the votes, ` of the last 5 min`; empty if it is not known."""
    window = m.votes_seconds.get(objective)
    return "" if window is None else f" of the last {seconds(window)}"


def counted_votes(m: Measured, objective: Objective, verdict: Verdict) -> float:
    """The votes, at most the misses of their window: a request that missed just before it may vote within it."""
    missed = _missed(m, objective)
    return verdict.votes if missed is None else min(verdict.votes, missed)


def _missed(m: Measured, objective: Objective) -> float | None:
    """Misses in the window of the votes; None if that window is not one of the two that misses are known of."""
    latency, window = latency_of(m, objective), m.votes_seconds.get(objective)
    if window is None:
        return None
    if window == m.window_seconds:
        return latency.misses
    return latency.misses_long if window > (m.window_seconds or inf) else None


def _votes(m: Measured, objective: Objective, verdict: Verdict) -> list[str]:
    if not verdict.waited_in:
        return []
    ordered = sorted(verdict.waited_in.items(), key=lambda item: -item[1])
    where = ", ".join(f"{phase_name(phase)} {percent(share)}" for phase, share in ordered[:3])
    missed = _missed(m, objective)
    among = "" if missed is None else f" from {digits(missed)} misses"
    votes = f"{digits(counted_votes(m, objective, verdict))} votes{among}{of_window(m, objective)}"
    return [f"Requests that missed their {NAMES[objective]} waited in {where} ({votes})."]


def _delivery(m: Measured, objective: Objective, phase: Blame) -> list[str]:
    """A sentence on short gaps beside missed TPOT objectives; it explains them if the phase is the delivery."""
    p99, threshold = m.inter_token.p99_seconds, m.inter_token.threshold_seconds
    if objective is not Objective.TPOT or m.inter_token.misses is None or p99 is None or threshold is None:
        return []
    if p99 > threshold:
        return []
    before = f"Single gaps are {seconds(p99)} at the p99: they are taken before delivery."
    if phase is not Blame.STREAM:
        return [before]
    return [
        f"{before} The misses are of whole answers, with delivery: while a client does not read, its answer stands still."
    ]


def _causes(m: Measured, verdict: Verdict) -> list[str]:
    said = [_CAUSES[verdict.cause]] if verdict.cause in _CAUSES else []
    if verdict.collected:
        said.append(
            "Tokens suddenly come together, so a hop collects them: the time that looks like waiting is output held back."
        )
    if verdict.moved:
        said.append(
            "They waited in queue because prefill is dearer: the verdict names the phase that broke, not where it shows."
        )
    return said + grown(m)


def grown(m: Measured) -> list[str]:
    """The evidence of the whole engine that has grown, largest first, and the evidence that has not."""
    ordered = sorted(m.ratios.items(), key=lambda item: -item[1])
    said = [f"{_GROWN[which].format(times=times(ratio))}." for which, ratio in ordered if ratio >= WORTH_NAMING]
    same = [which.value for which, ratio in ordered if ratio < WORTH_NAMING]
    if same and said:
        said.append(f"Not grown: {', '.join(same)}.")
    elif same:
        said.append(f"Nothing has grown against the baseline: {', '.join(same)}.")
    return said


def without_verdict(m: Measured, objective: Objective, number: Number, phase: Blame) -> list[str]:
    """Evidence for a phase without votes: the latency that is broken and, for TTFT, its parts."""
    said = _number(m, objective, number) + _delivery(m, objective, phase)
    if objective is Objective.TPOT:
        return said + state(m)
    parts = _parts(m, phase) if objective is Objective.TTFT else []
    return [*said, *parts, *state(m), *grown(m)]


def _number(m: Measured, objective: Objective, number: Number) -> list[str]:
    """The excess of a broken latency: by its misses, and by its p99. Empty for a latency that is not broken."""
    latency, said = number.latency, []
    if latency.misses is not None and number.over:
        window = "within the window" if m.window_seconds is None else f"in the last {seconds(m.window_seconds)}"
        longer = "" if latency.misses_long is None else f", {digits(latency.misses_long)} in {_long_window(m)}"
        misses = f"{digits(latency.misses)} requests {window}{longer}"
        said.append(f"The {NAMES[objective]} is missed {times(number.over)} as often as is allowed: {misses}.")
    p99, threshold = latency.p99_seconds, latency.threshold_seconds
    if p99 is None or threshold is None or p99 <= threshold:
        return said
    if objective is Objective.TPOT:
        before = "" if latency.misses is None else ", before delivery"
        apart = f"Tokens come {seconds(p99)} apart at the p99{before}, where {seconds(threshold)} is promised"
        return [*said, f"{apart}; the first one comes after {seconds(m.ttft.p99_seconds)}."]
    what = "first token" if objective is Objective.TTFT else NAMES[objective]
    if isinf(p99):
        return [*said, f"The {what} comes later, at the p99, than the last edge of its histogram."]
    whole = m.e2e.p99_seconds if objective is Objective.TTFT else None
    of = "" if whole is None else f", of {seconds(whole)} for the whole request"
    return [*said, f"The {what} takes {seconds(p99)} at the p99{of}: {seconds(p99 - threshold)} more than is promised."]


def _parts(m: Measured, phase: Blame) -> list[str]:
    """The parts of TTFT, the largest first."""
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
            f"These parts explain the smaller share of a time to first token of {seconds(m.ttft.p99_seconds)}."
            " A difference of quantiles is rough."
        )
    return said


def healed(m: Measured) -> list[str]:
    """Objectives that are met or near their limit in the window, but were missed too often within the last half hour."""
    return [
        _was_missed(latency, NAMES[objective], _long_window(m))
        for objective in Objective
        if (latency := latency_of(m, objective)).burn is not None
        and latency.burn < 1.0 <= (latency.burn_long or 0.0)
        and (latency.misses_long or 0.0) >= FEWEST_MISSES
    ]


def _was_missed(latency: Latency, name: str, window: str) -> str:
    until, misses = latency.missed_until_seconds, f"{digits(latency.misses_long or 0.0)} misses in {window}"
    now = "is near its limit" if judged(latency).state is State.NEAR else "is met"
    before = "before" if until is None else f"until {_ago(until)} ago"
    return f"The {name} {now} now; it was missed {before} ({misses})."


def _long_window(m: Measured) -> str:
    long = m.long_window_seconds
    return "the last half hour" if long is None or long <= LONG_SECONDS else f"the last {seconds(long)}"


def _ago(age_seconds: float) -> str:
    minutes = round(age_seconds / 60)
    return f"{minutes} min" if minutes else "less than a minute"


def latency_of(m: Measured, objective: Objective) -> Latency:
    return {Objective.TTFT: m.ttft, Objective.TPOT: m.inter_token, Objective.E2E: m.e2e}[objective]


def state(m: Measured) -> list[str]:
    """The state of the engine and its load, in sentences."""
    load, said = m.load, []
    if load.waiting is not None:
        wait, rate = _over_arrivals(load.waiting, load.engine_arrivals_per_second), load.engine_arrivals_per_second
        more = (
            "" if not wait else f": each waits about {seconds(wait)}, at {digits(rate or 0.0)} arrivals a second in all"
        )
        where = "the queues of all pods" if m.source == "prometheus" else "the engine's whole queue"
        said.append(f"{digits(load.waiting)} requests wait in {where}{more}.")
    elif load.lane_waiting:
        wait = _over_arrivals(load.lane_waiting, load.arrivals_per_second)
        more = "" if not wait else f": each waits about {seconds(wait)}, at the lane's own rate"
        said.append(f"{digits(load.lane_waiting)} requests of this lane wait for their first output{more}.")
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
            f"So each second brings prompts for at least {digits(load)} seconds of work: at this rate the queue cannot drain."
        )
    elif load is not None:
        yield f"So each second brings prompts for at least {digits(load)} seconds of work."


def _over_arrivals(waiting: float | None, arrivals_per_second: float | None) -> float | None:
    """The mean wait in seconds by Little's law. Both numbers must be of the same requests: of the engine, or of one lane."""
    return waiting / arrivals_per_second if waiting is not None and arrivals_per_second else None


def queue_by_state(m: Measured) -> float | None:
    """The mean wait in the engine's queue by Little's law, if the numbers were given by hand; else None."""
    return _over_arrivals(m.load.waiting, m.load.engine_arrivals_per_second) if m.source == "hand" else None
