"""A judge with a record of its decisions, for scenarios in seconds after the start."""

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.judge import Case, Judge, Stood
from sidecar.objectives.objective import Aim, Aims, Objective
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


TTFT, TPOT, E2E, STALL = Objective.TTFT, Objective.TPOT, Objective.E2E, Objective.STALL
AIMS = Aims(ttft=Aim(1.0, 0.9), tpot=Aim(0.25, 0.9), e2e=Aim(8.0, 0.99))
START = 100.0
"""Instant at which every request of these scenarios was received, unless it is given another."""


class JudgeHarness:
    """A judge and its decisions: (key, objective, missed), in order. Instants are seconds after `START`."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, str, bool]] = []
        self.unjudged: list[tuple[str, str]] = []
        self.judge = Judge(
            lambda case, objective, _aim, missed: self.decided.append((case.labels.lane, objective, missed)),
            lambda case, objective: self.unjudged.append((case.labels.lane, objective)),
            lambda key, _began_at, _ended_at, _threshold_seconds: self.stood.get(str(key), Stood.ALONE),
        )
        self.stood: dict[str, Stood] = {}
        self.cases: dict[str, Case] = {}

    def received(
        self,
        key: str,
        *,
        streaming: bool | None = True,
        aims: Aims = AIMS,
        longest: Aims | None = None,
        at: float = 0.0,
    ) -> None:
        known = longest is None
        case = Case(
            RequestLabels("m", key, "0-512"),
            longest or aims,
            START + at,
            streaming,
            shortest=None if known else aims,
            key=key,
        )
        if self.judge.received(case):
            self.cases[key] = case

    def output(self, key: str, at: float, events: int = 1) -> None:
        if key in self.cases:
            self.judge.output(self.cases[key], START + at, events)

    def answering(self, key: str, at: float, *, streaming: bool | None) -> None:
        if key in self.cases:
            self.judge.answering(self.cases[key], START + at, streaming=streaming)

    def paused(self, key: str, at: float, until: float) -> None:
        """Its client does not take what it gets until then."""
        self.cases[key].paused(START + at)
        self.cases[key].resumed(START + until)

    def tick(self, at: float) -> bool:
        return self.judge.tick(START + at)

    def ended(
        self,
        key: str,
        at: float,
        outcome: Outcome = Outcome.OK,
        *,
        streaming: bool = True,
        tokens: tuple[float, float, int] | None = None,
        choices: int = 1,
    ) -> Case | None:
        """`tokens`: the instants of the first and the last token, and their number by the usage."""
        first, last, completion = (None, None, None) if tokens is None else tokens
        marks = Marks(
            accepted_at=START,
            received_at=START,
            first_token_at=None if first is None else START + first,
            last_token_at=None if last is None else START + last,
            flushed_at=START + at,
            choices=choices,
            usage=Usage(completion_tokens=completion),
        )
        account = Account(RequestLabels("m", key, "0-512"), streaming, outcome, marks, None)
        case = self.cases.pop(key, None)
        if case is not None:
            self.judge.ends(case, START + at)
            self.judge.ended(case, account, START + at)
        return case
