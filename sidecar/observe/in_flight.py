"""Who is inside now: llm_requests_in_flight and llm_oldest_request_seconds, computed at scrape time, and the oldest by name of lane.

Entering, moving on and leaving are one dictionary step each; ages are looked at only when somebody scrapes. Leaving
twice, or without having entered, changes nothing: the gauges cannot drift, whatever order a fault makes of the calls.
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
    """One lane's requests that are inside now."""

    waiting: int
    streaming: int
    """Those included whose clients hold them back."""
    oldest_seconds: float | None
    """Age of the oldest that waits; None where none does."""
    held: int = 0
    """Of the streaming ones, those whose clients do not read as fast as the engine writes."""


class Stage(StrEnum):
    """Where a request is as long as it is inside. What splits the wait is known only when it is over."""

    WAITING = "waiting"
    """No output yet: queue, prefill or first token."""
    STREAMING = "streaming"
    """Decode."""
    HELD = "held"
    """Stream: its client does not read, and so we do not read from the engine."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One request that is inside now."""

    labels: RequestLabels
    """Those of the gauges."""
    stage: Stage
    age_seconds: float
    """Since its first byte."""


class InFlight:
    """Inference requests between their first byte and their end. Keys are whatever tells requests apart."""

    def __init__(self, metrics: Metrics) -> None:
        self._in_flight = metrics.gauge(REQUESTS_IN_FLIGHT)
        self._oldest = metrics.gauge(OLDEST_REQUEST_SECONDS)
        self._metrics = metrics
        self._told: int | None = None
        self._groups: dict[tuple[str, ...], _Group] = {}
        """By the values of their child among those that wait."""
        self._group_of: dict[Hashable, _Group] = {}
        self._held: set[Hashable] = set()
        metrics.before_scrape(self.look)

    def __len__(self) -> int:
        """How many are inside."""
        return len(self._group_of)

    def enter(self, key: Hashable, labels: RequestLabels, at: float) -> None:
        """A request came in; `at` is its `accepted_at` in seconds. Entering again moves it to the other labels."""
        self.leave(key)
        # Through the closed sets, or what a client sends would name a group.
        group = self._group(self._in_flight.child_for(labels, "waiting").labels)
        group.waiting[key] = at
        self._group_of[key] = group

    def streaming(self, key: Hashable) -> None:
        """Its first output arrived."""
        group = self._group_of.get(key)
        if group is not None and key in group.waiting:
            group.streaming[key] = group.waiting.pop(key)

    def held(self, key: Hashable) -> None:
        """Its client does not read, and keeps us from reading."""
        if key in self._group_of:
            self._held.add(key)

    def flows(self, key: Hashable) -> None:
        """Its client reads again."""
        self._held.discard(key)

    def leave(self, key: Hashable) -> None:
        """It ended, however."""
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
        """So many of the oldest, oldest first."""
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

    def look(self, at: float) -> None:
        """Set both gauges as of this instant; a lane or model that nobody has used yet stands at 0."""
        if self._metrics.told != self._told:
            self._told = self._metrics.told
            for values in self._in_flight.combinations(state="waiting"):
                self._group(values)
        for group in self._groups.values():
            for state, entered in (("waiting", group.waiting), ("streaming", group.streaming)):
                self._in_flight.child_for(group.labels, state).set(len(entered))
                age = max(0.0, at - min(entered.values())) if entered else 0
                self._oldest.child_for(group.labels, state).set(age)

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
