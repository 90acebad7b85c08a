"""Whether each request met its objectives: each is decided once, at its deadline, not at the end of the answer.

A request that still waits when its threshold passes has missed the objective, however it ends: so a hang shows while
it lasts.

A stream that has begun has one more deadline, which each output moves: a stall threshold after the last output. An output comes
too often to move an entry of the heap. So each stream has one entry, which is looked at when it falls due and is then due
anew. A gap that began and ended between two looks is found too, because the outputs themselves keep the longest gap.

The threshold depends on the length of the prompt, and some lengths are not known: the body was not read, or its text cannot be turned into
tokens yet. Such a request has two thresholds, of the shortest and of the longest prompt that it may be. Within the first it met its
objective; beyond the second it missed it, at that deadline; in between it is not judged, and counted as that.

Knows requests by a key; the caller passes in every instant. Refuses to know metrics (the callback `decided`
gets each decision) and the phase of a miss (`attribution.py`).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, NamedTuple

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.objective import E2E, STALL, TPOT, TTFT, Aim, Aims, Objective
from sidecar.timeline.held_back import held_back
from sidecar.timeline.outcome import ENDED_WELL, Outcome


_UNDECIDED = (Outcome.CLIENT_ERROR, Outcome.CLIENT_CANCELLED, Outcome.ACCEPTED)
"""Outcomes that decide no objective: the client made an error, or left before its threshold had passed, or the work is yet to be done."""
DEADLINES_AT_ONCE = 128
"""Passed deadlines that one `tick` decides: about a millisecond. In a hang, thousands may pass in one second."""
FEW_DUE = 64
"""Deadlines of ended requests that may stay in the heap (besides two per running request); above that they are
removed."""


class Stood(Enum):
    """Whether a stream stood still in a gap, by the other streams of its engine."""

    WENT_ON = auto()
    """It did not: each of them had about as little output, one after another, so the engine worked and sends seldom."""
    ALONE = auto()
    """Each of them had several outputs meanwhile."""
    ALL = auto()
    """None had output for as long as the threshold, or there is none."""


def _stood_alone(_began_at: float, _ended_at: float, _threshold_seconds: float) -> Stood:
    return Stood.ALONE


class TokenDeadlines:
    """Token deadlines of one stream, with slack (the fluidity index of Etalon, arXiv 2407.07000), and its longest gap.

    The first output event of a stream is due at the TTFT threshold, each later one a TPOT threshold after the deadline
    of the one before. An early event leaves slack for those behind it. A miss removes the slack: the next event is due
    one TPOT threshold after the late one. So one long stall is one miss, and a stream that is late once is not late for
    ever. An event stands for one token, because only events have instants.

    A gap is the time from one read with output to the next, or to the end of the answer. While the client does not take what it gets,
    the sidecar does not read the engine: that time is no part of a gap. The instant of the last output is moved by it.

    An engine that sends ten tokens in one event, or a block of them, makes gaps although it works: if its steps are long for a while,
    ten of them are seconds. So a gap above the threshold counts only if the stream stood still in it (`Stood`). The steps are not seen,
    but the other streams are: with each of them it went as with this one.
    """

    __slots__ = (
        "_due_at",
        "_ended_at",
        "_last_at",
        "_pace_seconds",
        "_paused_at",
        "_paused_seconds",
        "_resumed_at",
        "_stood",
        "alone",
        "began_at",
        "deadlines",
        "longest_after_events",
        "longest_events",
        "longest_paused_seconds",
        "longest_seconds",
        "longest_until",
        "misses",
        "stall_seconds",
    )

    def __init__(
        self,
        first_due_at: float = inf,
        pace_seconds: float = 0.0,
        stall_seconds: float = inf,
        stood: Callable[[float, float, float], Stood] = _stood_alone,
    ) -> None:
        """`first_due_at`: received_at plus the TTFT threshold. `pace_seconds`: the TPOT threshold. Without both, no event is late.

        `stall_seconds`: the threshold of a gap. `stood`: called with the beginning and the end of a gap above it, at its end or while it
        lasts, and with that threshold.
        """
        self.stall_seconds = stall_seconds
        self._stood = stood
        self.alone = False
        """In the longest gap, if it is above the threshold, other streams went on."""
        self._due_at = first_due_at
        self._pace_seconds = pace_seconds
        self.deadlines = 0
        self.misses = 0
        self.began_at = inf
        """Instant of the first output, moved by all pauses of the client since."""
        self._last_at = inf
        """Instant of the last output, moved by the client's pauses since; infinite before the first output and after the end."""
        self.longest_seconds = 0.0
        """Seconds of the longest gap that is over, or that a pause interrupted."""
        self.longest_until = inf
        """Its end."""
        self.longest_events = 0
        """Output events of the read that ended it."""
        self.longest_after_events = 0
        """Output events before it."""
        self.longest_paused_seconds = 0.0
        """Seconds of the client's pauses beside it: they lie between the same two outputs."""
        self._paused_at = self._resumed_at = self._ended_at = inf
        self._paused_seconds = 0.0
        """Pauses between the same two outputs as the last one."""

    def output(self, at: float, events: int) -> None:
        """So many output events were read together at this instant."""
        self.deadlines += events
        if at > self._due_at:
            # One miss: after it, the other events of this read are due later than this instant.
            self.misses += 1
            self._due_at = at
        self._due_at += events * self._pace_seconds
        if at - self._last_at > self.longest_seconds:
            self._is_longest(at, events)
        self._last_at = at

    def _is_longest(self, until: float, events: int) -> None:
        """The gap that ends now is longer than all before: so it is for few outputs of a stream."""
        if not self._counts(until):
            return
        self.longest_seconds, self.longest_until = until - self._last_at, until
        self.longest_events, self.longest_after_events = events, self.deadlines - events
        # The last output was moved by a pause, if there was one, to no later than the end of that pause.
        beside = self._last_at <= self._resumed_at <= until
        self.longest_paused_seconds = self._paused_seconds if beside else 0.0

    def _counts(self, until: float) -> bool:
        """Whether the present gap is within the threshold, or the stream stands still in it."""
        if until - self._last_at <= self.stall_seconds:
            return True
        stood = self._stood(self._last_at, until, self.stall_seconds)
        if stood is Stood.WENT_ON:
            return False
        self.alone = stood is Stood.ALONE
        return True

    def stood_seconds(self, at: float) -> float:
        """Seconds of the longest gap until now that counts."""
        gap_seconds = self.gap_seconds(at)
        if gap_seconds <= self.longest_seconds or not self._counts(min(at, self._paused_at)):
            return self.longest_seconds
        return gap_seconds

    def paused(self, at: float) -> None:
        """The sidecar stops reading the engine, because the client does not take what it gets."""
        if self._paused_at == inf:
            self._paused_at = at
            if at - self._last_at > self.longest_seconds:
                self._is_longest(at, 0)

    def resumed(self, at: float) -> None:
        """The sidecar reads the engine again."""
        # Output that was read before the pause may have been passed in after its beginning.
        paused_seconds = at - max(self._paused_at, self._last_at)
        gap_seconds, self._paused_at = self.gap_seconds(at), inf
        if paused_seconds <= 0.0:
            return
        before = self._paused_seconds if self._last_at <= self._resumed_at else 0.0
        self._paused_seconds, self._resumed_at = before + paused_seconds, at
        self.began_at += paused_seconds
        self._last_at = at - gap_seconds

    def finished(self, at: float) -> None:
        """The answer is complete: what comes later is no output, and nothing is waited for."""
        if self._last_at == inf:
            return
        self._ended_at = until = min(at, self._paused_at)
        if until - self._last_at > self.longest_seconds:
            self._is_longest(until, 0)
        self._last_at = inf

    def gap_seconds(self, at: float) -> float:
        """Seconds for which the present gap has lasted; 0 before the first output and after the end."""
        return max(0.0, min(at, self._paused_at) - self._last_at)

    def longest_gap(self, at: float) -> tuple[float, float]:
        """Beginning and end of the longest gap until now, as if the client had paused before it."""
        if self.gap_seconds(at) >= self.longest_seconds:
            began_at = min(self._last_at, self._ended_at)
            return began_at, max(began_at, min(at, self._paused_at, self._ended_at))
        return self.longest_until - self.longest_seconds, self.longest_until

    def other_gaps(self, at: float) -> tuple[float, int]:
        """Seconds of all other gaps together, and the output events that ended them. Of a gap that lasts, all before it."""
        until = min(self._last_at, self._ended_at)
        if self.gap_seconds(at) >= self.longest_seconds:
            return until - self.began_at, self.deadlines - 1
        return until - self.began_at - self.longest_seconds, self.deadlines - 1 - self.longest_events


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
    paused_at: float = inf
    """Since when its client does not take what it gets, if it has not got its first token."""
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
    gaps: TokenDeadlines | None = None
    """`tokens`, if its stream has begun and has an objective for its longest gap."""
    key: Any = None
    """The request's record; it names the request where the judge asks whether its stream stood still."""

    def paused(self, at: float) -> None:
        """The sidecar stops reading the engine for this request: its client does not take what it gets."""
        if self.tokens is not None:
            self.tokens.paused(at)
        else:
            self.paused_at = at

    def resumed(self, at: float) -> None:
        """The sidecar reads the engine for this request again."""
        if self.tokens is not None:
            self.tokens.resumed(at)
        else:
            self.paused_at = inf

    def timed(self, objective: Objective, until_at: float) -> tuple[float, float]:
        """Beginning and end of the time that an objective measures. `until_at`: the end, if no earlier one is known."""
        first = self.first_token_at
        if objective is STALL and self.tokens is not None:
            return self.tokens.longest_gap(until_at)
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


