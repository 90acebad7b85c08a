"""The traffic of a slice of time, lane by lane, beside what as many requests of the lane usually bring. Pure.

A lane that sends more does not look like longer prompts, and the other way round. It knows cumulative counts. It refuses
to know time, and to say whether a ratio is large (`comparison.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import ClassVar

from sidecar.pod.reading import LaneCounts
from sidecar.pod.usual.comparison import FADES
from sidecar.pod.usual.learner import Amount, Inner, Learner, Table, Text


FEWEST_OF_LANE = 20.0
"""Requests of a lane, of answers or of reads, from which on their usual mean is known."""


@dataclass(slots=True)
class Brought:
    """Sums over lanes: of a slice, and of as many usual requests as came in it, were answered in it or sent output."""

    work: float = 0.0
    """Arrivals; one of a lane with twice the usual prompts and answers of all lanes counts twice."""
    prompt_tokens: float = 0.0
    usual_prompt_tokens: float = 0.0
    uncached_tokens: float = 0.0
    usual_uncached_tokens: float = 0.0
    output_tokens: float = 0.0
    usual_output_tokens: float = 0.0
    sent_events: float = 0.0
    """Output of all requests, also of those that came before; the usual one is what the requests that came bring."""
    usual_sent_events: float = 0.0
    ended_events: float = 0.0
    """Output that as many usual streams bring as have ended."""
    stream_events: float = 0.0
    """Usual output of one stream, over all lanes; 0 if unknown."""
    events: float = 0.0
    usual_events: float = 0.0
    gap_seconds: float = 0.0
    usual_gap_seconds: float = 0.0
    typical_seconds: float = 0.0
    """The same of geometric means: few long gaps hardly change them."""
    usual_typical_seconds: float = 0.0


class _Usual(Learner):
    """The usual means of one lane."""

    __slots__ = (
        "answered",
        "arrivals",
        "cached_tokens",
        "events",
        "gap_logs",
        "gap_seconds",
        "gaps",
        "output_tokens",
        "outputs",
        "prompt_tokens",
        "prompts",
        "reads",
        "streams",
    )
    KEPT: ClassVar = dict.fromkeys(__slots__, Amount())

    def __init__(self) -> None:
        self.arrivals = 0.0
        self.prompts = self.prompt_tokens = 0.0
        self.outputs = self.output_tokens = 0.0
        self.answered = self.cached_tokens = 0.0
        self.reads = self.events = 0.0
        self.gaps = self.gap_seconds = self.gap_logs = 0.0
        self.streams = 0.0

    def learn(self, grown: LaneCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, FADES * getattr(self, name))
        self.arrivals += grown.arrivals
        self.prompts += grown.measured
        self.prompt_tokens += grown.received_tokens
        self.outputs += grown.outputs
        self.output_tokens += grown.output_tokens
        self.answered += grown.answered
        self.cached_tokens += grown.cached_tokens
        self.reads += grown.reads
        self.events += grown.events
        self.gaps += grown.gaps
        self.gap_seconds += grown.gap_seconds
        self.gap_logs += grown.gap_logs
        self.streams += grown.streams


class Lanes(Learner):
    """All lanes of one process, with their usual means."""

    KEPT: ClassVar = {"_usual": Table(Text(), Inner(_Usual))}

    def __init__(self) -> None:
        self._usual: dict[str, _Usual] = {}

    def compare(self, last: Mapping[str, LaneCounts], now: Mapping[str, LaneCounts], *, learn: bool) -> Brought:
        """The traffic between two readings. `learn`: it is usual."""
        prompt, answer = self._mean_lengths()
        sent, stream = self._mean_events()
        brought = Brought(stream_events=stream)
        for lane, counts in now.items():
            grown = _growth(last.get(lane, LaneCounts()), counts)
            usual = self._usual.setdefault(lane, _Usual())
            brought.work += grown.arrivals * _work(usual, prompt, answer)
            brought.sent_events += grown.events
            known = usual.arrivals >= FEWEST_OF_LANE
            brought.usual_sent_events += grown.arrivals * (usual.events / usual.arrivals if known else sent)
            known = usual.streams >= FEWEST_OF_LANE
            brought.ended_events += grown.streams * (usual.events / usual.streams if known else stream)
            _add(brought, grown, usual)
            if learn and any(grown):
                usual.learn(grown)
        return brought

    def collected_seconds(self, last: Mapping[str, LaneCounts], now: Mapping[str, LaneCounts]) -> float | None:
        """Mean time, in seconds, in which the events of one read between two readings come at their usual pace: for so long
        something held the first of them back. None: no lane with a usual pace was read.
        """
        reads = seconds = 0.0
        for lane, counts in now.items():
            grown, usual = _growth(last.get(lane, LaneCounts()), counts), self._usual.get(lane)
            if usual is not None and usual.gaps >= FEWEST_OF_LANE:
                reads += grown.reads
                seconds += (grown.events - grown.reads) * usual.gap_seconds / usual.gaps
        return seconds / reads if reads > 0.0 else None

    def _mean_lengths(self) -> tuple[float, float]:
        """Usual tokens of a prompt and of an answer, over all lanes; 0 if unknown."""
        lanes = self._usual.values()
        prompt_tokens, prompts = sum(each.prompt_tokens for each in lanes), sum(each.prompts for each in lanes)
        output_tokens, outputs = sum(each.output_tokens for each in lanes), sum(each.outputs for each in lanes)
        return prompt_tokens / prompts if prompts else 0.0, output_tokens / outputs if outputs else 0.0

    def _mean_events(self) -> tuple[float, float]:
        """Usual output events of a request and of a stream, over all lanes; 0 if unknown."""
        lanes = self._usual.values()
        events = sum(each.events for each in lanes)
        arrivals, streams = sum(each.arrivals for each in lanes), sum(each.streams for each in lanes)
        return events / arrivals if arrivals else 0.0, events / streams if streams else 0.0


def _work(usual: _Usual, prompt: float, answer: float) -> float:
    """Work of one usual request of a lane, over that of one of all lanes; 1 if unknown."""
    if usual.prompts < FEWEST_OF_LANE or usual.outputs < FEWEST_OF_LANE or prompt <= 0.0 or answer <= 0.0:
        return 1.0
    return 0.5 * (usual.prompt_tokens / usual.prompts / prompt + usual.output_tokens / usual.outputs / answer)


def _add(brought: Brought, grown: LaneCounts, usual: _Usual) -> None:
    if usual.prompts >= FEWEST_OF_LANE:
        brought.prompt_tokens += grown.received_tokens
        brought.usual_prompt_tokens += grown.measured * usual.prompt_tokens / usual.prompts
    if usual.outputs >= FEWEST_OF_LANE:
        brought.output_tokens += grown.output_tokens
        brought.usual_output_tokens += grown.outputs * usual.output_tokens / usual.outputs
    if usual.answered >= FEWEST_OF_LANE:
        # Longer prompts with the same cached beginning are no loss of the cache.
        cached = grown.answered * usual.cached_tokens / usual.answered
        brought.uncached_tokens += grown.prompt_tokens - grown.cached_tokens
        brought.usual_uncached_tokens += max(grown.prompt_tokens - cached, 0.0)
    if usual.reads >= FEWEST_OF_LANE:
        brought.events += grown.events
        brought.usual_events += grown.reads * usual.events / usual.reads
    if usual.gaps >= FEWEST_OF_LANE:
        brought.gap_seconds += grown.gap_seconds
        brought.usual_gap_seconds += grown.gaps * usual.gap_seconds / usual.gaps
        brought.typical_seconds += grown.gaps * exp(grown.gap_logs / grown.gaps) if grown.gaps else 0.0
        brought.usual_typical_seconds += grown.gaps * exp(usual.gap_logs / usual.gaps)


def _growth(before: LaneCounts, now: LaneCounts) -> LaneCounts:
    return LaneCounts(*(new - old for new, old in zip(now, before, strict=True)))
