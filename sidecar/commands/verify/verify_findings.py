"""The findings of the probes: where two sources contradict each other, which hop holds streams back, what the hops add, what is not told. Pure.

A source is believed no more than another. The client's clock has one advantage: what it saw end cannot have taken longer elsewhere. So

- a report or a page that states more than the client waited is wrong, and one such probe is enough;
- one that leaves most of the wait unstated is suspicious, and only most of the probes together say so;
- two reports of one engine on one request must agree, because both come from one clock.

What the hops add is the median of paired differences, entry less engine, with an interval from order statistics: it needs no law of the
noise. If the interval holds 0, the two cannot be told apart with so few probes, and no number is given as theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import comb
from statistics import median
from typing import NamedTuple

from sidecar.commands.verify.answer_times import Answer, told_in
from sidecar.commands.verify.arrivals import Arrival, Pattern, arrival, pattern
from sidecar.commands.verify.page_growth import Growth
from sidecar.commands.verify.probe_shapes import WARM_UP_PROBE, Probe
from sidecar.engines.kind import EngineKind
from sidecar.engines.probe.state_names import PageTime
from sidecar.ledger.ledger import TOLERANCE_RATIO, TOLERANCE_SECONDS
from sidecar.ledger.report import EngineReport


CONFIDENCE_OF_MEDIAN = 0.95
SUSPICIOUS_SECONDS, SUSPICIOUS_SHARE = 0.05, 0.5
"""A source that leaves out more than both of the client's time is suspicious: a front end, a tokenizer and a network take less."""
SAME_SECONDS, SAME_RATIO = 0.005, 0.05
"""The larger of both is how far two reports of one engine may be apart: some of them round to milliseconds."""
FEWEST_BYTES_A_TOKEN, MOST_TEMPLATE_TOKENS = 16, 1024
"""A prompt has at least a token for so many bytes, and at most one for each byte, with a chat template beside it."""


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


@dataclass(slots=True)
class Probed:
    """One probe at one address, and what else is known of it."""

    probe: Probe
    answer: Answer
    page: Growth | None = None
    span: EngineReport | None = None

    @property
    def name(self) -> str:
        return self.probe.name

    @property
    def told(self) -> dict[str, Mapping[PageTime, float]]:
        """The engine's own times, by where it states them."""
        told: dict[str, Mapping[PageTime, float]] = {
            "the answer": told_in(self.answer.report),
            "the span": told_in(self.span),
            "the page": {} if self.page is None else self.page.times,
        }
        return {source: times for source, times in told.items() if times}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen."""

    kind: EngineKind
    version: str | None
    engine: Sequence[Probed] = ()
    entry: Sequence[Probed] = ()
    page: str = ""
    """Why the engine's page was not read; "" if it was."""
    page_do: str = ""
    """The advice that would let it be read."""
    spans: bool = False
    """Spans were received."""
    absent: Sequence[str] = field(default=())
    """Paths of which an address says that it does not have them."""


def findings(evidence: Evidence) -> list[Found]:
    """All findings, in the order in which they are read."""
    return [
        *_answered(evidence),
        _tokens(evidence),
        *_sources(evidence),
        *_arrivals(evidence),
        *_added(evidence),
        *_untold(evidence),
    ]


# --- answers and tokens --------------------------------------------------------------------------------------------------


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
    if evidence.absent:
        yield Found(
            "paths", State.UNKNOWN, f"not served, so that its probes were left out: {', '.join(evidence.absent)}"
        )


def token_faults(one: Probed) -> list[str]:
    """Statements of an answer's usage that cannot be true."""
    answer, most = one.answer, one.probe.max_tokens
    usage = answer.marks.usage
    if not answer.good or usage is None:
        return []
    faults = []
    made, prompt = usage.completion_tokens, usage.prompt_tokens
    events = answer.marks.output_events - 1  # the last one may be the end mark alone
    if made is not None and made > most:
        faults.append(f"{made} output tokens, and at most {most} were asked for")
    if made is not None and made < events:
        faults.append(f"{made} output tokens, and {events} events came with output, each of which has one or more")
    if made is not None and answer.finish == "length" and most - made > 1:
        faults.append(f"{made} output tokens, and it says that it stopped at the limit, which is {most}")
    size = len(one.probe.prompt("", ""))
    if prompt is not None and not size / FEWEST_BYTES_A_TOKEN <= prompt <= size + MOST_TEMPLATE_TOKENS:
        faults.append(f"{prompt} prompt tokens, for a prompt of about {size} bytes")
    return faults


