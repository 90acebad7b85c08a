"""Rows of numbers by their labels, read out of the history: growth, ratios, means, quantiles and gauges. Pure.

Each function here makes a reader, and a reader answers one question as a PromQL query would, on the series of this process
alone: `growth` as `sum by (...) (increase(...))`, `quantile_of` as `histogram_quantile`. It refuses to guess: where the
history is shorter than the window, where a series does not exist or where a divisor is 0, it raises NotKnownError with the
reason in words. It does not know which questions are asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sidecar.history.growth import Labels, Total, quantile
from sidecar.history.ring import History
from sidecar.history.series import GAUGE_SERIES, GROWTH_SERIES, LONG_SECONDS, SHOWN_SECONDS
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import CHILDREN_PER_SLICE, REDUCE, Snapshot, counted, observed
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info


_HELD_BY = {series.metric.name: series.labels for series in (*GROWTH_SERIES, *GAUGE_SERIES)}
_REDUCED_BY = {series.metric.name: series.reduce for series in GAUGE_SERIES}


class NotKnownError(Exception):
    """The history does not hold the answer; the message says why, as the rest of a sentence that begins with `unknown:`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The end of the windows, and the labels that the reader of a page has chosen."""

    history: History
    now: Snapshot
    at_unix: float
    """The same instant in Unix seconds."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values of `lane` and `model`, where they are known."""


Rows = Mapping[Labels, float]
Reader = Callable[[Moment], Sliced[Rows]]


def growth(
    metric: Counter,
    *by: str,
    of: tuple[str, ...] = (),
    only: Mapping[str, str | tuple[str, ...]] | None = None,
    without: Mapping[str, str] | None = None,
    seconds: float = SHOWN_SECONDS,
) -> Reader:
    """Growth of a counter within the window, summed over all labels but `by`.

    `of`: labels that have the value of the page; `only` and `without`: label values that are counted or left out.
    Raises ValueError for a window that the history does not hold, or a label that it has summed away.
    """
    names = _HELD_BY[metric.name]
    wanted, unwanted = dict(only or {}), dict(without or {})
    if seconds > LONG_SECONDS or not {*by, *of, *wanted, *unwanted} <= {*names}:
        raise ValueError(f"{metric.name} is not held so")
    places = [names.index(name) for name in by]

    def read(moment: Moment) -> Sliced[Rows]:
        then = _begin(moment, seconds)
        allowed = _places(names, {**wanted, **_of_page(moment, of)})
        never = _places(names, unwanted)
        found: dict[Labels, float] = {}
        for number, (key, value) in enumerate((yield from counted(then, moment.now, metric, *names)).items(), 1):
            if number % CHILDREN_PER_SLICE == 0:
                yield
            if all(key[place] in texts for place, texts in allowed) and all(
                key[place] not in texts for place, texts in never
            ):
                row = tuple(key[place] for place in places)
                found[row] = found.get(row, 0.0) + value
        if not moment.now.counters[metric.name]:
            raise NotKnownError("this pod has no such number")
        return found

    return read


def per_second(metric: Counter, *by: str, seconds: float = SHOWN_SECONDS, **how: object) -> Reader:
    """`growth`, over the seconds that lie between the two snapshots: as `rate`."""
    grew = growth(metric, *by, seconds=seconds, **how)  # type: ignore[arg-type]  # the arguments of `growth`

    def read(moment: Moment) -> Sliced[Rows]:
        rows = yield from grew(moment)
        between = moment.now.at - _begin(moment, seconds).at
        return {key: value / between for key, value in rows.items()}

    return read


def summed(
    metric: Histogram,
    *by: str,
    of: tuple[str, ...] = (),
    only: Mapping[str, str] | None = None,
) -> Reader:
    """Growth of a histogram's sum within the window of whole snapshots."""
    return _of_histogram(metric, by, of, only, lambda total: total.sum)


def mean(metric: Histogram, *by: str, of: tuple[str, ...] = (), only: Mapping[str, str] | None = None) -> Reader:
    """Mean of a histogram's observations."""
    return _of_histogram(metric, by, of, only, lambda total: total.sum / total.count)


def quantile_of(q: float, metric: Histogram, *by: str, of: tuple[str, ...] = ()) -> Reader:
    """The q-quantile of a histogram's observations; infinite above its last edge."""

    def value(total: Total) -> float:
        found = quantile(q, total.counts, metric.buckets)
        assert found is not None, "there are observations"
        return found

    return _of_histogram(metric, by, of, None, value)


def share_up_to(edge: float, metric: Histogram, *by: str, of: tuple[str, ...] = ()) -> Reader:
    """Share of a histogram's observations that are at most `edge`, 0 to 1. Raises ValueError if it is no edge."""
    place = metric.buckets.index(edge) + 1
    return _of_histogram(metric, by, of, None, lambda total: sum(total.counts[:place]) / total.count)


