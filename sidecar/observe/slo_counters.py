"""Objectives on the metrics page: requests that count, misses, votes on their cause, overdue requests, and evidence.

Stands between the observers, which call it with each event of a request, and the pure modules of `objectives/`, and writes
what these decide. Knows no rule and no alert: `alert_rules/` computes burn rates and verdicts from these counters.
Nothing here may affect traffic: an error is counted as `observer_error`.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.objectives.attribution import Blame, SecondOutput, blame_of_ledger, blame_of_outcome
from sidecar.objectives.judge import Case, Judge, TokenDeadlines, UnknownLength
from sidecar.objectives.objective import STALL, Aim, Aims, Objective, Objectives
from sidecar.objectives.stall import blame_of_stall, stall_of
from sidecar.observe.evidence import Evidence
from sidecar.observe.missed_seconds import MissedSeconds
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.roots import Roots
from sidecar.pod.costs.steps import Stream
from sidecar.pod.costs.tokens_per_byte import TokensPerByte
from sidecar.pod.liveness.silence import Flow
from sidecar.pod.open_misses import WAIT_SECONDS
from sidecar.pod.usual.baseline import Baseline
from sidecar.pod.usual.learner import Learner
from sidecar.pod.usual.learning import Came, Learning
from sidecar.timeline.outcome import ENDED_WELL, Outcome


MOST_TURNED_AWAY = 4096
"""Above so many that wait to vote, further ones vote at once."""


class Slo:
    """One process's counters. All instants are monotonic seconds. A reload replaces `objectives` as a whole."""

    def __init__(self, metrics: Metrics, objectives: Objectives, *, by_spans: bool = False) -> None:
        """`by_spans`: no request passes here; each is told at once when its engine's span has come (`stated`)."""
        self._metrics = metrics
        self._by_spans = by_spans
        self._evidence = Evidence(metrics, by_spans=by_spans)
        self.estimated = self._evidence.estimated
        self._judge = Judge(self._decided, self._unjudged, self._evidence.stood)
        self.roots = Roots(metrics, self._evidence, by_spans=by_spans)
        self._long_prompts = self.roots.long_prompts
        self.learning = Learning()
        self.tokens_per_byte = TokensPerByte()
        self.learners: Mapping[str, Learner] = {
            **self.roots.learners,
            **self._evidence.learners,
            "tokens_per_byte": self.tokens_per_byte,
        }
        # How long prompts are does not depend on what is usual, nor on the version of the engine.
        self._unlearned = {
            name: learner.state() for name, learner in self.learners.items() if learner is not self.tokens_per_byte
        }
        self._now = 0.0
        self._teaches = True
        """Whether a sample teaches what is usual, as of the last tick; a miss ends that at once."""
        self._more_due = False
        """More deadlines have passed than were decided in one turn."""
        self._more_steps = False
        """More steps have ended than were priced in one turn."""
        self._turned_away: deque[tuple[Case, Account, float]] = deque()
        """Requests that were turned away, and when, while the pool behind the engine was in doubt: they have not voted yet."""
        self.on_blamed: Callable[[Account, Mapping[Objective, Blame]], None] = lambda _account, _votes: None
        """Called for each request that missed, once it has voted: its last account, and the vote of each objective."""
        self._dropped = metrics.counter(DROPPED_TOTAL).child("observer_error")
        self._requests = metrics.counter(c.SLO_REQUESTS_TOTAL)
        self._misses = metrics.counter(c.SLO_MISSES_TOTAL)
        self._not_judged = metrics.counter(c.SLO_UNJUDGED_REQUESTS_TOTAL)
        self._allowed = metrics.counter(c.SLO_ALLOWED_MISSES_TOTAL)
        self._blamed = metrics.counter(c.SLO_BLAMED_MISSES_TOTAL)
        self._missed_seconds = MissedSeconds(metrics)
        self._threshold = metrics.gauge(c.SLO_THRESHOLD_SECONDS)
        self._target = metrics.gauge(c.SLO_TARGET_RATIO)
        self._overdue = metrics.gauge(c.REQUESTS_OVERDUE)
        self._good = metrics.counter(c.GOOD_REQUESTS_TOTAL)
        self._good_tokens = metrics.counter(c.GOOD_OUTPUT_TOKENS_TOTAL)
        self._deadlines = metrics.counter(c.TOKEN_DEADLINES_TOTAL)
        self._deadline_misses = metrics.counter(c.TOKEN_DEADLINE_MISSES_TOTAL)
        self._received = metrics.counter(c.REQUESTS_RECEIVED_TOTAL)
        self._measured = metrics.counter(c.RECEIVED_MEASURED_REQUESTS_TOTAL)
        self._prompt_tokens = metrics.counter(c.RECEIVED_PROMPT_TOKENS_TOTAL)
        self._told: int | None = None
        self._begun: set[tuple[str, str]] = set()
        """Models and lanes whose series of these objectives stand on the page."""
        self.replace(objectives)
        metrics.before_scrape(self._set_gauges)

    def replace(self, objectives: Objectives) -> None:
        """Put a config's objectives into force. Requests in flight keep the objectives that they arrived with."""
        self.objectives = objectives
        for family in (self._threshold, self._target):
            for child in family.children.values():
                child.set(None)
        for lane, buckets in objectives.by_lane.items():
            for (bucket, aims), objective in product(buckets.items(), Objective):
                aim = aims.aim(objective)
                if aim is not None:
                    self._threshold.child(lane, bucket, objective).set(aim.threshold_seconds)
                    self._target.child(lane, bucket, objective).set(aim.target)
        self._told = None
        self._begun.clear()
        self._begin_at_zero()

    def usual_prefill_seconds(self, model: str, tokens: float) -> float | None:
        """Seconds that the prefill of such an uncached prompt usually takes on this pod; None if unknown."""
        return self._evidence.usual_prefill_seconds(model, tokens)

    # --- while a request runs --------------------------------------------------------------------------------------------

    def received(
        self,
        record: RequestRecord,
        at: float,
        labels: RequestLabels,
        text_bytes: int | None = None,
        *,
        streaming: bool | None,
        prompt_tokens: float | None,
        several: bool = False,
        grammar_bytes: int = 0,
        pauses: bool = False,
        unknown: UnknownLength | None = None,
    ) -> None:
        """A request is complete and on its way. `prompt_tokens`: counted or estimated; None if unknown. `text_bytes`: of its text, if known.

        `streaming`: whether its answer will be a stream; None if that is unknown until the response head. `several`: the
        engine may run it as several. `grammar_bytes`: length of a grammar that the engine prepares first. `pauses`: its
        stream may stand still for tools that run on the server. `unknown`: what is known of a prompt whose length is not.
        """
        self._received.of[labels].inc()
        if prompt_tokens is not None:
            self._measured.of[labels].inc()
            self._prompt_tokens.of[labels].inc(prompt_tokens)
            self._long_prompts.received(record, labels.lane, max(1.0, prompt_tokens), at)
        aims = self.objectives.aims(labels.lane, labels.prompt_bucket)
        case = Case(labels, aims, at, streaming, key=record)
        if unknown is not None and labels.lane not in self.objectives.unknown:
            case.shortest = aims = self.objectives.aims(labels.lane, unknown.shortest)
            case.aims, case.unknown_because = self.objectives.aims(labels.lane, unknown.longest), unknown.because
        if pauses:  # while a tool runs on the server, the stream stands still as it should
            case.aims = Aims(case.aims.ttft, case.aims.tpot, case.aims.e2e, case.aims.shares)
        record.case = case if self._judge.received(case) else None
        self._evidence.received(
            record,
            labels,
            prompt_tokens,
            at,
            text_bytes,
            streaming=streaming is True,
            answer_seconds=None if aims.e2e is None else aims.e2e.threshold_seconds,
            several=several,
            grammar_bytes=grammar_bytes,
            pauses=pauses,
        )

    def encodes(self, record: RequestRecord, at: float, labels: RequestLabels) -> None:
        """A request that generates nothing (embeddings, reranking) is complete: it has an objective only where one is configured for it."""
        self._received.of[labels].inc()
        aim = self.objectives.encodes.get(labels.lane)
        if aim is not None:
            case = Case(labels, Aims(e2e=aim), at, streaming=False, key=record)
            record.case = case if self._judge.received(case) else None

    def answering(self, record: RequestRecord, at: float, *, streaming: bool | None) -> None:
        """The response head came. `streaming`: the answer is a stream; None: its tokens cannot be seen from now on."""
        self._now = at
        if record.case is not None:
            self._judge.answering(record.case, at, streaming=streaming)
        self._evidence.answering(record, at, streaming=streaming is True)

    def output(self, record: RequestRecord, events: int, at: float) -> None:
        """`events` output events of a stream were read together."""
        self._now = at
        if record.case is not None:
            self._judge.output(record.case, at, events)
        self._evidence.output(record, at, events)
        if self._long_prompts.open:
            self._long_prompts.computed(record, at)

    def flow_of(self, record: RequestRecord) -> tuple[Stream | None, TokenDeadlines | None]:
        """The receivers that are told of each further output, in place of `output`.

        No stream: every part has to take in the first output before. No deadlines: the stream's tokens have none.
        """
        if record.second_output is None:
            return None, None
        return self._evidence.stream_of(record), None if record.case is None else record.case.tokens

    def paused(self, record: RequestRecord, at: float) -> None:
        """Reading from the engine stopped, because the client of this request does not keep up."""
        if record.case is not None:
            record.case.paused(at)
        self._evidence.paused(record, at)

    def resumed(self, record: RequestRecord, at: float) -> None:
        """Reading from the engine goes on."""
        if record.case is not None:
            record.case.resumed(at)
        self._evidence.resumed(record, at)

    def finished(self, record: RequestRecord, at: float) -> None:
        """The engine has sent the whole answer; the client may still be reading it."""
        case = record.case
        if case is not None and case.gaps is not None:
            case.gaps.finished(at)
        self._evidence.finished(record, at)

    def tick(self, at: float, *, apart: int = 0) -> bool:
        """Decide the deadlines that have passed; call it at least once a second. Never raises. True: more is due, so call
        it again after other work had its turn. `apart`: requests in flight that are in no lane.
        """
        self._now = at
        again, steps_again = self._more_due or self._more_steps, self._more_steps
        self._contained(self._judged, at)
        if self._turned_away:
            self._contained(self._vote_of_turned_away, at)
        self._contained(self._price_steps, at, steps_again, apart)
        self._contained(self._root, at, again)
        return self._more_due or self._more_steps or self.roots.more

    # --- the end ---------------------------------------------------------------------------------------------------------

    def ended(self, record: RequestRecord, account: Account, at: float) -> Sequence[Objective]:
        """The request is over. Missed objectives vote now if no ledger will be closed for them. Returns those. Never raises."""
        self._now = at
        second = record.second_output
        if record.case is not None and record.case.gaps is not None:
            self._contained(self._judge.ends, record.case, at)
        try:
            if account.teaches:
                self._evidence.ended(record, account, at)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped.inc()
        if self._long_prompts.open:
            self._long_prompts.computed(record, at)
        try:
            if account.outcome is ENDED_WELL:
                self.roots.answered(account)
            return self._ended(record, account, at, second)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped.inc()
            return ()

    def settled(self, record: RequestRecord, account: Account, at: float) -> Sequence[Objective]:
        """The ledger of a request with outcome ok is closed. Returns the objectives that it missed. Never raises."""
        self._now = at
        case, record.closing = record.closing, None
        if case is not None:
            self._contained(self._settled, case, account)
        try:
            if account.teaches:
                self._evidence.settled(record, account, learn=self._teaches)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped.inc()
        return () if case is None else case.missed

    def stated(self, record: RequestRecord, account: Account, at: float) -> Sequence[Objective]:
        """A request that ended well is known as a whole, from its engine's span. Returns the objectives that it missed. Never raises.

        `account`: with its ledger; its instants are before `at`, which is now.
        """
        self._now = at
        try:
            return self._stated(record, account, at)
        except Exception:  # noqa: BLE001  measuring never breaks the receiver
            self._dropped.inc()
            return ()

    def _stated(self, record: RequestRecord, account: Account, at: float) -> Sequence[Objective]:
        labels, marks = account.labels, account.marks
        received_at = marks.accepted_at if marks.received_at is None else marks.received_at
        prompt_tokens = None if marks.usage is None else marks.usage.prompt_tokens
        self._received.of[labels].inc()
        if prompt_tokens is not None:
            self._measured.of[labels].inc()
            self._prompt_tokens.of[labels].inc(prompt_tokens)
            self._long_prompts.received(record, labels.lane, max(1.0, prompt_tokens), received_at)
            self._long_prompts.computed(record, at if marks.first_token_at is None else marks.first_token_at)
        self._evidence.stated(record, account)
        aims = self.objectives.aims(labels.lane, labels.prompt_bucket)
        case = Case(labels, aims, received_at, streaming=None, first_token_at=marks.first_token_at, key=record)
        if self._judge.stated(case, at if marks.flushed_at is None else marks.flushed_at):
            record.case = case
        self._ended(record, account, at, None)
        return self.settled(record, account, at)

    def _contained(self, step: Callable[..., None], *told: object) -> None:
        """Take a step that may fail. What is done for each request is contained where it stands: this takes a call more."""
        try:
            step(*told)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped.inc()

    def _ended(
        self, record: RequestRecord, account: Account, at: float, second: SecondOutput | None
    ) -> Sequence[Objective]:
        outcome = account.outcome
        if outcome is not ENDED_WELL and account.marks.received_at is None and account.teaches:
            # The request ended before its body had come, perhaps rejected on arrival: the judge does not know it yet.
            aims = self.objectives.aims(account.labels.lane, account.labels.prompt_bucket)
            early = Case(account.labels, aims, at, account.streaming or None, key=record)
            record.case = early if self._judge.received(early) else None
        case, record.case = record.case, None
        if case is None:
            if not account.teaches:
                self._unpromised(account)
            return ()
        self._judge.ended(case, account, at)
        if case.tokens is not None and case.aims.ttft is not None and case.aims.tpot is not None:
            self._count_deadlines(case.labels, case.tokens)
        if case.missed:
            self.roots.ended(record, account, case.aims, second)
        if outcome is not ENDED_WELL:
            self._vote_of_spoiled(case, account, at)
        elif case.missed:
            record.closing = case
        elif not case.unjudged:
            self._good.of[case.labels].inc()
            usage = account.marks.usage
            if usage is not None and usage.completion_tokens is not None:
                self._good_tokens.of[case.labels].inc(usage.completion_tokens)
        return case.missed

    def _count_deadlines(self, labels: RequestLabels, tokens: TokenDeadlines) -> None:
        self._deadlines.of[labels].inc(tokens.deadlines)
        misses = self._deadline_misses.of[labels]  # on the page from here on, at 0
        if tokens.misses:
            misses.inc(tokens.misses)

    def _unpromised(self, account: Account) -> None:
        """A request that generates nothing ended, and has no objective to miss: it is good, if its lane has any objective."""
        aims = self.objectives.by_lane.get(account.labels.lane, {}).values()
        if account.outcome is ENDED_WELL and any(aims):
            self._good.of[account.labels].inc()

    def _settled(self, case: Case, account: Account) -> None:
        self._vote(case, account, {of: self._blame(of, case, account) for of in case.missed})
        self._missed_seconds.add(case.labels, case.missed, account)

    def _blame(self, objective: Objective, case: Case, account: Account) -> Blame:
        """The phase in which a request waited; unknown if the sidecar was late meanwhile."""
        timed = case.timed(objective, account.marks.ended_at or self._now)
        if self.roots.explained_by_lateness(*timed, self._now):
            return Blame.UNATTRIBUTED
        if objective is STALL and case.tokens is not None:
            return blame_of_stall(stall_of(case.tokens, self._now))
        return blame_of_ledger(objective, account.ledger, account.marks, case.aims)

    def _vote(self, case: Case, account: Account, votes: Mapping[Objective, Blame]) -> None:
        for objective, blame in votes.items():
            self._blamed.of[case.labels, objective, blame].inc()
            self.roots.waited(account.key, objective, blame, self._now)
        if votes:
            account.key.misses = ()  # no vote follows; kept, they would lead back to their record, and wait for the garbage collector
            self.on_blamed(account, votes)

    def _vote_of_spoiled(self, case: Case, account: Account, at: float) -> None:
        if (
            account.outcome is Outcome.REJECTED
            and self.roots.pool.in_doubt
            and len(self._turned_away) < MOST_TURNED_AWAY
        ):
            self._turned_away.append((case, account, at))
        else:
            self._vote(case, account, dict.fromkeys(case.missed, blame_of_outcome(account.outcome)))

    def _vote_of_turned_away(self, at: float) -> None:
        """Those that were refused while the pool was in doubt vote once it is not, or when a root would be decided."""
        waiting, blame = self._turned_away, Blame.ENGINE if self.roots.pool.gone else Blame.QUEUE
        while waiting and (not self.roots.pool.in_doubt or at >= waiting[0][2] + WAIT_SECONDS):
            case, account, _ = waiting.popleft()
            self._vote(case, account, dict.fromkeys(case.missed, blame))

    def _judged(self, at: float) -> None:
        self._more_due = self._judge.tick(at)

    def _price_steps(self, at: float, again: bool, apart: int) -> None:
        self._teaches, self._more_steps = self.learning.teaches(at), False
        self._more_steps = self._evidence.tick(learn=self._teaches, again=again, apart=apart)

    def _root(self, at: float, again: bool) -> None:
        learning = self.learning
        if learning.tick(at, known=self.known):
            self.unlearn()
        self.roots.tick(at, burning=learning.burns(at), learn=self._teaches, hurried=learning.hurries(at), again=again)

    @property
    def known(self) -> bool:
        """Whether some usual values are known."""
        return not self.roots.young

    @property
    def came(self) -> Came:
        """The source of the usual values."""
        return self.learning.came(known=self.known)

    def restore(self, baseline: Baseline, came: Came, at: float, *, load: bool) -> None:
        """Know what another process learned. `load`: its load is usual here too."""
        for name, learner in self.learners.items():
            learner.take(baseline.learned[name])
        if not load:
            self.roots.forget_load()
        self.learning.restored(came, at, burned=baseline.burning, provisional=baseline.provisional)

    def unlearn(self) -> None:
        """Drop all that was taken for usual."""
        for name, state in self._unlearned.items():
            self.learners[name].restore(state)
        self.learning.dropped()

    def flow(self, at: float) -> Flow:
        """The silence at this instant, and the streams that show the engine's output or do not."""
        return self._evidence.flow(at)

    def engine_restarted(self) -> None:
        """Forget what the old engine process was doing; what it cost stays."""
        self._evidence.forget()

    # --- what is written -------------------------------------------------------------------------------------------------

    def _decided(self, case: Case, objective: Objective, aim: Aim, missed: bool) -> None:
        labels = case.labels
        self._requests.of[labels, objective].inc()
        self._allowed.of[labels, objective].inc(aim.allowed_misses)
        if missed:
            self._misses.of[labels, objective].inc()
            self.roots.missed(case.key, case, objective, self._now)
        self.learning.decided(
            self._now, (labels.model, labels.lane, objective), missed=missed, allowed=aim.allowed_misses
        )
        if missed and self._teaches:
            self._teaches = self.learning.teaches(self._now)

    def _unjudged(self, case: Case, objective: Objective) -> None:
        self._not_judged.of[case.labels, objective, case.unknown_because].inc()

    def _set_gauges(self, at: float) -> None:
        self.tick(at)
        self._contained(self.roots.set_gauges, at)
        self._metrics.info(c.BASELINE_INFO, self.came, str(self.learning.provisional).lower())
        self._begin_at_zero()
        for child in self._overdue.children.values():
            child.set(0)
        for labels, count in Counter(case.labels for case in self._judge.overdue).items():
            self._overdue.of[labels].inc(count)

    def _begin_at_zero(self) -> None:
        """Put every series that a rule reads on the page at 0, for the models and lanes that are known by now."""
        metrics = self._metrics
        if metrics.told == self._told:
            return
        self._told = metrics.told
        self._received.begin()
        self.roots.begin_causes()
        for model, (lane, buckets) in product(metrics.models.expected(), self.objectives.by_lane.items()):
            if (model, lane) not in self._begun:
                self._begun.add((model, lane))
                self._begin_lane(model, lane, buckets)

    def _begin_lane(self, model: str, lane: str, buckets: dict[str, Aims]) -> None:
        objectives = [(bucket, of) for bucket, aims in buckets.items() for of in Objective if aims.aim(of) is not None]
        if not objectives:
            return
        self._overdue.begin(model=model, lane=lane)
        for objective in sorted({of for _, of in objectives}, key=list(Objective).index):
            self._blamed.begin(model=model, lane=lane, objective=objective)
            self.roots.begin(model, lane, objective)
            self._missed_seconds.begin(model, lane, objective)
        for bucket in dict(objectives):
            self._good.begin(model=model, lane=lane, prompt_bucket=bucket)
        for counter, (bucket, of) in product((self._requests, self._misses, self._allowed), objectives):
            counter.begin(model=model, lane=lane, prompt_bucket=bucket, objective=of)
