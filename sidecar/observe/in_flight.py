"""The requests in flight: llm_requests_in_flight, llm_oldest_request_seconds (at scrape time), and the oldest requests.

Entering and leaving are one dictionary step each, moving on is none; numbers and ages are counted at a scrape. Leaving twice, or
without having entered, changes nothing: the gauges cannot drift, in whatever order a fault makes the calls.
"""

from dataclasses import dataclass
from heapq import nsmallest

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import OLDEST_REQUEST_SECONDS, REQUESTS_IN_FLIGHT
from sidecar.metrics.registry import Metrics
from sidecar.observe.request_record import RequestRecord, Stage


@dataclass(frozen=True, slots=True)
class LaneInFlight:
    """One lane's requests that are in flight now."""

    waiting: int
    streaming: int
    """Held streams included."""
    oldest_seconds: float | None
    """Age of the oldest waiting request; None if none waits."""
    held: int = 0
    """Streams with a client that does not read as fast as the engine writes."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One request that is in flight now."""

    labels: RequestLabels
    """As they stand on the gauges."""
    stage: Stage
    age_seconds: float
    """Since its first byte."""


class InFlight:
    """Inference requests between their first byte and their end: the one table of them."""

    def __init__(self, metrics: Metrics) -> None:
        self._in_flight = metrics.gauge(REQUESTS_IN_FLIGHT)
        self._oldest = metrics.gauge(OLDEST_REQUEST_SECONDS)
        self._metrics = metrics
        self._told: int | None = None
        self._inside: dict[RequestRecord, None] = {}
        """In the order of their entry."""
        self._shown: dict[tuple[str, ...], RequestLabels] = {}
        """The labels that have had requests, or have been on the page, by the values of the gauge's child with state waiting."""
        self.is_known = REQUESTS_IN_FLIGHT.name not in metrics.untold
        """False where no traffic passes here: nothing is known of requests before their end."""
        self.apart = 0
        """Probes of `sidecar verify` in flight. They have no lane, and so no gauge, but the engine works on them too."""
        metrics.before_scrape(self.set_gauges)

    def __len__(self) -> int:
        """Number of requests in flight, probes included."""
        return len(self._inside) + self.apart

    def enter(self, record: RequestRecord, labels: RequestLabels, at: float) -> None:
        """A request came in; `at` is its `accepted_at` in seconds. Entering again moves it to the new labels."""
        # The labels pass through the closed sets, or a client's text could name a series.
        values = self._in_flight.of[labels, "waiting"].labels
        record.shown_labels = self._shown.get(values) or self._labels(values)
        record.entered_at, record.stage, record.is_held = at, Stage.WAITING, False
        self._inside[record] = None

    def streaming(self, record: RequestRecord) -> None:
        """The first output of this request arrived."""
        if record.stage is Stage.WAITING:
            record.stage = Stage.STREAMING

    def leave(self, record: RequestRecord) -> None:
        """The request ended, in whatever way."""
        self._inside.pop(record, None)
        record.stage = None

    def by_lane(self, at: float) -> dict[str, LaneInFlight]:
        """Every lane that has had requests, or has been on the page, as of this instant."""
        lanes: dict[str, list[RequestRecord]] = {labels.lane: [] for labels in self._shown.values()}
        for record in self._inside:
            lanes[record.shown_labels.lane].append(record)
        return {lane: _summed(records, at) for lane, records in lanes.items()}

    def oldest(self, at: float, count: int) -> list[Inside]:
        """The `count` oldest requests, oldest first."""
        oldest = nsmallest(count, self._inside, key=lambda record: record.entered_at)
        return [Inside(each.shown_labels, _stage(each), max(0.0, at - each.entered_at)) for each in oldest]

    def set_gauges(self, at: float) -> None:
        """Set both gauges as of this instant; a known lane and model without any request stands at 0."""
        if not self.is_known:
            return
        if self._metrics.told != self._told:
            self._told = self._metrics.told
            for values in self._in_flight.combinations(state="waiting"):
                self._labels(values)
        inside: dict[tuple[RequestLabels, str], list[float]] = {
            (labels, state): [] for labels in self._shown.values() for state in ("waiting", "streaming")
        }
        for record in self._inside:
            state = "streaming" if record.stage is Stage.STREAMING else "waiting"
            inside[record.shown_labels, state].append(record.entered_at)
        for (labels, state), entered in inside.items():
            self._in_flight.of[labels, state].set(len(entered))
            self._oldest.of[labels, state].set(max(0.0, at - min(entered)) if entered else 0)

    def _labels(self, values: tuple[str, ...]) -> RequestLabels:
        labels = self._shown.get(values)
        if labels is None:
            labels = self._shown[values] = self._in_flight.labels_of(values)
        return labels


def _stage(record: RequestRecord) -> Stage:
    if record.stage is Stage.STREAMING and record.is_held:
        return Stage.HELD
    return record.stage or Stage.WAITING


def _summed(records: list[RequestRecord], at: float) -> LaneInFlight:
    stages = [_stage(each) for each in records]
    waits = [each.entered_at for each, stage in zip(records, stages, strict=True) if stage is Stage.WAITING]
    return LaneInFlight(
        waiting=len(waits),
        streaming=len(stages) - len(waits),
        oldest_seconds=max(0.0, at - min(waits)) if waits else None,
        held=stages.count(Stage.HELD),
    )
