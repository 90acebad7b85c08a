"""Evidence of one model over the whole engine, and its growth over a baseline: the same as alert_rules/evidence.py. Pure.

Five numbers of a model and two of each lane, each over its own baseline, which is learned while nothing burns and is frozen
while something does. An unknown number is absent.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from sidecar.diagnosis.facts import Comparison, over, total
from sidecar.diagnosis.verdict import WORTH_NAMING
from sidecar.history.growth import Growth, Windows, quantile
from sidecar.history.series import LONG_SECONDS, NOW_SECONDS
from sidecar.metrics import catalogue as c
from sidecar.metrics import slo_metrics as p
from sidecar.slo.causes import Cause


QUIET_GAP = 0.1
"""The quantile of gaps between tokens that no prefill in between stretches."""
BASELINE_SECONDS = 3600.0
CALM_SAMPLES = 8
"""Fewer samples of calm are no baseline."""
YOUNG_SECONDS = 180.0
"""From here on a baseline is trusted."""
DISTURBED_BURN = 2.0
DISTURBED_MISSES = 3.0
LEAST_TOKENS = 0.01
"""A second: what is left to compute of prompts that were all cached."""
BY_ENGINE = "uncached_by_engine"
RECEIVED, CACHED = "received", "cached"

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Now:
    """One model's numbers of the last two minutes."""

    model: Values
    """By a cause of GROWN_CAUSES, and `uncached_by_engine` in place of `uncached`."""
    lanes: Mapping[str, Values]
    """Lane to prompt tokens per arriving request, and cached ones per finished request."""


def now(windows: Windows, model: str) -> Now:
    window = windows.growth[NOW_SECONDS]
    hits = over(window.counted(c.ENGINE_PREFIX_CACHE_HITS_TOTAL), window.counted(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL))
    found = {
        Cause.PREFILL_COST.value: over(
            window.counted(p.PREFILL_OWN_SECONDS_TOTAL, model), window.counted(p.PREFILL_EXPECTED_SECONDS_TOTAL, model)
        ),
        BY_ENGINE: None if hits is None else 1.0 - hits,
        Cause.LOAD.value: over(total(window, p.REQUESTS_RECEIVED_TOTAL, model), window.seconds) or None,
        Cause.PROMPT_MIX.value: over(
            total(window, p.RECEIVED_PROMPT_TOKENS_TOTAL, model),
            total(window, p.RECEIVED_MEASURED_REQUESTS_TOTAL, model),
        ),
        Cause.DECODE_COST.value: _quiet_gap(window, model),
    }
    lanes = {lane for of, lane in window.counters.get(p.REQUESTS_RECEIVED_TOTAL.name, {}) if of == model}
    return Now(_known(found), {lane: _lane(windows, model, lane) for lane in sorted(lanes)})


def disturbed(windows: Windows, model: str) -> bool:
    """Some lane of the model burns: samples of now are no baseline."""
    window = windows.growth[NOW_SECONDS]
    for who, missed in window.counters.get(p.SLO_MISSES_TOTAL.name, {}).items():
        allowed = window.counted(p.SLO_ALLOWED_MISSES_TOTAL, *who) or 0.0
        if who[0] == model and missed >= DISTURBED_MISSES and missed >= DISTURBED_BURN * allowed:
            return True
    return False


def compared(windows: Windows, model: str, is_now: Now, usual: Now) -> Comparison:
    """How many times its usual self each has become."""
    ratios = {
        Cause(which): value / usual.model[which]
        for which, value in is_now.model.items()
        if which != BY_ENGINE and usual.model.get(which, 0.0) > 0
    }
    uncached = _uncached(windows, model, is_now, usual)
    if uncached is not None:
        ratios[Cause.UNCACHED] = uncached
    longer = {
        lane
        for lane, values in is_now.lanes.items()
        if (before := usual.lanes.get(lane, {}).get(RECEIVED, 0.0)) > 0
        and values.get(RECEIVED, 0.0) / before >= WORTH_NAMING
    }
    return Comparison(ratios, frozenset(longer))