def _tokens(evidence: Evidence) -> Found:
    asked = [one for one in (*evidence.engine, *evidence.entry) if one.answer.good and one.answer.marks.usage]
    faults = [f"{one.name}: usage states {fault}" for one in asked for fault in token_faults(one)]
    if faults:
        return Found("usage", State.DIFFERS, _few(faults), "do not count or bill by this usage before it is explained")
    if not asked:
        return Found("usage", State.UNKNOWN, "no answer states its usage")
    return Found("usage", State.OK, f"usage fits what was asked and what came, in {len(asked)} answers")


# --- the engine's own times ----------------------------------------------------------------------------------------------


def impossible(answer: Answer, told: Mapping[PageTime, float]) -> list[str]:
    """Times that are longer than the client waited for all of it."""
    faults = []
    for words, seconds, seen in _beside(answer, told):
        if seen is not None and seconds > seen + max(TOLERANCE_SECONDS, TOLERANCE_RATIO * seen):
            faults.append(f"{words} of {shown(seconds)}, and the client waited {shown(seen)}")
    return faults


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
    ttft = answer.ttft_seconds
    if PageTime.FIRST_TOKEN in told:
        yield "a first token", told[PageTime.FIRST_TOKEN], ttft
    if PageTime.WHOLE in told:
        yield "a whole request", told[PageTime.WHOLE], answer.total_seconds
    if PageTime.QUEUE in told and PageTime.PREFILL in told:
        before = told[PageTime.QUEUE] + told[PageTime.PREFILL]
        yield "queue and prefill", before, ttft
        if PageTime.DECODE in told:
            yield "queue, prefill and decode", before + told[PageTime.DECODE], answer.total_seconds


def apart(told: Mapping[str, Mapping[PageTime, float]]) -> list[str]:
    """Two statements of one engine on one time of one request that are not the same."""
    sources = list(told.items())
    return [
        f"{name} is {shown(mine)} in {source} and {shown(theirs)} in {other}"
        for at, (source, times) in enumerate(sources)
        for other, others in sources[at + 1 :]
        for name, mine in times.items()
        if (theirs := others.get(name)) is not None
        and abs(mine - theirs) > max(SAME_SECONDS, SAME_RATIO * max(mine, theirs))
    ]


def _sources(evidence: Evidence) -> Iterator[Found]:
    compared = [one for one in (*evidence.engine, *evidence.entry) if one.answer.good and one.told]
    for source, title in (("the answer", "report"), ("the span", "spans"), ("the page", "page")):
        mine = [one for one in compared if source in one.told]
        if not mine:
            continue
        wrong = [
            f"{one.name}: {source} states {fault}" for one in mine for fault in impossible(one.answer, one.told[source])
        ]
        own = [one for one in mine if one in evidence.engine and one.name != WARM_UP_PROBE]
        short = [one for one in own if left_out(one.answer, one.told[source])]
        if wrong:
            do = "the engine's clock or its names are not what they seem: trust no split by this source before it is explained"
            yield Found(title, State.DIFFERS, _few(wrong), do)
        elif len(short) > len(own) / 2:
            example = left_out(short[0].answer, short[0].told[source])[0]
            said = (
                f"{source} leaves out most of the wait in {len(short)} of {len(own)} probes; {short[0].name}: {example}"
            )
            yield Found(
                title,
                State.DIFFERS,
                said,
                "look for what stands between this address and the engine's scheduler, or for times in another unit",
            )
        else:
            yield Found(title, State.OK, f"{source} fits the client's clock in {len(mine)} probes")
    two = [one for one in compared if len(one.told) > 1]
    unlike = [f"{one.name}: {fault}" for one in two for fault in apart(one.told)]
    if unlike:
        yield Found(
            "sources", State.DIFFERS, _few(unlike), "one of the two is wrong, or another request was counted in"
        )
    elif two:
        yield Found("sources", State.OK, f"they agree with each other in {len(two)} probes")
    yield from _page(evidence)


