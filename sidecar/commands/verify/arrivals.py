"""The pattern in which a stream's output arrived, which shows whether a hop holds it back. Pure.

An engine writes a token when it has made it, so the reads of a client are spread over the time of the decode, each with one event or a few.
A hop that buffers gathers them: until its buffer is full or a timer ends (clumps), or until the answer is over (at once). The second makes
TTFT as long as the whole answer. An engine does the same where a parser of tool calls or a guardrail waits for the end; so a hop is to
blame only if the same shape comes as it is made at the engine's own address.

Where a stream was asked for and one document came, a hop has collected it all: that is at once too, however short it is.

An answer of few tokens shows no pattern. A busy machine reads late, which looks the same: where a timer of the process was as late as a
clump is long, nothing is said. One probe never decides, most of them do.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from sidecar.commands.verify.answer_times import Answer
from sidecar.timeline.held_back import MOST_TOKENS_AN_EVENT, held_back


LEAST_PROBES = 3
"""Fewer answers that show a pattern decide nothing."""
CLUMP_EVENTS = 4.0
"""Events in a read, on average, from which on they are gathered: an engine that is read as it writes gives one or two."""
MOST_ANSWERS = 0.5
STREAM_FAILED, TOO_SHORT, TOO_BUSY = "failed", "were too short", "came while this machine was too busy"
"""Why an answer shows no pattern."""


class Arrival(StrEnum):
    AS_MADE = "as_made"
    IN_CLUMPS = "in_clumps"
    AT_ONCE = "at_once"
    UNKNOWN = "unknown"
    """Not good, too short to show a pattern, or this machine was too busy to see it."""


class Pattern(NamedTuple):
    """The pattern of one address."""

    arrival: Arrival
    judged: int
    """Answers that show a pattern."""
    held: tuple[str, ...]
    """The names of the probes whose output was gathered."""
    events_a_read: float
    """Mean number of events in a read of theirs."""
    unseen: Mapping[str, int]
    """How many streams show no pattern, by the reason."""


def arrival(answer: Answer) -> Arrival:
    """The pattern of one answer."""
    return _seen(answer)[0]


def _seen(answer: Answer) -> tuple[Arrival, str]:
    """The pattern of one answer; UNKNOWN with its reason."""
    marks = answer.marks
    if answer.collected:
        return Arrival.AT_ONCE, ""
    if not answer.good:
        return Arrival.UNKNOWN, STREAM_FAILED
    if max(marks.output_events, answer.tokens or 0) <= MOST_TOKENS_AN_EVENT:
        return Arrival.UNKNOWN, TOO_SHORT
    found, shortest_seconds = Arrival.IN_CLUMPS, CLUMP_EVENTS * (answer.between_seconds or 0.0)
    if held_back(marks) or answer.reads == 1:
        found, shortest_seconds = Arrival.AT_ONCE, MOST_ANSWERS * answer.total_seconds
    elif marks.output_events / answer.reads < CLUMP_EVENTS:
        return Arrival.AS_MADE, ""
    return (found, "") if answer.late_seconds < shortest_seconds else (Arrival.UNKNOWN, TOO_BUSY)


def pattern(answers: Sequence[tuple[str, Answer]]) -> Pattern:
    """The pattern of one address, from its answers by the names of their probes."""
    seen = [(name, answer, *_seen(answer)) for name, answer in answers]
    judged = [(name, answer, how) for name, answer, how, _ in seen if how is not Arrival.UNKNOWN]
    unseen = Counter(why for *_, why in seen if why)
    held = [each for each in judged if each[2] is not Arrival.AS_MADE]
    whole = sum(how is Arrival.AT_ONCE for *_, how in held)
    reads = sum(answer.reads for _, answer, _ in held)
    a_read = sum(answer.marks.output_events for _, answer, _ in held) / reads if reads else 0.0
    found = Arrival.AS_MADE
    if len(judged) < LEAST_PROBES:
        found = Arrival.UNKNOWN
    elif len(held) > MOST_ANSWERS * len(judged):
        found = Arrival.AT_ONCE if whole > MOST_ANSWERS * len(held) else Arrival.IN_CLUMPS
    return Pattern(found, len(judged), tuple(name for name, *_ in held), a_read, unseen)