@dataclass(slots=True)
class _Usual:
    """The median of the last hour's calm, of any numbers; the last one that there was, where too little is calm."""

    calm: deque[tuple[float, Values]] = field(default_factory=deque)
    values: dict[str, float] = field(default_factory=dict)
    longest_seconds: float = 0.0
    """Of calm, that it was ever made of."""

    def learn(self, at: float, values: Values | None) -> None:
        if values is not None:
            self.calm.append((at, values))
        while self.calm and self.calm[0][0] < at - BASELINE_SECONDS:
            self.calm.popleft()
        if self.calm:
            self.longest_seconds = max(self.longest_seconds, self.calm[-1][0] - self.calm[0][0])
        for name in {name for _, one in self.calm for name in one}:
            known = [one[name] for _, one in self.calm if name in one]
            if len(known) >= CALM_SAMPLES:
                self.values[name] = median(known)


class Baseline:
    def __init__(self) -> None:
        self._model = _Usual()
        self._lanes: dict[str, _Usual] = {}

    def learn(self, at: float, is_now: Now, *, disturbed: bool) -> None:
        """Take one sample more; nothing is learned while objectives are missed."""
        self._model.learn(at, None if disturbed else is_now.model)
        for lane, values in is_now.lanes.items():
            self._lanes.setdefault(lane, _Usual()).learn(at, None if disturbed else values)

    @property
    def is_young(self) -> bool:
        """It is made of so little calm that it may not be what is usual."""
        return bool(self._model.values) and self._model.longest_seconds < YOUNG_SECONDS

    @property
    def usual(self) -> Now:
        """The baseline so far; empty in the first minutes."""
        return Now(self._model.values, {lane: usual.values for lane, usual in self._lanes.items()})


def _lane(windows: Windows, model: str, lane: str) -> Values:
    window = windows.growth[NOW_SECONDS]
    finished = window.observed(c.PROMPT_TOKENS, model, lane)
    states_cached = (windows.growth[LONG_SECONDS].counted(c.CACHED_PROMPT_TOKENS_TOTAL, model, lane) or 0.0) > 0
    cached = window.counted(c.CACHED_PROMPT_TOKENS_TOTAL, model, lane)
    return _known(
        {
            RECEIVED: over(
                window.counted(p.RECEIVED_PROMPT_TOKENS_TOTAL, model, lane),
                window.counted(p.RECEIVED_MEASURED_REQUESTS_TOTAL, model, lane),
            ),
            CACHED: over(cached, finished.count) if finished is not None and states_cached else None,
        }
    )


def _uncached(windows: Windows, model: str, is_now: Now, usual: Now) -> float | None:
    """How many times more has to be computed than if each lane's prompts were cached as they used to be."""
    window = windows.growth[NOW_SECONDS]
    computed = over(total(window, p.UNCACHED_PROMPT_TOKENS_TOTAL, model), window.seconds)
    lost = [
        max(0.0, usual.lanes[lane][CACHED] - values[CACHED]) * finished.count / window.seconds
        for lane, values in is_now.lanes.items()
        if CACHED in values
        and CACHED in usual.lanes.get(lane, {})
        and (finished := window.observed(c.PROMPT_TOKENS, model, lane)) is not None
    ]
    if computed is not None and lost:
        return computed / max(computed - sum(lost), LEAST_TOKENS)
    return over(is_now.model.get(BY_ENGINE), usual.model.get(BY_ENGINE))


def _quiet_gap(window: Growth, model: str) -> float | None:
    gaps = window.histograms.get(c.INTER_TOKEN_SECONDS.name, {})
    by_lane = (grown.counts for (of_model, _), grown in gaps.items() if of_model == model and grown.counts)
    counts = [sum(column) for column in zip(*by_lane, strict=True)]
    return quantile(QUIET_GAP, counts, c.INTER_TOKEN_SECONDS.buckets) or None


def _known(found: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in found.items() if value is not None}
