"""Readiness: whether traffic may come, from the engine's first answer until the end of shutdown.

Pure; instants are passed in. Readiness latches once the engine has answered. After that it drops only if several health
checks in a row (3) have failed *and* no byte has come from the engine for some time (15 s): an engine that streams to a
hundred clients and is too busy for `/health` is not down, and removing its pod would only move the overload to the next
one. It drops as well while the engine is stalled: silent for longer than its pending work explains (`pod/liveness/progress.py`), and while
the pool behind it is gone (`engines/pool_behind.py`).
"""

from enum import StrEnum


FAILED_CHECKS = 3
SILENCE_SECONDS = 15.0
"""Longer than any health check interval, shorter than the time a user waits before trying again."""


class Life(StrEnum):
    """The state of the process between start and stop."""

    SERVING = "serving"
    LAME_DUCK = "lame_duck"
    """Not ready, but still accepting connections: load balancers have to notice first."""
    DRAINING = "draining"
    """Accepting no new connections; requests in flight may finish."""


class Readiness:
    """The state behind `/-/ready`: whether traffic may come, and the reason."""

    def __init__(self, *, carries_traffic: bool = True) -> None:
        """`carries_traffic`: False where none passes here, so that no failure of the engine is a reason to keep it away."""
        self._carries_traffic = carries_traffic
        self.life = Life.SERVING
        self.stalled: str | None = None
        """The reason why the engine is taken to have stopped in the middle of its work, or its pool to be gone; None while it is not."""
        self._answered = False
        self._failed_in_a_row = 0
        self._heard_at = float("-inf")

    def answered(self, at: float) -> None:
        """The engine's health check succeeded."""
        self._answered = True
        self._failed_in_a_row = 0
        self._heard_at = max(self._heard_at, at)

    def failed(self) -> None:
        """The engine's health check failed or took too long."""
        self._failed_in_a_row += 1

    def heard(self, at: float) -> None:
        """A byte came from the engine at this instant."""
        self._heard_at = max(self._heard_at, at)

    def ready(self, at: float) -> tuple[bool, str]:
        """Whether traffic may come now, and the reason in words."""
        if self.life is not Life.SERVING:
            return False, f"shutting down ({self.life.value})"
        if not self._carries_traffic:
            return True, "ready: no traffic passes here, spans are taken"
        if not self._answered:
            return False, "the engine has not answered yet"
        silent_seconds = at - self._heard_at
        if self._failed_in_a_row >= FAILED_CHECKS and silent_seconds > SILENCE_SECONDS:
            return (
                False,
                f"the engine failed {self._failed_in_a_row} health checks and has been silent for {silent_seconds:.0f} s",
            )
        return (True, "ready") if self.stalled is None else (False, self.stalled)
