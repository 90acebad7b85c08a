"""When the engine says nothing although it has work, and whether that is longer than its work explains. Pure.

A silence is not a hang: a long prompt in prefill says nothing for seconds, a client that does not read is not spoken to, and
an answer that is not streamed is silent until its end. So a silence counts only while a stream is in flight that we do read. While
there is also a request whose output we would not see, it counts only if one of those streams has begun: such a one is owed a
token at every step, whoever else the engine works for, and streams that still wait may be waiting for the unseen ones. It is a
stall when it is longer than 8 s and than three times the prefill work that was pending when it began, what the unseen ones may
need included (work that came later does not excuse it: design section 7).
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
        """Streams without output yet, to what their prefill takes alone."""
        self._pending_seconds = 0.0
        self._heard: set[Hashable] = set()
        """Streams that we read, with output or without."""
        self._paused: set[Hashable] = set()
        """Streams that we do not read: their clients are slow."""
        self._opaque: dict[Hashable, float] = {}
        """Requests whose output we would not see, to their cost."""
        self._since: float | None = None
        """Set exactly while somebody is heard."""
        self._expected_seconds = 0.0
        self._looked_at = 0.0
        self.stalled_seconds = 0.0
        """Total of what no work explains; only grows."""

    # --- what comes and goes ---------------------------------------------------------------------------------------------

    def received(self, key: Hashable, at: float, *, streaming: bool, cost_seconds: float | None) -> None:
        """A request is on its way to the engine; `cost_seconds`: what its prefill takes alone, if anybody knows.

        `streaming`: its output will be seen as it comes. Where nobody knows that, it is not.
        """
        self.look(at)
        cost = UNKNOWN_SECONDS if cost_seconds is None else cost_seconds
        if streaming:
            self._await(key, cost, at)
        else:
            self._opaque[key] = cost

    def answering(self, key: Hashable, at: float, *, streaming: bool) -> None:
        """Its answer's head shows whether its output will be seen."""
        if streaming and key in self._opaque:
            self._await(key, self._opaque[key], at)
            self._seen(key, at)
        elif not streaming and key not in self._opaque and (key in self._heard or key in self._paused):
            cost = self._pending.get(key, UNKNOWN_SECONDS)
            self.left(key, at)
            self._opaque[key] = cost

    def left(self, key: Hashable, at: float) -> None:
        """The engine is done with it, or it ended in another way. Telling it again changes nothing."""
        self.look(at)
        self._unawait(key)
        self._heard.discard(key)
        self._paused.discard(key)
        self._seen(key, at)
        self._settle()

    # --- output ----------------------------------------------------------------------------------------------------------

    def began(self, key: Hashable, at: float) -> None:
        """The first output of this request was read."""
        self.spoke(at)
        self._unawait(key)
        if key in self._opaque:  # it streams, whatever it had said
            self._heard.add(key)
            self._seen(key, at)
        self._begin(at)

    def spoke(self, at: float) -> None:
        """Output was read, of whichever request."""
        since = self._since
        if since is None:
            return
        if at - since >= STALL_SECONDS:
            self.look(at)
        self._since = at
        self._expected_seconds = self._work_seconds

    def paused(self, key: Hashable, at: float) -> None:
        """We do not read from the engine for this request: its client is slow."""
        if key in self._heard:
            self.look(at)
            self._heard.discard(key)
            self._paused.add(key)
            self._settle()

    def resumed(self, key: Hashable, at: float) -> None:
        """We read again."""
        if key in self._paused:
            self._paused.discard(key)
            self._hear(key, at)

    # --- what it comes to ------------------------------------------------------------------------------------------------

    def look(self, at: float) -> Silent:
        """As of this instant; the part of the silence that is a stall is added to the total."""
        looked_at, self._looked_at = self._looked_at, at
        if self._since is None or (self._opaque and not self._flowing):
            return Silent(0.0, 0.0)
        excused_until = self._since + max(STALL_SECONDS, EXCUSE * self._expected_seconds)
        if at > excused_until:
            self.stalled_seconds += at - max(excused_until, looked_at)
        return Silent(at - self._since, self._expected_seconds)

    def _await(self, key: Hashable, cost_seconds: float, at: float) -> None:
        self._pending[key] = cost_seconds
        self._pending_seconds += cost_seconds
        self._hear(key, at)

    def _unawait(self, key: Hashable) -> None:
        cost = self._pending.pop(key, None)
        if cost is not None:
            # Sums of fractions drift: nothing pending is exactly nothing.
            self._pending_seconds = max(0.0, self._pending_seconds - cost) if self._pending else 0.0

    def _hear(self, key: Hashable, at: float) -> None:
        self._heard.add(key)
        if self._since is None:
            self._begin(at)

    def _seen(self, key: Hashable, at: float) -> None:
        """If it was one whose output we did not see: until now it explains every silence, from now on none."""
        if self._opaque.pop(key, None) is not None:
            self._begin(at)

    def _begin(self, at: float) -> None:
        if self._heard:
            self._since = at
            self._expected_seconds = self._work_seconds

    @property
    def _flowing(self) -> bool:
        """Whether a stream that we read has begun. (Only such a one can be paused.)"""
        return len(self._heard) > len(self._pending)

    @property
    def _work_seconds(self) -> float:
        """Prefill work that may be pending now: of the unseen ones nobody knows whether theirs is done."""
        return self._pending_seconds + (sum(self._opaque.values()) if self._opaque else 0.0)

    def _settle(self) -> None:
        """Nobody is left whom the engine could speak to."""
        if not self._heard:
            self._since = None
