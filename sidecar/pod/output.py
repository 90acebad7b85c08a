"""The output of one pod, beside what the requests that came and the streams that ended usually bring. Pure.

Answers that have ended tell late that answers are longer: output that is still being sent tells it sooner. It knows the
traffic of slices (`lanes.py`). It refuses to know what else has grown (`pod.py`).
"""

from collections import deque
from typing import ClassVar

from sidecar.pod.causes import WORTH_NAMING, Cause
from sidecar.pod.factor import Factor, clearest
from sidecar.pod.lanes import Brought
from sidecar.pod.reading import READING_SECONDS
from sidecar.pod.usual.comparison import COMPARED_SECONDS, KEPT_SLICES, RECENT_SECONDS, Comparison
from sidecar.pod.usual.learner import Inner, Learner


class Output(Learner):
    """Output tokens of ended answers, and output events of all streams."""

    KEPT: ClassVar = {"_ended": Inner(Comparison), "_sent": Inner(Comparison)}

    def __init__(self) -> None:
        self._ended = Comparison()
        self._sent = Comparison()
        self._unexpected_events = 0.0
        """Output since the last arrival: it counts beside the next, or thin traffic would seem to send little."""
        self._slices: deque[tuple[float, Brought]] = deque(maxlen=KEPT_SLICES)
        self._streaming = 0.0

    def teach_after(self, calm_seconds: float) -> None:
        """See `Pod.teach_after`."""
        self._ended.calm_after_seconds = self._sent.calm_after_seconds = calm_seconds

    def add(self, at: float, brought: Brought, *, streaming: float, calm: bool) -> None:
        """A slice ended at this instant, with so many streams in flight. `calm`: no objective burns."""
        self._slices.append((at, brought))
        self._streaming = streaming
        self._ended.add(at, brought.output_tokens, brought.usual_output_tokens, calm=calm)
        sent_events = self._unexpected_events + brought.sent_events
        self._unexpected_events = 0.0 if brought.work > 0.0 else sent_events
        self._sent.add(at, sent_events, brought.usual_sent_events, calm=calm)

    def longer(self, at: float, queued_since: float | None, events_a_token: float = 1.0) -> Factor | None:
        """Output tokens of an answer, over the usual ones: by answers that have ended or, sooner, by output that is clearly
        more than the requests that came usually bring. `queued_since`: beginning of the oldest backlog of the last minute.
        `events_a_token`: so many times the usual events that a token takes: more events are then no more tokens.

        An engine that is slow sends no more, and one that works off a backlog sends what came since the backlog began. Where
        fewer requests come than before, or more of them as streams, it sends no more than the streams that end usually bring.
        Slices are forgotten: of an older backlog, output tells nothing.
        """
        ended = self._ended.since(at - RECENT_SECONDS)
        starts = [
            at - seconds if queued_since is None else min(at - seconds, queued_since) for seconds in COMPARED_SECONDS
        ]
        if min(starts) < at - KEPT_SLICES * READING_SECONDS:
            return ended
        sent = (_at_most(self._sent.since(start), self._per_stream(start), events_a_token) for start in starts)
        clear = [each for each in sent if each is not None and each.low > 1.0]
        return clearest([ended, *clear], WORTH_NAMING[Cause.LONGER_OUTPUTS])

    def _per_stream(self, since: float) -> float:
        """Output since then, over what the streams usually bring that have ended since then or are in flight: less than the
        true ratio, as some of it was sent before or is still to come.
        """
        recent = [brought for at, brought in self._slices if at > since]
        in_flight = max(1.0, self._streaming) * recent[-1].stream_events if recent else 0.0
        usual = in_flight + sum(each.ended_events for each in recent)
        return sum(each.sent_events for each in recent) / usual if usual > 0.0 else 0.0


def _at_most(factor: Factor | None, value: float, events_a_token: float) -> Factor | None:
    return None if factor is None else Factor(*(min(each, value) / events_a_token for each in factor))
