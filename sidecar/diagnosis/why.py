"""The evidence for a phase, in sentences: each states a number and its source.

This module knows which number bears on which phase. An unknown number has no sentence.
"""

from collections.abc import Iterable, Mapping
from math import isinf

from sidecar.diagnosis import bound
from sidecar.diagnosis.cause_words import SAYS, SIZED, WAITS
from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.judging import NEAR_THE_FLOOR, judged
from sidecar.diagnosis.measured import DecodeFloor, Latency, Measured
from sidecar.diagnosis.part_words import largest_part
from sidecar.diagnosis.verdict import MANY_MISSES, RootPhase, Verdict
from sidecar.diagnosis.wording import digits, percent, phase_name, seconds, times, to_the_second
from sidecar.history.series import LONG_SECONDS
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, is_worth_naming


WORTH_A_WORD = 0.01
"""Share of the decided misses below which a root is not listed."""
NAMES = {
    Objective.TTFT: "time to first token",
    Objective.TPOT: "time between tokens",
    Objective.E2E: "whole answer",
    Objective.STALL: "longest gap of an answer",
}


def of_verdict(m: Measured, objective: Objective, verdict: Verdict) -> list[str]:
    """Evidence for a phase that the roots name, or for none, in the order in which a person asks: the cause with its size, the part of the
    phase, its share of the misses, where they waited, on which pod, since when; then the state of the engine.
    """
    return [
        *rejections(m),
        *_cause(verdict),
        *largest_part(m, verdict.phase),
        *(_roots(verdict) if m.source != "hand" else of_page(verdict)),
        *_waited(verdict),
        *_pods(m, objective),
        *_delivery(m, objective, verdict.phase),
        *_began(verdict),
        *state(m),
    ]


def rejections(m: Measured) -> list[str]:
    """Count of the requests that were turned away within the window, and what did so; empty if there was none, or if nothing tells."""
    rejected, own = m.rejected or 0.0, m.own_rejections
    if rejected < 1.0:
        return []
    window = "" if m.window_seconds is None else f" in the last {seconds(m.window_seconds)}"
    if own is not None and own < 1.0:
        return [f"The engine rejected {digits(rejected)} requests{window} (429, 503 or 529)."]
    own_part = "" if own is None else f"; of all lanes, `proxy.max_in_flight` of the sidecar rejected {digits(own)}"
    return [f"{digits(rejected)} requests were rejected{window}{own_part}."]


def of_window(verdict: Verdict) -> str:
    """The window of the decided misses, ` of the last 2 min`; empty if it is not known."""
    return "" if verdict.seconds is None else f" of the last {seconds(float(round(verdict.seconds)))}"


def shares(verdict: Verdict) -> str:
    """The roots with their shares of the decided misses, largest first: `prefill 84 %, queue 16 %`."""
    parts = {phase: count / verdict.decided for phase, count in verdict.roots.items()}
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{_root_name(phase)} {percent(share)}" for phase, share in ordered if share >= WORTH_A_WORD)


def _root_name(phase: RootPhase) -> str:
    return "no cause found" if phase == Blame.UNATTRIBUTED else phase_name(phase)


def of_page(verdict: Verdict) -> list[str]:
    """The roots by an engine's own page, which has no requests that missed: of what is beyond the thresholds, more than usually."""
    return [f"What broke, by its page beside its own past: {shares(verdict)}."]


def _roots(verdict: Verdict) -> list[str]:
    of = "" if verdict.misses is None else f" of {digits(verdict.misses)}"
    said = []
    if verdict.roots:
        said.append(
            f"What broke is decided for {digits(verdict.counted)}{of} misses{of_window(verdict)}: {shares(verdict)}."
        )
    if verdict.undecided:
        said.append(
            "1 miss is too new: it is decided within 15 s."
            if verdict.undecided == 1
            else f"{digits(verdict.undecided)} misses are too new: they are decided within 15 s."
        )
    return said


