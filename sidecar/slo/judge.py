"""Whether each request met its objectives: each is decided once, at its deadline, not at the end of the answer.

A request that still waits when its threshold passes has missed the objective, however it ends: so a stall shows while
it lasts.

The threshold depends on the length of the prompt, and some lengths are not known: the body was not read, or its text cannot be turned into
tokens yet. Such a request has two thresholds, of the shortest and of the longest prompt that it may be. Within the first it met its
objective; beyond the second it missed it, at that deadline; in between it is not judged, and counted as that.

Knows requests by a key; the caller passes in every instant. Refuses to know metrics (the callback `decided`
gets each decision) and the phase of a miss (`attribution.py`).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.slo.objective import E2E, TPOT, TTFT, Aim, Aims, Objective
from sidecar.timeline.held_back import held_back
from sidecar.timeline.outcome import ENDED_WELL, Outcome


_UNDECIDED = (Outcome.CLIENT_ERROR, Outcome.CLIENT_CANCELLED, Outcome.ACCEPTED)
"""Outcomes that decide no objective: the client made an error, or left before its threshold had passed, or the work is yet to be done."""
DEADLINES_AT_ONCE = 128
"""Passed deadlines that one `tick` decides: about a millisecond. In a hang, thousands may pass in one second."""
FEW_DUE = 64
"""Deadlines of ended requests that may stay in the heap (besides two per running request); above that they are
removed."""


class TokenDeadlines:
    """Token deadlines of one stream, with slack (the fluidity index of Etalon, arXiv 2407.07000).

    The first output event of a stream is due at the TTFT threshold, each later one a TPOT threshold after the deadline
    of the one before. An early event leaves slack for those behind it. A miss removes the slack: the next event is due
    one TPOT threshold after the late one. So one long stall is one miss, and a stream that is late once is not late for
    ever. An event stands for one token, because only events have instants.
    """

    __slots__ = ("_due_at", "_pace_seconds", "deadlines", "misses")

    def __init__(self, first_due_at: float, pace_seconds: float) -> None:
        """`first_due_at`: received_at plus the TTFT threshold. `pace_seconds`: the TPOT threshold."""
        self._due_at = first_due_at
        self._pace_seconds = pace_seconds
        self.deadlines = 0
        self.misses = 0

    def output(self, at: float, events: int) -> None:
        """So many output events were read together at this instant."""
        self.deadlines += events
        if at > self._due_at:
            # One miss: after it, the other events of this read are due later than this instant.
            self.misses += 1
            self._due_at = at
        self._due_at += events * self._pace_seconds


@dataclass(slots=True, eq=False)
class Case:
    """One request and the decisions on it. Its prompt bucket does not change after the first deadline has passed."""

    labels: RequestLabels
    aims: Aims
    received_at: float
    streaming: bool | None
    """None: unknown, because the request was too long to be read. The head of the answer shows it, unless the answer is
    not read."""
    shortest: Aims | None = None
    """The objectives of the shortest prompt that it may be, where its length is not known; `aims` are then those of the longest."""
    unknown_because: str = ""
    """The reason why its length is not known, one of UNKNOWN_LENGTHS."""
    first_token_at: float | None = None
    decided: dict[Objective, bool] = field(default_factory=dict)
    """Objective to whether it was missed."""
    unjudged: bool = False
    """One of them was not judged."""
    missed: tuple[Objective, ...] = ()
    """Those that were missed, in the order of these decisions."""
    due_at: float = inf
    """Instant after which it has missed the first objective of its kind of answer; infinite without one, and after the
    first token."""
    tokens: TokenDeadlines | None = None
    key: Hashable = None
    """Set by the judge that it is given to."""

    def timed(self, objective: Objective, until_at: float) -> tuple[float, float]:
        """Beginning and end of the time that an objective measures. `until_at`: the end, if no earlier one is known."""
        first = self.first_token_at
        if first is None or objective is E2E:
            return self.received_at, until_at
        return (self.received_at, first) if objective is TTFT else (first, until_at)


class UnknownLength(NamedTuple):
    """All that is known of a prompt whose length is not."""

    shortest: str
    """The bucket of the shortest prompt that it may be."""
    longest: str
    because: str
    """The reason, one of UNKNOWN_LENGTHS."""


Decided = Callable[[Case, Objective, Aim, bool], None]
"""Called once per request and objective: the case, the objective, its threshold and target, whether it was missed."""
Unjudged = Callable[[Case, Objective], None]
"""Called instead where only the length of the prompt would decide."""


class Judge:
    """All requests of one process that have objectives. Call `tick` at least once a second; no call does much work."""

    def __init__(self, decided: Decided, unjudged: Unjudged) -> None:
        self._decided = decided
        self._unjudged = unjudged
        self._cases: dict[Hashable, Case] = {}
        self._due: list[tuple[float, int, Objective, Case]] = []
        self._order = 0
        self.overdue: dict[Case, None] = {}
        """Streamed requests past their TTFT threshold with no token yet."""

    def __len__(self) -> int:
        return len(self._cases)

    def received(self, key: Hashable, case: Case) -> None:
        """A request was received whole. It is not kept if its lane has no objectives."""
        aims = case.aims
        if aims.ttft is None and aims.tpot is None and aims.e2e is None:
            return
        case.key = key
        self._cases[key] = case
        if case.streaming is not None:
            self._expect(case, TTFT if case.streaming else E2E)

    def answering(self, key: Hashable, at: float, *, streaming: bool | None) -> None:
        """The head of an answer shows whether it is a stream; None: the instants of its tokens cannot be observed.

        Objectives that do not apply to such an answer are dropped, unless they have been missed by now.
        """
        case = self._cases.get(key)
        if case is None:
            return
        if case.due_at < at:
            self._passed(case)
        if streaming is not None and case.streaming is streaming:
            return
        case.streaming, case.due_at = streaming, inf
        if streaming is not True:
            self.overdue.pop(case, None)
            case.decided.setdefault(TTFT, False)
        if streaming is not False:
            case.decided.setdefault(E2E, False)
        if streaming is not None:
            self._expect(case, TTFT if streaming else E2E)

    def output(self, key: Hashable, at: float, events: int) -> None:
        """Output events of a stream were read together."""
        case = self._cases.get(key)
        if case is None:
            return
        if case.first_token_at is None:
            self._first_token(case, at)
        if case.tokens is not None:
            case.tokens.output(at, events)

    def deadlines_of(self, key: Hashable) -> TokenDeadlines | None:
        """The token deadlines of a request, after its first token; None if it has none."""
        case = self._cases.get(key)
        return None if case is None else case.tokens

    def tick(self, at: float) -> bool:
        """Decide objectives with a passed deadline: a request that still waits has missed. True: more are due."""
        due = self._due
        left = DEADLINES_AT_ONCE
        while left and due and due[0][0] < at:
            _, _, objective, case = heappop(due)
            if objective not in case.decided:
                left -= 1
                self._miss(case, objective)
        return bool(due) and due[0][0] < at

    def ended(self, key: Hashable, account: Account, at: float) -> Case | None:
        """The request is over: decide all its remaining objectives. Returns None if it has no objectives."""
        case = self._cases.pop(key, None)
        if case is None:
            return None
        if case.due_at < at:
            self._passed(case)
        if self.overdue:
            self.overdue.pop(case, None)
        outcome = account.outcome
        if outcome is ENDED_WELL:
            self._ended_well(case, account, at)
        elif outcome not in _UNDECIDED:
            self._spoiled(case, outcome)
        case.decided.setdefault(TTFT, False)
        case.decided.setdefault(E2E, False)
        if len(self._due) > FEW_DUE + 2 * len(self._cases):
            self._sweep()
        return case

    def _sweep(self) -> None:
        """Remove deadlines of ended requests: they decide nothing, and long thresholds would keep hours of them."""
        self._due = [due for due in self._due if due[2] not in due[3].decided]
        heapify(self._due)

    # --- one case --------------------------------------------------------------------------------------------------------

    def _passed(self, case: Case) -> None:
        """Decide the deadline of one request, which has passed: `tick` may not have come to it yet."""
        objective = TTFT if case.streaming else E2E
        if objective not in case.decided:
            self._miss(case, objective)

    def _miss(self, case: Case, objective: Objective) -> None:
        aim = case.aims.aim(objective)
        assert aim is not None
        self._decide(case, objective, aim, missed=True)
        if objective is TTFT:
            self.overdue[case] = None

    def _expect(self, case: Case, objective: Objective) -> None:
        aim = case.aims.ttft if objective is TTFT else case.aims.e2e
        if aim is not None:
            case.due_at = due_at = case.received_at + aim.threshold_seconds
            self._order += 1
            heappush(self._due, (due_at, self._order, objective, case))

    def _first_token(self, case: Case, at: float) -> None:
        case.first_token_at, case.streaming, case.due_at = at, True, inf
        case.decided.setdefault(E2E, False)  # it streams, whatever it said: E2E does not apply
        if self.overdue:
            self.overdue.pop(case, None)
        ttft, tpot = case.aims.ttft, case.aims.tpot
        if ttft is None:
            return
        due_at = case.received_at + ttft.threshold_seconds
        if TTFT not in case.decided:
            self._came(case, TTFT, ttft, at)
        if tpot is not None:
            case.tokens = TokenDeadlines(due_at, tpot.threshold_seconds)

    def _ended_well(self, case: Case, account: Account, at: float) -> None:
        marks = account.marks
        if not account.streaming:
            flushed_at = at if marks.flushed_at is None else marks.flushed_at
            e2e = case.aims.e2e
            if e2e is not None and E2E not in case.decided:
                self._came(case, E2E, e2e, flushed_at)
            return
        tpot = case.aims.tpot
        pace = None if tpot is None or marks.usage is None else pace_seconds(account)
        if tpot is not None and pace is not None:
            self._decide(case, TPOT, tpot, missed=pace > tpot.threshold_seconds)

    def _spoiled(self, case: Case, outcome: Outcome) -> None:
        """The engine failed or rejected the request: a miss of its first objective that was still open.

        The kind of answer that the request asked for counts, not the kind that came: an error is no stream.
        """
        if case.streaming is False:
            objectives: tuple[Objective, ...] = (E2E,)
        elif case.first_token_at is not None:
            objectives = (TPOT,)
        else:
            objectives = (TTFT, TPOT) if case.streaming else tuple(Objective)
        for objective in objectives:
            pointless = outcome is Outcome.REJECTED and objective is TPOT  # it was never admitted
            aim = case.aims.aim(objective)
            if pointless or aim is None or case.decided.get(objective) is False:
                continue
            if objective not in case.decided:
                self._decide(case, objective, aim, missed=True)
            return

    def _came(self, case: Case, objective: Objective, latest: Aim, at: float) -> None:
        """The token or the answer that was waited for came at this instant."""
        missed = at > case.received_at + latest.threshold_seconds
        if not missed and case.shortest is not None:
            soonest = case.shortest.aim(objective)
            if soonest is not None and at > case.received_at + soonest.threshold_seconds:
                case.decided[objective] = False
                case.unjudged = True
                self._unjudged(case, objective)
                return
        self._decide(case, objective, latest, missed=missed)

    def _decide(self, case: Case, objective: Objective, aim: Aim, *, missed: bool) -> None:
        case.decided[objective] = missed
        if missed:
            case.missed = (*case.missed, objective)
        self._decided(case, objective, aim, missed)


def pace_seconds(account: Account) -> float | None:
    """Seconds per output token after the first. None where it is undefined: one token, several choices, no usage, output
    that came at one instant, and an answer that was held back.
    """
    marks, usage = account.marks, account.marks.usage
    if not account.streaming or marks.choices != 1 or usage is None or (tokens := usage.completion_tokens or 0) < 2:
        return None
    if marks.first_token_at is None or marks.last_token_at is None:
        return None
    if marks.last_token_at == marks.first_token_at or held_back(marks):
        return None
    return (marks.last_token_at - marks.first_token_at) / (tokens - 1)
