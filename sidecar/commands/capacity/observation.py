"""Reads load and service from pages of metrics: pure functions from text to numbers.

From the sidecar's page it reads the names of docs/metrics.md; from an engine's page, the one metric that states the
cache. A gauge that is not on the page is None. Counters are compared between readings of one process; a counter that
fell means a restart, and the window is refused.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.service import Exposure
from sidecar.engines.kinds import KINDS


FEWEST_REQUESTS = 50
"""With fewer requests a mean wait is noise: its standard error is about the mean over the root of their number."""
LEAST_OWN_SHARE = 0.4
"""If the own prefill seconds are below this share of the reported ones, not all prompts were counted (the sidecar was
still learning the cost of prefill), and the reported ones are used."""
_NAMES = (
    "llm_requests_received_total",
    "llm_requests_total",
    "llm_requests_in_flight",
    "llm_request_phase_seconds_sum",
    "llm_request_phase_seconds_count",
    "llm_request_phase_seconds_bucket",
    "llm_prefill_own_seconds_total",
    "llm_engine_requests_running",
    "llm_engine_requests_waiting",
    "llm_engine_kv_cache_usage_ratio",
    "process_start_time_seconds",
)
CACHE_INFOS = {kind.cache_info: kind.title for kind in KINDS.values() if kind.cache_info}
"""Name of the metric that states the cache, mapped to the engine that exposes it."""
CACHE_INFO = " or ".join(CACHE_INFOS)


@dataclass(frozen=True, slots=True)
class Reading:
    """One page of a sidecar. Counters are absolute values; None: not on the page."""

    at: float
    """Seconds on any clock that does not jump."""
    received: float
    ended: float
    ok: float
    in_flight: float
    queue_seconds: float
    queue_count: float
    queue_estimated: float
    """The part of `queue_count` that the sidecar estimated itself."""
    prefill_seconds: float
    prefill_count: float
    own_prefill_seconds: float
    prefill_buckets: Mapping[float, float] = field(default_factory=dict)
    """Maps a bucket's upper edge in seconds to its cumulative count."""
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    started: float | None = None
    """Unix time at which the process started."""


def read_sidecar(page: str, at: float) -> Reading:
    """Read one page. Raises ValueError if it is not a sidecar's page."""
    samples = list(_samples(page, _NAMES))

    def total(name: str, **labels: str) -> float:
        return sum(value for found, said, value in samples if found == name and labels.items() <= said.items())

    def gauge(name: str) -> float | None:
        return next((value for found, _, value in samples if found == name), None)

    if gauge("llm_requests_received_total") is None:
        raise ValueError("is no /metrics page of a sidecar: llm_requests_received_total is not on it")
    buckets: defaultdict[float, float] = defaultdict(float)
    for name, said, value in samples:
        if name == "llm_request_phase_seconds_bucket" and said["phase"] == "prefill" and said["streaming"] == "true":
            buckets[float(said["le"])] += value
    count, seconds = "llm_request_phase_seconds_count", "llm_request_phase_seconds_sum"
    return Reading(
        at,
        received=total("llm_requests_received_total"),
        ended=total("llm_requests_total"),
        ok=total("llm_requests_total", outcome="ok") + total("llm_requests_total", outcome="accepted"),
        in_flight=total("llm_requests_in_flight"),
        queue_seconds=total(seconds, phase="queue"),
        queue_count=total(count, phase="queue"),
        queue_estimated=total(count, phase="queue", source="estimated"),
        prefill_seconds=total(seconds, phase="prefill", streaming="true"),
        prefill_count=total(count, phase="prefill", streaming="true"),
        own_prefill_seconds=total("llm_prefill_own_seconds_total"),
        prefill_buckets=buckets,
        running=gauge("llm_engine_requests_running"),
        waiting=gauge("llm_engine_requests_waiting"),
        kv_usage=gauge("llm_engine_kv_cache_usage_ratio"),
        started=gauge("process_start_time_seconds"),
    )


def since_start(reading: Reading, age_seconds: float) -> list[Reading]:
    """A window over the whole life of the process: it begins at the start, when all counters were 0."""
    counters = ("received", "ended", "ok", "in_flight", "queue_seconds", "queue_count", "queue_estimated")
    prefill = ("prefill_seconds", "prefill_count", "own_prefill_seconds")
    zero = dict.fromkeys((*counters, *prefill), 0.0)
    return [replace(reading, at=reading.at - age_seconds, prefill_buckets={}, **zero), reading]


