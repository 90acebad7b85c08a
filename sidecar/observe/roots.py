"""The root of each miss on the metrics page: decided on this pod, once, at the latest 15 s after the miss.

Stands between `slo_counters.py`, which tells each miss and each end, and the pure rooms of `pod/`. It knows which
weight belongs to which counter, and how old the signs of the pod may be. It refuses to know how a miss is weighed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Any

from sidecar.engines.pool_behind import PoolBehind
from sidecar.history.incident_log import IncidentLog
from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.objectives.attribution import Blame, SecondOutput, client_held, waited_between
from sidecar.objectives.judge import Case, TokenDeadlines
from sidecar.objectives.objective import E2E, STALL, TPOT, Aims, Objective
from sidecar.objectives.stall import stall_of
from sidecar.observe.evidence import Evidence
from sidecar.observe.pod_signs import PodReader
from sidecar.observe.request_record import RequestRecord
from sidecar.pod.backlog import Backlog
from sidecar.pod.causes import Cause, Root
from sidecar.pod.decision import Decision
from sidecar.pod.incident import Incident
from sidecar.pod.lateness import Late, Lateness
from sidecar.pod.life import Facts, Failed
from sidecar.pod.long_prompts import LongPrompts
from sidecar.pod.open_misses import WAIT_SECONDS, Miss, OpenMisses
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.reading import READING_SECONDS
from sidecar.pod.reasons import COLLECTED
from sidecar.pod.usual.comparison import CALM_AFTER_SECONDS, RECENT_SECONDS, YOUNG_CALM_SECONDS
from sidecar.pod.usual.learner import Learner
from sidecar.timeline.outcome import Outcome


LOOK_SECONDS = 0.5
CLEAR = 0.92
"""A miss whose leading root has at least this weight needs no further evidence. That requests wait is none: before a
hang shows as silence, they wait in its queue too."""
LATE_SECONDS = 15.0
"""A loop that was late in the last seconds may still have misled the signs of the pod."""
QUIET_SECONDS = 1.5
"""After so long without any output, what has grown on the pod needs further evidence as well: it may be such a hang."""
_FAILED = {
    Outcome.ENGINE_ERROR: Failed.ERROR,
    Outcome.ENGINE_TIMEOUT: Failed.ERROR,
    Outcome.ENGINE_TRUNCATED: Failed.ERROR,
    Outcome.ENGINE_UNREACHABLE: Failed.UNREACHABLE,
    Outcome.SIDECAR_ERROR: Failed.SIDECAR,
}


class Roots:
    """The roots of one process's misses. All instants are monotonic seconds."""

    def __init__(self, metrics: Metrics, evidence: Evidence, *, by_spans: bool = False) -> None:
        self._evidence = evidence
        self.unix_of: Callable[[float], float] | None = None
        """Unix time of an instant; None: no incident is written down."""
        self.incidents = IncidentLog()
        self._reader = PodReader(metrics, by_spans=by_spans)
        self._pod = Pod()
        self.decision = Decision()
        """Its own part, which knows no counter."""
        self.pool = PoolBehind()
        """The pool behind the engine: a miss that was turned away waits while that is in doubt."""
        self._open = OpenMisses(self._decide)
        self._silent_seconds = 0.0
        """The engine's silence at the last look: signs are some seconds older."""
        self._explained: tuple[float, bool] = float("-inf"), False
        """Instant of the last look at a silence that no output interrupts in passing, and whether pending prompts explained it."""
        self.long_prompts = LongPrompts(evidence.prefill_seconds)
        """Told of each request by the caller."""
        self._backlog = Backlog()
        self._held_up: dict[tuple[int, float, float | None], bool] = {}
        self._lateness = Lateness()
        self._late: dict[tuple[int, int], Late] = {}
        self._decided: dict[tuple[RequestLabels, Objective, Facts], int] = {}
        """Misses that this turn decided: in a storm most are alike, and each kind is written once."""
        self._next_slice_at = self._looked_at = float("-inf")
        self.more = False
        """More misses may be due than were decided in one turn."""
        self._roots = metrics.counter(c.SLO_ROOT_MISSES_TOTAL)
        self._causes = metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL)
        self._undecided = metrics.gauge(c.SLO_UNDECIDED_MISSES)
        self._ratios = metrics.gauge(c.EVIDENCE_RATIO)
        self._age = metrics.gauge(c.INCIDENT_AGE_SECONDS)
        self._shown = metrics.gauge(c.INCIDENT_SHOWN_AGE_SECONDS)
        self._confidence = metrics.gauge(c.INCIDENT_CONFIDENCE_RATIO)
        self._size = tuple(
            metrics.gauge(one) for one in (c.INCIDENT_SIZE_RATIO, c.INCIDENT_SIZE_RATIO_LOW, c.INCIDENT_SIZE_RATIO_HIGH)
        )

    # --- misses ---------------------------------------------------------------------------------------------------------

    def missed(self, record: RequestRecord, case: Case, objective: Objective, at: float) -> None:
        """A miss was counted."""
        self.decision.missed(at)
        timed_from_at, _ = case.timed(objective, at)
        miss = Miss(case.labels, objective, case.received_at, at, timed_from_at, _ttft_seconds(case.aims))
        if objective is STALL and case.tokens is not None and case.aims.stall is not None:
            miss.deadlines, miss.threshold_seconds = case.tokens, case.aims.stall.threshold_seconds
        record.misses = (*record.misses, miss)
        self._open.missed(miss)

    def waited(self, record: RequestRecord, objective: Objective, phase: Blame, at: float) -> None:
        """The ledger of a miss was closed."""
        if objective is not TPOT and objective is not STALL:
            self._pod.waited(at, phase)
        for miss in record.misses:
            if miss.objective is objective:
                miss.waited_in = phase

    def ended(self, record: RequestRecord, account: Account, aims: Aims, second: SecondOutput | None) -> None:
        """The request is over, and its ledger is closed if it will be closed soon. `second`: None if it had no second
        output.
        """
        failed = _FAILED.get(account.outcome)
        for miss in record.misses:
            miss.failed = failed
            miss.turned_away = account.outcome is Outcome.REJECTED
            miss.paused = account.marks.paused_seconds > 0.0
            if miss.objective is TPOT and client_held(account.marks, aims):
                miss.waited_in = Blame.STREAM
            if miss.objective is TPOT and second is not None:
                miss.transferred = waited_between(account.marks, aims, second)
            self._open.ended(miss)

    def answered(self, account: Account) -> None:
        """A request ended well: its events and tokens tell how many tokens a step gives."""
        marks = account.marks
        tokens = None if marks.usage is None else marks.usage.completion_tokens
        if account.streaming and marks.choices == 1 and tokens is not None and tokens > 1:
            self._pod.answered_events += marks.output_events
            self._pod.answered_tokens += tokens

    # --- time -----------------------------------------------------------------------------------------------------------

    def tick(self, at: float, *, burning: bool, learn: bool, hurried: bool = False, again: bool = False) -> None:
        """Read the pod and decide what is due. Call it about once a second, and again at once while `more` is due.

        `learn`: what happens now may become the usual; `hurried`: without two minutes of calm after it; `again`: this is
        a further turn, because there was more to do.
        """
        try:
            if not (again or self.more) or at >= self._looked_at + LOOK_SECONDS:
                self._look(at, burning=burning, learn=learn, hurried=hurried)
        finally:  # an error in a sign must not leave misses undecided
            self._decide_due(at)

    def _decide_due(self, at: float) -> None:
        try:
            self.more = self._open.tick(at)
        finally:
            self._write(at)

    def _look(self, at: float, *, burning: bool, learn: bool, hurried: bool) -> None:
        self._looked_at = at
        self._lateness.add(at, self._reader.lags)
        self.decision.tick(at, burning=burning)
        self._log(at)
        inside = self._evidence.inside(at)
        self._silent_seconds = max(inside.silent_seconds, inside.unseen_seconds)
        if inside.silent_seconds >= LOOK_SECONDS:
            self._explained = at, inside.silent_seconds <= inside.excused_seconds
        self._backlog.tick(at, inside.waiting, calm=learn)
        if at >= self._next_slice_at:
            last_at, self._next_slice_at = self._next_slice_at - READING_SECONDS, at + READING_SECONDS
            costs = self._costs(at)
            after = 0.0 if hurried else YOUNG_CALM_SECONDS if self.young else CALM_AFTER_SECONDS
            self._pod.teach_after(after)
            long = self.long_prompts.any_since(last_at)
            self._pod.read(self._reader.read(at, inside, long_prompts=long), costs, calm=learn)
            self.long_prompts.calm_after_seconds = after
            self.long_prompts.tick(at, calm=learn)
            self._see(at, costs)
        elif len(self._open):
            self._see(at, self._costs(at))

    @property
    def incident(self) -> Incident:
        """The incident of this pod."""
        return self.decision.incident

    @property
    def learners(self) -> dict[str, Learner]:
        """All that learns here, by name."""
        return {"pod": self._pod, "long_prompts": self.long_prompts, "backlog": self._backlog}

    def forget_load(self) -> None:
        """The restored load is another pod's, or too old."""
        self._pod.forget_load()

    @property
    def young(self) -> bool:
        """Whether no usual values are known yet."""
        return self._pod.young

    def begin(self, model: str, lane: str, objective: str) -> None:
        """Put the series of this lane on the page at 0."""
        self._roots.begin(model=model, lane=lane, objective=objective)
        for values in self._undecided.combinations(model=model, lane=lane, objective=objective):
            self._undecided.child(*values).inc(0)

    def begin_causes(self) -> None:
        """Put the causes of all models that are known by now on the page at 0."""
        self._causes.begin()

    def set_gauges(self, at: float) -> None:
        """Set the values that are computed at scrape time."""
        for child in self._undecided.children.values():
            child.set(0)
        for (labels, objective), count in Counter((miss.labels, miss.objective) for miss in self._open).items():
            self._undecided.of[labels, objective].inc(count)
        for cause in c.EVIDENCE_RATIO.labels[0].values:
            factor = next((each for name, each in self.decision.signs.grown.items() if name == cause), None)
            self._ratios.child(cause).set(None if factor is None else factor.value)
        self._set_incident(at)

    def _set_incident(self, at: float) -> None:
        """Set what is told of the incident: one root at a time."""
        for family in (self._age, self._shown, self._confidence, *self._size):
            for child in family.children.values():
                child.set(None)
        root, began_at = self.incident.root, self.incident.began_at
        if root is None or began_at is None:
            return
        shown, size = self.incident.shown, self.incident.size
        self._age.child(*root).set(at - began_at)
        if shown is not None:
            self._shown.child(*root).set(at - shown.at)
            self._confidence.child(*root).set(shown.confidence)
        if size is not None:
            for family, value in zip(self._size, size.ratio, strict=True):
                family.child(*root, size.per).set(value)

    def _log(self, at: float) -> None:
        """Write down the incident that is open, or that it is over."""
        root, began_at = self.incident.root, self.incident.began_at
        if self.unix_of is None:
            return
        if began_at is None:
            self.incidents.closed(self.unix_of(at))
        elif root is not None:
            ratios = {str(cause): factor.value for cause, factor in self.decision.signs.grown.items()}
            self.incidents.goes_on(
                self.unix_of(at),
                root,
                began_at_unix=self.unix_of(began_at),
                votes=self.incident.votes,
                ratios=ratios,
                signs=self.decision.signs.direct(began_at),
                told=_told(self.incident),
            )

    # --- one miss -------------------------------------------------------------------------------------------------------

    def _costs(self, at: float) -> Costs:
        return self._evidence.costs(at)

    def _see(self, at: float, costs: Costs) -> None:
        queued_since = self._backlog.stood_since(at - RECENT_SECONDS)
        signs = self._pod.signs(
            at,
            costs,
            queued_since=queued_since,
            engine_waiting=self._reader.engine_waiting,
        )
        self.decision.see(at, signs)
        self._held_up.clear()
        self._late.clear()

    def _facts(self, miss: Miss, at: float) -> Facts:
        since = self._backlog.since(miss.received_at)
        return Facts(
            waited_in=miss.waited_in,
            failed=miss.failed,
            paused=miss.paused,
            fault=self._fault(since, at),
            behind_long_prompt=self._behind_long_prompt(round(since), at, miss.threshold_seconds),
            tpot=miss.objective is TPOT,
            held_too_shortly=self._held_too_shortly(miss.threshold_seconds),
            turned_away=miss.turned_away,
            whole=miss.objective is E2E,
            transferred=miss.transferred,
            late_ratio=self._late_until(miss, at),
        )

    def _facts_of_stall(self, miss: Miss, deadlines: TokenDeadlines, at: float) -> Facts:
        """The life of such a miss is its gap: what broke before or after it, or waited then, broke something else."""
        stall = stall_of(deadlines, at)
        held = stall.paused or stall.held
        explained_at, explained = self._explained
        return Facts(
            waited_in=Blame.STREAM if held else miss.waited_in,
            failed=miss.failed,
            paused=stall.paused,
            fault=self._fault(stall.began_at, stall.ended_at),
            behind_long_prompt=self._behind_long_prompt(
                floor(stall.began_at), ceil(stall.ended_at), miss.threshold_seconds
            ),
            tpot=True,
            held_too_shortly=self._held_too_shortly(miss.threshold_seconds),
            transferred=stall.before_second and deadlines.alone,
            stalled=not stall.slow,
            alone=deadlines.alone,
            explained=explained and explained_at > stall.began_at,
            late_ratio=self._late_until(miss, at),
        )

    def _fault(self, began_at: float, ended_at: float) -> Cause | None:
        """The oldest fault of the engine that shares an instant with this time."""
        faults = self.decision.signs.faults
        return next((each.cause for each in faults if each.overlaps(began_at, ended_at)), None) if faults else None

    def _late_until(self, miss: Miss, at: float) -> float:
        """Share by which the loop was late while the miss was measured, or of the last seconds, if its stops can have delayed that miss."""
        measured_seconds = miss.missed_at - miss.timed_from_at
        times = (miss.timed_from_at, miss.missed_at), (at - LATE_SECONDS, at)
        return max(self._late_in(*each).within(measured_seconds) for each in times)

    def _decide(self, miss: Miss, at: float) -> bool:
        deadlines = miss.deadlines
        if miss.turned_away and self.pool.gone:
            miss.failed = Failed.UNREACHABLE
        if deadlines is None:
            facts = self.decision.facts(self._facts(miss, at), self._backlog.began(miss.received_at), at)
        else:
            facts = self._facts_of_stall(miss, deadlines, at)
        late = at >= miss.missed_at + WAIT_SECONDS
        if miss.turned_away and self.pool.in_doubt and not late:
            return False
        if not (miss.over or late) and not self._is_clear(self.decision.weighed(facts).weights):
            return False
        kind = miss.labels, miss.objective, facts
        self._decided[kind] = self._decided.get(kind, 0) + 1
        return True

    def _held_too_shortly(self, threshold_seconds: float | None) -> bool:
        collected = self.decision.signs.collected_seconds
        return collected is not None and threshold_seconds is not None and collected < COLLECTED * threshold_seconds

    def _is_clear(self, weights: Mapping[Root, float]) -> bool:
        """Whether a miss with these weights needs no further evidence."""
        root = max(weights, key=weights.__getitem__)
        if root.phase == Blame.UNATTRIBUTED or weights[root] < CLEAR:
            return False
        return root.phase == Blame.ENGINE or self._silent_seconds < QUIET_SECONDS

    def _write(self, at: float) -> None:
        """Count the roots of the misses that were decided."""
        decided, self._decided = self._decided, {}
        for (labels, objective, facts), times in decided.items():
            for root, weight in self.decision.decided(facts, at, times=times).weights.items():
                self._roots.of[labels, objective, root.phase].inc(times * weight)
                self._causes.of[labels, *root].inc(times * weight)

    def explained_by_lateness(self, began_at: float, ended_at: float, at: float) -> bool:
        """Whether the sidecar's own loop was so late in this time that what was measured in it tells nothing.

        As far as the loop knows by `at`: lateness that ends in this very turn is known in the next one.
        """
        return self._lateness.explains(began_at, ended_at, (at, self._reader.lags)) > 0.5

    def _late_in(self, began_at: float, ended_at: float) -> Late:
        """How late the loop was in this time, the ratio in steps of a hundredth; asked once a look for each pair of seconds."""
        asked = floor(began_at), ceil(ended_at)
        known = self._late.get(asked)
        if known is None:
            late = self._lateness.late(*asked)
            known = self._late[asked] = late._replace(ratio=round(late.ratio, 2))
        return known

    def _behind_long_prompt(self, since: int, until: float, threshold_seconds: float | None) -> bool:
        """Whether long prompts held up a request between these instants; asked once a look for each second and threshold."""
        asked = since, until, threshold_seconds
        known = self._held_up.get(asked)
        if known is None:
            known = self._held_up[asked] = self.long_prompts.hold_up(since, until, threshold_seconds)
        return known


def _told(incident: Incident) -> dict[str, Any]:
    """Size and confidence of the root as values that JSON has."""
    size, shown = incident.size, incident.shown
    return {
        "size": None if size is None else size.as_json(),
        "confidence": None if shown is None else shown.confidence,
    }


def _ttft_seconds(aims: Aims) -> float | None:
    return None if aims.ttft is None else aims.ttft.threshold_seconds
