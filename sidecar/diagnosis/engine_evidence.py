"""Evidence of one model over the whole engine, and its growth over a baseline: the same as alert_rules/evidence.py. Pure.

There are five numbers of a model and two of each lane. Each is compared with its own baseline, which is learned while no
objective burns and is frozen while one does. An unknown number is absent.
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
"""Quantile of the gaps between tokens that contain no prefill of another request."""
BASELINE_SECONDS = 3600.0
"""Age up to which samples count for the baseline."""
CALM_SAMPLES = 8
"""Samples that a baseline needs, taken while no objective burned."""
YOUNG_SECONDS = 180.0
"""Calm time below which a baseline is called young."""
DISTURBED_BURN = 2.0
"""Misses over the allowed ones from which samples are not used as baseline."""
DISTURBED_MISSES = 3.0
"""Misses that this needs at least."""
LEAST_TOKENS = 0.01
"""Least uncached prompt tokens a second that are assumed as a divisor, for prompts that were all cached."""
BY_ENGINE = "uncached_by_engine"
RECEIVED, CACHED = "received", "cached"

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Now:
    """Numbers of one model over the last two minutes."""

    model: Values
    """Cause of GROWN_CAUSES to its number, with `uncached_by_engine` in place of `uncached`."""
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
    """Whether some lane of the model burns, so that samples of now are not used as baseline."""
    window = windows.growth[NOW_SECONDS]
    for who, missed in window.counters.get(p.SLO_MISSES_TOTAL.name, {}).items():
        allowed = window.counted(p.SLO_ALLOWED_MISSES_TOTAL, *who) or 0.0
        if who[0] == model and missed >= DISTURBED_MISSES and missed >= DISTURBED_BURN * allowed:
            return True
    return False


def compared(windows: Windows, model: str, is_now: Now, usual: Now) -> Comparison:
    """Each number of now over its baseline."""
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
    """Median of each number over the calm samples of the last hour; the last known median if there are too few."""

    calm: deque[tuple[float, Values]] = field(default_factory=deque)
    values: dict[str, float] = field(default_factory=dict)
    longest_seconds: float = 0.0
    """Longest time between the first and the last calm sample that a median was made of."""

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
        """Take one more sample. Samples taken while an objective burns are not used."""
        self._model.learn(at, None if disturbed else is_now.model)
        for lane, values in is_now.lanes.items():
            self._lanes.setdefault(lane, _Usual()).learn(at, None if disturbed else values)

    @property
    def is_young(self) -> bool:
        """Whether it is made of less than YOUNG_SECONDS of calm."""
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
    """Uncached prompt tokens over those that there would be if each lane's prompts were cached as in its baseline."""
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
