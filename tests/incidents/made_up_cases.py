"""Made-up truths, alerts and cases, from which tests build the runs that they grade."""

from bench.incidents.grade import Case, Who, graded
from bench.incidents.prometheus import Firing, Heard
from bench.incidents.truth import LaneTruth, Truth
from bench.incidents.world import Mode


CHAT, CODE = ("chat", "ttft"), ("code", "ttft")
FAULT_AT, HEALS_AT, QUIET_AT = 600.0, 1200.0, 1300.0
WHO = Who("burst", "chunks-2048", 12, Mode.REPORTS, front_end=False)
QUEUE = frozenset({"queue"})


def lane(
    *,
    root: frozenset[str] = QUEUE,
    strict: frozenset[str] = QUEUE,
    phases: frozenset[str] = QUEUE,
    must_page: bool = False,
    burns: bool = False,
    must_ticket: bool = False,
    burns_at: float | None = None,
) -> LaneTruth:
    """One lane and objective; by itself it is calm."""
    burns = burns or must_page
    return LaneTruth(
        root, strict, phases, "queue", must_page, burns, must_ticket, must_ticket, burns_at, 50, 100, burns=burns
    )


BURNS = lane(must_page=True, burns_at=620.0)
CALM = lane()


def fired(
    at: float,
    phase: str,
    of_lane: str | None = "chat",
    severity: str = "page",
    pod: str | None = None,
    **annotations: str,
) -> Firing:
    """An alert that began to fire; without a lane it is about the engine of a pod."""
    labels = {"alertname": f"LLM{phase.title()}Burn", "severity": severity, "phase": phase}
    labels |= {} if of_lane is None else {"lane": of_lane, "objective": "ttft"}
    return Firing(at, labels | ({} if pod is None else {"pod": pod}), annotations)


def heard(
    during: list[Firing],
    before: list[Firing] | None = None,
    after: list[Firing] | None = None,
) -> Heard:
    """Everything that was heard in one run."""
    return Heard(before or [], during, after or [], {CHAT: "queue"}, {})


def truth(chat: LaneTruth, code: LaneTruth = CALM, *, pods: int = 1, at_fault: tuple[int, ...] = (0,)) -> Truth:
    """The truth of a run with two lanes."""
    return Truth({CHAT: chat, CODE: code}, QUIET_AT, HEALS_AT, pods, at_fault)


def case_of(
    during: list[Firing],
    chat: LaneTruth = BURNS,
    *,
    who: Who = WHO,
    pods: int = 1,
    at_fault: tuple[int, ...] = (0,),
) -> Case:
    """The only case of a run in which these alerts fired."""
    made = truth(chat, pods=pods, at_fault=at_fault)
    (case,), _ = graded(who, made, heard(during), FAULT_AT)
    return case
