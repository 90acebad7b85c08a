"""The findings of the probes: does output arrive as it is made, does the engine's report agree with the clock, what do the hops add. Pure.

A report is believed no more than the client's clock, which has one advantage: what it saw end cannot have taken longer elsewhere. So

- a report that states more than the client waited is wrong, and one such probe is enough;
- one that leaves most of the wait unstated is suspicious, and only most of the probes together say so.

What the hops add is the median of paired differences, entry less engine, with an interval from order statistics: it needs no law of the
noise. If the interval holds 0, the two cannot be told apart with so few probes, and no number is given as theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from statistics import median
from typing import NamedTuple

from sidecar.commands.verify.answer_times import Answer, told_in
from sidecar.commands.verify.arrivals import Arrival, Pattern, arrival, pattern
from sidecar.commands.verify.probe_shapes import WARM_UP_PROBE, Probe
from sidecar.engines.kind import EngineKind
from sidecar.engines.probe.state_names import PageTime
from sidecar.ledger.ledger import TOLERANCE_RATIO, TOLERANCE_SECONDS


CONFIDENCE_OF_MEDIAN = 0.95
SUSPICIOUS_SECONDS, SUSPICIOUS_SHARE = 0.05, 0.5
"""A source that leaves out more than both of the client's time is suspicious: a front end, a tokenizer and a network take less."""


class State(StrEnum):
    OK = "ok"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    UNTOLD = "untold"
    """The engine could tell more than it is asked to."""


class Found(NamedTuple):
    """One finding. It holds no address and no key."""

    name: str
    state: State
    said: str
    do: str = ""


