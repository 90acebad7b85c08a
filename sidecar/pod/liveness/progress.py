"""Whether the engine makes progress: its silence, judged against the work that explains it. Pure.

`silence.py` measures how long no output came and how much of that the pending prompts explain. This module makes a state
of it: fine, unsure, or stalled. It counts a silence only while the sidecar's own loop turns on time, because unread output
is no silence. It keeps a stall until the engine shows life (output, an answer, growth of its own counts, or a request less that it says it
runs) or restarts, as clients who give up prove nothing. It refuses to claim
anything where the wire cannot show it: each such state has its reason. It calls nothing proven where the engine's own count
of its output is not read: such an engine may load a model before any first output, or work on an answer that comes whole.
Nor is a silence proven in which no stream had begun: an engine may prepare a request for minutes before its first output
(compile its grammar, fetch its image, load its adapter), and no count grows meanwhile.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from math import inf

from sidecar.pod.liveness.silence import (
    LATE_LOOK_SECONDS,
    STALL_SECONDS,
    UNKNOWN_SECONDS,
    Flow,
    Silent,
    excused_seconds,
)
from sidecar.pod.liveness.still_counts import StillCounts


PROVEN_SECONDS = 30.0
"""Silence beyond the engine's work after which its container may be restarted."""
LATE_KEPT_SECONDS = 5.0
"""So long after a late turn of the loop nothing new is claimed or proven: what came meanwhile has to be read first."""
YOUNG_SECONDS = 30.0
"""So long after the start of the sidecar or of the engine nothing is claimed: the first requests of an engine warm it up."""
LEAVES_SECONDS = 20.0, 60.0
"""So long after the last output a pod with a stalled engine leaves its Service. A pod that is one of several leaves after a time drawn between
both, so that pods behind one shared cause do not leave at one instant; any other after the longer one."""
KEPT_SECONDS = 300.0
"""So long after its last silent request has left, an engine whose stall is not proven, so that no probe restarts it, gets traffic again, since
without a request it can show no life. The stall stays told."""


_LATE = "the sidecar's own event loop was late: output may wait to be read"
_NOT_COUNTED = "the engine's own count of its output is not read"
_NOT_BEGUN = "no stream had begun, and the engine may still prepare a first output"


class State(StrEnum):
    """The claim about the engine's progress."""

    FINE = "fine"
    UNSURE = "unsure"
    """No claim is made; the reason says why."""
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class Progress:
    """The answer at one instant, in words for operators. Durations in seconds."""

    state: State
    reason: str
    silent_seconds: float = 0.0
    """Time without output, seen by a loop that turned on time, while at least one stream was read."""
    explained_seconds: float = 0.0
    """As much of a silence as the pending prompts explain."""
    beyond_seconds: float = 0.0
    """Proven silence beyond that, summed since the engine's last sign of life; 0 while nothing can be proven."""

    @property
    def stalled(self) -> bool:
        return self.state is State.STALLED

    @property
    def proven(self) -> bool:
        """Whether the stall has lasted so long that the engine's container may be restarted."""
        return self.stalled and self.beyond_seconds >= PROVEN_SECONDS

    def as_json(self) -> dict[str, str | float]:
        """The answer of `/-/engine`; seconds to a tenth."""
        return {name: value if isinstance(value, str) else round(value, 1) for name, value in asdict(self).items()}


