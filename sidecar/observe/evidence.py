"""The evidence on the metrics page: prefills against their expected seconds, the engine's silences, its steps' costs.

Stands between `slo_counters.py`, which passes on each event of a request, and the pure modules `pod/costs/prefill_work.py`
and `pod/liveness/silence.py`. Knows which value belongs to which metric, and when a sample may be learned from: not while
objectives are being missed.
"""

from collections.abc import Hashable
from typing import NamedTuple

from sidecar.ledger.account import Account, Phase, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.children import GaugeChild
from sidecar.metrics.registry import Family, Metrics
from sidecar.objectives.attribution import FEWEST_PASSED_BY, SecondOutput
from sidecar.objectives.judge import Stood
from sidecar.objectives.whole_answers import WholeAnswers
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.step_costs import StepCosts
from sidecar.pod.costs.prefill_cost import IN_BYTES, IN_TOKENS, Length
from sidecar.pod.costs.prefill_work import FirstToken, PrefillWork
from sidecar.pod.costs.steps import Stream
from sidecar.pod.liveness.silence import BATCH_SECONDS, EXCUSE, Flow, Silence
from sidecar.pod.pod import Costs
from sidecar.pod.usual.learner import Learner
from sidecar.timeline.held_back import first_token_seen, held_back
from sidecar.timeline.outcome import ENDED_WELL


_REPORTED_TOKENS, _IDLE = "tokens", "tokens, idle"
"""Names of length measures: costs learned from engines' reports and from the TTFT of idle requests are kept apart."""
STOP_TOGETHER = 0.9
"""Share of the threshold of a stall for which no stream had output, from which on all stood still: they do not stop in the same step."""
_PREFILL, _ESTIMATED = Phase.PREFILL, Source.ESTIMATED


Estimated = dict[str, list[float]]
"""Measure of length to the longest prompt of which an estimate told, and the least seconds of one of about that length."""


class Inside(NamedTuple):
    """The engine's silence, as much of it as pending prompts explain, and the requests without and with output."""

    silent_seconds: float
    excused_seconds: float
    waiting: int
    streaming: int
    unseen_seconds: float = 0.0
    """Silence, in seconds, that pending prompts do not explain, and that a request whose output is not seen may explain."""


