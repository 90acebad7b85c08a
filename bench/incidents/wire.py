"""The network between engine and client: delays of tokens by a hop that buffers them, and by a slow client.

Pure arithmetic on instants, in seconds.
"""

from collections.abc import Sequence

from bench.incidents.fault import Hop


BUFFERED_EVENTS = 24
"""Tokens that sidecar and sockets buffer for a client before the sidecar pauses reading; it resumes at half of that."""


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


def together(tokens: Sequence[float]) -> tuple[list[float], list[int]]:
    """Instants of reads, and the tokens in each; tokens of one instant are one read."""
    instants: list[float] = []
    counts: list[int] = []
    for at in tokens:
        if instants and instants[-1] == at:
            counts[-1] += 1
        else:
            instants.append(at)
            counts.append(1)
    return instants, counts


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
