"""The victims: streams whose tokens carry the engine's time stamp, and the delays with which they arrive.

Knows one proxy's port. Refuses to know who attacks it. A delay counts from the instant at which the engine sent the token.
"""

import asyncio
from dataclasses import dataclass

from bench.origin import Reader


STREAMS = 8
GAP_SECONDS = 0.01
"""Between two tokens of one stream."""
SETTLE_SECONDS = 0.15
"""Behind a window: tokens that were held up in it still arrive, and count."""
_ENDLESS = f"1000000 events {GAP_SECONDS} seconds"


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of one window, in milliseconds."""

    p50: float
    p99: float
    longest: float
    lost: int = 0
    """Streams that were cut."""

    @classmethod
    def of(cls, seconds: list[float], lost: int) -> "Delays":
        """A window in which no token arrived has infinite delays."""
        found = sorted(delay * 1e3 for delay in seconds) or [float("inf")]
        return cls(found[len(found) // 2], found[int(len(found) * 0.99)], found[-1], lost)

    def __str__(self) -> str:
        lost = f", {self.lost} streams lost" if self.lost else ""
        return f"{self.p50:.2f} / {self.p99:.2f} / {self.longest:.1f}{lost}"


class Victims:
    """Streams through one proxy, kept open for the whole bench."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._readers: list[Reader] = []
        self._asking: list[asyncio.Future[float]] = []

    async def open(self) -> int:
        """Open the streams that are missing; returns their number."""
        kept = [(reader, ask) for reader, ask in zip(self._readers, self._asking, strict=True) if not ask.done()]
        missing = STREAMS - len(kept)
        self._readers, self._asking = [reader for reader, _ in kept], [ask for _, ask in kept]
        for _ in range(missing):
            reader = await Reader.open(self._port)
            self._readers.append(reader)
            self._asking.append(asyncio.ensure_future(reader.ask(_ENDLESS)))
            await reader.read_some()
        return missing

    async def window(self, seconds: float) -> Delays:
        """The delays of the tokens that arrive in the next seconds, and shortly after."""
        for reader in self._readers:
            reader.delays.clear()
        await asyncio.sleep(seconds)
        return Delays.of([delay for reader in self._readers for delay in reader.delays], 0)

    async def close(self) -> None:
        for reader in self._readers:
            if reader.transport is not None:
                reader.transport.abort()
        await asyncio.gather(*self._asking, return_exceptions=True)
