"""Whether work costs as much as usually, so that a fault that no objective notices does not become usual. Pure.

What costs more for long becomes usual in three ways: an engine of another version, model or GPU begins anew (`observe/baselines.py`), a
person deletes the file of usual values, or it has lasted for a week in which no objective burned. It knows seconds and expected seconds. It
refuses to know steps (`step_model.py`).
"""

USUAL = 1.25
"""While recent work costs more than this many times its usual cost, or less than one over it, it teaches nothing: a
fault must not become usual because no objective notices it."""
LASTING_SECONDS = 7 * 86_400.0
"""After this time at another cost without a burning objective, the other cost is the usual one."""


class CostGuard:
    """Whether recent work costs as much as usually, so that it may teach."""

    def __init__(self, size: int) -> None:
        """`size`: steps or stretches that are compared at once."""
        self._size = size
        self._recent: list[tuple[float, float]] = []
        self._odd_since: float | None = None
        self.usual = True
        """Whether the work that was compared last cost as much as usually."""

    def relearns(self, at: float, seconds: float, expected: float, *, learning: bool) -> bool:
        """Take in some work. True once another cost has lasted for LASTING_SECONDS: what comes now is usual."""
        self._recent.append((seconds, expected))
        if len(self._recent) < self._size:
            return False
        ratio = sum(each[0] for each in self._recent) / max(sum(each[1] for each in self._recent), 1e-9)
        self._recent.clear()
        self.usual = 1 / USUAL <= ratio <= USUAL
        if self.usual or not learning:
            self._odd_since = None
        elif self._odd_since is None:
            self._odd_since = at
        elif at - self._odd_since >= LASTING_SECONDS:
            self._odd_since, self.usual = None, True
            return True
        return False