def _cause(verdict: Verdict) -> list[str]:
    if verdict.reason is not None:
        return [_sentence(SAYS[verdict.reason])]
    if verdict.cause is None:
        return []
    size = verdict.size
    if size is None:
        return [_sentence(SAYS[verdict.cause])]
    before, after = SIZED[verdict.cause]
    between = f"between {times(size.ratio.low)} and {times(size.ratio.high)}"
    said = f"{before}{times(size.ratio.value).removesuffix('x')}{after}"
    return [_sentence(f"{said} per {size.per}, {between}")]


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _waited(verdict: Verdict) -> list[str]:
    if not verdict.waited_in:
        return []
    ordered = sorted(verdict.waited_in.items(), key=lambda item: -item[1])
    where = ", ".join(f"{phase_name(phase)} {percent(share)}" for phase, share in ordered[:3])
    why = (
        f" That is no contradiction: {WAITS[verdict.phase]}."
        if verdict.phase in WAITS and ordered[0][0] != verdict.phase
        else ""
    )
    return [f"The requests that missed waited in {where}.{why}"]


def _began(verdict: Verdict) -> list[str]:
    if verdict.since_at is None:
        return []
    shown = "" if verdict.shown_at is None else f"; a miss showed it last at {to_the_second(verdict.shown_at)}"
    return [f"It began at {to_the_second(verdict.since_at)}{shown}."]


def _pods(m: Measured, objective: Objective) -> list[str]:
    pods = m.pods.get(objective, ())
    if len(pods) < 2:
        return []
    worst = pods[0]
    page = " It has a page of its own." if worst.odd else ""
    has = f"{percent(worst.share)} of the misses and {percent(worst.of_requests)} of the requests"
    return [f"The worst of {len(pods)} pods is {worst.pod}, with {has}.{page}"]


def _delivery(m: Measured, objective: Objective, phase: str) -> list[str]:
    p99, threshold = m.inter_token.p99_seconds, m.inter_token.threshold_seconds
    if objective is not Objective.TPOT or m.inter_token.misses is None or p99 is None or threshold is None:
        return []
    if p99 > threshold:
        return []
    before = f"Single gaps are {seconds(p99)} at the p99: they are taken before delivery."
    if phase != Blame.STREAM:
        return [before]
    return [
        f"{before} The misses are of whole answers, with delivery: while a client does not read, its answer stands still."
    ]


def changes(m: Measured, cause: Cause | None = None) -> list[str]:
    """Sentences on what has grown over its usual value now, largest first, on what has not, and on the slots in use. `cause`: that of the root, whose size is
    told with it.
    """
    grown, still = beside(m.ratios, cause)
    said = []
    if grown:
        said.append(f"Above the usual now{'' if cause is None else ', beside the cause'}: {', '.join(grown)}.")
    if still:
        said.append(f"Not above the usual now: {', '.join(still)}.")
    return said + in_use(m)


def beside(ratios: Mapping[Cause, float], cause: Cause | None) -> tuple[list[str], list[str]]:
    """The causes that have grown now, with their numbers, largest first, and the names of what has not grown enough to be named. Without the root's
    cause: its size is that of its incident, and not that of now.
    """
    ordered = sorted(((each, ratio) for each, ratio in ratios.items() if each != cause), key=lambda item: -item[1])
    return (
        [f"{phase_name(each)} {times(ratio)}" for each, ratio in ordered if is_worth_naming(each, ratio)],
        [phase_name(each) for each, ratio in ordered if not is_worth_naming(each, ratio)],
    )


def in_use(m: Measured) -> list[str]:
    """The requests that run now, the most of the long window, and those that wait; empty if nothing tells."""
    running, peak, waiting = m.load.running, m.load.running_peak, m.load.waiting
    if running is None:
        return []
    was = f", and was up to {digits(round(peak))} in {_long_window(m)}" if peak and peak >= running + 1 else ""
    queue = "" if waiting is None else f"; {digits(round(waiting))} wait"
    return [f"Running stands at {digits(round(running))}{was}{queue}."]


def without_verdict(m: Measured, objective: Objective, number: Number, phase: str) -> list[str]:
    """Evidence for a phase without votes: the latency that is broken and, for TTFT, its parts."""
    said = rejections(m) + _number(m, objective, number) + _delivery(m, objective, phase)
    if objective is Objective.TPOT:
        return said + state(m)
    parts = _parts(m, phase) if objective is Objective.TTFT else []
    return [*said, *parts, *largest_part(m, phase), *state(m)]


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