Asked = Callable[[Hashable, float, float, float], Stood]
"""Called with a request, the beginning and the end of a gap of its stream that is above its threshold, and that threshold in seconds."""


class Judge:
    """All requests of one process that have objectives. Call `tick` at least once a second; no call does much work."""

    def __init__(self, decided: Decided, unjudged: Unjudged, stood: Asked) -> None:
        self._stood = stood
        self._decided = decided
        self._unjudged = unjudged
        self._open = 0
        """Cases that are not over."""
        self._due: list[tuple[float, int, Objective, Case]] = []
        self._order = 0
        self.overdue: dict[Case, None] = {}
        """Streamed requests past their TTFT threshold with no token yet."""
        self.watched = 0
        """Streams that have begun and have an objective for their longest gap."""

    def __len__(self) -> int:
        return self._open

    def received(self, case: Case) -> bool:
        """A request was received whole. Returns whether it is judged: False if its lane has no objectives."""
        aims = case.aims
        if aims.ttft is None and aims.tpot is None and aims.e2e is None and aims.stall is None:
            return False
        self._open += 1
        if case.streaming is not None:
            self._expect(case, TTFT if case.streaming else E2E)
        return True

    def answering(self, case: Case, at: float, *, streaming: bool | None) -> None:
        """The head of an answer shows whether it is a stream; None: the instants of its tokens cannot be observed.

        Objectives that do not apply to such an answer are dropped, unless they have been missed by now.
        """
        if case.due_at < at:
            self._passed(case)
        if streaming is not None and case.streaming is streaming:
            return
        case.streaming, case.due_at = streaming, inf
        if streaming is not True:
            self.overdue.pop(case, None)
            case.decided.setdefault(TTFT, False)
            self._stood_still(case, at)
            case.decided.setdefault(STALL, False)
        if streaming is not False:
            case.decided.setdefault(E2E, False)
        if streaming is not None:
            self._expect(case, TTFT if streaming else E2E)

    def output(self, case: Case, at: float, events: int) -> None:
        """Output events of a stream were read together."""
        if case.first_token_at is None:
            self._first_token(case, at)
        if case.tokens is not None:
            case.tokens.output(at, events)

    def ends(self, case: Case, at: float) -> None:
        """The request is about to be over: decide whether its stream has stood still, while the other streams are known."""
        self._stood_still(case, at)

    def tick(self, at: float) -> bool:
        """Decide objectives with a passed deadline: a request that still waits has missed. True: more are due."""
        due = self._due
        left = DEADLINES_AT_ONCE
        while left and due and due[0][0] < at:
            _, _, objective, case = heappop(due)
            if objective not in case.decided:
                left -= 1
                if objective is STALL:
                    self._look_at_gap(case, at)
                else:
                    self._miss(case, objective)
        return bool(due) and due[0][0] < at

    def ended(self, case: Case, account: Account, at: float) -> None:
        """The request is over: decide all its remaining objectives. Call it once for each case that is judged."""
        self._open -= 1
        if case.due_at < at:
            self._passed(case)
        if self.overdue:
            self.overdue.pop(case, None)
        if case.gaps is not None:
            case.gaps = None
            self.watched -= 1
        outcome = account.outcome
        if outcome is ENDED_WELL:
            self._ended_well(case, account, at)
        elif outcome not in _UNDECIDED:
            self._spoiled(case, outcome)
        case.decided.setdefault(TTFT, False)
        case.decided.setdefault(E2E, False)
        case.decided.setdefault(STALL, False)
        if len(self._due) > FEW_DUE + 2 * self._open:
            self._sweep()

    def stated(self, case: Case, answered_at: float) -> bool:
        """A request that ended well is known as a whole, from its engine's span; `ended` comes next. Its gaps are not known, so nothing is
        said of a stall. `case`: with its first token. `answered_at`: its last one. Returns whether it is judged.
        """
        if not self.received(case):
            return False
        case.due_at = inf
        ttft, e2e = case.aims.ttft, case.aims.e2e
        if ttft is not None and case.first_token_at is not None:
            self._came(case, TTFT, ttft, case.first_token_at)
        if e2e is not None:
            self._came(case, E2E, e2e, answered_at)
        return True

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

    def _expect_output(self, case: Case, due_at: float) -> None:
        self._order += 1
        heappush(self._due, (due_at, self._order, STALL, case))

    def _look_at_gap(self, case: Case, at: float) -> None:
        """The entry of a stream fell due: it has missed, or it is due when its present gap would reach the threshold. A gap that is
        longer, in which it goes on, is looked at in each tick.
        """
        if not self._stood_still(case, at):
            tokens = case.tokens
            assert tokens is not None
            self._expect_output(case, at + max(0.0, tokens.stall_seconds - tokens.gap_seconds(at)))

    def _stood_still(self, case: Case, at: float) -> bool:
        """Decide the miss of a stream that has stood still for longer than its threshold by now; whether that is so."""
        tokens, aim = case.tokens, case.aims.stall
        if tokens is None or aim is None:
            return False
        if tokens.stood_seconds(at) <= aim.threshold_seconds:
            return False
        if STALL not in case.decided:
            self._decide(case, STALL, aim, missed=True)
        return True

    def _first_token(self, case: Case, at: float) -> None:
        case.first_token_at, case.streaming, case.due_at = at, True, inf
        case.decided.setdefault(E2E, False)  # it streams, whatever it said: E2E does not apply
        if self.overdue:
            self.overdue.pop(case, None)
        ttft, tpot, stall = case.aims.ttft, case.aims.tpot, case.aims.stall
        if ttft is not None:
            if TTFT not in case.decided:
                self._came(case, TTFT, ttft, at)
            if tpot is not None:
                case.tokens = TokenDeadlines(case.received_at + ttft.threshold_seconds, tpot.threshold_seconds)
        if stall is not None:
            self._watch_gaps(case, stall, at)

    def _watch_gaps(self, case: Case, stall: Aim, at: float) -> None:
        ttft, tpot = case.aims.ttft, case.aims.tpot
        first_due_at, pace_seconds = inf, 0.0
        if ttft is not None and tpot is not None:
            first_due_at, pace_seconds = case.received_at + ttft.threshold_seconds, tpot.threshold_seconds
        stood = partial(self._stood, case.key)
        gaps = TokenDeadlines(first_due_at, pace_seconds, stall.threshold_seconds, stood)
        case.gaps = case.tokens = gaps
        self.watched += 1
        gaps.began_at = at
        if case.paused_at < inf:
            gaps.paused(case.paused_at)
        self._expect_output(case, at + stall.threshold_seconds)

    def _ended_well(self, case: Case, account: Account, at: float) -> None:
        marks = account.marks
        if not account.streaming:
            flushed_at = at if marks.flushed_at is None else marks.flushed_at
            e2e = case.aims.e2e
            if e2e is not None and E2E not in case.decided:
                self._came(case, E2E, e2e, flushed_at)
            return
        tpot, stall = case.aims.tpot, case.aims.stall
        pace = None if tpot is None or marks.usage is None else pace_seconds(account)
        if tpot is not None and pace is not None:
            self._decide(case, TPOT, tpot, missed=pace > tpot.threshold_seconds)
        if stall is not None and case.tokens is not None and STALL not in case.decided and not held_back(marks):
            self._decide(case, STALL, stall, missed=False)

    def _spoiled(self, case: Case, outcome: Outcome) -> None:
        """The engine failed or rejected the request: a miss of its first objective that was still open.

        The kind of answer that the request asked for counts, not the kind that came: an error is no stream.
        """
        if case.streaming is False:
            objectives: tuple[Objective, ...] = (E2E,)
        elif case.first_token_at is not None:
            objectives = (TPOT, STALL)
        else:
            objectives = (TTFT, TPOT, STALL) if case.streaming else tuple(Objective)
        for objective in objectives:
            pointless = outcome is Outcome.REJECTED and objective in (TPOT, STALL)  # it was never admitted
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
