"""Keeps what the roots of a run were decided from, and decides them anew with another decision, in milliseconds.

A passage through the product takes seconds, and the decision is a small part of it. So the passage is made once with a decision that
never names a root: it notes each look with its signs, and each miss with its facts at the last instant at which it may be decided.
`replayed` gives these to another decision in the same order, and counts its roots as the product does. What the recorded passage cannot
show: a miss that is clear is decided up to 15 s sooner in the product.

It knows the seam between `observe/roots.py` and `pod/decision.py`. It refuses to know how a root is decided, and the truth.
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.incidents.engines import EngineConfig
from bench.incidents.process import Process
from bench.incidents.product import SCRAPE_SECONDS, Product
from bench.incidents.request import Run
from bench.incidents.samples import Labels
from bench.incidents.world import Mode
from bench.roots.passage import CAUSES, NAMES, ROOTS, Columns, Scraped, filled
from sidecar.observe.roots import Roots
from sidecar.pod.causes import Unknown, unknown
from sidecar.pod.decision import Decision
from sidecar.pod.life import Facts
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import Weighed


class Missed(NamedTuple):
    """An objective was missed."""

    at: float


class Ticked(NamedTuple):
    """A second has passed."""

    at: float
    burning: bool


class Saw(NamedTuple):
    """A look at the pod."""

    at: float
    signs: Signs


class Due(NamedTuple):
    """So many misses of one lane that are alike have to be decided."""

    at: float
    model: str
    lane: str
    objective: str
    facts: Facts
    """Without what the incident adds."""
    queued_since: float | None
    times: int


class Began(NamedTuple):
    """Another process of the sidecar has begun."""

    at: float


Event = Missed | Ticked | Saw | Due | Began
_UNCLEAR = {unknown(Unknown.UNCLEAR): 1.0}
_NOT_CLEAR = Weighed(_UNCLEAR, _UNCLEAR)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run in one mode."""

    pods: tuple[tuple[Event, ...], ...]
    columns: tuple[Columns, ...]
    """The other series that the rules read, pod by pod."""
    scrapes: int


class _Recorder(Decision):
    """Decides nothing: each miss waits until it is over, or for as long as it may."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self._events = events

    def missed(self, at: float) -> None:
        self._events.append(Missed(at))

    def tick(self, at: float, *, burning: bool) -> None:
        self._events.append(Ticked(at, burning))

    def see(self, at: float, signs: Signs) -> None:
        self.signs = signs
        self._events.append(Saw(at, signs))

    def facts(self, of_miss: Facts, queued_since: float | None, at: float) -> Facts:  # noqa: ARG002  the interface
        return of_miss._replace(evicted=queued_since)  # carried to `_attach`

    def weighed(self, facts: Facts) -> Weighed:  # noqa: ARG002  the interface
        return _NOT_CLEAR

    def decided(self, facts: Facts, at: float, *, times: int = 1) -> Weighed:  # noqa: ARG002  the interface
        return _NOT_CLEAR


def _attach(roots: Roots, events: list[Event]) -> None:
    """Note all that the roots of this process are decided from."""
    roots.decision = _Recorder(events)
    write = roots._write  # noqa: SLF001  the lane of a miss is known there alone

    def noted(at: float) -> None:
        for (labels, objective, facts), times in roots._decided.items():  # noqa: SLF001
            queued_since = facts.evicted
            events.append(
                Due(at, labels.model, labels.lane, str(objective), facts._replace(evicted=None), queued_since, times)
            )
        write(at)

    roots._write = noted  # type: ignore[method-assign]  # noqa: SLF001


class _Passage(Product):
    """A product whose decisions are noted."""

    def __init__(self, events: list[Event], *arguments: Any, **named: Any) -> None:
        self._events = events
        super().__init__(*arguments, **named)

    def _begun(self, at: float) -> Process:
        process = super()._begun(at)
        self._events.append(Began(at))
        _attach(process.roots, self._events)
        return process


def recorded(engine: EngineConfig, run: Run, mode: Mode, *, estimated_lengths: bool = False) -> Recorded:
    """Pass a run through the product, pod by pod."""
    scrapes = int(run.ends_at / SCRAPE_SECONDS) + 1
    pods, columns = [], []
    gc.disable()
    try:
        for pod in range(run.pods):
            events: list[Event] = []
            passage = _Passage(events, engine, run, mode=mode, pod=pod, estimated_lengths=estimated_lengths)
            found = passage.play(NAMES - {ROOTS, CAUSES}).columns
            columns.append(filled(found, scrapes))
            pods.append(tuple(events))
    finally:
        gc.enable()
        gc.collect()
    return Recorded(tuple(pods), tuple(columns), scrapes)


def replayed(kept: Recorded, decision: Callable[[], Decision] = Decision) -> Scraped:
    """The samples of a run whose roots another decision decides. `decision`: makes one for each process."""
    pods = []
    for events, columns in zip(kept.pods, kept.columns, strict=True):
        pods.append(columns | _counted(events, decision, kept.scrapes))
    return Scraped(tuple(pods), kept.scrapes)


def _counted(events: Sequence[Event], decision: Callable[[], Decision], scrapes: int) -> Columns:
    """The counters of roots at each scrape."""
    found: Columns = defaultdict(lambda: [0.0] * len(taken))
    counts: dict[tuple[str, Labels], float] = defaultdict(float)
    taken: list[float] = []
    steps = decided(events, decision)
    step = next(steps, None)
    for scrape in range(scrapes):
        at = scrape * SCRAPE_SECONDS
        while step is not None and step.event.at <= at:
            event = step.event
            if isinstance(event, Began):
                counts.clear()
            else:
                for root, weight in step.weighed.weights.items():
                    of_lane = (("model", event.model), ("lane", event.lane))
                    phase = ("phase", root.phase)
                    counts[ROOTS, (*of_lane, ("objective", event.objective), phase)] += event.times * weight
                    counts[CAUSES, (*of_lane, phase, ("cause", root.cause))] += event.times * weight
            step = next(steps, None)
        for key in counts.keys() | found.keys():
            found[key].append(counts.get(key, 0.0))
        taken.append(at)
    return dict(found)


class Decided(NamedTuple):
    """Misses that were decided anew; or a process that begins, without facts and weights."""

    event: Due | Began
    decision: Decision
    facts: Facts
    weighed: Weighed


def decided(events: Sequence[Event], decision: Callable[[], Decision]) -> Iterator[Decided]:
    """Each decided miss, and each process that begins."""
    now = decision()
    for event in events:
        match event:
            case Missed():
                now.missed(event.at)
            case Ticked():
                now.tick(event.at, burning=event.burning)
            case Saw():
                now.see(event.at, event.signs)
            case Due():
                facts = now.facts(event.facts, event.queued_since, event.at)
                yield Decided(event, now, facts, now.weighed(facts))
                now.decided(facts, event.at, times=event.times)
            case Began():
                now = decision()
                yield Decided(event, now, Facts(), _NOT_CLEAR)
