"""The registry: all numbers of one process, each in the child with its label values.

Hot paths bind a child once and call `inc`, `set` or `observe` on it: about 0.1 us, where prometheus_client takes 0.7 us
behind two locks. Knows the limit of series and enforces it. Refuses label values from outside their closed sets: such a
value is counted under the set's fallback, and in llm_sidecar_label_overflow_total. There is no global registry.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from operator import contains, itemgetter
from typing import Any, Generic, TypeVar

from sidecar.ledger.request_labels import UNLABELLED, RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.children import Child, CounterChild, GaugeChild, HistogramChild
from sidecar.metrics.declaration import SERIES_LIMIT, Counter, Gauge, Histogram, Info, Label, Metric, NativeForm, Sizes
from sidecar.metrics.labels import ClosedSet, Constants
from sidecar.metrics.native_buckets import NativeBuckets
from sidecar.metrics.vocabulary import BEGUN_LATE, BY_SPANS_ALONE


C = TypeVar("C", bound=Child)
MOST_REMEMBERED = 4096
"""Children that a family finds without looking at their label values one by one."""


class ByRequest(dict["RequestLabels | tuple[RequestLabels | str, ...]", C]):
    """The children of one family by a request's labels: found once, and remembered.

    A child is remembered only for the values that it has: a value from outside its closed set is counted each time.
    """

    def __init__(self, child: Callable[..., C], projected: Callable[[RequestLabels], tuple[str, ...]]) -> None:
        super().__init__()
        self._child = child
        self._projected = projected

    def __missing__(self, key: "RequestLabels | tuple[RequestLabels | str, ...]") -> C:
        labels, *rest = (key,) if isinstance(key, RequestLabels) else key
        assert isinstance(labels, RequestLabels), "the labels of a request come first"
        values = (*self._projected(labels), *rest)
        child = self._child(*values)
        if child.labels == values:
            if len(self) >= MOST_REMEMBERED:  # an engine may go through any number of adapters
                self.clear()
            self[key] = child
        return child


class Family(Generic[C]):
    def __init__(
        self, metric: Metric, sets: tuple[ClosedSet, ...], registry: "Metrics", make: Callable[[tuple[str, ...]], C]
    ) -> None:
        self.metric = metric
        self.children: dict[tuple[str, ...], C] = {}
        self._sets = sets
        self._registry = registry
        self._make = make
        self._names = tuple(label.name for label in metric.labels)
        self._size = metric.series_per_child
        self._fallbacks = [(place, each.fallback) for place, each in enumerate(metric.labels) if not each.values]
        self.of = ByRequest[C](self.child, _projection(self._names))
        """The child of a request: `family.of[labels]`, or `family.of[labels, value, ...]` with the values of the metric's
        other labels, in their order. A dictionary's own step, without a call."""

    def child(self, *values: str) -> C:
        """The child with these label values, in the order of the declaration; made on first use.

        A value outside its closed set becomes the set's fallback, and is counted. Raises ValueError for a wrong number
        of values: that is a mistake in the code, never in what a client sent.
        """
        found = self.children.get(values)
        return found if found is not None else self._closed(values)

    def labels_of(self, values: Iterable[str]) -> RequestLabels:
        """The labels of a request from a child's label values; empty where the metric does not have the label."""
        named = dict(zip(self._names, values, strict=False))
        return UNLABELLED._replace(**{name: named[name] for name in RequestLabels._fields if name in named})

    def combinations(self, **fixed: str) -> Iterator[tuple[str, ...]]:
        """The label values of all children that are expected by now, as declared; a label in `fixed` has this value alone."""
        shown = [
            (self._inside(closed, fixed[closed.name]),) if closed.name in fixed else closed.expected()
            for closed in self._sets
        ]
        together = self.metric.together or ((),)
        free = len(shown) - len(together[0])
        ends = [end for end in together if all(map(contains, shown[free:], end))]
        return (begin + end for begin in product(*shown[:free]) for end in ends)

    def begin(self, **fixed: str) -> None:
        """Put all these children on the page: counters at 0, so that `rate()` sees the first event."""
        for values in self.combinations(**fixed):
            if values not in self.children and self._registry.unbegun.isdisjoint(values):
                self._new(values)

    def _closed(self, values: tuple[str, ...]) -> C:
        if len(values) != len(self._sets):
            raise ValueError(f"{self.metric.name} has {len(self._sets)} labels, not {len(values)}")
        key = tuple(self._inside(closed, value) for closed, value in zip(self._sets, values, strict=True))
        found = self.children.get(key)
        return found if found is not None else self._new(key)

    def _inside(self, closed: ClosedSet, value: str) -> str:
        shown = closed.get(value)
        if shown is None:
            self._registry.overflowed(closed.name)
        return closed.fall_back() if shown is None or shown == closed.fallback else shown

    def _new(self, key: tuple[str, ...]) -> C:
        if self.metric.name in self._registry.untold:
            return self._make(key)  # written to, and on no page
        size = self._size
        if not self._reserved(key):
            if not self._registry.room_for(size):
                self._registry.overflowed("series")
                return self._collapsed(key)
            self._registry.spent += size
        self._registry.series += size
        child = self.children[key] = self._make(key)
        return child

    def _reserved(self, key: tuple[str, ...]) -> bool:
        """Whether a place is kept: labels filled at run time are all fallbacks, so there is always a child to count in."""
        for place, fallback in self._fallbacks:
            if key[place] != fallback:
                return False
        together = self.metric.together
        return not together or key[-len(together[0]) :] in together

    def _collapsed(self, key: tuple[str, ...]) -> C:
        """The child that replaces one without room: labels filled at run time become their fallbacks."""
        labels = zip(self.metric.labels, key, strict=True)
        rest = tuple(value if label.values else label.fallback for label, value in labels)
        if rest in self.children or self._reserved(rest):
            return self.child(*rest)
        return self._make(rest)  # not on the page: only a combination that the catalogue declares impossible gets here


