"""Grades pages against the truth: right, wrong, missed or false, and the time until the page.

It knows the rules of grading and counts by them. It refuses to know the source of either side, so that a made-up run
can be graded.

One *case* is one lane and objective of one run that must page. Only the first page counts that reaches its owner: among
its own burn alerts and the alerts about the engine of its pod (these inhibit the others). `unattributed` is neither
right nor wrong: the page says that the phase is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.incidents.prometheus import Firing, Heard
from bench.incidents.truth import FAST_WINDOW_SECONDS, Key, LaneTruth, Truth


RIGHT, WRONG, UNATTRIBUTED, MISSED = "right", "wrong", "unattributed", "missed"
TICKET_WITHIN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Case:
    """One lane and objective of one run that must page (or must have a ticket)."""

    kind: str
    engine: str
    seed: int
    reports: bool
    key: Key
    severity: str
    root: tuple[str, ...]
    proximate: str | None
    result: str
    said: str | None
    """Phase of the first page; None without a page."""
    alert: str | None
    waited_in: str | None
    seconds: float | None
    """Seconds until the page: from the fault or, if the lane began to burn later, from the beginning of the first
    window in which it burned fast enough that it must page."""
    seconds_since_fault: float | None
    front_end: bool
    cause: str | None = None

    @property
    def waited_right(self) -> bool | None:
        """Whether the page named the right phase of waiting. None if it named none, or if no phase was in excess."""
        if self.waited_in is None or self.proximate is None:
            return None
        return self.waited_in == self.proximate


@dataclass(frozen=True, slots=True)
class FalsePage:
    """A page that should not have been sent."""

    kind: str
    engine: str
    seed: int
    reports: bool
    why: str
    alert: str
    phase: str
    key: Key | None
    seconds: float
    """Seconds from the fault to the page."""


@dataclass(frozen=True, slots=True)
class Who:
    """Identity of a run."""

    kind: str
    engine: str
    seed: int
    reports: bool
    front_end: bool


def graded(who: Who, truth: Truth, heard: Heard, fault_at: float) -> tuple[list[Case], list[FalsePage]]:
    """Every case of one run, and every false page."""
    cases = []
    for key, lane in truth.lanes.items():
        if lane.must_page or lane.must_ticket:
            cases.append(_case(who, key, lane, heard, fault_at))
    return cases, list(_false(who, truth, heard, fault_at))


def _case(who: Who, key: Key, truth: LaneTruth, heard: Heard, fault_at: float) -> Case:
    severity = "page" if truth.must_page else "ticket"
    first = min(
        (each for each in heard.during if _concerns(each, key, severity)),
        # At the same instant the alert about the engine counts: it inhibits the other.
        key=lambda each: (each.at, each.lane is not None),
        default=None,
    )
    if first is not None and severity == "ticket" and first.at > fault_at + TICKET_WITHIN_SECONDS:
        first = None
    said = None if first is None else first.labels["phase"]
    return Case(
        who.kind,
        who.engine,
        who.seed,
        who.reports,
        key,
        severity,
        tuple(sorted(truth.root)),
        truth.proximate,
        _result(said, truth),
        said,
        None if first is None else first.alert,
        heard.waited_in.get(key),
        None if first is None else max(0.0, first.at - _began(truth, fault_at)),
        None if first is None else first.at - fault_at,
        who.front_end,
        heard.causes.get(key),
    )


def _began(truth: LaneTruth, fault_at: float) -> float:
    return fault_at if truth.burns_at is None else max(fault_at, truth.burns_at - FAST_WINDOW_SECONDS)


def _result(said: str | None, truth: LaneTruth) -> str:
    if said is None:
        return MISSED
    if said in truth.root:
        return RIGHT
    return UNATTRIBUTED if said == "unattributed" else WRONG


def _concerns(firing: Firing, key: Key, severity: str) -> bool:
    """Whether it is a burn alert of this lane, or a page about the engine that serves it."""
    if firing.labels.get("severity") != severity or firing.labels.get("phase") in (None, "sidecar"):
        return False
    return firing.lane == key or (severity == "page" and "lane" not in firing.labels)


def _false(who: Who, truth: Truth, heard: Heard, fault_at: float) -> Iterable[FalsePage]:
    pages = {when: [each for each in found if each.labels.get("severity") == "page"] for when, found in _times(heard)}

    def false(why: str, firing: Firing) -> FalsePage:
        phase = firing.labels.get("phase", "")
        return FalsePage(
            who.kind, who.engine, who.seed, who.reports, why, firing.alert, phase, firing.lane, firing.at - fault_at
        )

    for each in pages["before"]:
        yield false("before the fault", each)
    for each in pages["after"]:
        yield false("after recovery", each)
    burns = any(lane.may_page for lane in truth.lanes.values())
    for each in pages["during"]:
        if each.lane is None:
            if not burns:
                yield false("nothing burns", each)
        elif each.lane not in truth.lanes or not truth.lanes[each.lane].may_page:
            yield false("this lane does not burn", each)


def _times(heard: Heard) -> tuple[tuple[str, list[Firing]], ...]:
    return (("before", heard.before), ("during", heard.during), ("after", heard.after))