@dataclass(frozen=True, slots=True)
class Observation:
    """Load and waits of one replica between the first reading and the last."""

    seconds: float
    received: int
    rate: float
    """Arrivals per second."""
    queue_seconds: float
    """Mean queue time per request."""
    queue_count: int
    estimated_share: float
    """Share of the queue times that the sidecar estimated itself, 0 to 1."""
    prefill_seconds: float | None
    """Mean own prefill of a request: the time during which it delays the others. None: no prefill was reported."""
    residual_seconds: float | None
    """Mean rest of the prefill that an arriving request finds running: E[S^2] / (2 E[S]), from histogram buckets."""
    own_known: bool
    """False: `prefill_seconds` is the reported mean, in which prompts that were computed together count twice."""
    exposures: tuple[Exposure, ...]
    last: Reading


def observation_of(readings: Sequence[Reading]) -> Observation:
    """Load and waits from readings. Raises RefusedError if the readings do not determine rates and waits."""
    first, last = readings[0], readings[-1]
    counters = ("received", "ended", "queue_count", "own_prefill_seconds")
    if any(getattr(b, name) < getattr(a, name) for a, b in pairwise(readings) for name in counters):
        raise RefusedError("the sidecar was restarted while it was watched: its counters fell. Watch again")
    seconds = last.at - first.at
    received, counted = last.received - first.received, last.queue_count - first.queue_count
    if received < FEWEST_REQUESTS or counted < FEWEST_REQUESTS:
        raise RefusedError(
            f"in {seconds:.0f} s the sidecar saw {received:.0f} requests and {counted:.0f} queue times; at least"
            f" {FEWEST_REQUESTS} of each are needed. Watch longer (--window), or use the sidecar's whole life so far (--window=0)"
            + (
                ""
                if counted or not received
                else "; no source reports queue times here: /diagnosis and docs/engines.md name the flag"
            )
        )
    ended = last.ended - first.ended
    if ended and (last.ok - first.ok) / ended < 0.9:
        raise RefusedError(
            f"{1 - (last.ok - first.ok) / ended:.0%} of the requests that ended were not answered in full; from a failing"
            " replica no capacity can be told"
        )
    prefills, reported = last.prefill_count - first.prefill_count, last.prefill_seconds - first.prefill_seconds
    own = last.own_prefill_seconds - first.own_prefill_seconds
    residual = _residual(first.prefill_buckets, last.prefill_buckets)
    own_known = prefills > 0 and own >= LEAST_OWN_SHARE * reported
    return Observation(
        seconds,
        round(received),
        received / seconds,
        (last.queue_seconds - first.queue_seconds) / counted,
        round(counted),
        (last.queue_estimated - first.queue_estimated) / counted,
        (own if own_known else reported) / prefills if prefills else None,
        residual * (own / reported if own_known else 1.0) if prefills else None,
        own_known,
        tuple(Exposure(a.in_flight, b.at - a.at, round(b.ended - a.ended)) for a, b in pairwise(readings)),
        last,
    )


def _residual(earlier: Mapping[float, float], later: Mapping[float, float]) -> float:
    """Each sample counts as the middle of its bucket, beyond the last finite edge as that edge. 0 without samples."""
    below = grown_below = mean = square = 0.0
    for edge in sorted(later):
        grown = later[edge] - earlier.get(edge, 0.0)
        middle = below if edge == inf else (below + edge) / 2
        mean += (grown - grown_below) * middle
        square += (grown - grown_below) * middle**2
        below, grown_below = edge, grown
    return square / (2 * mean) if mean else 0.0


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache of an engine, as the engine states it."""

    blocks: int
    """Blocks, summed over the engine's ranks."""
    block_size: int
    bits: int | None
    """Bits of one number in the cache if its type is fp8; None for other types: `auto` means the model's own type."""


def read_cache(page: str) -> Cache | None:
    """Read the cache from an engine's page of metrics; None if the page does not state it."""
    found = [
        said
        for _, said, _ in _samples(page, CACHE_INFOS)
        if said.get("num_gpu_blocks", "").isdecimal() and said.get("block_size", "").isdecimal()
    ]
    blocks = sum(int(said["num_gpu_blocks"]) for said in found)
    if not blocks or int(found[0]["block_size"]) < 1:
        return None
    return Cache(blocks, int(found[0]["block_size"]), 8 if found[0].get("cache_dtype", "").startswith("fp8") else None)


def _samples(page: str, names: Iterable[str]) -> Iterable[tuple[str, dict[str, str], float]]:
    """Parse only the lines of these names: a page may have megabytes of other lines. Raises ValueError."""
    wanted = re.compile(rf"(?:{'|'.join(map(re.escape, names))})[ {{]")
    lines = [line for line in page.splitlines() if wanted.match(line)]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
