"""Grades pages against the truth: right, wrong, missed or false, and the time until the page.

It knows the rules of grading and counts by them. It refuses to know the source of either side, so that a made-up run
can be graded.

One *case* is one lane and objective of one run that must page, that burns without being owed a page (`truth.py`), or
that must have a ticket. Only the first page counts that reaches its owner: among its own burn alerts and the alerts
about the engine of its pods (these inhibit the others). `unattributed` is neither right nor wrong: the page says that
the phase is unknown.

Each case is graded three times, by sets of phases that `kinds.py` fixes: the *lenient* grade accepts each phase whose
owner can mend the fault, S2 only the phases of the injected causes, and S1 these and the few for which there is a reason.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from bench.incidents.burn import FAST_WINDOW_SECONDS
from bench.incidents.prometheus import CONFIDENCE, Firing, Heard
from bench.incidents.truth import Key, LaneTruth, Truth
from bench.incidents.world import Mode


RIGHT, WRONG, UNATTRIBUTED, MISSED = "right", "wrong", "unattributed", "missed"
TICKET_WITHIN_SECONDS = 3600.0
POD_WITHIN_SECONDS = 120.0
"""A page must name the pod at fault within so many seconds of the instant at which it is due."""
BEFORE_FAULT = "before the fault"
NOTHING_BURNS = "nothing burns"
LANE_CALM = "this lane does not burn"
AFTER_RECOVERY = "after recovery"
"""It begins after the last consequences of the fault, and its phase had paged before the fault ended."""
NEW_PHASE = "a new phase after recovery"
"""It begins after the last consequences of the fault, and its phase had not paged before the fault ended."""
CHANGED = "another phase after the heal"
"""It begins after the fault's end while consequences still burn, and its lane had been paged with other phases only."""


@dataclass(frozen=True, slots=True)
class Case:
    """One lane and objective of one run that burns (or must have a ticket)."""

    kind: str
    engine: str
    seed: int
    mode: Mode
    key: Key
    severity: str
    owed: bool
    """Whether the page or ticket must come. Otherwise the lane burns, and its page is only welcome."""
    root: tuple[str, ...]
    """Right by the lenient grade."""
    strict: tuple[str, ...]
    """Right by S1."""
    phases: tuple[str, ...]
    """Right by S2."""
    proximate: str | None
    result: str
    """The lenient grade; it does not count where `owed` is false."""
    strict_result: str
    phase_result: str
    said: str | None
    """Phase of the first page; None without a page."""
    alert: str | None
    waited_in: str | None
    seconds: float | None
    """Seconds until the page: from the fault or, if the lane began to burn later, from the beginning of the first
    window in which it burned fast enough that it must page."""
    seconds_since_fault: float | None
    late_seconds: float | None
    """Seconds from the instant at which the page is due to the page, negative if it came earlier; None if either is
    missing."""
    front_end: bool
    cause: str | None = None
    pods: int = 1
    at_fault: tuple[int, ...] = (0,)
    named_pod: str | None = None
    """The page's label `pod`, or else the worst pod of its annotation; None without either."""
    confidence: float | None = None
    """Share of the page's phase in the decided misses, 0 to 1, as its annotation states it. None for `unattributed`,
    which claims no phase, and for alerts that state none."""
    changes: int = 0
    """How many times the lane's own pages changed their phase until the heal; `unattributed` is a phase here."""

    @property
    def run(self) -> tuple[str, int]:
        """The run that it belongs to: kind and seed."""
        return self.kind, self.seed

    @property
    def waited_right(self) -> bool | None:
        """Whether the page named the right phase of waiting. None if it named none, or if no phase was in excess."""
        if self.waited_in is None or self.proximate is None:
            return None
        return self.waited_in == self.proximate

    @property
    def pod_right(self) -> bool:
        """Whether the page named the only pod at fault, in time."""
        in_time = self.late_seconds is not None and self.late_seconds <= POD_WITHIN_SECONDS
        return in_time and self.named_pod in {pod_name(pod) for pod in self.at_fault}


@dataclass(frozen=True, slots=True)
class FalsePage:
    """A page that should not have been sent."""

    kind: str
    engine: str
    seed: int
    mode: Mode
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
    mode: Mode
    front_end: bool


def pod_name(pod: int) -> str:
    """Label `pod` of the pod with this number."""
    return f"llm-{pod}"


def graded(who: Who, truth: Truth, heard: Heard, fault_at: float) -> tuple[list[Case], list[FalsePage]]:
    """Every case of one run, and every false page."""
    cases = []
    for key, lane in truth.lanes.items():
        if lane.must_page or lane.must_ticket or lane.burns:
            cases.append(_case(who, truth, key, heard, fault_at))
    return cases, list(_false(who, truth, heard, fault_at))


