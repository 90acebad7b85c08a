"""Readings of this pod for the roots of misses: its own counters, as they stand on the metrics page.

Knows which metric holds which number; so nothing is counted a second time on the hot path. Refuses to compare them
(`pod/`).
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from math import log, sqrt
from typing import Any

from sidecar.ledger.account import Source
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import INTER_TOKEN_BUCKETS, LANE
from sidecar.metrics.children import CounterChild, GaugeChild
from sidecar.metrics.registry import Family, Metrics
from sidecar.observe.evidence import Inside
from sidecar.pod.lateness import Lags
from sidecar.pod.reading import LaneCounts, Reading


_LOGS = (
    0.0,
    *(log(sqrt(low * high) / INTER_TOKEN_BUCKETS[0]) for low, high in pairwise(INTER_TOKEN_BUCKETS)),
    log(INTER_TOKEN_BUCKETS[-1] / INTER_TOKEN_BUCKETS[0]),
)
"""Logarithm of a gap in each bucket: of the bucket's middle, in units of the lowest edge."""


class PodReader:
    """Reads one registry."""

    def __init__(self, metrics: Metrics, *, by_spans: bool = False) -> None:
        """`by_spans`: no stream is seen, so that the mean pace of each answer stands in the place of its gaps."""
        self._own = metrics.counter(c.PREFILL_OWN_SECONDS_TOTAL)
        self._expected = metrics.counter(c.PREFILL_EXPECTED_SECONDS_TOTAL)
        self._late = metrics.histogram(c.EVENT_LOOP_LAG_SECONDS)
        self._preemptions = metrics.counter(c.ENGINE_PREEMPTIONS_TOTAL)
        self._restarts = metrics.counter(c.ENGINE_RESTARTS_TOTAL)
        self._stalled = metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL)
        self._up = metrics.gauge(c.ENGINE_UP)
        self._engine_stalled = metrics.gauge(c.ENGINE_STALLED)
        self._kv_usage = metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO)
        self._engine_waiting = metrics.gauge(c.ENGINE_REQUESTS_WAITING)
        self._engine_running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING)
        self._counters = {
            "arrivals": metrics.counter(c.REQUESTS_RECEIVED_TOTAL),
            "measured": metrics.counter(c.RECEIVED_MEASURED_REQUESTS_TOTAL),
            "received_tokens": metrics.counter(c.RECEIVED_PROMPT_TOKENS_TOTAL),
            "cached_tokens": metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL),
        }
        self._split = metrics.counter(c.PHASE_ATTRIBUTION_TOTAL)
        self._histograms = {
            ("answered", "prompt_tokens"): metrics.histogram(c.PROMPT_TOKENS),
            ("outputs", "output_tokens"): metrics.histogram(c.OUTPUT_TOKENS),
            ("reads", "events"): metrics.histogram(c.STREAM_EVENTS_PER_READ),
            ("gaps", "gap_seconds"): metrics.histogram(
                c.TIME_PER_OUTPUT_TOKEN_SECONDS if by_spans else c.INTER_TOKEN_SECONDS
            ),
            # One sample for each stream with output, at its end.
            ("streams", None): metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS),
        }
        """Fields of a lane's counts that hold number and sum."""

    def read(self, at: float, inside: Inside, *, long_prompts: bool) -> Reading:
        """The present values. `inside`: the requests in the engine at this instant. `long_prompts`: whether unusually long
        prompts were in it since the reading before.
        """
        up, stalled = self._gauge(self._up), bool(self._gauge(self._engine_stalled))
        return Reading(
            at=at,
            lanes=self._lanes(),
            reported=self._splits(reported=True),
            unreported=self._splits(reported=False),
            own_seconds=_total(self._own.children.values()),
            expected_seconds=_total(self._expected.children.values()),
            preemptions=_total(self._preemptions.children.values()),
            restarts=_total(self._restarts.children.values()),
            stalled_seconds=_total(self._stalled.children.values()),
            silent_seconds=inside.silent_seconds,
            excused_seconds=inside.excused_seconds,
            unseen_seconds=inside.unseen_seconds,
            # A stalled engine is not down: it is silent, and it has not restarted when it goes on.
            stalled=stalled,
            engine_up=None if up is None else up > 0 or stalled,
            kv_usage=self._gauge(self._kv_usage),
            engine_waiting=self.engine_waiting,
            engine_running=self._gauge(self._engine_running),
            waiting=inside.waiting,
            streaming=inside.streaming,
            long_prompts=long_prompts,
        )

    @property
    def engine_waiting(self) -> float | None:
        """Requests in the engine's own queue, as its page was last read; None: unknown."""
        return self._gauge(self._engine_waiting)

    @property
    def lags(self) -> Lags:
        """The seconds by which the loop's timers have fired late."""
        child = next(iter(self._late.children.values()), None)  # it has no labels
        return Lags() if child is None else Lags(child.sum, child.count)

    def _splits(self, *, reported: bool) -> float:
        sources = (Source.ENGINE, Source.DERIVED)
        return sum(child.value for child in self._split.children.values() if (child.labels[1] in sources) is reported)

    @staticmethod
    def _gauge(family: Family[GaugeChild]) -> float | None:
        return next((child.value for child in family.children.values()), None)

    def _lanes(self) -> dict[str, LaneCounts]:
        found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for name, counter in self._counters.items():
            of_lane = _place_of_lane(counter)
            for child in counter.children.values():
                found[child.labels[of_lane]][name] += child.value
        for (number, total), histogram in self._histograms.items():
            of_lane = _place_of_lane(histogram)
            for each in histogram.children.values():
                counts = found[each.labels[of_lane]]
                counts[number] += each.count
                if total is not None:
                    counts[total] += each.sum
        gaps = self._histograms["gaps", "gap_seconds"]
        of_lane = _place_of_lane(gaps)
        for each in gaps.children.values():
            logs = sum(log * count for log, count in zip(_LOGS, each.counts, strict=True) if count)
            found[each.labels[of_lane]]["gap_logs"] += logs
        return {lane: LaneCounts(**counts) for lane, counts in found.items()}


def _place_of_lane(family: Family[Any]) -> int:
    return [label.name for label in family.metric.labels].index(LANE.name)


def _total(children: Iterable[CounterChild]) -> float:
    return sum(child.value for child in children)