def _projection(names: Sequence[str]) -> Callable[[RequestLabels], tuple[str, ...]]:
    """A function that picks the values with these names from a request's labels, in the order of the names."""
    places = [RequestLabels._fields.index(name) for name in names if name in RequestLabels._fields]
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


class Metrics:
    """The registry of one process.

    `lanes`, `prompt_buckets` and `models` need not hold their fallbacks, but may. `models_pending`: the engine will tell its
    models, so that series by model begin when it does, or with the first request. `constants`: labels with the same
    value on every series about requests and the engine; those that are `unknown` are filled in by the engine
    (`Constants` says until when). `native_histograms`: unless `off`, histograms count in native buckets too. `untold`: names of
    metrics that nothing here can know; none of their series ever stands on the page, where 0 would be a claim. `unbegun`: label values
    whose series appear with their first event, because few processes ever have one.
    """

    def __init__(
        self,
        *,
        lanes: Iterable[str],
        prompt_buckets: Iterable[str],
        models: Iterable[str] = (),
        models_pending: bool = False,
        constants: Mapping[str, str] | None = None,
        inter_token_by_prompt_bucket: bool = False,
        series_limit: int = SERIES_LIMIT,
        native_histograms: NativeForm = "off",
        untold: Iterable[str] = (),
        unbegun: Iterable[str] = (*BY_SPANS_ALONE, *BEGUN_LATE),
    ) -> None:
        self.unbegun = frozenset(unbegun)
        self.untold = frozenset(untold)
        self.lanes = ClosedSet(c.LANE, lanes)
        self.prompt_buckets = ClosedSet(c.PROMPT_BUCKET, prompt_buckets)
        self.models = ClosedSet(c.MODEL, models, pending=models_pending)
        self._constants = Constants(constants or {})
        self.series = 0
        self.spent = 0
        self.native_histograms: NativeForm = native_histograms
        self._before_scrape: list[Callable[[float], None]] = []
        metrics = c.catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket)
        self._limit = series_limit - sum(metric.series(Sizes(1, 1, 1)) for metric in metrics)
        self._by_name = {metric.name: self._family(metric) for metric in metrics}
        self.families = tuple(self._by_name.values())

    def counter(self, metric: Counter) -> Family[CounterChild]:
        return self._by_name[metric.name]

    def gauge(self, metric: Gauge | Info) -> Family[GaugeChild]:
        return self._by_name[metric.name]

    def histogram(self, metric: Histogram) -> Family[HistogramChild]:
        return self._by_name[metric.name]

    @property
    def constants(self) -> Mapping[str, str]:
        """The labels that stand on every series now; the same object until a value changes."""
        return self._constants.values

    @property
    def told(self) -> int:
        """A number that changes with each model or lane that is expected from now on, and never returns to a value before."""
        sets = (self.models, self.lanes)
        return sum(len(closed.shown()) + closed.needed + (not closed.pending) for closed in sets)

    def tell_constants(self, told: Mapping[str, str | None]) -> None:
        """Take in the constants that the engine states (None: not stated): set them while possible, else compare."""
        gauge = self.gauge(c.ENGINE_LABEL_MISMATCH)
        for name, differs in self._constants.tell(told).items():
            gauge.child(name).set(int(differs))

    def info(self, metric: Info, *values: str) -> None:
        """State one info, in place of its values before. New values join their labels' sets as long as there is room."""
        family = self.gauge(metric)
        for child in family.children.values():
            child.set(None)
        for closed, value in zip(family._sets, values, strict=True):  # noqa: SLF001  the family is ours
            closed.admit([value])
        family.child(*values).set(1)

    def overflowed(self, label: str) -> None:
        """A value of this label was outside its closed set (`series`: a child was one too many)."""
        self.counter(c.LABEL_OVERFLOW_TOTAL).child(label).inc()

    def room_for(self, series: int) -> bool:
        """Whether so many more series fit under the limit, kept places left out."""
        return self.spent + series <= self._limit

    def before_scrape(self, set_gauges: Callable[[float], None], *, first: bool = False) -> None:
        """Have `set_gauges(at)` called before each scrape, to set gauges that are computed then. It must be quick.

        `first`: before all others, because they read what it changes.
        """
        self._before_scrape.insert(0 if first else len(self._before_scrape), set_gauges)

    def set_gauges(self, at: float) -> None:
        """Set the values that are computed at scrape time, as of this instant. Unlike a scrape, this fixes no constants."""
        for set_gauges in self._before_scrape:
            set_gauges(at)

    def refresh(self, at: float) -> None:
        """A scrape begins at this instant of the monotonic clock."""
        self.set_gauges(at)
        ended = self.counter(c.REQUESTS_TOTAL).children.values()
        if not self._constants.sealed and any(child.value for child in ended):
            self._constants.sealed = True
        self.gauge(c.SERIES).child().set(self.series)

    def _family(self, metric: Metric) -> Family[Any]:
        make: Callable[[tuple[str, ...]], Child] = GaugeChild
        if isinstance(metric, Counter):
            make = partial(CounterChild, refused=self._refused)
        elif isinstance(metric, Histogram):
            make = partial(self._histogram, bounds=metric.buckets)
        return Family(metric, tuple(self._set_of(label) for label in metric.labels), self, make)

    def _histogram(self, labels: tuple[str, ...], bounds: tuple[float, ...]) -> HistogramChild:
        return HistogramChild(
            labels, self._refused, bounds, None if self.native_histograms == "off" else NativeBuckets()
        )

    def _set_of(self, label: Label) -> ClosedSet:
        shared = {c.MODEL.name: self.models, c.LANE.name: self.lanes, c.PROMPT_BUCKET.name: self.prompt_buckets}
        return shared.get(label.name) or ClosedSet(label)

    def _refused(self) -> None:
        self.counter(c.DROPPED_TOTAL).child("not_a_duration").inc()
