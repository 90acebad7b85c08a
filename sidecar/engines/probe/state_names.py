"""The form in which each engine's file declares how the engine names its state on its page of metrics. Holds no engines.

A declaration has the path, the names, the label that selects a series, and the labels of ranks that repeat the same counts.
It leaves out a name whose meaning differs from the sidecar's: that state stays unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Count(StrEnum):
    """The counters, under the sidecar's names. The last four are compared with the sidecar's sums (`agreement.py`)."""

    PREFIX_CACHE_QUERIES = "prefix_cache_queries"
    PREFIX_CACHE_HITS = "prefix_cache_hits"
    PREEMPTIONS = "preemptions"
    DRAFT_TOKENS = "draft_tokens"
    ACCEPTED_DRAFT_TOKENS = "accepted_draft_tokens"
    OUTPUT_TOKENS = "output_tokens"
    """Counted as they are made, not at the end of the request: a sign that the engine works."""
    REQUESTS = "requests"
    """Requests that ended well; each choice counts if the engine counts choices."""
    QUEUE_SECONDS = "queue"
    PREFILL_SECONDS = "prefill"
    DECODE_SECONDS = "decode"


class PageTime(StrEnum):
    """Times of single requests that a page has as histograms, in seconds by the engine's own clock."""

    FIRST_TOKEN = "first_token"  # noqa: S105  no password
    """From the arrival at its front end: the engine's own TTFT."""
    WHOLE = "whole"
    """From the arrival at its front end to the last token."""
    QUEUE = "queue"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Name:
    """One name on a page, and which of its series count."""

    name: str
    only: tuple[bytes, ...] = ()
    """`label="value"`: a series counts if one of these stands in its labels. None given: all do."""
    never: tuple[bytes, ...] = ()
    """`label="value"`: a series does not count if one of these stands in its labels."""

    def counts(self, labels: bytes) -> bool:
        """Whether a series with this label text counts. A quote inside a value is escaped, so none can imitate a label."""
        if self.only and not any(only in labels for only in self.only):
            return False
        return not any(never in labels for never in self.never)


@dataclass(frozen=True, slots=True)
class StateNames:
    path: str = "/metrics"
    waiting: Name | None = None
    before_workers: Name | None = None
    """Requests that wait in front of workers which have queues of their own: no engine's whole queue."""
    running: Name | None = None
    kv_cache_usage: Name | None = None
    awake: Name | None = None
    """0 while the engine sleeps: it was told to, and answers no request until it is woken."""
    counts: Mapping[Count, tuple[Name, ...]] = field(default_factory=dict)
    """Several names are summed; all of them must be on the page."""
    remarks: Mapping[Count, str] = field(default_factory=dict)
    """The engine's unit or term of a count, if it differs from the sidecar's: for docs/metrics.md."""
    same_ranks: tuple[str, ...] = ()
    """Labels of ranks that work on the same requests (tensor, pipeline): of series that differ only in these, one is used."""
    breakdown: str = ""
    """A label of partial series: if a series without the label has the whole, the parts are skipped."""

    times: Mapping[PageTime, str] = field(default_factory=dict)
    """Names of histograms: `sidecar diagnose` reads them from a Prometheus that scraped the engine."""
    paces: tuple[str, ...] = ()
    """Names of the histogram of times between two tokens, of this release and of earlier ones: `sidecar diagnose` reads the first there is."""

    def names(self) -> tuple[str, ...]:
        """Every name that is looked for, each once."""
        gauges = [
            name
            for name in (self.waiting, self.before_workers, self.running, self.kv_cache_usage, self.awake)
            if name is not None
        ]
        counters = [name for names in self.counts.values() for name in names]
        return tuple(dict.fromkeys(name.name for name in (*gauges, *counters)))


def finished_seconds(prefix: str) -> dict[Count, tuple[Name, ...]]:
    """Sums of the per-request histograms, as several engines name them after one of them."""
    return {
        Count.QUEUE_SECONDS: (Name(f"{prefix}request_queue_time_seconds_sum"),),
        Count.PREFILL_SECONDS: (Name(f"{prefix}request_prefill_time_seconds_sum"),),
        Count.DECODE_SECONDS: (Name(f"{prefix}request_decode_time_seconds_sum"),),
    }


def request_times(prefix: str) -> dict[PageTime, str]:
    """The histograms of single requests, as several engines name them after one of them."""
    return {
        PageTime.FIRST_TOKEN: f"{prefix}time_to_first_token_seconds",
        PageTime.WHOLE: f"{prefix}e2e_request_latency_seconds",
        PageTime.QUEUE: f"{prefix}request_queue_time_seconds",
        PageTime.PREFILL: f"{prefix}request_prefill_time_seconds",
        PageTime.DECODE: f"{prefix}request_decode_time_seconds",
    }


ENDED_BADLY = (b'finished_reason="abort"', b'finished_reason="error"', b'finished_reason="cancelled"')
"""Labels of requests that did not end well, if the engine counts them with the others."""
