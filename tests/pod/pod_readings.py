"""A pod in readings: `Story().reads(4, gap=0.06)` returns its signs after 20 s in which gaps were three times as long."""

from dataclasses import replace
from math import log

from sidecar.pod.causes import Cause
from sidecar.pod.factor import Factor
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.reading import READING_SECONDS, LaneCounts, Reading
from sidecar.pod.signs import Signs


CALM = 60
"""Readings of five minutes."""
USUAL = Factor(1.0, 0.95, 1.05)
DEAR = Factor(2.0, 1.8, 2.2)
SHORTEST_GAP = 0.0001
"""Seconds."""


class Story:
    """Readings of a pod with ten requests in each, of 100 prompt tokens (40 cached) and 50 output tokens."""

    def __init__(self, tokens_an_event: float = 1.0) -> None:
        """`tokens_an_event`: usual tokens of an output event, more than one where the engine speculates."""
        self.pod = Pod()
        self._tokens_an_event = tokens_an_event
        self.costs = Costs((USUAL, USUAL), (USUAL, USUAL))
        self.last = Reading(0.0, engine_up=True)
        self._counts = LaneCounts()
        self.reads(CALM, calm=True)

    def reads(
        self,
        count: int = 4,
        *,
        calm: bool = False,
        requests: float = 10.0,
        arriving: float = 1.0,
        prompt: float = 100.0,
        cached: float = 40.0,
        output: float = 50.0,
        together: float = 1.0,
        sent: float = 1.0,
        ended: float = 1.0,
        own: float = 1.0,
        gap: float = 0.02,
        typical: float | None = None,
        reported: bool = True,
        tokens_an_event: float | None = None,
        **stated: float | bool | None,
    ) -> Signs:
        """So many readings; returns the signs at the last one. `own`: prefill seconds; `arriving`: share of the requests
        that come now, and not before; `together`: output events per read;
        `tokens_an_event`: of the answers that end, the usual ones unless told; `sent`: output events, and `ended`: streams that end, times the usual; `typical`: geometric mean of the gaps, the mean unless told; `stated`: fields of `Reading`, in which
        counters state their growth.
        """
        for number in range(count):
            wave = 1.0 + 0.1 * (-1) ** number
            came = requests * wave
            grown = (
                came * arriving,
                came * arriving,
                came * arriving * prompt,
                came,
                came * prompt,
                came * cached,
                came,
                came * output,
                came * sent / together,
                came * sent,
                came * output,
                came * output * gap * wave,
                came * output * log((typical or gap) * wave / SHORTEST_GAP),
                came * ended,
            )
            self._counts = LaneCounts(*(old + new for old, new in zip(self._counts, grown, strict=True)))
            counted = {
                name: getattr(self.last, name) + stated.get(name, 0.0)
                for name in ("restarts", "stalled_seconds", "preemptions")
            }
            self.last = replace(
                self.last,
                at=self.last.at + READING_SECONDS,
                lanes={"chat": self._counts},
                own_seconds=self.last.own_seconds + own * wave * bool(requests),
                expected_seconds=self.last.expected_seconds + bool(requests),
                reported=self.last.reported + (came if reported else 0.0),
                unreported=self.last.unreported + (0.0 if reported else came),
                **{**stated, **counted},
            )
            self.pod.answered_events += 1000
            self.pod.answered_tokens += round(1000 * (tokens_an_event or self._tokens_an_event))
            self.pod.read(self.last, self.costs, calm=calm)
        return self.pod.signs(self.last.at, self.costs)


def grown(signs: Signs, threshold: float = 1.3) -> set[Cause]:
    """Causes whose whole interval is above the threshold."""
    return {cause for cause, factor in signs.grown.items() if factor.low > threshold}
