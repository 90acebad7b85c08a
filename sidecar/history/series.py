"""Table of the series that pages and diagnoses use, with the labels and windows by which each is read.

Snapshots of the registry hold these metrics and no others, and the questions to Prometheus are written from the same lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info


NOW_SECONDS = 120.0
"""Window for roots while it burns, and for arrivals: the one closest to the minute of the engine's gauges."""
SHOWN_SECONDS = 300.0
"""Window for the numbers shown, for misses, and for their roots where the shorter one does not burn."""
LONG_SECONDS = 1800.0
"""Window for spikes, and for the end of an incident. Counters only: old snapshots have no histograms."""
WINDOWS = (NOW_SECONDS, SHOWN_SECONDS, LONG_SECONDS)

_NOW, _SHOWN = (NOW_SECONDS,), (SHOWN_SECONDS,)
_ON_PAGE = ()


@dataclass(frozen=True, slots=True)
class GrowthSeries:
    metric: Counter | Histogram
    labels: tuple[str, ...]
    """Summed over all others."""
    windows: tuple[float, ...]
    """Windows of the diagnosis; none if only the status page or the runbooks read it."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Only children with these label values."""
    buckets: bool = True
    """For a histogram: queries to Prometheus include its buckets, besides sum and count."""


_LANE = ("model", "lane")
_OBJECTIVE = (*_LANE, "objective")

GROWTH_SERIES = (
    GrowthSeries(c.SLO_REQUESTS_TOTAL, (*_LANE, "prompt_bucket", "objective"), WINDOWS),
    GrowthSeries(c.SLO_MISSES_TOTAL, _OBJECTIVE, WINDOWS),
    GrowthSeries(c.SLO_ALLOWED_MISSES_TOTAL, _OBJECTIVE, WINDOWS),
    GrowthSeries(c.SLO_BLAMED_MISSES_TOTAL, (*_OBJECTIVE, "phase"), _SHOWN),
    GrowthSeries(c.SLO_ROOT_MISSES_TOTAL, (*_OBJECTIVE, "phase"), (*_NOW, *_SHOWN)),
    GrowthSeries(c.SLO_ROOT_CAUSE_MISSES_TOTAL, ("model", "phase", "cause"), (*_NOW, *_SHOWN)),
    GrowthSeries(c.REQUESTS_RECEIVED_TOTAL, _LANE, (*_NOW, *_SHOWN)),
    GrowthSeries(c.UNCACHED_PROMPT_TOKENS_TOTAL, _LANE, _SHOWN),
    GrowthSeries(c.CACHED_PROMPT_TOKENS_TOTAL, _LANE, _SHOWN),
    GrowthSeries(c.ENGINE_PREEMPTIONS_TOTAL, (), _SHOWN),
    GrowthSeries(c.REQUESTS_TOTAL, (*_LANE, "outcome"), _SHOWN),
    GrowthSeries(c.PHASE_ATTRIBUTION_TOTAL, ("lane", "source", "reason"), _SHOWN),
    GrowthSeries(c.TIME_TO_FIRST_TOKEN_SECONDS, _LANE, _SHOWN),
    GrowthSeries(c.INTER_TOKEN_SECONDS, _LANE, _SHOWN),
    GrowthSeries(c.REQUEST_SECONDS, _LANE, _SHOWN, {"streaming": "true"}),
    GrowthSeries(c.REQUEST_PHASE_SECONDS, (*_LANE, "phase", "source"), _SHOWN, {"streaming": "true"}),
    GrowthSeries(c.REQUEST_PHASE_PART_SECONDS, (*_LANE, "phase", "part"), _SHOWN, buckets=False),
    GrowthSeries(c.PROMPT_TOKENS, _LANE, _SHOWN, buckets=False),
    GrowthSeries(c.OUTPUT_TOKENS, _LANE, _SHOWN, buckets=False),
    GrowthSeries(c.RECEIVED_PROMPT_TOKENS_TOTAL, ("model",), _ON_PAGE),
    GrowthSeries(c.TIME_PER_OUTPUT_TOKEN_SECONDS, _LANE, _ON_PAGE),
    GrowthSeries(c.CLIENT_CANCELS_TOTAL, (*_LANE, "stage"), _ON_PAGE),
    GrowthSeries(c.STREAM_PAUSED_SECONDS_TOTAL, ("lane",), _ON_PAGE),
    GrowthSeries(c.STREAM_READS_TOTAL, ("lane", "result"), _ON_PAGE),
    GrowthSeries(c.STATED_PROMPTS_TOTAL, _LANE, _ON_PAGE),
    GrowthSeries(c.STATED_PROMPT_TOKENS_TOTAL, _LANE, _ON_PAGE),
    GrowthSeries(c.ENGINE_CONNECT_SECONDS, ("lane",), _ON_PAGE),
    GrowthSeries(c.KV_TRANSFER_SECONDS, ("model",), _ON_PAGE),
    GrowthSeries(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL, (), _ON_PAGE),
    GrowthSeries(c.ENGINE_PREFIX_CACHE_HITS_TOTAL, (), _ON_PAGE),
    GrowthSeries(c.ENGINE_RESTARTS_TOTAL, (), _ON_PAGE),
    GrowthSeries(c.EVENT_LOOP_CHECKS_TOTAL, ("result",), _ON_PAGE),
    GrowthSeries(c.TIMED_READS_TOTAL, ("result",), _ON_PAGE),
    GrowthSeries(c.DROPPED_TOTAL, ("reason",), _ON_PAGE),
    GrowthSeries(c.FAILURES_TOTAL, ("reason",), _SHOWN),
    GrowthSeries(c.LABEL_OVERFLOW_TOTAL, ("label",), _ON_PAGE),
)


