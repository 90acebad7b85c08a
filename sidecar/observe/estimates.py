"""Connects the estimator with the observers and the metrics: sees each request, and estimates its prefill at its end.

Turns an estimate into a report that is marked as estimated, and compares it with the engine's own report where there is
one: so the error is published before operators have to rely on the estimate. Refuses to affect anything else: where the
config switches it off it does not exist, and where an engine's report splits a request no estimate does.
"""

from collections.abc import Hashable, Iterable

from msgspec.structs import replace

from sidecar.engines.estimator import UNQUEUED, Estimator
from sidecar.ledger.account import Account, Estimate, Phase, Source
from sidecar.ledger.ledger import contradicts
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.admissions import Admissions, may_hold_a_wait
from sidecar.observe.evidence import Estimated
from sidecar.pod.costs.prefill_cost import REACH, Lengths, Refusal
from sidecar.pod.costs.prompt_costs import PromptCosts, Usual
from sidecar.timeline.held_back import first_token_seen
from sidecar.timeline.marks import Marks


class Estimates:
    """The estimates of one process. `arrived`, `spoke` and `forget` are the estimator's own methods."""

    def __init__(self, metrics: Metrics, usual: Usual, told: Estimated | None = None) -> None:
        """`usual`: what prompts usually cost on this pod. `told`: gets what the longest ones cost by the estimates."""
        self._told = {} if told is None else told
        self.estimator = Estimator(PromptCosts(usual))
        self.arrived = self.estimator.arrived
        self.spoke = self.estimator.spoke
        self.forget = self.estimator.forget
        self._admissions = Admissions()
        self._models = metrics.models
        self._ready = metrics.gauge(c.ESTIMATOR_READY)
        self._samples = metrics.gauge(c.ESTIMATOR_SAMPLES)
        self._answers = metrics.counter(c.ESTIMATOR_ANSWERS_TOTAL)
        self._error = metrics.histogram(c.ESTIMATOR_ERROR_SECONDS)
        self._verdicts = metrics.counter(c.ESTIMATOR_VERDICTS_TOTAL)
        self._intervals = metrics.counter(c.ESTIMATOR_INTERVALS_TOTAL)
        metrics.before_scrape(self._set_gauges)

    def ended(
        self, key: Hashable, labels: RequestLabels, lengths: Lengths, marks: Marks, *, ok: bool
    ) -> Estimate | None:
        """A request ended; `ok`: streamed, with outcome ok. Returns its estimated prefill, or None. The
        estimator learns from a request only after it has estimated it. Where the first event did not come with the first
        token, the TTFT may hold the decode: there is no estimate and no sample.
        """
        visit = self.estimator.left(key)
        if visit is None or not ok or visit.first_token_at is None:
            return None
        found = self.estimator.prefill(labels.model, lengths, visit)
        if not first_token_seen(marks):
            self._answers.of[labels, Refusal.HELD_BACK.value].inc()
            return None
        self.estimator.learn(labels.model, lengths, visit)
        if isinstance(found, Refusal):
            self._answers.of[labels, found.value].inc()
            return None
        self._answers.of[labels, "answered"].inc()
        length, measure = lengths[0]
        told = self._told.get(measure)
        if told is None or length > told[0]:
            self._told[measure] = [length, found.prefill_seconds]
        elif found.prefill_seconds < told[1] and REACH * length >= told[0]:
            told[1] = found.prefill_seconds
        return found

    def serves(self, models: Iterable[str]) -> None:
        """The engine stated its models: samples of all other models are dropped."""
        self.estimator.keep_only({*models, self._models.fallback})

    def stand_in(self, account: Account, partial: EngineReport | None) -> EngineReport | None:
        """Estimated report for a request without an engine's report: queue and prefill, which add up to its TTFT. `partial`: a report that
        states both as one number, to which they add up then, or one of them, which stays as it is; the rest is first_token. None
        if there is no estimate, or if that report contradicts the wire.
        """
        marks, estimate = account.marks, account.estimate
        if estimate is None or marks.received_at is None or marks.first_token_at is None:
            return None
        ttft = marks.first_token_at - marks.received_at
        if partial is not None:
            return None if contradicts(partial, ttft) else self._within(partial, estimate, ttft, account)
        prefill = min(estimate.prefill_seconds, ttft)
        queue = ttft - prefill
        if estimate.behind_seconds:
            queue = max(0.0, queue - estimate.behind_seconds)
        return EngineReport(
            queue_seconds=queue,
            prefill_seconds=prefill,
            queue_source=Source.ESTIMATED,
            prefill_source=Source.ESTIMATED,
        )

    def _within(self, known: EngineReport, estimate: Estimate, ttft: float, account: Account) -> EngineReport:
        """The report with the estimate in what it leaves open. Whatever it states besides, queue and prefill leave room for it."""
        both, costs, marks, admission = ttft, self.estimator.costs, account.marks, 0.0
        if known.merged_seconds is None:
            both = max(0.0, ttft - estimate.behind_seconds, min(ttft, estimate.prefill_seconds))
        else:
            behind = max(0.0, ttft - known.merged_seconds)
            admission = self._admissions.seconds(known, estimate, behind)
            if not may_hold_a_wait(estimate, moved=known.kv_transfer_seconds is not None):
                costs.behind(account.labels.model, account.prompt_lengths, behind)
        if known.decode_seconds is not None and marks.flushed_at is not None and marks.received_at is not None:
            both = min(both, max(0.0, marks.flushed_at - marks.received_at - known.decode_seconds))
        if known.prefill_seconds is not None and not known.merged:
            costs.reported(account.labels.model, account.prompt_lengths, known.prefill_seconds)
            queue = 0.0 if estimate.basis in UNQUEUED else max(0.0, both - known.prefill_seconds)
            return replace(known, queue_seconds=queue, queue_source=Source.ESTIMATED)
        if known.queue_seconds is not None and not known.merged:
            prefill = min(estimate.prefill_seconds, max(0.0, both - known.queue_seconds))
            return replace(known, prefill_seconds=prefill, prefill_source=Source.ESTIMATED)
        prefill = min(estimate.prefill_seconds, both)
        if known.merged_seconds is not None:
            both = min(known.merged_seconds, both)
            most = max(0.0, both - known.least_queue_seconds)
            prefill = min(prefill, most)
            if estimate.basis in UNQUEUED:
                # It did not queue, so this number is the cost of its prompt. Its TTFT may hold more, such as a cache's move to another worker.
                prefill = most
                costs.reported(account.labels.model, account.prompt_lengths, most)
        return replace(
            known.admitted_after(admission),
            merged=False,
            queue_seconds=both - prefill + admission,
            prefill_seconds=prefill,
            queue_source=Source.ESTIMATED,
            prefill_source=Source.ESTIMATED,
        )

    def compare(self, account: Account) -> None:
        """A ledger was closed: if it holds the engine's own prefill, publish how wrong the estimate was, and learn from it."""
        if account.ledger is None:
            return
        shares = {share.phase: share for share in account.ledger.shares}
        queue, prefill = shares.get(Phase.QUEUE), shares.get(Phase.PREFILL)
        if queue is None or prefill is None or prefill.source is not Source.ENGINE:
            return
        estimate, labels = account.estimate, account.labels
        if account.marks.received_at is not None:
            at = account.marks.received_at
            ttft = account.ledger.ttft_seconds
            moved = account.kv_transfer_seconds is not None or Phase.UNATTRIBUTED in shares
            behind = None
            if ttft is not None and not may_hold_a_wait(estimate, moved=moved):
                behind = max(0.0, ttft - queue.seconds - prefill.seconds)
            self.estimator.reported(
                labels.model, account.prompt_lengths, prefill.seconds, at, estimate, behind_seconds=behind
            )
        if estimate is None or account.ledger.ttft_seconds is None:
            return
        error = estimate.prefill_seconds - prefill.seconds
        self._error.of[labels, "over" if error >= 0 else "under"].observe(abs(error))
        waited = account.ledger.ttft_seconds - estimate.behind_seconds - estimate.prefill_seconds
        right = (waited > estimate.prefill_seconds) == (queue.seconds > prefill.seconds)
        self._verdicts.of[labels, "right" if right else "wrong"].inc()
        below, above = prefill.seconds < estimate.low_seconds, prefill.seconds > estimate.high_seconds
        self._intervals.of[labels, "below" if below else "above" if above else "inside"].inc()

    def _set_gauges(self, _at: float) -> None:
        for model in self._models.expected():
            self._ready.child(model).set(int(self.estimator.costs.ready(model)))
            self._samples.child(model).set(self.estimator.costs.samples(model))
        self._answers.begin()
        self._verdicts.begin()
        self._intervals.begin()
