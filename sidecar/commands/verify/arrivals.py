"""The pattern in which a stream's output arrived, which shows whether a hop holds it back. Pure.

An engine writes a token when it has made it, so the reads of a client are spread over the time of the decode, each with one event or a few.
A hop that buffers gathers them: until its buffer is full or a timer ends (clumps), or until the answer is over (at once). The second makes
TTFT as long as the whole answer. An engine does the same where a parser of tool calls or a guardrail waits for the end; so a hop is to
blame only if the same shape comes as it is made at the engine's own address.

An answer of few tokens shows no pattern. A busy machine reads late, which looks the same: where a timer of the process was as late as a
clump is long, nothing is said. One probe never decides, most of them do.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sidecar.commands.verify.answer_times import Answer
from sidecar.timeline.held_back import MOST_TOKENS_AN_EVENT, held_back


LEAST_PROBES = 3
"""Fewer answers that show a pattern decide nothing."""
CLUMP_EVENTS = 4.0
"""Events in a read, on average, from which on they are gathered: an engine that is read as it writes gives one or two."""
MOST_ANSWERS = 0.5


class Arrival(StrEnum):
    AS_MADE = "as_made"
    IN_CLUMPS = "in_clumps"
    AT_ONCE = "at_once"
    UNKNOWN = "unknown"
    """Not streamed, not good, too short to show a pattern, or this machine was too busy to see it."""


class Pattern(NamedTuple):
    """The pattern of one address."""

    arrival: Arrival
    judged: int
    """Answers that show a pattern."""
    held: tuple[str, ...]
    """The names of the probes whose output was gathered."""
    events_a_read: float
    """Mean number of events in a read of theirs."""


def arrival(answer: Answer) -> Arrival:
    """The pattern of one answer."""
    marks = answer.marks
    made = max(marks.output_events, answer.tokens or 0)
    if not answer.good or marks.first_token_at is None or made <= MOST_TOKENS_AN_EVENT:
        return Arrival.UNKNOWN
    if held_back(marks) or answer.reads == 1:
        return Arrival.AT_ONCE if answer.late_seconds < MOST_ANSWERS * answer.total_seconds else Arrival.UNKNOWN
    if marks.output_events / answer.reads < CLUMP_EVENTS:
        return Arrival.AS_MADE
    clump_seconds = CLUMP_EVENTS * (answer.between_seconds or 0.0)
    return Arrival.IN_CLUMPS if answer.late_seconds < clump_seconds else Arrival.UNKNOWN


def pattern(answers: Sequence[tuple[str, Answer]]) -> Pattern:
    """The pattern of one address, from its answers by the names of their probes."""
    judged = [(name, answer, how) for name, answer in answers if (how := arrival(answer)) is not Arrival.UNKNOWN]
    held = [each for each in judged if each[2] is not Arrival.AS_MADE]
    whole = sum(how is Arrival.AT_ONCE for *_, how in held)
    reads = sum(answer.reads for _, answer, _ in held)
    a_read = sum(answer.marks.output_events for _, answer, _ in held) / reads if reads else 0.0
    found = Arrival.AS_MADE
    if len(judged) < LEAST_PROBES:
        found = Arrival.UNKNOWN
    elif len(held) > MOST_ANSWERS * len(judged):
        found = Arrival.AT_ONCE if whole > MOST_ANSWERS * len(held) else Arrival.IN_CLUMPS
    return Pattern(found, len(judged), tuple(name for name, *_ in held), a_read)
