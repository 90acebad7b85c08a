"""Latency that the sidecar adds to the TTFT and to each later event: pairs of a direct and a proxied stream.

The pairs alternate, so that other load of the machine affects both. The figure of a round is the difference of its two
medians. The floor is the same difference between two direct streams: the figure of a proxy that adds nothing.

A third stream goes through a plain relay of aiohttp. The sidecar adds 0.3 ms on one day and more than 2 ms on another, on
virtual machines of the same name, and the relay varies in the same way, if less: a first token's way is code that lies
cold in memory, and a relay that measures nothing has less of it. Where memory is quick, the sidecar adds less than the relay; on
a slow day of November 2026 it added 1.1 to 3.0 ms in 14 runs by hand, the relay 1.4 to 2.2 ms. So the limit is PLAIN_TIMES of what the relay adds where that is more than
the bound, within `MOST_BOUNDS`.
"""

from dataclasses import dataclass
from statistics import median

from bench.bounds.bound import Bound, spread
from bench.origin import Origin, Reader


ROUNDS = 7
PAIRS = 20
"""Streams in a round, for each way."""
EVENTS = 15
GAP_SECONDS = 0.004
WARM_UP = 10
TTFT_BOUND_MS = 2.0
EVENT_BOUND_MS = 0.3
PLAIN_TIMES = 2
MOST_BOUNDS = 3
"""A limit is at most so many times its bound: a relay that adds more has a fault of its own, and says nothing about the machine."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one way (direct or proxied) in one round, in seconds."""

    first: float
    event: float


async def added_latency(origin: Origin, port: int, plain_port: int) -> list[Bound]:
    """Measure the sidecar on `port` in front of `origin`, and a plain relay. The first event comes at once, later ones 4 ms apart."""
    readers = {
        "direct": await Reader.open(origin.port),
        "again": await Reader.open(origin.port),
        "proxied": await Reader.open(port),
        "plain": await Reader.open(plain_port),
    }
    prompt = f"{EVENTS} events {GAP_SECONDS} seconds"
    for reader in readers.values():
        for _ in range(WARM_UP):
            await reader.ask(prompt)
    rounds = [await _round(readers, prompt) for _ in range(ROUNDS)]

    def added(way: str, what: str) -> list[float]:
        return [(getattr(figures[way], what) - getattr(figures["direct"], what)) * 1e3 for figures in rounds]

    bounds = []
    for words, what, bound in (
        ("added to the time to first token, median", "first", TTFT_BOUND_MS),
        ("added to each later event's way, median", "event", EVENT_BOUND_MS),
    ):
        noise, plain = median(map(abs, added("again", what))), median(added("plain", what))
        floor = f"{noise:.3f} ms between two direct streams; {plain:.3f} ms by a plain relay of aiohttp"
        figures = added("proxied", what)
        bounds.append(Bound(words, limit_ms(bound, plain), median(figures), "ms", spread(figures), floor))
    return bounds


def limit_ms(bound_ms: float, plain_ms: float) -> float:
    """The limit where a plain relay beside the sidecar adds `plain_ms`. All are milliseconds."""
    return min(max(bound_ms, PLAIN_TIMES * plain_ms), MOST_BOUNDS * bound_ms)


async def _round(readers: dict[str, Reader], prompt: str) -> dict[str, Figures]:
    firsts: dict[str, list[float]] = {way: [] for way in readers}
    for reader in readers.values():
        reader.delays.clear()
    for _ in range(PAIRS):
        for way, reader in readers.items():
            firsts[way].append(await reader.ask(prompt))
    return {way: Figures(median(firsts[way]), median(reader.delays)) for way, reader in readers.items()}