def _page(evidence: Evidence) -> Iterator[Found]:
    grown = [one.page for one in evidence.engine if one.page is not None and one.answer.good]
    if not grown:
        return
    others, none = sum(each.requests > 1 for each in grown), sum(each.requests == 0 for each in grown)
    if none == len(grown):
        said = f"the page counted none of {none} probes that were answered"
        yield Found(
            "page-counts", State.DIFFERS, said, "it is another process's page, or a proxy answers in the engine's place"
        )
    elif others or none:
        said = f"not compared: in {others} of {len(grown)} probes the page counted more than the probe, in {none} none"
        do = "run it while nothing else asks this engine, and with one rank that counts"
        yield Found("page-counts", State.UNKNOWN, said, do)


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


def added(evidence: Evidence) -> dict[str, Interval | None]:
    """The time between the engine's address and the entry, by the client's clock: entry less engine, probe by probe."""
    by_name = {one.name: one.answer for one in evidence.engine if one.answer.good and one.name != WARM_UP_PROBE}
    pairs = [(by_name[one.name], one.answer) for one in evidence.entry if one.answer.good and one.name in by_name]
    ttft = [
        there.ttft_seconds - here.ttft_seconds
        for here, there in pairs
        if here.ttft_seconds is not None and there.ttft_seconds is not None
    ]
    return {
        "ttft": median_interval(ttft),
        "total": median_interval([there.total_seconds - here.total_seconds for here, there in pairs]),
    }


def _added(evidence: Evidence) -> Iterator[Found]:
    if not (evidence.engine and evidence.entry):
        return
    for what, interval in added(evidence).items():
        name = f"added-{what}"
        if interval is None:
            yield Found(name, State.UNKNOWN, "too few probes have a good answer at both addresses")
            continue
        between = f"{CONFIDENCE_OF_MEDIAN:.0%} interval {shown(interval.low)} to {shown(interval.high)}, {interval.pairs} pairs"
        said = (
            f"the hops add {shown(interval.value)} in the median, {between}"
            if interval.separable
            else f"not separable from 0: {between}"
        )
        yield Found(name, State.OK, said)
    new = [one.answer.connect_seconds for one in evidence.entry if one.answer.connect_seconds is not None]
    if new:
        yield Found(
            "connection",
            State.OK,
            f"a new connection to the entry takes {shown(median(new))}, name, TCP and TLS together; it is in no TTFT here",
        )


# --- what is not told ----------------------------------------------------------------------------------------------------


def _untold(evidence: Evidence) -> Iterator[Found]:
    good, kind = [one for one in evidence.engine if one.answer.good], evidence.kind
    if not good:
        return
    if evidence.page:
        yield Found("engine-page", State.UNTOLD if evidence.page_do else State.UNKNOWN, evidence.page, evidence.page_do)
    if not any(one.answer.report or one.span for one in good):
        told = "no answer has the engine's own times" + (", and no span came" if evidence.spans else "")
        yield Found("per-request-times", State.UNTOLD, told, kind.advice_for(evidence.version))
    if not evidence.spans and kind.reads_spans:
        yield Found(
            "no-spans",
            State.UNTOLD,
            "no receiver ran",
            "--spans.listen=127.0.0.1:9901 receives those of an engine that sends them there (docs/spans.md)",
        )
    usages = [one.answer.marks.usage for one in good if one.answer.marks.usage is not None]
    if usages and all(usage.cached_tokens is None for usage in usages):
        yield Found("cached-tokens", State.UNTOLD, "no usage states them", kind.cached_advice)
    if any(one.probe.stream and not one.probe.usage and one.answer.marks.usage is None for one in good):
        asks = bool(kind.takes_include_usage_on)
        do = (
            "the sidecar asks for it, and cuts it out again (proxy.include_usage)"
            if asks
            else "clients ask by stream_options.include_usage"
        )
        yield Found("usage-unasked", State.UNTOLD, "a stream states its usage only if the client asks for it", do)


# --- words ---------------------------------------------------------------------------------------------------------------


def shown(seconds: float) -> str:
    """A duration for people: three digits."""
    return f"{seconds * 1000:.3g} ms" if abs(seconds) < 1 else f"{seconds:.3g} s"


def _few(faults: Sequence[str]) -> str:
    return "; ".join(faults[:3]) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")
