"""The way of tokens from the engine to the client: events, reads, and what delays or merges them.

Pure arithmetic on instants in seconds and on numbers of events: no function loses an event, or moves one to an earlier
instant. It refuses to know why a token comes when it does.
"""

from collections.abc import Sequence
from math import floor
from random import Random

from bench.incidents.fault import Hop
from bench.incidents.world import Throttle


BUFFERED_EVENTS = 24
"""Tokens that sidecar and sockets buffer for a client before the sidecar pauses reading; it resumes at half of that."""

COALESCED_WITHIN_SECONDS = 0.2
"""Longest time for which a read waits for the next one. Linux delays an acknowledgement by at most 200 ms, and a sender
that waits for it merges what it writes meanwhile."""


def through_hop(tokens: Sequence[float], hop: Hop, *, complete: bool) -> tuple[list[float], list[int]]:
    """Instants at which tokens leave the hop, and their number each time.

    `tokens`: instants at which they left the engine. `complete`: the last one ends the answer, which flushes the hop.
    """
    instants: list[float] = []
    counts: list[int] = []
    held = 0
    since = 0.0
    for at in tokens:
        if held and at > since + hop.seconds:
            instants.append(since + hop.seconds)
            counts.append(held)
            held = 0
        if not held:
            since = at
        held += 1
        if held == hop.events:
            instants.append(at)
            counts.append(held)
            held = 0
    if held and tokens:
        instants.append(tokens[-1] if complete else since + hop.seconds)
        counts.append(held)
    return instants, counts


def in_intervals(tokens: Sequence[float], interval: int, *, complete: bool = True) -> list[float]:
    """Instants of the events of an engine that writes one event for every `interval` tokens (at least 1).

    The first token is an event of its own, and the last token flushes the rest. `complete`: the last one ends the
    answer; else the engine still holds the tokens after the last full interval.
    """
    kept = list(tokens[::interval])
    if complete and len(tokens) > 1 and (len(tokens) - 1) % interval:
        kept.append(tokens[-1])
    return kept


def together(tokens: Sequence[float], *, one_event: bool = False) -> tuple[list[float], list[int]]:
    """Instants of reads, and the events in each; tokens of one instant are one read.

    `one_event`: they are one event too (speculative decoding), else an event each.
    """
    instants: list[float] = []
    counts: list[int] = []
    for at in tokens:
        if not instants or instants[-1] != at:
            instants.append(at)
            counts.append(1)
        elif not one_event:
            counts[-1] += 1
    return instants, counts


def coalesced(
    instants: Sequence[float], counts: Sequence[int], share: float, rng: Random
) -> tuple[list[float], list[int]]:
    """Reads of which this share, 0 to 1, comes together with the next one, if that comes soon enough."""
    if share <= 0.0:
        return list(instants), list(counts)
    read_at: list[float] = []
    read: list[int] = []
    held = 0
    for number, (at, count) in enumerate(zip(instants, counts, strict=True)):
        held += count
        waits = rng.random() < share  # drawn for each read, so that the draws of one do not depend on another's instant
        if waits and number + 1 < len(instants) and instants[number + 1] <= at + COALESCED_WITHIN_SECONDS:
            continue
        read_at.append(at)
        read.append(held)
        held = 0
    return read_at, read


def next_run_at(at: float, throttle: Throttle, phase_seconds: float) -> float:
    """First instant from `at` on at which a process with this CPU quota runs.

    `phase_seconds`: instant at which one of its periods begins.
    """
    period = throttle.period_seconds
    number = floor((at - phase_seconds) / period + 1e-9)  # the beginning of a period, although rounded down, is in it
    if at - (phase_seconds + number * period) < throttle.run_seconds:
        return at
    return max(at, phase_seconds + (number + 1) * period)


def through_quota(
    instants: Sequence[float], counts: Sequence[int], throttle: Throttle, phase_seconds: float
) -> tuple[list[float], list[int]]:
    """Reads of a sidecar with this CPU quota: all that comes while it stands still is one read when it runs again."""
    read_at: list[float] = []
    read: list[int] = []
    for at, count in zip(instants, counts, strict=True):
        runs_at = next_run_at(at, throttle, phase_seconds)
        if read_at and read_at[-1] >= runs_at:
            read[-1] += count
        else:
            read_at.append(runs_at)
            read.append(count)
    return read_at, read


def to_slow_client(
    instants: Sequence[float], counts: Sequence[int], tokens_per_second: float
) -> tuple[list[float], list[tuple[float, float]], float]:
    """Instants at which the sidecar reads, its pauses, and the instant at which the client has all tokens.

    `instants`, `counts`: instants at which tokens are ready to be read, and their number.
    """
    reads: list[float] = []
    pauses: list[tuple[float, float]] = []
    taken: list[float] = []
    free_at = 0.0
    done = 0
    for at, count in zip(instants, counts, strict=True):
        read_at = max(at, free_at)
        reads.append(read_at)
        for _ in range(count):
            taken.append(max(read_at, taken[-1] if taken else 0.0) + 1 / tokens_per_second)
        while done < len(taken) and taken[done] <= read_at:
            done += 1
        if len(taken) - done >= BUFFERED_EVENTS:
            free_at = taken[-1 - BUFFERED_EVENTS // 2]
            pauses.append((read_at, free_at))
    return reads, pauses, taken[-1] if taken else 0.0
