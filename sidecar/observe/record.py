"""Writes each account to the metrics, at the request's end and when it is settled. No other module writes accounts.

Keeps to the population that each HELP states. Sees no request while it runs, except through the bound callbacks that it
hands out for what happens once per event. Nothing here may affect traffic: an error in recording is counted as
`observer_error` and goes no further.
"""

from collections.abc import Iterable

import structlog

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import UNLABELLED, RequestLabels
from sidecar.logs.sanitise import SHORT_PATH_BYTES, clean_path, clean_short_path
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import UNCACHED_PROMPT_TOKENS_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.objectives.judge import pace_seconds
from sidecar.observe.plain_counts import PlainCounts
from sidecar.timeline.events import Usage
from sidecar.timeline.finish import FROM_THE_START
from sidecar.timeline.held_back import held_back
from sidecar.timeline.outcome import ENDED_WELL, Outcome
from sidecar.timeline.proof import Proof


log = structlog.get_logger()

MOST_PATHS_TOLD = 8
"""Paths that the log names: each once."""


class Recorder:
    """Writes accounts and counts what was not measured. Make one per registry.

    Making it puts every counter that a rule reads on the page at 0, so that `rate()` sees the first event; those by model as
    soon as the models are known. Counters of a lane that no rule reads appear with its first request.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._phases = metrics.histogram(c.REQUEST_PHASE_SECONDS)
        self._ttft = metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS)
        self._answer_began = metrics.histogram(c.TIME_TO_FIRST_OUTPUT_TOKEN_SECONDS)
        self.gaps = metrics.histogram(c.INTER_TOKEN_SECONDS).of
        """By the labels of a request: the child whose `observe` takes each gap between output events, in seconds."""
        self._tpot = metrics.histogram(c.TIME_PER_OUTPUT_TOKEN_SECONDS)
        self._whole = metrics.histogram(c.REQUEST_SECONDS)
        self._upload = metrics.histogram(c.REQUEST_UPLOAD_SECONDS)
        self._connect = metrics.histogram(c.ENGINE_CONNECT_SECONDS)
        self._kv_transfer = metrics.histogram(c.KV_TRANSFER_SECONDS)
        self._parts = metrics.histogram(c.REQUEST_PHASE_PART_SECONDS)
        self._prompt = metrics.histogram(c.PROMPT_TOKENS)
        self._output = metrics.histogram(c.OUTPUT_TOKENS)
        self._reasoning = metrics.histogram(c.REASONING_TOKENS)
        self._answer = metrics.histogram(c.ANSWER_TOKENS)
        self._reasoning_seconds = metrics.histogram(c.REASONING_SECONDS)
        self._reasons: set[str] = set()
        """Models of which an answer with reasoning was counted: label values, so that there are few."""
        self._cached = metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL)
        self._uncached = metrics.counter(UNCACHED_PROMPT_TOKENS_TOTAL)
        self._requests = metrics.counter(c.REQUESTS_TOTAL)
        self._answers = metrics.counter(c.ANSWERS_TOTAL)
        self._empty = metrics.counter(c.EMPTY_ANSWERS_TOTAL)
        self._uncounted = metrics.counter(c.UNCOUNTED_INFERENCE_TOTAL)
        self._uncounted_told: set[str] = set()
        self._lanes_by_length = metrics.counter(c.LANES_BY_LENGTH_TOTAL)
        self._unfinished = metrics.counter(c.UNFINISHED_OUTPUT_TOKENS_TOTAL)
        self._proofs = metrics.counter(c.ANSWER_PROOFS_TOTAL)
        self._cancels = metrics.counter(c.CLIENT_CANCELS_TOTAL)
        self._paused = metrics.counter(c.STREAM_PAUSED_SECONDS_TOTAL)
        self._held_back = metrics.counter(c.ANSWERS_HELD_BACK_TOTAL)
        self.per_read = metrics.histogram(c.STREAM_EVENTS_PER_READ).of
        """The same for the number of output events of each read that had any."""
        self._attribution = metrics.counter(c.PHASE_ATTRIBUTION_TOTAL)
        self._passthrough = metrics.counter(c.PASSTHROUGH_REQUESTS_TOTAL)
        self._probes = metrics.counter(c.VERIFY_PROBES_TOTAL)
        self._dropped = metrics.counter(c.DROPPED_TOTAL)
        self._failures = metrics.counter(c.FAILURES_TOTAL)
        self._injection = metrics.counter(c.USAGE_INJECTION_TOTAL)
        self._spans = metrics.counter(c.SPANS_TOTAL)
        self._unread = metrics.counter(c.OTLP_DROPPED_TOTAL)
        self.overhead = metrics.histogram(c.OVERHEAD_SECONDS).child().observe
        """Takes the seconds from reading response bytes to having written them."""
        self.resent = metrics.counter(c.RESENT_TOTAL).child().inc
        """Counts one request that is sent once more."""
        self._counters = (
            *(self._cancels, self._requests, self._attribution),
            *(
                self._uncounted,
                self._passthrough,
                self._dropped,
                self._failures,
                self._injection,
                self._spans,
                self._unread,
                self._empty,
            ),
            metrics.counter(c.PROMPT_BUCKET_ESTIMATES_TOTAL),
            metrics.counter(c.LABEL_OVERFLOW_TOTAL),
            metrics.counter(c.EVENT_LOOP_CHECKS_TOTAL),
            *PlainCounts(metrics).families,
        )
        self._told: int | None = None
        self._begin_at_zero()
        metrics.before_scrape(lambda _at: self._begin_at_zero())

    # --- while a request runs --------------------------------------------------------------------------------------------

    def connected(self, labels: RequestLabels, seconds: float) -> None:
        """A new connection to the engine was opened for a request with these labels."""
        self._connect.of[labels].observe(seconds)

    def injection(self, result: str) -> None:
        """Asking for the usage chunk had this result, one of USAGE_RESULTS."""
        self._injection.of[UNLABELLED, result].inc()

    def passthrough(self, outcome: Outcome) -> None:
        """A request that is no inference request ended."""
        self._passthrough.child(outcome).inc()

    def probed(self, *, apart: bool) -> None:
        """A request said that it is one of `sidecar verify`; `apart`: it stays outside the lanes."""
        self._probes.child("apart" if apart else "as_usual").inc()

    def uncounted(self, kind: str, target: bytes) -> None:
        """A request that looks like inference passed uncounted; `kind` is one of UNCOUNTED_KINDS."""
        path = clean_short_path(target) if len(target) <= SHORT_PATH_BYTES else clean_path(target)
        self._uncounted.child(kind).inc()
        if path not in self._uncounted_told and len(self._uncounted_told) < MOST_PATHS_TOLD:
            self._uncounted_told.add(path)
            adds = f"add the path to engine.paths.add: {{{path}: openai_chat}}"
            excludes = f"nothing can split it; to leave it out, add the path to engine.paths.exclude: [{path}]"
            fix = adds if kind == "event_stream" else excludes
            log.warning("inference_not_counted", path=path, kind=kind, fix=fix)

    def proof(self, api: str, proof: Proof) -> None:
        """An answer of this API, the name of a dialect, is known to be whole or not, as `proof` says."""
        self._proofs.child(api, proof).inc()

    def lane_by_length(self, held: bool) -> None:
        """Whether the lane of a request is the one that its counted length gives too."""
        self._lanes_by_length.child("held" if held else "contradicted").inc()

    def failed(self, reason: str) -> None:
        """The sidecar answered a request itself, or cut it short, for this `x-sidecar-error` reason."""
        self._failures.child(reason).inc()

    def dropped(self, reason: str, n: int = 1) -> None:
        """Something was not measured or not written down, for a reason of DROP_REASONS."""
        self._dropped.child(reason).inc(n)

    def spans(self, result: str, n: int = 1) -> None:
        """`n` spans came as OTLP with this result, one of SPAN_RESULTS."""
        self._spans.child(result).inc(n)

    def unread(self, signal: str) -> None:
        """An exporter sent a request of this signal, one of UNREAD_SIGNALS, which is not read."""
        self._unread.child(signal).inc()

    def outside(self, label: str) -> None:
        """A client named a model or a lane that does not exist: it is counted under `other`."""
        self._metrics.overflowed(label)

    # --- the end ---------------------------------------------------------------------------------------------------------

    def ended(self, account: Account, at_unix: float | None = None) -> None:
        """Write what is known when the stream ends; the engine's report may come later. Never raises.

        `at_unix`: seconds, for exemplars.
        """
        try:
            marks, labels = account.marks, account.labels
            self._requests.of[labels, account.outcome].inc()
            if account.outcome is Outcome.CLIENT_CANCELLED and account.cancelled_in is not None:
                self._cancels.of[labels, account.cancelled_in].inc()
            if marks.received_at is not None:
                self._upload.of[labels].observe(marks.received_at - marks.accepted_at)
            if account.streaming:
                self._streamed(account, at_unix)
            if account.outcome is not ENDED_WELL:
                self._unfinished_tokens(account)
            else:
                self._answers.of[labels, account.finish].inc()
                if account.is_empty:
                    self._empty.of[labels].inc()
                if marks.usage is not None:
                    self._tokens(account, marks.usage)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self.dropped("observer_error")

    def counted(self, account: Account, usage: Usage) -> None:
        """Write the tokens of an answer that stated none, once the engine's report has. Never raises."""
        try:
            self._tokens(account, usage)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self.dropped("observer_error")

    def stated(self, account: Account, at_unix: float | None = None) -> None:
        """Write what the engine's span states of a request that no hop saw, its phases aside. Never raises.

        What no span tells is not written: uploads, gaps, reads, pauses, finishes, proofs.
        """
        try:
            marks, labels = account.marks, account.labels
            self._requests.of[labels, account.outcome].inc()
            if marks.received_at is not None and marks.first_token_at is not None:
                self._ttft.of[labels].observe(marks.first_token_at - marks.received_at, account.trace_id, at_unix)
            if marks.usage is not None:
                self._tokens(account, marks.usage)
        except Exception:  # noqa: BLE001  measuring never breaks the receiver
            self.dropped("observer_error")

    def settled(self, account: Account, at_unix: float | None = None) -> None:
        """Write phases, their sum and how they were obtained, once the ledger is closed. Never raises."""
        ledger = account.ledger
        if ledger is None or account.outcome is not ENDED_WELL:
            return
        try:
            labels, streaming = account.labels, "true" if account.streaming else "false"
            self._whole.of[labels, streaming].observe(ledger.e2e_seconds, account.trace_id, at_unix)
            phases = self._phases.of
            for share in ledger.shares:
                # Two instants subtracted twice may differ in the last bit: less than a nanosecond below 0 is taken as 0.
                seconds = 0.0 if -1e-9 < share.seconds < 0 else share.seconds
                phases[labels, streaming, share.phase, share.source].observe(seconds, account.trace_id, at_unix)
            self._attribution.of[labels, ledger.source, ledger.reason].inc()
            if account.kv_transfer_seconds is not None and ledger.source != "none":
                self._kv_transfer.of[labels].observe(account.kv_transfer_seconds)
            if account.reasoning_seconds is not None:
                self._reasoning_seconds.of[labels].observe(account.reasoning_seconds)
            if account.parts:  # asked first: to begin a loop over nothing costs each request more
                self._parted(account)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self.dropped("observer_error")

    def _parted(self, account: Account) -> None:
        for part in account.parts:
            self._parts.of[account.labels, part.phase, part.part].observe(part.seconds)

    def _streamed(self, account: Account, at_unix: float | None) -> None:
        marks, labels = account.marks, account.labels
        paused = self._paused.of[labels]  # on the page from here on, at 0
        if marks.paused_seconds:
            paused.inc(marks.paused_seconds)
        # An engine may answer while the upload still runs; such a request has no TTFT.
        received_at, first_token_at = marks.received_at, marks.first_token_at
        if account.teaches and received_at is not None and first_token_at is not None and first_token_at >= received_at:
            self._ttft.of[labels].observe(first_token_at - received_at, account.trace_id, at_unix)
            if marks.first_answer_at is not None:
                self._answer_began.of[labels].observe(marks.first_answer_at - received_at, account.trace_id, at_unix)
        answers_held_back = self._held_back.of[labels]
        if account.outcome is ENDED_WELL and held_back(marks):
            answers_held_back.inc()

    def _unfinished_tokens(self, account: Account) -> None:
        """Tokens that were made for nothing: by usage, where it came, else at least as many as events with output."""
        marks = account.marks
        stated = None if marks.usage is None else marks.usage.completion_tokens
        tokens, source = (marks.output_events, "events") if stated is None else (stated, "usage")
        if tokens:
            self._unfinished.of[account.labels, account.outcome, source].inc(tokens)

    def _tokens(self, account: Account, usage: Usage) -> None:
        labels = account.labels
        if usage.prompt_tokens is not None:
            self._prompt.of[labels].observe(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self._cached.of[labels].inc(usage.cached_tokens)
            if usage.prompt_tokens is not None:
                self._uncached.of[labels].inc(max(0, usage.prompt_tokens - usage.cached_tokens))
        tokens = usage.completion_tokens
        if tokens is None:
            return
        self._output.of[labels].observe(tokens)
        if usage.reasoning_tokens is not None:
            self._reasoned(labels, usage.reasoning_tokens, tokens)
        pace = pace_seconds(account)
        if pace is not None:
            self._tpot.of[labels].observe(pace)

    def _reasoned(self, labels: RequestLabels, reasoning: int, tokens: int) -> None:
        """`reasoning` of the `tokens` that an answer has are reasoning, the engine says; more than all of them is no count."""
        if reasoning > tokens or (reasoning == 0 and labels.model not in self._reasons):
            return
        self._reasons.add(labels.model)
        self._reasoning.of[labels].observe(reasoning)
        self._answer.of[labels].observe(tokens - reasoning)

    # --- at 0 from the start ---------------------------------------------------------------------------------------------

    def admit_models(self, names: Iterable[str]) -> None:
        """The engine stated its models: admit them, as far as there is room, with their counters at 0."""
        self._metrics.models.admit(names)
        self._begin_at_zero()

    def admit_lanes(self, names: Iterable[str]) -> None:
        """A reload declared lanes: admit the new ones, with their counters at 0. Removed lanes stay."""
        self._metrics.lanes.admit(names)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        if self._metrics.told == self._told:
            return
        self._told = self._metrics.told
        for family in self._counters:
            family.begin()
        for reason in FROM_THE_START:  # the canary's questions read their first ones; other reasons appear with theirs
            self._answers.begin(finish_reason=reason)