class ForwardProgress:
    """The progress of one engine. Call `look` about once a second; further calls between these change nothing."""

    def __init__(self, at: float) -> None:
        self._young_until = at + YOUNG_SECONDS
        self._looked_at = at
        self._late_until = -inf
        self._quiet_seconds = 0.0
        """The present silence, as far as the loop turned on time."""
        self._beyond_seconds = 0.0
        self._stalled_at: float | None = None
        self._since = self._seen_at = -inf
        """Beginning of the stalled silence, and the last instant at which it exceeded its work."""
        self._ran = 0.0
        """The most requests that it said it runs in this stall."""
        self._longest_seconds = 0.0
        """Length of the silence that proved the stall."""
        self._counts = StillCounts()
        self._in_the_middle = False
        """Whether a stream that had begun has stopped in this stall."""

    def began(self, at: float) -> None:
        """The engine came up, or was seen to restart: the old process's silence is not the new one's."""
        self._young_until = at + YOUNG_SECONDS
        self._recover()
        self._quiet_seconds = 0.0

    def look(
        self,
        at: float,
        flow: Flow,
        *,
        counted: bool,
        grew_at: float = -inf,
        running: float | None = None,
        loads: bool = False,
        doubt: str | None = None,
    ) -> Progress:
        """The progress at this instant. `counted`: the engine's own count of its output is read. `grew_at`: when its own
        counts of its work last grew. `running`: the requests that it says it runs; None if unknown. `loads`: it may load a model for a
        request, whatever a prompt costs. `doubt`: a reason of the caller for which no claim can be made; None if there is none.
        """
        passed, self._looked_at = at - self._looked_at, at
        if passed > LATE_LOOK_SECONDS:
            self._late_until = at + LATE_KEPT_SECONDS
            passed = 0.0
        self._quiet_seconds = min(self._quiet_seconds + passed, flow.quiet_seconds, at - grew_at)
        still = self._counts.look(at, passed, flow, running=running if counted else None, grew_at=grew_at)
        waits = not counted and flow.read > 0 and flow.begun <= 0
        explained = _explained_seconds(flow, unknown=waits and (loads or not flow.cost_known))
        if self._stalled_at is not None:
            self._ran = max(self._ran, running or 0.0)
            if max(flow.spoke_at, grew_at) > self._stalled_at or (running is not None and running < self._ran):
                self._recover()
        if doubt is None and at < self._young_until:
            doubt = "the sidecar or the engine has just begun: its first requests may take longer"
        late = _LATE if at < self._late_until else None
        doubt = late if doubt is None and self._stalled_at is None else doubt
        if doubt is not None:
            return self._told(State.UNSURE, doubt, explained)
        blind = waits and flow.behind_unseen
        # A silence of 0 s is one that a request may explain whose output is not seen.
        beyond = 0.0 if blind or flow.silent.seconds <= 0.0 else self._quiet_seconds - explained
        self._in_the_middle = self._in_the_middle or (beyond > 0.0 and flow.begun > 0)
        unproven = _NOT_COUNTED if not counted else late if self._in_the_middle else _NOT_BEGUN
        work = "it has shown no life since"
        if beyond > 0.0:
            self._goes_on(at, self._quiet_seconds, 0.0 if unproven is not None else min(passed, beyond))
            work = f"its pending work explains {explained:.0f} s"
        elif still > 0.0:
            self._goes_on(at, self._counts.quiet_seconds, 0.0)
            work = f"its own counts stand still too, its pending work explains {self._counts.explained_seconds:.0f} s"
        if self._stalled_at is None:
            return self._told(*_unstalled(flow, self._quiet_seconds, explained, blind=blind), explained)
        why = f"the engine has stopped in the middle of its work: no output for {self._longest_seconds:.0f} s, {work}"
        if unproven is None:
            return self._told(State.STALLED, why, explained)
        return self._told(State.STALLED, f"{why} (not proven: {unproven})", explained, 0.0)

    def keeps_away(self, at: float, after_seconds: float) -> bool:
        """Whether the engine is stalled, and its last output so long ago, that the pod should get no traffic."""
        proven = self._beyond_seconds >= PROVEN_SECONDS
        lasts = self._stalled_at is not None and (proven or at - self._seen_at <= KEPT_SECONDS)
        return lasts and at - self._since >= after_seconds

    def _goes_on(self, at: float, silent_seconds: float, proven_seconds: float) -> None:
        """A silence of so many seconds exceeds its work at this instant; `proven_seconds` of it are proven anew."""
        if self._stalled_at is None:
            self._stalled_at, self._since = at, at - silent_seconds
        self._seen_at, self._longest_seconds = at, silent_seconds
        self._beyond_seconds += proven_seconds

    def _told(self, state: State, reason: str, explained: float, beyond: float | None = None) -> Progress:
        return Progress(
            state, reason, self._quiet_seconds, explained, self._beyond_seconds if beyond is None else beyond
        )

    def _recover(self) -> None:
        self._stalled_at = None
        self._ran = 0.0
        self._beyond_seconds = self._longest_seconds = 0.0
        self._in_the_middle = False


def _explained_seconds(flow: Flow, *, unknown: bool) -> float:
    """Seconds of this silence that the pending work explains. `unknown`: besides the prompts a model may be loading."""
    least = excused_seconds(Silent(0.0, UNKNOWN_SECONDS)) if unknown else 0.0
    return max(least, excused_seconds(flow.silent))


def _unstalled(flow: Flow, quiet: float, explained: float, *, blind: bool) -> tuple[State, str]:
    """State and reason of an engine whose silence does not exceed its work. `blind`: an unseen request may be that work."""
    unseen_seconds = quiet if blind else flow.silent.unseen_seconds
    if unseen_seconds > STALL_SECONDS or (flow.unseen and not flow.read):
        return State.UNSURE, "requests are in flight whose output is not seen before they end"
    if flow.read:
        if quiet > STALL_SECONDS:
            return State.FINE, f"silent for {quiet:.0f} s: its pending prompts explain {explained:.0f} s"
        return State.FINE, "no output is overdue"
    if flow.paused:
        return State.UNSURE, "the clients of all streams do not read"
    return State.FINE, "idle: it has no request that the sidecar knows of"


def idle() -> Flow:
    """An engine without requests."""
    return Flow(Silent(0.0, 0.0))