class Interval(NamedTuple):
    """The median of paired differences in seconds, and its interval."""

    value: float
    low: float
    high: float
    pairs: int

    @property
    def separable(self) -> bool:
        return not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class Probed:
    """One probe at one address."""

    probe: Probe
    answer: Answer

    @property
    def name(self) -> str:
        return self.probe.name

    @property
    def told(self) -> dict[PageTime, float]:
        """The engine's own times, in its answer."""
        return told_in(self.answer.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen."""

    kind: EngineKind
    version: str | None
    engine: Sequence[Probed] = ()
    entry: Sequence[Probed] = ()


def findings(evidence: Evidence) -> list[Found]:
    """All findings, in the order in which they are read."""
    return [*_answered(evidence), *_report(evidence), *_arrivals(evidence), *_added(evidence)]


# --- answers ----------------------------------------------------------------------------------------------------------


def _answered(evidence: Evidence) -> Iterator[Found]:
    for place, probed in (("engine", evidence.engine), ("entry", evidence.entry)):
        if not probed:
            continue
        bad = [one for one in probed if not one.answer.good]
        said = f"{len(probed) - len(bad)} of {len(probed)} probes have a whole, good answer"
        if bad:
            first = bad[0]
            said += f"; failed: {', '.join(one.name for one in bad)}; {first.name} {first.answer.failure}"
        do = "mend these first: what they would show is not known" if bad else ""
        yield Found(f"{place}-answers", State.DIFFERS if bad else State.OK, said, do)


# --- the engine's own times ----------------------------------------------------------------------------------------------


def impossible(answer: Answer, told: Mapping[PageTime, float]) -> list[str]:
    """Times that are longer than the client waited for all of it."""
    return [
        f"{words} of {shown(seconds)}, and the client waited {shown(seen)}"
        for words, seconds, seen in _beside(answer, told)
        if seen is not None and seconds > seen + max(TOLERANCE_SECONDS, TOLERANCE_RATIO * seen)
    ]


def left_out(answer: Answer, told: Mapping[PageTime, float]) -> list[str]:
    """Times that leave most of what the client waited unstated."""
    if arrival(answer) is Arrival.AT_ONCE:
        return []  # its first output is not its first token
    beside = list(_beside(answer, told))
    if PageTime.DECODE in told and answer.marks.first_token_at and answer.marks.last_token_at:
        span = answer.marks.last_token_at - answer.marks.first_token_at
        beside.append(("a decode", told[PageTime.DECODE], span))
    return [
        f"{words} of {shown(seconds)}, and the client saw {shown(seen)}"
        for words, seconds, seen in beside
        if seen is not None and seen - seconds - answer.late_seconds > max(SUSPICIOUS_SECONDS, SUSPICIOUS_SHARE * seen)
    ]


def _beside(answer: Answer, told: Mapping[PageTime, float]) -> Iterator[tuple[str, float, float | None]]:
    """Each time of the engine with the client's of the same stretch."""
    if PageTime.QUEUE in told and PageTime.PREFILL in told:
        before = told[PageTime.QUEUE] + told[PageTime.PREFILL]
        yield "queue and prefill", before, answer.ttft_seconds
        if PageTime.DECODE in told:
            yield "queue, prefill and decode", before + told[PageTime.DECODE], answer.total_seconds


def _report(evidence: Evidence) -> Iterator[Found]:
    good = [one for one in (*evidence.engine, *evidence.entry) if one.answer.good]
    compared = [one for one in good if one.told]
    wrong = [f"{one.name}: it states {fault}" for one in compared for fault in impossible(one.answer, one.told)]
    own = [one for one in compared if one in evidence.engine and one.name != WARM_UP_PROBE]
    short = [(one, faults[0]) for one in own if (faults := left_out(one.answer, one.told))]
    if good and not compared:
        untold = "no answer has the engine's own times"
        yield Found("report", State.UNTOLD, untold, evidence.kind.advice_for(evidence.version))
    elif wrong:
        do = "the engine's clock or its names are not what they seem: trust no split by it before it is explained"
        yield Found("report", State.DIFFERS, _few(wrong), do)
    elif len(short) > len(own) / 2:
        one, example = short[0]
        said = f"it leaves out most of the wait in {len(short)} of {len(own)} probes; {one.name}: {example}"
        do = "look for what stands between this address and the engine's scheduler, or for times in another unit"
        yield Found("report", State.DIFFERS, said, do)
    elif compared:
        yield Found("report", State.OK, f"it fits the client's clock in {len(compared)} probes")


# --- hops ----------------------------------------------------------------------------------------------------------------


def _arrivals(evidence: Evidence) -> Iterator[Found]:
    probed_at = {"engine": evidence.engine, "entry": evidence.entry}
    patterns = {
        place: pattern([(one.name, one.answer) for one in probed]) for place, probed in probed_at.items() if probed
    }
    of_engine = patterns.get("engine")
    for place, found in patterns.items():
        name = f"{place}-streams"
        if found.arrival is Arrival.UNKNOWN:
            yield Found(
                name,
                State.UNKNOWN,
                f"only {found.judged} streams show how they arrive; of the others {_unseen(found)}",
            )
        elif found.arrival is Arrival.AS_MADE:
            some = f"; not so: {', '.join(found.held)}" if found.held else ""
            packed = [one.name for one in probed_at[place] if one.answer.field("content-encoding")]
            do = "a hop that compresses holds tokens back" if set(packed) & set(found.held) else ""
            yield Found(
                name,
                State.DIFFERS if do else State.OK,
                f"output comes as it is made, in {found.judged - len(found.held)} of {found.judged} streams{some}",
                do,
            )
        else:
            yield Found(name, State.DIFFERS, f"output comes {_how(found)}", _who(place, of_engine, evidence))


def _unseen(found: Pattern) -> str:
    return ", ".join(f"{count} {why}" for why, count in found.unseen.items()) or "none was sent"


def _how(found: Pattern) -> str:
    if found.arrival is Arrival.AT_ONCE:
        return f"at once at the end, in {len(found.held)} of {found.judged} streams: their TTFT is the time of the whole answer"
    return f"in clumps of {found.events_a_read:.0f} events a read, in {len(found.held)} of {found.judged} streams"


def _who(place: str, of_engine: Pattern | None, evidence: Evidence) -> str:
    if place == "engine":
        return "the engine itself, or what listens at its address, holds output back: a parser of tool calls or of reasoning, a guardrail, a proxy in the pod"
    if of_engine is None:
        return "give --engine.url too: it says whether the engine or a hop holds output back"
    if of_engine.arrival is Arrival.UNKNOWN:
        return "the engine's own streams could not be judged: run it again, on a machine that has time"
    if of_engine.arrival is not Arrival.AS_MADE:
        return "the engine's own address shows no better: mend that first"
    return (
        f"a hop between buffers ({_hops(evidence)}): switch its response buffering and compression off for these paths"
    )


def _hops(evidence: Evidence) -> str:
    """The fields by which hops name themselves at the entry and not at the engine."""
    there = {
        name: next((one.answer.field(name) for one in evidence.engine if one.answer.field(name)), "")
        for name in ("server", "via", "content-encoding")
    }
    here = {
        name: next((one.answer.field(name) for one in evidence.entry if one.answer.field(name)), "") for name in there
    }
    named = [f"{name}: {value}" for name, value in here.items() if value and value != there[name]]
    return "it names itself " + ", ".join(named) if named else "it does not name itself"


def median_interval(values: Sequence[float]) -> Interval | None:
    """The median, with the order statistics between which the true one lies with CONFIDENCE_OF_MEDIAN; None for fewer than six values."""
    ordered, size = sorted(values), len(values)
    rank, below = 0, 0.0
    while rank < size // 2 and 2 * (below + comb(size, rank) / 2**size) <= 1 - CONFIDENCE_OF_MEDIAN:
        below += comb(size, rank) / 2**size
        rank += 1
    return Interval(median(ordered), ordered[rank - 1], ordered[size - rank], size) if rank else None


def added_ttft(evidence: Evidence) -> Interval | None:
    """The time between the engine's address and the entry, by the client's clock: entry less engine, probe by probe."""
    by_name = {one.name: one.answer for one in evidence.engine if one.answer.good and one.name != WARM_UP_PROBE}
    pairs = [(by_name[one.name], one.answer) for one in evidence.entry if one.answer.good and one.name in by_name]
    return median_interval(
        [
            there.ttft_seconds - here.ttft_seconds
            for here, there in pairs
            if here.ttft_seconds is not None and there.ttft_seconds is not None
        ]
    )


def _added(evidence: Evidence) -> Iterator[Found]:
    if not (evidence.engine and evidence.entry):
        return
    interval = added_ttft(evidence)
    if interval is None:
        yield Found("added-ttft", State.UNKNOWN, "too few probes have a good answer at both addresses")
        return
    between = (
        f"{CONFIDENCE_OF_MEDIAN:.0%} interval {shown(interval.low)} to {shown(interval.high)}, {interval.pairs} pairs"
    )
    said = f"the hops add {shown(interval.value)} in the median, {between}"
    yield Found("added-ttft", State.OK, said if interval.separable else f"not separable from 0: {between}")


# --- words ---------------------------------------------------------------------------------------------------------------


def shown(seconds: float) -> str:
    """A duration for people: three digits."""
    return f"{seconds * 1000:.3g} ms" if abs(seconds) < 1 else f"{seconds:.3g} s"


def _few(faults: Sequence[str]) -> str:
    return "; ".join(faults[:3]) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")