@dataclass(frozen=True, slots=True)
class GaugeSeries:
    metric: Gauge | Info
    labels: tuple[str, ...] = ()
    reduce: str = "max"
    """How children and pods are combined: `sum`, `max` or `min`."""
    minute: bool = False
    """The mean of the last minute is used instead of the value now."""
    peak: bool = False
    """Its highest value within the long window is known too. Only for a gauge without labels."""
    age: bool = False
    """An age, which is read as the Unix time at which it was 0: of this process's clock, or of Prometheus'."""
    diagnosed: bool = True
    """The diagnosis reads it, so that Prometheus is asked for it too; else only the runbooks do."""


GAUGE_SERIES = (
    GaugeSeries(c.ENGINE_UP, reduce="min"),
    GaugeSeries(c.ENGINE_STALLED, reduce="max"),
    GaugeSeries(c.ENGINE_REQUESTS_WAITING, reduce="sum", minute=True),
    GaugeSeries(c.ENGINE_REQUESTS_RUNNING, reduce="sum", minute=True, peak=True),
    GaugeSeries(c.ENGINE_KV_CACHE_USAGE_RATIO, minute=True),
    GaugeSeries(c.REQUESTS_IN_FLIGHT, ("model", "lane", "state"), "sum", minute=True),
    GaugeSeries(c.SLO_THRESHOLD_SECONDS, ("lane", "prompt_bucket", "objective"), "min"),
    GaugeSeries(c.ENGINE_REPORT_AGREEMENT_RATIO, ("phase",), "min"),
    GaugeSeries(c.ENGINE_TRAFFIC_SEEN_RATIO, reduce="min"),
    GaugeSeries(c.WITHOUT_PROXY, reduce="min"),
    GaugeSeries(c.SLO_UNDECIDED_MISSES, _OBJECTIVE, "sum"),
    GaugeSeries(c.INCIDENT_AGE_SECONDS, ("phase", "cause"), "min", age=True),
    GaugeSeries(c.INCIDENT_SHOWN_AGE_SECONDS, ("phase", "cause"), age=True),
    GaugeSeries(c.INCIDENT_CONFIDENCE_RATIO, ("phase", "cause"), "min"),
    GaugeSeries(c.INCIDENT_SIZE_RATIO, ("phase", "cause", "per")),
    GaugeSeries(c.INCIDENT_SIZE_RATIO_LOW, ("phase", "cause", "per")),
    GaugeSeries(c.INCIDENT_SIZE_RATIO_HIGH, ("phase", "cause", "per")),
    GaugeSeries(c.EVIDENCE_RATIO, ("cause",)),
    GaugeSeries(c.ENGINE_COST_RATIO, ("part",)),
    GaugeSeries(c.ENGINE_COST_RATIO_LOW, ("part",)),
    GaugeSeries(c.ENGINE_COST_RATIO_HIGH, ("part",)),
    GaugeSeries(c.ENGINE_COST_UNKNOWN, ("part", "reason")),
    GaugeSeries(c.ENGINE_SILENCE_SECONDS, diagnosed=False),
    GaugeSeries(c.ENGINE_SILENCE_EXPECTED_SECONDS, diagnosed=False),
    GaugeSeries(c.BASELINE_INFO, ("source", "provisional"), diagnosed=False),
    GaugeSeries(c.CONFIG_LAST_RELOAD_SUCCESSFUL, reduce="min", diagnosed=False),
    GaugeSeries(c.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS, diagnosed=False),
    GaugeSeries(c.OPEN_LEDGERS, diagnosed=False),
    GaugeSeries(c.SERIES, diagnosed=False),
)
PEAK_GAUGES = tuple(series.metric.name for series in GAUGE_SERIES if series.peak)
