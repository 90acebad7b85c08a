"""Faults of the engine that have a beginning and an end: down, restart, silence. Pure.

It knows readings of one pod. It refuses to know misses: a fault claims those whose life it overlaps (`reasons.py`).
"""

from collections import deque
from dataclasses import replace
from math import inf

from sidecar.pod.causes import Cause
from sidecar.pod.reading import READING_SECONDS, Reading
from sidecar.pod.signs import Fault


COLD_SECONDS = 60.0
"""Time after a restart for which the new process may be blamed; longer while its work is dearer without a break."""
STILL_COLD_SECONDS = 15.0
LONGEST_COLD_SECONDS = 300.0
"""Work that is still dearer so long after a restart is no warming up."""
KEPT_FAULTS = 16


class Faults:
    """The latest faults of one engine."""

    def __init__(self) -> None:
        self._kept: deque[Fault] = deque(maxlen=KEPT_FAULTS)

    def since(self, at: float) -> tuple[Fault, ...]:
        """All faults that ended after this instant, or have not ended, oldest first."""
        return tuple(each for each in self._kept if each.ended_at > at)

    def note(self, last: Reading, now: Reading, *, dearer: bool) -> None:
        """Compare a reading with the one before it. `dearer`: steps or prompts cost more than usually."""
        if now.engine_up is False and self._open(Cause.DOWN) is None:
            self._kept.append(Fault(Cause.DOWN, last.at))
        elif now.engine_up:
            self._end(Cause.DOWN, now.at)
        if (now.engine_up and last.engine_up is False) or now.restarts > last.restarts:
            self._kept.append(Fault(Cause.RESTART, last.at, now.at + COLD_SECONDS))
        if now.stalled or now.stalled_seconds > last.stalled_seconds:
            if self._open(Cause.SILENCE) is None:
                self._kept.append(Fault(Cause.SILENCE, now.at - max(now.silent_seconds, READING_SECONDS)))
        elif now.silent_seconds < READING_SECONDS:
            self._end(Cause.SILENCE, now.at)
        if dearer:
            self._stay_cold(now.at)

    def _stay_cold(self, at: float) -> None:
        for place, each in enumerate(self._kept):
            if each.cause is Cause.RESTART and at <= each.ended_at:
                self._kept[place] = replace(
                    each,
                    ended_at=max(each.ended_at, min(at + STILL_COLD_SECONDS, each.began_at + LONGEST_COLD_SECONDS)),
                )

    def _open(self, cause: Cause) -> Fault | None:
        return next((each for each in self._kept if each.cause is cause and each.ended_at == inf), None)

    def _end(self, cause: Cause, at: float) -> None:
        opened = self._open(cause)
        if opened is not None:
            self._kept[self._kept.index(opened)] = replace(opened, ended_at=at)
