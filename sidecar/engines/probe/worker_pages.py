"""The state of an engine whose front end and workers have pages of their own: read from all of them, and put together. Pure.

Each worker's page is read by the names of the engine that speaks there, which is found on the page. Waiting and running requests are summed over
the workers, the KV cache is the fullest worker's, and counts are kept by worker, so that one that restarts is seen. A partial sum would be wrong:
without one of the pages the workers' state is not known, and the front end's stands alone.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from sidecar.engines.probe.state import EngineState, PageScan, Series
from sidecar.engines.probe.state_names import Count, StateNames


OF_FRONT = frozenset((Count.REQUESTS,))
"""Counts of requests, which pass a worker each of prefill and decode, and stand for one each at the front end alone."""


class WorkerScan:
    """Reads one worker's page, piece by piece, by the names of each engine that may speak there."""

    def __init__(self, spoken: Sequence[StateNames]) -> None:
        self._scans = [PageScan(names) for names in spoken]

    def feed(self, data: bytes) -> None:
        """The next bytes of the page, cut anywhere."""
        for scan in self._scans:
            scan.feed(data)

    @property
    def is_whole(self) -> bool:
        """Whether this is a page of metrics, from its first line to its last."""
        return all(scan.is_whole for scan in self._scans)

    def finish(self) -> EngineState | None:
        """The state on the page; None where it broke off, or has no engine's names or those of several."""
        found = [state for scan in self._scans if (state := scan.finish()) is not None]
        return found[0] if len(found) == 1 else None


def together(front: EngineState, workers: Sequence[EngineState]) -> EngineState:
    """The state of the whole; `workers` in the order of the config, none of them missing."""
    waiting = [state.requests_waiting for state in workers]
    running = [state.requests_running for state in workers]
    fullest = [state.kv_cache_usage_ratio for state in workers if state.kv_cache_usage_ratio is not None]
    counters = {count: series for count, series in front.counters.items() if count in OF_FRONT}
    for count in {count for state in workers for count in state.counters} - OF_FRONT:
        counters[count] = _by_worker(count, workers)
    queued = _total([*waiting, *([] if front.requests_before_workers is None else [front.requests_before_workers])])
    return replace(
        front,
        requests_waiting=queued,
        requests_running=_total(running),
        kv_cache_usage_ratio=max(fullest, default=None),
        counters=counters,
    )


def _by_worker(count: Count, workers: Sequence[EngineState]) -> Series:
    return {
        b"%d %b" % (number, labels): value
        for number, state in enumerate(workers)
        for labels, value in state.counters.get(count, {}).items()
    }


def _total(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None