def _parts(m: Measured, phase: str) -> list[str]:
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
    if phase not in m.phases and m.ttft.p99_seconds is not None and phase != Blame.UNATTRIBUTED:
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
        and (latency.misses_long or 0.0) >= MANY_MISSES
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
    own = {Objective.TTFT: m.ttft, Objective.TPOT: m.inter_token, Objective.E2E: m.e2e, Objective.STALL: m.stall}
    return own[objective]


def state(m: Measured) -> list[str]:
    """The state of the engine and its load, in sentences."""
    load, said = m.load, []
    if load.waiting is not None:
        wait, rate = _over_arrivals(load.waiting, load.engine_arrivals_per_second), load.engine_arrivals_per_second
        more = (
            "" if not wait else f": each waits about {seconds(wait)}, at {digits(rate or 0.0)} arrivals a second in all"
        )
        where = "the queues of all pods" if m.source == "prometheus" else "the engine's whole queue"
        said.append(f"{digits(round(load.waiting, 1))} requests wait in {where}{more}.")
    elif load.lane_waiting:
        wait = _over_arrivals(load.lane_waiting, load.arrivals_per_second)
        more = "" if not wait else f": each waits about {seconds(wait)}, at the lane's own rate"
        said.append(f"{digits(round(load.lane_waiting, 1))} requests of this lane wait for their first output{more}.")
    if load.running is not None and load.slots is not None:
        said.append(f"{digits(load.running)} of {digits(load.slots)} slots of the batch are taken.")
    if load.kv_usage is not None:
        said.append(f"The KV cache is {percent(load.kv_usage)} full.")
    if load.preempted:
        said.append(f"{percent(load.preempted)} of the arrivals were preempted.")
    elif load.preemptions_per_second:
        said.append(f"The engine preempts {digits(load.preemptions_per_second)} requests a second.")
    if load.cached is not None:
        said.append(f"{percent(load.cached)} of the prompt tokens came from the prefix cache.")
    return [*said, *_bound(m), *_floor(m)]


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


def _floor(m: Measured) -> Iterable[str]:
    floor, p99 = m.machine.floor, m.inter_token.p99_seconds
    if floor is None or m.machine.parameters is None:
        return
    size, weights = f"{digits(m.machine.parameters / 1e9)}B", digits(floor.weights_bytes / 1e9)
    read = f"A {size} in 16 bits on {floor.gpus} reads {weights} GB of weights in {seconds(floor.weights_seconds)} for each token, at the peak of the data sheet"
    if floor.most_bytes is not None:
        used = "a full KV cache" if m.load.kv_usage is None else f"a KV cache that is {percent(m.load.kv_usage)} full"
        read += f", and {digits(floor.most_bytes / 1e9)} GB in {seconds(floor.most_seconds)} with {used}"
    yield f"{read}{_beside_floor(floor, p99)}."


def _beside_floor(floor: DecodeFloor, p99: float | None) -> str:
    if p99 is None:
        return ""
    if floor.most_seconds is not None and p99 > floor.most_seconds:
        return f": {seconds(p99)} is elevated, so it is not reading that takes the time"
    if p99 <= NEAR_THE_FLOOR * floor.weights_seconds:
        return f": {seconds(p99)} is near that, so only fewer bytes for each token make it faster"
    return f": {seconds(p99)} is {times(p99 / floor.weights_seconds)} the reading of the weights"


def _over_arrivals(waiting: float | None, arrivals_per_second: float | None) -> float | None:
    """The mean wait in seconds by Little's law. Both numbers must be of the same requests: of the engine, or of one lane."""
    return waiting / arrivals_per_second if waiting is not None and arrivals_per_second else None


def queue_by_state(m: Measured) -> float | None:
    """The mean wait in the engine's queue by Little's law, if the numbers were given by hand; else None."""
    return _over_arrivals(m.load.waiting, m.load.engine_arrivals_per_second) if m.source == "hand" else None