def _case(who: Who, truth: Truth, key: Key, heard: Heard, fault_at: float) -> Case:
    lane = truth.lanes[key]
    severity = "page" if lane.must_page or lane.burns else "ticket"
    first = min(
        (each for each in heard.during if _concerns(each, key, severity, lane)),
        # At the same instant the alert about the engine counts: it inhibits the other.
        key=lambda each: (each.at, each.lane is not None),
        default=None,
    )
    if first is not None and severity == "ticket" and first.at > fault_at + TICKET_WITHIN_SECONDS:
        first = None
    said = None if first is None else first.labels["phase"]
    words = {} if first is None else first.annotations
    return Case(
        kind=who.kind,
        engine=who.engine,
        seed=who.seed,
        mode=who.mode,
        key=key,
        severity=severity,
        owed=lane.must_page or lane.must_ticket,
        root=tuple(sorted(lane.root)),
        strict=tuple(sorted(lane.strict)),
        phases=tuple(sorted(lane.phases)),
        proximate=lane.proximate,
        result=_result(said, lane.root),
        strict_result=_result(said, lane.strict),
        phase_result=_result(said, lane.phases),
        said=said,
        alert=None if first is None else first.alert,
        waited_in=heard.waited_in.get(key),
        seconds=None if first is None else max(0.0, first.at - _began(lane, fault_at)),
        seconds_since_fault=None if first is None else first.at - fault_at,
        late_seconds=None if first is None or lane.burns_at is None else first.at - lane.burns_at,
        front_end=who.front_end,
        cause=words.get("cause"),
        pods=truth.pods,
        at_fault=truth.at_fault,
        named_pod=None if first is None else first.labels.get("pod") or words.get("worst_pod"),
        confidence=None if said == UNATTRIBUTED or CONFIDENCE not in words else float(words[CONFIDENCE]),
        changes=_phase_changes(key, heard.during, truth.heals_at),
    )


def _phase_changes(key: Key, during: Iterable[Firing], heals_at: float) -> int:
    own = sorted((each for each in _pages(during) if each.lane == key and each.at < heals_at), key=lambda each: each.at)
    return sum(one.labels["phase"] != other.labels["phase"] for one, other in pairwise(own))


def _began(truth: LaneTruth, fault_at: float) -> float:
    return fault_at if truth.burns_at is None else max(fault_at, truth.burns_at - FAST_WINDOW_SECONDS)


def _result(said: str | None, right: frozenset[str]) -> str:
    if said is None:
        return MISSED
    if said in right:
        return RIGHT
    return UNATTRIBUTED if said == "unattributed" else WRONG


def _concerns(firing: Firing, key: Key, severity: str, truth: LaneTruth) -> bool:
    """Whether it is a burn alert of this lane, or a page about the engine that serves it.

    An alert about the sidecar of a pod says nothing about the lane, unless the fault is the sidecar's.
    """
    phase = firing.labels.get("phase")
    if firing.labels.get("severity") != severity or phase is None:
        return False
    if firing.lane is not None:
        return firing.lane == key
    about_sidecar = phase == "sidecar" and "sidecar" not in truth.phases
    return severity == "page" and "lane" not in firing.labels and not about_sidecar


# --- false pages -------------------------------------------------------------------------------------------------------


def _false(who: Who, truth: Truth, heard: Heard, fault_at: float) -> Iterator[FalsePage]:
    def false(why: str, firing: Firing) -> FalsePage:
        phase = firing.labels.get("phase", "")
        return FalsePage(
            who.kind, who.engine, who.seed, who.mode, why, firing.alert, phase, firing.lane, firing.at - fault_at
        )

    during = _pages(heard.during)
    while_broken = [each for each in during if each.at < truth.heals_at]
    phases = {each.labels.get("phase") for each in while_broken}
    for each in _pages(heard.before):
        yield false(BEFORE_FAULT, each)
    for each in _pages(heard.after):
        yield false(AFTER_RECOVERY if each.labels.get("phase") in phases else NEW_PHASE, each)
    burns = any(lane.may_page for lane in truth.lanes.values())
    for each in during:
        if each.lane is None and not burns:
            yield false(NOTHING_BURNS, each)
        elif each.lane is not None and (each.lane not in truth.lanes or not truth.lanes[each.lane].may_page):
            yield false(LANE_CALM, each)
        elif each.at >= truth.heals_at and _changes(each, while_broken):
            yield false(CHANGED, each)


def _pages(firings: Iterable[Firing]) -> list[Firing]:
    return [each for each in firings if each.labels.get("severity") == "page"]


def _changes(page: Firing, before: list[Firing]) -> bool:
    """Whether those who were paged about this lane, or else about any, now hear of a phase that is new to them."""
    own = [each for each in before if None in (each.lane, page.lane) or each.lane == page.lane]
    phases = {each.labels.get("phase") for each in own or before}
    return bool(phases) and page.labels.get("phase") not in phases