def _of_histogram(
    metric: Histogram,
    by: tuple[str, ...],
    of: tuple[str, ...],
    only: Mapping[str, str] | None,
    value: Callable[[Total], float],
) -> Reader:
    if metric.name not in _HELD_BY:
        raise ValueError(f"{metric.name} is not held")

    def read(moment: Moment) -> Sliced[Rows]:
        then = _begin(moment, SHOWN_SECONDS)
        wanted = {**(only or {}), **_of_page(moment, of)}
        totals = yield from observed(then, moment.now, metric, *by, only=wanted)
        rows = {key: value(total) for key, total in totals.items() if total.count > 0}
        if not rows:
            raise NotKnownError(f"nothing was observed in {_minutes(SHOWN_SECONDS)}")
        return rows

    return read


def gauge(
    metric: Gauge | Info,
    *by: str,
    only: Mapping[str, str] | None = None,
    absent: str = "this pod does not know this number now",
) -> Reader:
    """A gauge as it is now; over all labels but `by` it is combined as the table of series says. `absent`: the reason, where it has no value."""
    names = _HELD_BY[metric.name]
    places = [names.index(name) for name in by]
    allowed = _places(names, only or {})
    combined = REDUCE[_REDUCED_BY[metric.name]]

    def read(moment: Moment) -> Sliced[Rows]:
        yield
        found: dict[Labels, list[float]] = {}
        for key, value in moment.now.gauges[metric.name].items():
            if all(key[place] in texts for place, texts in allowed):
                found.setdefault(tuple(key[place] for place in places), []).append(value)
        if not found:
            raise NotKnownError(absent)
        return {key: combined(values) for key, values in found.items()}

    return read


def highest(metric: Gauge) -> Reader:
    """The highest value of a gauge without labels within the window of whole snapshots."""

    def read(moment: Moment) -> Sliced[Rows]:
        _begin(moment, SHOWN_SECONDS)
        yield
        values = (one.gauges[metric.name].get(()) for one in moment.history.within(moment.now, SHOWN_SECONDS))
        known = [value for value in values if value is not None]
        if not known:
            raise NotKnownError(f"this pod did not know this number in {_minutes(SHOWN_SECONDS)}")
        return {(): max(known)}

    return read


def over(top: Reader, bottom: Reader) -> Reader:
    """Each row of `top` over that of `bottom` with the same labels; rows with a divisor of 0 are left out."""

    def read(moment: Moment) -> Sliced[Rows]:
        above, below = (yield from top(moment)), (yield from bottom(moment))
        rows = {key: above.get(key, 0.0) / value for key, value in below.items() if value > 0}
        if not rows:
            raise NotKnownError("nothing was counted in the window")
        return rows

    return read


def plus(one: Reader, other: Reader) -> Reader:
    """Each row of either, with the sum of both where both have it."""

    def read(moment: Moment) -> Sliced[Rows]:
        left, right = (yield from one(moment)), (yield from other(moment))
        return {key: left.get(key, 0.0) + right.get(key, 0.0) for key in {**left, **right}}

    return read


def minus(one: Reader, other: Reader) -> Reader:
    """Each row of `one` less that of `other`, where both have one."""

    def read(moment: Moment) -> Sliced[Rows]:
        left, right = (yield from one(moment)), (yield from other(moment))
        return {key: value - right[key] for key, value in left.items() if key in right}

    return read


def above_zero(of: Reader) -> Reader:
    """The rows above 0."""

    def read(moment: Moment) -> Sliced[Rows]:
        return {key: value for key, value in (yield from of(moment)).items() if value > 0}

    return read


def while_above_zero(of: Reader, condition: Reader) -> Reader:
    """The rows of `of` if the condition's only row is above 0, else none."""

    def read(moment: Moment) -> Sliced[Rows]:
        rows, value = (yield from of(moment)), (yield from condition(moment))
        return rows if value[()] > 0 else {}

    return read


def age(of: Reader) -> Reader:
    """Seconds since each row, which is an instant in Unix seconds."""

    def read(moment: Moment) -> Sliced[Rows]:
        return {key: moment.at_unix - value for key, value in (yield from of(moment)).items()}

    return read


def _begin(moment: Moment, seconds: float) -> Snapshot:
    held = moment.now.at - moment.history.began_at
    if held < seconds:
        raise NotKnownError(f"{_minutes(held)} of history, needs {_minutes(seconds)}")
    return moment.history.before(moment.now, seconds)


def _of_page(moment: Moment, names: tuple[str, ...]) -> dict[str, str]:
    missing = [name for name in names if name not in moment.labels]
    if missing:
        raise NotKnownError(f"it needs a {' and a '.join(missing)}")
    return {name: moment.labels[name] for name in names}


def _places(names: Labels, values: Mapping[str, str | Labels]) -> list[tuple[int, Labels]]:
    return [(names.index(name), (text,) if isinstance(text, str) else text) for name, text in values.items()]


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min"
