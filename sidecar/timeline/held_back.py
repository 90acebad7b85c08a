"""Whether the tokens of one answer came as the engine made them, or were held back and came at once. Pure.

Engines and hops hold answers back until they know all of them: a parser of tool calls, a guardrail, a buffer. Such an
answer has a first event and a time to it, but neither says when its first token was made, and nothing says how long its
tokens took. This module compares the tokens that usage states with the output events and the time between the first and
the last of them, once, at the end of an answer. Events of several tokens are usual (speculative decoding, an interval of
streaming): their pace is an engine's. It refuses to say who held the tokens back, and for how long.
"""

from sidecar.timeline.marks import Marks


MOST_TOKENS_AN_EVENT = 8.0
"""Tokens that one step of an engine may give to one sequence, and that one event may carry: above the usual number of
speculated tokens. An answer without more tokens than that is never called held back."""
SHORTEST_TOKEN_SECONDS = 0.0001
"""No engine makes the tokens of one sequence faster: 10,000 a second."""
SHORTEST_HEAVY_TOKEN_SECONDS = 0.001
"""The same for an answer with more tokens an event than one step gives: a held answer may end in two or three events,
some milliseconds apart."""
MOST_SPAN = 0.1
"""Largest share of the time since the request came that a held answer's events span. In a larger one, the tokens may
have been made."""


def held_back(marks: Marks) -> int:
    """Tokens of an answer that was held back: its events came in less time than any engine takes for its tokens. 0 of any
    other answer, and where there was no output. Without usage, events count as tokens.
    """
    first_at, last_at = marks.first_token_at, marks.last_token_at
    if first_at is None or last_at is None:
        return 0
    stated = 0 if marks.usage is None else marks.usage.completion_tokens or 0
    made = max(marks.output_events, stated)
    if made <= MOST_TOKENS_AN_EVENT:  # several rooms ask this of each answer, and most short ones need no more
        return 0
    choices = max(1, marks.choices)  # they are made side by side, and usage adds them up
    tokens = made / choices
    if tokens <= MOST_TOKENS_AN_EVENT:
        return 0
    span_seconds = last_at - first_at
    came_at = marks.accepted_at if marks.received_at is None else marks.received_at
    if span_seconds > MOST_SPAN * (last_at - came_at):
        return 0
    events = max(1, marks.output_events) / choices
    heavy = tokens > MOST_TOKENS_AN_EVENT * events
    shortest_seconds = SHORTEST_HEAVY_TOKEN_SECONDS if heavy else SHORTEST_TOKEN_SECONDS
    return made if span_seconds < shortest_seconds * (tokens - 1) else 0


def first_token_seen(marks: Marks) -> bool:
    """Whether the first output event came with the first token, as far as the marks tell.

    False for an answer that was held back, and for one whose only event may hold any number of tokens, because no usage
    states it.
    """
    stated = None if marks.usage is None else marks.usage.completion_tokens
    if marks.first_token_at is None or (stated is None and marks.output_events == 1):
        return False
    return not held_back(marks)
