"""When the engine says nothing although it has work, and whether that is longer than its work explains. Pure.

A silence is not a hang: a long prompt in prefill says nothing for seconds, a client that does not read is not spoken to, and
an answer that is not streamed is silent until its end. So a silence counts only while a streamed request is in flight that
we do read and no unstreamed one is; and it is a stall when it is longer than 8 s and than three times the prefill work that was
pending when it began (work that came later does not excuse it: design section 7).
"""

from collections.abc import Hashable
from dataclasses import dataclass


STALL_SECONDS = 8.0
EXCUSE = 3.0
"""A silence of up to so many times the pending prefill work is that work."""
UNKNOWN_SECONDS = 20.0
"""What a prompt is taken to cost of which nobody knows it: long, so that what is not known accuses nobody soon."""


@dataclass(frozen=True, slots=True)
class Silent:
    """How long the engine has said nothing, and how much prefill work was pending when it fell silent. Seconds."""

    seconds: float
    expected_seconds: float


class Silence:
    """One engine's. Each call is a few dictionary steps."""

    def __init__(self) -> None:
        self._pending: dict[Hashable, float] = {}
        self._pending_seconds = 0.0
        self._streaming: dict[Hashable, bool] = {}
        """Key to whether its client keeps us from reading."""
        self._readable = 0
        self._opaque: set[Hashable] = set()
        self._since: float | None = None
        self._expected_seconds = 0.0
        self._looked_at = 0.0
        self.stalled_seconds = 0.0
        """Total of what no work explains; only grows."""

    def received(self, key: Hashable, at: float, *, streaming: bool, cost_seconds: float | None) -> None:
        """A request is on its way to the engine; `cost_seconds`: what its prefill takes alone, if anybody knows."""
        self.look(at)
        if not streaming:
            self._opaque.add(key)
            return
        self._pending[key] = UNKNOWN_SECONDS if cost_seconds is None else cost_seconds
        self._pending_seconds += self._pending[key]
        if self._since is None:
            self._begin(at)

    def output(self, key: Hashable, at: float) -> None:
        """Output of this request was read."""
        cost = self._pending.pop(key, None)
        if cost is not None:
            self._pending_seconds = self._pending_seconds - cost if self._pending else 0.0
            self._streaming[key] = False
            self._readable += 1
        self._opaque.discard(key)
        if at - self._looked_at >= STALL_SECONDS:
            self.look(at)
        self._begin(at)

    def paused(self, key: Hashable, at: float) -> None:
        """We do not read from the engine for this request: its client is slow."""
        if self._streaming.get(key) is False:
            self.look(at)
            self._streaming[key] = True
            self._readable -= 1
            self._settle()

    def resumed(self, key: Hashable, at: float) -> None:
        """We read again."""
        if self._streaming.get(key) is True:
            self.look(at)
            self._streaming[key] = False
            self._readable += 1
            if self._since is None:
                self._begin(at)

    def left(self, key: Hashable, at: float) -> None:
        """The request ended, however."""
        self.look(at)
        cost = self._pending.pop(key, None)
        if cost is not None:
            self._pending_seconds = self._pending_seconds - cost if self._pending else 0.0
        if self._streaming.pop(key, None) is False:
            self._readable -= 1
        self._opaque.discard(key)
        self._settle()

    def look(self, at: float) -> Silent:
        """As of this instant; the part of the silence that is a stall is added to the total."""
        looked_at, self._looked_at = self._looked_at, at
        if self._since is None or self._opaque:
            return Silent(0.0, 0.0)
        excused_until = self._since + max(STALL_SECONDS, EXCUSE * self._expected_seconds)
        if at > excused_until:
            self.stalled_seconds += at - max(excused_until, looked_at)
        return Silent(at - self._since, self._expected_seconds)

    def _begin(self, at: float) -> None:
        self._since = at
        self._expected_seconds = self._pending_seconds

    def _settle(self) -> None:
        """Nobody is left whom the engine could speak to."""
        if not self._pending and not self._readable:
            self._since = None
