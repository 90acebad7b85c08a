"""The requests in flight: llm_requests_in_flight, llm_oldest_request_seconds (at scrape time), and the oldest requests.

Entering, moving on and leaving are one dictionary step each; ages are computed only at a scrape. Leaving twice, or
without having entered, changes nothing: the gauges cannot drift, in whatever order a fault makes the calls.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import OLDEST_REQUEST_SECONDS, REQUESTS_IN_FLIGHT
from sidecar.metrics.registry import Metrics


@dataclass(frozen=True, slots=True)
class _Group:
    """The requests of one child of the gauges, by state: key to the instant of entry."""

    labels: RequestLabels
    waiting: dict[Hashable, float] = field(default_factory=dict)
    streaming: dict[Hashable, float] = field(default_factory=dict)


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


class Stage(StrEnum):
    """State of a request in flight. How its wait splits into phases is known only when it is over."""

    WAITING = "waiting"
    """No output yet: queue, prefill or first token."""
    STREAMING = "streaming"
    """Decode."""
    HELD = "held"
    """Stream with a client that does not read: the sidecar therefore does not read from the engine."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One request that is in flight now."""

    labels: RequestLabels
    """As they stand on the gauges."""
    stage: Stage
    age_seconds: float
    """Since its first byte."""


class InFlight:
    """Inference requests between their first byte and their end. A key is any hashable that identifies a request."""

    def __init__(self, metrics: Metrics) -> None:
        self._in_flight = metrics.gauge(REQUESTS_IN_FLIGHT)
        self._oldest = metrics.gauge(OLDEST_REQUEST_SECONDS)
        self._metrics = metrics
        self._told: int | None = None
        self._groups: dict[tuple[str, ...], _Group] = {}
        """By the label values of the gauge's child with state waiting."""
        self._group_of: dict[Hashable, _Group] = {}
        self._held: set[Hashable] = set()
        self.is_known = REQUESTS_IN_FLIGHT.name not in metrics.untold
        """False where no traffic passes here: nothing is known of requests before their end."""
        self.apart = 0
        """Probes of `sidecar verify` in flight. They have no lane, and so no gauge, but the engine works on them too."""
        metrics.before_scrape(self.set_gauges)

    def __len__(self) -> int:
        """Number of requests in flight, probes included."""
        return len(self._group_of) + self.apart

    def enter(self, key: Hashable, labels: RequestLabels, at: float) -> None:
        """A request came in; `at` is its `accepted_at` in seconds. Entering again moves it to the new labels."""
        if key in self._group_of:
            self.leave(key)
        # The labels pass through the closed sets, or a client's text could name a group.
        values = self._in_flight.of[labels, "waiting"].labels
        group = self._groups.get(values)
        if group is None:
            group = self._group(values)
        group.waiting[key] = at
        self._group_of[key] = group

    def streaming(self, key: Hashable) -> None:
        """The first output of this request arrived."""
        group = self._group_of.get(key)
        if group is not None and key in group.waiting:
            group.streaming[key] = group.waiting.pop(key)

    def held(self, key: Hashable) -> None:
        """The client of this request does not read, so reading from the engine stopped."""
        if key in self._group_of:
            self._held.add(key)

    def flows(self, key: Hashable) -> None:
        """The client of this request reads again."""
        self._held.discard(key)

    def leave(self, key: Hashable) -> None:
        """The request ended, in whatever way."""
        self._held.discard(key)
        group = self._group_of.pop(key, None)
        if group is not None:
            group.waiting.pop(key, None)
            group.streaming.pop(key, None)

    def by_lane(self, at: float) -> dict[str, LaneInFlight]:
        """Every lane that has had requests, or has been on the page, as of this instant."""
        lanes: dict[str, list[_Group]] = {}
        for group in self._groups.values():
            lanes.setdefault(group.labels.lane, []).append(group)
        return {lane: self._summed(groups, at) for lane, groups in lanes.items()}

    def oldest(self, at: float, count: int) -> list[Inside]:
        """The `count` oldest requests, oldest first."""
        entered = (
            (instant, key, group.labels, stage)
            for group in self._groups.values()
            for stage, keys in ((Stage.WAITING, group.waiting), (Stage.STREAMING, group.streaming))
            for key, instant in keys.items()
        )
        return [
            Inside(
                labels, Stage.HELD if key in self._held and stage is Stage.STREAMING else stage, max(0.0, at - instant)
            )
            for instant, key, labels, stage in nsmallest(count, entered, key=lambda one: one[0])
        ]

    def set_gauges(self, at: float) -> None:
        """Set both gauges as of this instant; a known lane and model without any request stands at 0."""
        if not self.is_known:
            return
        if self._metrics.told != self._told:
            self._told = self._metrics.told
            for values in self._in_flight.combinations(state="waiting"):
                self._group(values)
        for group in self._groups.values():
            for state, entered in (("waiting", group.waiting), ("streaming", group.streaming)):
                self._in_flight.of[group.labels, state].set(len(entered))
                age = max(0.0, at - min(entered.values())) if entered else 0
                self._oldest.of[group.labels, state].set(age)

    def _group(self, values: tuple[str, ...]) -> _Group:
        group = self._groups.get(values)
        if group is None:
            group = self._groups[values] = _Group(self._in_flight.labels_of(values))
        return group

    def _summed(self, groups: list[_Group], at: float) -> LaneInFlight:
        entered = [instant for group in groups for instant in group.waiting.values()]
        return LaneInFlight(
            waiting=len(entered),
            streaming=sum(len(group.streaming) for group in groups),
            oldest_seconds=max(0.0, at - min(entered)) if entered else None,
            held=sum(key in group.streaming for key in self._held for group in groups),
        )
