"""What pages of metrics say about load and service: pure, from text to numbers.

It reads the sidecar's page by the names of docs/metrics.md and an engine's by the one name that states the cache. What is not on a page is
None. Counters are compared between readings of the same process; one that fell means a restart, and the window is refused.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from prometheus_client.parser import text_string_to_metric_families

from sidecar.capacity.answer import RefusedError
from sidecar.capacity.service import Exposure
from sidecar.engines.kinds import KINDS


FEWEST_REQUESTS = 50
"""Below, a mean wait is noise: its standard error is about its own size over the root of the number, for waits of this kind."""
LEAST_OWN_SHARE = 0.4
"""Own prefill seconds below this share of the reported ones: not all prompts were counted (the cost was still being learned)."""
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
"""Name on an engine's page that states its cache, and the engine that has it."""
CACHE_INFO = " or ".join(CACHE_INFOS)


@dataclass(frozen=True, slots=True)
class Reading:
    """One page of a sidecar. Counters as they stand; None: not on the page."""

    at: float
    """Any clock that does not jump."""
    received: float
    ended: float
    ok: float
    in_flight: float
    queue_seconds: float
    queue_count: float
    queue_estimated: float
    """Those of `queue_count` that are the sidecar's own estimates."""
    prefill_seconds: float
    prefill_count: float
    own_prefill_seconds: float
    prefill_buckets: Mapping[float, float] = field(default_factory=dict)
    """Upper edge to cumulative count."""
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    started: float | None = None
    """Unix time at which the process began."""


def read_sidecar(page: str, at: float) -> Reading:
    """One page. Raises ValueError where it is no page of a sidecar."""
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
        ok=total("llm_requests_total", outcome="ok"),
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
    """The process's whole life as a window, from its first instant, when all counters were 0."""
    counters = ("received", "ended", "ok", "in_flight", "queue_seconds", "queue_count", "queue_estimated")
    prefill = ("prefill_seconds", "prefill_count", "own_prefill_seconds")
    zero = dict.fromkeys((*counters, *prefill), 0.0)
    return [replace(reading, at=reading.at - age_seconds, prefill_buckets={}, **zero), reading]


@dataclass(frozen=True, slots=True)
class Watched:
    """What happened between the first reading and the last, at one replica."""

    seconds: float
    received: int
    rate: float
    """Arrivals a second."""
    queue_seconds: float
    """Mean."""
    queue_count: int
    estimated_share: float
    """Of the queue times."""
    prefill_seconds: float | None
    """Own prefill of a request, mean: the seconds that it keeps the others from theirs. None: no prefill was reported."""
    residual_seconds: float | None
    """Of the prefill that a request finds, what is left on average: E[S^2] / (2 E[S]), from the histogram's buckets."""
    own_known: bool
    """False: `prefill_seconds` is the reported mean, in which prompts that were computed together count twice."""
    exposures: tuple[Exposure, ...]
    most_inside: float
    last: Reading


def watched(readings: Sequence[Reading]) -> Watched:
    """Raises RefusedError where they do not carry rates and waits."""
    first, last = readings[0], readings[-1]
    counters = ("received", "ended", "queue_count", "own_prefill_seconds")
    if any(getattr(b, name) < getattr(a, name) for a, b in pairwise(readings) for name in counters):
        raise RefusedError("the sidecar was restarted while it was watched: its counters fell. Watch again")
    seconds = last.at - first.at
    received, counted = last.received - first.received, last.queue_count - first.queue_count
    if received < FEWEST_REQUESTS or counted < FEWEST_REQUESTS:
        raise RefusedError(
            f"in {seconds:.0f} s {received:.0f} requests came and {counted:.0f} queue times were told; at least {FEWEST_REQUESTS} of each"
            " are needed. Watch longer (--window), or take the sidecar's whole life (--window=0)"
            + (
                ""
                if counted or not received
                else "; nobody tells queue times here: /diagnosis and docs/engines.md name the flag"
            )
        )
    ended = last.ended - first.ended
    if ended and (last.ok - first.ok) / ended < 0.9:
        raise RefusedError(
            f"{1 - (last.ok - first.ok) / ended:.0%} of the requests that ended were not answered in full: what such a replica can"
            " carry cannot be told from how it fails"
        )
    prefills, reported = last.prefill_count - first.prefill_count, last.prefill_seconds - first.prefill_seconds
    own = last.own_prefill_seconds - first.own_prefill_seconds
    residual = _residual(first.prefill_buckets, last.prefill_buckets)
    own_known = prefills > 0 and own >= LEAST_OWN_SHARE * reported
    return Watched(
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
        max(reading.in_flight for reading in readings),
        last,
    )


def _residual(earlier: Mapping[float, float], later: Mapping[float, float]) -> float:
    """Each sample is taken for the middle of its bucket; beyond the last finite edge for that edge. 0 without samples."""
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
    """The KV cache of an engine, by its own word."""

    blocks: int
    """Over all its ranks."""
    block_size: int
    bits: int | None
    """Of one number in it, where its type says so; `auto` is the model's own."""


def read_cache(page: str) -> Cache | None:
    """From an engine's page of metrics; None where it does not say."""
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
    """Only the lines of these names are parsed: a page may have megabytes of others. Raises ValueError."""
    wanted = re.compile(rf"(?:{'|'.join(map(re.escape, names))})[ {{]")
    lines = [line for line in page.splitlines() if wanted.match(line)]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