class Evidence:
    """The evidence of one process."""

    def __init__(self, metrics: Metrics, *, by_spans: bool = False) -> None:
        """`by_spans`: no request passes here, so that what is in the engine is what its own page says."""
        self._by_spans = by_spans
        self._work = PrefillWork()
        self._silence = Silence()
        self.estimated: Estimated = {}
        """Tells what prompts cost where what is usual on this pod does not tell it: the estimator writes it."""
        self._whole = WholeAnswers()
        self._heard_at = float("-inf")
        """Instant of the last output that the silence was told."""
        self.steps = StepCosts(metrics)
        self._rebuilt = self.steps.rebuilt
        self._dropped = metrics.counter(DROPPED_TOTAL).child("observer_error")
        self._own = metrics.counter(c.PREFILL_OWN_SECONDS_TOTAL)
        self._expected = metrics.counter(c.PREFILL_EXPECTED_SECONDS_TOTAL)
        self._silent = metrics.gauge(c.ENGINE_SILENCE_SECONDS).child()
        self._silent_expected = metrics.gauge(c.ENGINE_SILENCE_EXPECTED_SECONDS).child()
        self._stalled = metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL).child()
        self._engine_waiting = metrics.gauge(c.ENGINE_REQUESTS_WAITING)
        self._engine_running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING)
        metrics.before_scrape(self.set_gauges)

    def received(
        self,
        record: RequestRecord,
        labels: RequestLabels,
        prompt_tokens: float | None,
        at: float,
        text_bytes: int | None = None,
        *,
        streaming: bool,
        answer_seconds: float | None = None,
        several: bool = False,
        grammar_bytes: int = 0,
        pauses: bool = False,
    ) -> None:
        """A request is on its way to the engine. `prompt_tokens`: counted or estimated; None if unknown. `text_bytes`: of its text, if known.

        `streaming`: it asked for a stream. `answer_seconds`: how long its whole answer may take; None without an e2e
        objective. `several`: the engine may run it as several, one for each choice or prompt. `grammar_bytes`: length of a
        grammar that it prepares first. `pauses`: its stream may stand still for tools that run on the server.
        """
        if self._rebuilt.last_at > self._heard_at:
            self._catch_up()
        if several:
            record.runs_as_several = True
            self.steps.seen.several += 1
        self.steps.received(record, labels.lane, prompt_tokens, streaming=streaming)
        self._silence.received(
            record,
            at,
            streaming=streaming,
            cost_seconds=None
            if prompt_tokens is None and not self.estimated
            else self._cost_seconds(labels.model, prompt_tokens, text_bytes),
            grammar_bytes=grammar_bytes,
            answer_seconds=answer_seconds,
            whole=labels.lane in self._whole.expected,
            pauses=pauses,
        )
        self._work.received(record)

    def _cost_seconds(self, model: str, tokens: float | None, text_bytes: int | None) -> float | None:
        """Seconds of the prefill of such a prompt alone, or seconds that it takes at most; None where no cost was ever known."""
        if tokens is not None:
            tokens, work = max(1.0, tokens), self._work
            cost = self.usual_prefill_seconds(model, tokens)
            if cost is None:
                cost = work.most_seconds(model, Length(tokens, _REPORTED_TOKENS))
            if cost is None:
                cost = work.most_seconds(model, Length(tokens, _IDLE))
            if cost is not None:
                return cost
        # By the longest one that the estimator has told of.
        told, length = self.estimated.get(IN_TOKENS) if tokens else None, tokens
        if told is None and text_bytes:
            told, length = self.estimated.get(IN_BYTES), text_bytes
        if told is None or not length:
            return BATCH_SECONDS if self.estimated else None
        longest, seconds = told
        return max(BATCH_SECONDS, seconds if length <= longest else seconds * length / longest)

    def output(self, record: RequestRecord, at: float, events: int) -> None:
        """`events` output events of this request were read."""
        if self._rebuilt.last_at > self._heard_at:
            self._catch_up()
        seen = record.first_token
        if seen is not None:
            if record.second_output is None:
                record.second_output = SecondOutput(at - seen.first_token_at, self._rebuilt.passed_by(record))
            stream = self.stream_of(record)
            if stream is None:
                self._silence.spoke(at)
            else:
                stream.spoke(at, events)
            return
        self._rebuilt.began(record, at, events)
        record.first_token = self._work.first_token(record, at)
        self._silence.began(record, at)
        self._heard_at = max(self._heard_at, at)

    def stream_of(self, record: RequestRecord) -> Stream | None:
        """The stream that is told of this request's further output, after its second; else None."""
        return None if record.second_output is None else self._rebuilt.stream(record)

    def answering(self, record: RequestRecord, at: float, *, streaming: bool) -> None:
        """The response head came. `streaming`: output will be seen as it comes."""
        if self._rebuilt.last_at > self._heard_at:
            self._catch_up()
        self._rebuilt.answering(record, seen=streaming)
        self._silence.answering(record, at, streaming=streaming)

    def finished(self, record: RequestRecord, at: float) -> None:
        """The engine has sent the whole answer; the client may still be reading it."""
        if self._rebuilt.last_at > self._heard_at:
            self._catch_up()
        self._silence.left(record, at)
        self._rebuilt.left(record, answered=True)
        self._leaves(record, at)

    def _leaves(self, record: RequestRecord, at: float) -> None:
        """It is no longer in the engine."""
        self._work.left(record, at)
        self.steps.seen.several -= record.runs_as_several
        record.runs_as_several = False

    def paused(self, record: RequestRecord, at: float) -> None:
        """Reading from the engine stopped, because the client of this request does not keep up."""
        self._catch_up()
        self._silence.paused(record, at)
        self._rebuilt.paused(record, paused=True)

    def resumed(self, record: RequestRecord, at: float) -> None:
        """Reading from the engine goes on."""
        self._catch_up()
        self._silence.resumed(record, at)
        self._rebuilt.paused(record, paused=False)

    def ended(self, record: RequestRecord, account: Account, at: float) -> None:
        """The request is over; one with outcome ok is kept until its ledger is closed."""
        record.second_output = None
        if account.outcome is ENDED_WELL:
            if record.waits or record.streams:  # else the end of the engine's answer was told
                self.finished(record, at)
            if account.streaming:
                held_tokens = held_back(account.marks)
                if held_tokens:
                    self._rebuilt.held_back(held_tokens)
                self._whole.answered(account.labels.lane, whole=held_tokens > 0)
        else:
            self._catch_up()
            self._silence.given_up(record, at)
            self._rebuilt.left(record, answered=False)
            self._leaves(record, at)
            record.first_token = None

    def settled(self, record: RequestRecord, account: Account, *, learn: bool) -> None:
        """The request's ledger is closed. `learn`: objectives are being met now, so it may become a sample."""
        usage = account.marks.usage
        if usage is not None:
            self.steps.answered(account.labels.lane, usage.prompt_tokens, usage.cached_tokens, learn=learn)
        seen, record.first_token = record.first_token, None
        if usage is None or usage.prompt_tokens is None or seen is None or not first_token_seen(account.marks):
            return
        prefill = _prefill(account, usage.prompt_tokens - (usage.cached_tokens or 0), seen)
        if prefill is None:
            return
        length, seconds = prefill
        work = self._work.prefilled(account.labels.model, length, seen, seconds, learn=learn)
        if work is not None:
            self._own.of[account.labels].inc(work.own_seconds)
            self._expected.of[account.labels].inc(work.expected_seconds)

    def stated(self, record: RequestRecord, account: Account) -> None:
        """A request is known as a whole, from its engine's span; `settled` comes next."""
        ledger, first_token_at = account.ledger, account.marks.first_token_at
        if ledger is None or first_token_at is None:
            return
        for share in ledger.shares:
            if share.phase is _PREFILL:
                record.first_token = self._work.stated(first_token_at - share.seconds, first_token_at)

    def forget(self) -> None:
        """The engine process was replaced. What steps and prompts cost stays, so that the new process is compared with the old one."""
        self.steps.forget()
        self._work.forget()

    def set_gauges(self, at: float) -> None:
        """Set the values that are computed at scrape time."""
        self._own.begin()
        self._expected.begin()
        if self._by_spans:
            return
        self._catch_up()
        self._set_step_costs(at)
        silent = self._silence.check(at)
        self._silent.set(silent.seconds)
        self._silent_expected.set(silent.expected_seconds)
        # Adding a difference may be off by the last bit; the counter must not be asked to fall by it.
        self._stalled.inc(max(0.0, self._silence.stalled_seconds - self._stalled.value))

    def tick(self, *, learn: bool, again: bool = False, apart: int = 0) -> bool:
        """Price the steps that have ended. `learn`: no objective burns. Call it about once a second, and again while it
        returns True; `again`: this is such a further turn. `apart`: requests in the engine that are in no lane.
        """
        self._catch_up()
        if not again:
            self.steps.tick(in_flight=self._work.waiting + self._work.streaming + apart)
        return self.steps.price(learn=learn)

    def inside(self, at: float) -> Inside:
        """The engine's silence and the requests inside it at this instant."""
        if self._by_spans:
            waiting, running = _stated_count(self._engine_waiting), _stated_count(self._engine_running)
            return Inside(0.0, 0.0, waiting, running)
        self._catch_up()
        silent = self._silence.check(at)
        self._stalled.inc(max(0.0, self._silence.stalled_seconds - self._stalled.value))
        excused_seconds = EXCUSE * silent.expected_seconds
        return Inside(silent.seconds, excused_seconds, self._work.waiting, self._work.streaming, silent.unseen_seconds)

    def stood(self, key: Hashable, began_at: float, at: float, threshold_seconds: float) -> Stood:
        """Whether this stream stood still in a gap that lasts until now and is above its threshold, by the other streams."""
        steps = self._rebuilt
        passed_by = steps.passed_by(key)
        if passed_by is None:
            return Stood.ALL
        if passed_by >= FEWEST_PASSED_BY:
            return Stood.ALONE
        ended_seconds = steps.after_gap_seconds if steps.after_gap_at > began_at else 0.0
        quiet_seconds = max(at - steps.last_at, ended_seconds)
        return Stood.ALL if quiet_seconds >= STOP_TOGETHER * threshold_seconds else Stood.WENT_ON

    def flow(self, at: float) -> Flow:
        """The silence at this instant, and the streams that show the engine's output or do not."""
        self._catch_up()
        return self._silence.flow(at)

    @property
    def learners(self) -> dict[str, Learner]:
        """All that learns here, by name."""
        return {"prefill_work": self._work, **self.steps.learners}

    def prefill_seconds(self, tokens: float) -> float | None:
        """Seconds that an uncached prompt takes; None if unknown."""
        return self.steps.prefill_seconds(tokens)

    def usual_prefill_seconds(self, model: str, tokens: float) -> float | None:
        """Seconds that the prefill of such an uncached prompt usually takes; None if unknown."""
        cost = self._work.cost_seconds(model, Length(tokens, _REPORTED_TOKENS))
        if cost is None:
            cost = self._work.cost_seconds(model, Length(tokens, _IDLE))
        # A length that no request had which was alone; the steps know the cost of a token.
        return self.steps.prefill_seconds(tokens) if cost is None else cost

    def costs(self, at: float) -> Costs:
        """The step model's view of now; nothing where it cannot answer."""
        return self.steps.costs(at)

    def _set_step_costs(self, at: float) -> None:
        """An error in the model must not take the page from all others."""
        try:
            self.steps.set_gauges(at)
        except Exception:  # noqa: BLE001  measuring never breaks the page
            self._dropped.inc()

    def _catch_up(self) -> None:
        """Tell the silence of output that only the steps were told, before it is told anything later."""
        steps = self._rebuilt
        if steps.last_at <= self._heard_at:
            return
        # The end of a long gap first: or the silence would measure the gap and all output after it as one.
        if steps.after_gap_at > self._heard_at:
            self._silence.spoke(steps.after_gap_at)
        if steps.last_at > steps.after_gap_at:
            self._silence.spoke(steps.last_at)
        self._heard_at = steps.last_at


def _stated_count(gauge: Family[GaugeChild]) -> int:
    """The requests that the engine's own page states; 0 where it is not known."""
    stated = next((child.value for child in gauge.children.values()), None)
    return 0 if stated is None else round(stated)


def _prefill(account: Account, uncached_tokens: int, seen: FirstToken) -> tuple[Length, float] | None:
    """Length and seconds of a prefill: by the engine's report, else by the TTFT, if the request did not queue."""
    ledger = account.ledger
    if ledger is None or ledger.ttft_seconds is None:
        return None
    tokens = max(1, uncached_tokens)
    for share in ledger.shares:
        if share.phase is _PREFILL:
            if share.source is not _ESTIMATED:
                return Length(tokens, _REPORTED_TOKENS), share.seconds
            break
    return (Length(tokens, _IDLE), ledger.ttft_seconds) if seen.idle else None
