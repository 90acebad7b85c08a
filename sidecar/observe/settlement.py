"""Settles each request's phases: at its end, or when the engine's report on it has come.

Holds the requests that wait for the engine's report (`ledger/pending.py`), mints the spans by which reports find their
requests, and hands closed accounts to the recorder, the ring and the log. Does not know how a request is observed while it runs
(`request.py`).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from sidecar.classify.trace import Minted, TraceContext
from sidecar.engines.engine import Engine
from sidecar.engines.kind import UNKNOWN_KIND
from sidecar.engines.pool_behind import NOT_HERE
from sidecar.engines.reports.lone_requests import Ending
from sidecar.engines.span import Span
from sidecar.ledger.account import Account, Reason
from sidecar.ledger.ledger import close_ledger, exceeds, ledger_of_span
from sidecar.ledger.pending import Lost, Pending
from sidecar.ledger.phase_parts import parts_of
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, RequestKey, SpanRequest, span_key, traced_key
from sidecar.ledger.request_labels import OTHER, RequestLabels
from sidecar.ledger.workers import Workers
from sidecar.objectives.objective import Objective
from sidecar.observe.instruments import Instruments
from sidecar.observe.span_sampling import SpanSampling
from sidecar.timeline.events import Usage
from sidecar.timeline.outcome import ENDED_WELL, Outcome


MAX_MINTED = 16_384
"""Minted spans that are remembered: four times the number of requests that may wait for their report."""
SPAN_KEPT_SECONDS = 30.0
"""After its end a request's span is remembered for so long. Exporters send a span 5 s after its end at the latest
(`OTEL_BSP_SCHEDULE_DELAY`), some engines' after 12 s; what comes later is counted as a report without a request, and is not sent on
to the user's collector. Kept for as long as there is room, the spans of a burst would hold their memory for hours."""
FORGOTTEN_AT_ONCE = 256
"""Most spans forgotten in one turn: each takes about 1 us."""
SETTLED_AT_ONCE = 16
"""Most requests settled in one turn. A ledger, its metrics and its log line take about 70 us: a second's worth of them
in one turn would delay every stream."""
ESTIMABLE = frozenset((Reason.IN_BAND, Reason.LATE_REPORT, Reason.NO_REPORT))
"""A request is estimated where no report came, or one that does not split it: not where one is refused, or was lost here."""
EXCUSED_SECONDS = 600.0
"""After its end a probe's report is expected for so long: files of reports are read when the next request waits for one."""
GIVES_UP_AFTER = 20
"""Requests in a row that waited in vain for the engine's report: from then on only one request at a time waits, to find
out whether reports come again. An engine that exports nothing delays only its first few ledgers and log lines."""


class Settlement:
    """The settlement of one process. Each request that has ended is settled exactly once."""

    def __init__(
        self,
        instruments: Instruments,
        engine: Engine,
        *,
        log: Callable[[Account], None],
        clock: Callable[[], float],
        unix: Callable[[], float],
        random_hex: Callable[[int], str],
        mints: bool = False,
        any_engine: bool = False,
    ) -> None:
        """`unix`: wall-clock seconds, for exemplars only. `random_hex`: returns so many random bytes in hex. `mints`: engines' spans are
        received. `any_engine`: also those of an engine whose kind is not known.
        """
        self.instruments = instruments
        self.engine = engine
        self.log = log
        self.clock = clock
        self._recorder = instruments.recorder
        self._slo = instruments.slo
        self._slo.roots.pool = engine.pool
        self._estimates = instruments.estimates
        self._accounts = instruments.accounts
        self._unix = unix
        self.random_hex = random_hex
        self.mints = mints
        """Engines' spans are received."""
        self._any_engine = any_engine
        self.sampling: SpanSampling | None = None
        """Decides which requests have a span of their own; None where none is exported."""
        self.listens = False
        """The engine's reports come by another way than spans: a file that is read, a poll."""
        self.on_ended: Callable[[Ending], None] = lambda _ending: None
        """Called with each request that is over, whatever its outcome."""
        self.on_counted: Callable[[Account, int], RequestLabels] = lambda account, _prompt_tokens: account.labels
        """Called with the prompt's tokens where a late report alone states them; returns the labels by this length."""
        self.on_span_report: Callable[[KeyedReport], None] = self._span_reported
        """Called with each report that came as a span: joined with its request or, where none passes here, taken for a request itself."""
        self.on_probe_done: Callable[[], None] = lambda: None
        """Called for each probe of `sidecar verify` that ended well: the engine counts it too."""
        self.pending: Pending[tuple[Account, EngineReport | None]] = Pending(
            self._joined, self._lost, wait_seconds=engine.speaks.late_report_seconds, whole=self._put_together
        )
        # OrderedDict: the oldest key of a dict is found by a scan over all entries that were deleted before it.
        self.minted: OrderedDict[str, Minted] = OrderedDict()
        """Span id to minted span; above MAX_MINTED the oldest is dropped, on which no report is expected any more."""
        self.sampled_traces: OrderedDict[str, int] = OrderedDict()
        """Trace ids that clients had sampled, to their remembered requests: their spans are forwarded to the user's collector."""
        self.own_traces: OrderedDict[str, str] = OrderedDict()
        """Trace id to span id, where the client sent no trace: such a trace has one request, by construction."""
        self._over: deque[tuple[float, str]] = deque()
        """Instants at which requests ended, and the ids of their spans, which are forgotten SPAN_KEPT_SECONDS later."""
        self._probes_over: deque[float] = deque()
        """Instants at which probes of `sidecar verify` ended on which no report came, of the last EXCUSED_SECONDS."""
        self._unnamed = 0
        """Requests so far whose answer has no id: a report that is fetched finds them by the number."""
        self._in_vain = 0
        """Requests in a row for which no report came."""
        self._workers = Workers()
        self._spans_come = False
        """A span has reported on a request, and none was waited for in vain since."""
        self._due_reports: deque[KeyedReport] = deque()
        """Reports that the assembler has released; at most as many as the assembler may hold."""
        self._speaks = engine.speaks
        self._assembler = engine.speaks.assembler(self.minted.__contains__)

    def engine_known(self) -> None:
        """The engine stated its kind: from now on requests wait for reports as long as this kind's may take."""
        speaks = self.engine.speaks
        self.pending.wait_seconds = speaks.late_report_seconds
        if speaks is not self._speaks:
            self._speaks, self._assembler, self._in_vain = speaks, speaks.assembler(self.minted.__contains__), 0

    def mint(self, client: TraceContext | None) -> Minted | None:
        """Mint a span for one request; None if spans are not received or this engine's spans are not read."""
        if not (self.mints and self._reads_spans()):
            return None
        trace_id = self.random_hex(16) if client is None else client.trace_id
        minted = Minted(trace_id, self.random_hex(8), client)
        self.minted[minted.span_id] = minted
        self.pending.expect(span_key(minted.span_id))
        if len(self.minted) > MAX_MINTED:
            self.minted.popitem(last=False)
        if client is not None and client.sampled:
            # The latest comes last.
            self.sampled_traces[trace_id] = self.sampled_traces.pop(trace_id, 0) + 1
            if len(self.sampled_traces) > MAX_MINTED:
                self.sampled_traces.popitem(last=False)
        if client is None:
            self.own_traces[trace_id] = minted.span_id
            if len(self.own_traces) > MAX_MINTED:
                self.own_traces.popitem(last=False)
        return minted

    def span(self, span: Span) -> bool:
        """Take in a span from the engine; False if it is of no kind that reports on a request."""
        if self._assembler is None:
            keyed = self.engine.speaks.span(span)
            reports: Sequence[KeyedReport] | None = None if keyed is None else (keyed,)
        else:
            reports = self._assembler.span(span, self.clock())
        for keyed in reports or ():
            self.on_span_report(keyed)
        return reports is not None

    def reported(self, keyed: KeyedReport) -> None:
        """Take in an engine's report that came out-of-band, by another way than a span."""
        self.pending.reported(keyed.keys, keyed.report, self.clock(), keyed.trace_id, part=keyed.part)

    def _span_reported(self, keyed: KeyedReport) -> None:
        """Give a span's report to the request for which its parent was minted, else to the only one of its trace."""
        self._workers.heard(keyed, self.clock())
        ours = tuple(key for key in keyed.keys if self._is_minted(key))
        if not ours and keyed.trace_id is not None and keyed.trace_id in self.own_traces:
            ours = (span_key(self.own_traces[keyed.trace_id]),)
        if ours:
            self._in_vain, self._spans_come = 0, True
            self.pending.reported(ours, keyed.report, self.clock(), part=keyed.part)
            return
        # A hop in between has its own spans, or the request did not pass here. Clients can choose ids, so an id counts
        # only together with its trace.
        ids = tuple(traced_key(key, keyed.trace_id or "") for key in keyed.keys if key.kind != "span")
        self.pending.reported(ids, keyed.report, self.clock(), None if ids else keyed.trace_id, part=keyed.part)

    def probe_ended(self, ending: Ending) -> None:
        """A probe of `sidecar verify` is over. The engine may report on it, and no request is there for that report."""
        self._forget_probes(ending.at)
        self._probes_over.append(ending.at)
        self.on_ended(ending)

    def _lost(self, lost: Lost) -> None:
        """A report was dropped. For each probe one without a request is no loss."""
        if lost is Lost.UNMATCHED:
            self._forget_probes(self.clock())
            if self._probes_over:
                self._probes_over.popleft()
                return
        self._recorder.dropped(lost.value)

    def _forget_probes(self, at: float) -> None:
        """No report is expected any more on those that ended EXCUSED_SECONDS ago. An engine that reports nothing would else keep all."""
        while self._probes_over and self._probes_over[0] < at - EXCUSED_SECONDS:
            self._probes_over.popleft()

    def expire(self, at: float) -> bool:
        """End waits that have lasted long enough; call it once a second. True: more are due, so call it again after
        other work had its turn.
        """
        more = self._slo.tick(at, apart=self.instruments.in_flight.apart)
        if self._assembler is not None:
            self._due_reports.extend(self._assembler.due(at))
            self._recorder.dropped("report_not_assembled", self._assembler.lost)
            self._assembler.lost = 0
        for _ in range(min(SETTLED_AT_ONCE, len(self._due_reports))):
            self.on_span_report(self._due_reports.popleft())
        more = self._forget(at) or more
        return self.pending.expire(at, SETTLED_AT_ONCE) or bool(self._due_reports) or more

    def _forget(self, at: float) -> bool:
        """Forget spans of requests that ended long enough ago. Returns whether there are more of them."""
        over = self._over
        for _ in range(FORGOTTEN_AT_ONCE):
            if not over or at - over[0][0] < SPAN_KEPT_SECONDS:
                break
            self._forget_one(over.popleft()[1])
        else:
            return bool(over)
        if not self.minted:
            # An emptied table keeps the room of its fullest day until it is cleared.
            for table in (self.minted, self.sampled_traces, self.own_traces):
                table.clear()
        return False

    def _forget_one(self, span_id: str) -> None:
        minted = self.minted.pop(span_id, None)
        if minted is None:
            return
        if minted.client is None:
            self.own_traces.pop(minted.trace_id, None)
        elif minted.client.sampled and (requests := self.sampled_traces.get(minted.trace_id)) is not None:
            if requests > 1:
                self.sampled_traces[minted.trace_id] = requests - 1
            else:
                del self.sampled_traces[minted.trace_id]

    def _is_minted(self, key: RequestKey) -> bool:
        return key.kind == "span" and key.id in self.minted

    def ended(
        self,
        account: Account,
        report: EngineReport | None,
        keys: tuple[RequestKey, ...],
        trace_id: str | None,
        *,
        at: float,
        choices: int = 1,
    ) -> None:
        """One request has ended; its phases are settled now, or when the engine's report has come."""
        if account.outcome is not ENDED_WELL or not self.engine.pool.trusted:
            account = self._of_pool(account)
        self._recorder.ended(account, self._unix())
        missed = self._slo.ended(account.key, account, at)
        self.pending.ended(keys)
        if self.mints:
            self._over.extend((at, key.id) for key in keys if key.kind == "span")
            if len(self._over) > MAX_MINTED:
                self._forget_one(self._over.popleft()[1])
        parts = self.engine.speaks.reports_on(choices)
        if report is not None and self._workers.are_doubted(report, account.marks, at):
            report = None
        if not keys and self.listens:
            self._unnamed += 1
            keys = (RequestKey("own", str(self._unnamed)),)
        waits = False
        if account.outcome is not ENDED_WELL:
            self.pending.ended_badly(keys, at)
            self._close(account, at, missed)
        elif (
            account.teaches
            and (report is None or report.narrows or report.behind_queue)  # a later one may say more
            and parts > 0
            and self._worth_waiting()
        ):
            self.pending.open(keys, (account, report), at, trace_id, parts=parts)
            waits = True
        else:
            if report is not None:
                self.pending.settled_in_band(keys, at)
            self._settle(account, report, Reason.IN_BAND)
        self.on_ended(Ending(keys, account.marks, account.streaming, at, waits))

    def _of_pool(self, account: Account) -> Account:
        """Tell the pool of a good answer, or of a refusal: where that is gone, the request has not reached an engine."""
        if account.outcome is ENDED_WELL:
            self.engine.pool.served(account.marks.accepted_at)
        status, ours = account.notes.get("status"), "error" in account.notes
        if status not in NOT_HERE or ours or account.labels.model == OTHER or not self.engine.pool.refused():
            return account
        return replace(account, outcome=Outcome.ENGINE_UNREACHABLE)

    def stated(self, account: Account, request: SpanRequest, report: EngineReport, *, at: float) -> None:
        """A request that no hop saw has ended well, as its engine's span states it: it is settled at once. `account`: without a ledger."""
        self.engine.pool.served(account.marks.accepted_at)
        unix = self._unix()
        self._recorder.stated(account, unix)
        ledger = ledger_of_span(request, report)
        settled = self._with_times(replace(account, ledger=ledger), report)
        self._recorder.settled(settled, unix)
        self._close(settled, at, self._slo.stated(settled.key, settled, at))

    def _reads_spans(self) -> bool:
        """Whether the spans of this engine are read as reports."""
        speaks = self.engine.speaks
        return speaks.reads_spans or (self._any_engine and speaks is UNKNOWN_KIND)

    def _worth_waiting(self) -> bool:
        """Whether to wait for a report. After GIVES_UP_AFTER waits in vain, only one request at a time waits."""
        if not (self.listens or (self.mints and self._reads_spans())):
            return False
        given_up = self._in_vain >= GIVES_UP_AFTER or self.engine.source_gone
        return self.pending.wait_seconds > 0 and (not given_up or len(self.pending) == 0)

    def _put_together(
        self, waiting: tuple[Account, EngineReport | None], reports: Sequence[EngineReport], parts: int, last: bool
    ) -> EngineReport | None:
        fronts, inner = [each for each in reports if each.merged], [each for each in reports if not each.merged]
        if fronts and not inner:
            # The server in front of the engine states both as one; where the engine's own spans come too, they say more.
            self._spans_come = self._spans_come and not last
            return None if self._spans_come else fronts[0]
        found = self._workers.put_together(inner, parts, waiting[0].marks, self.clock(), last=last)
        if not fronts or (found is None and not last):
            return found
        return fronts[0] if found is None or found.queue_seconds is None else found.beside(fronts[0])

    def _joined(
        self, waiting: tuple[Account, EngineReport | None], report: EngineReport | None, reason: Reason
    ) -> None:
        account, in_band = waiting
        if report is not None:
            self._in_vain = 0
        elif reason is Reason.NO_REPORT:
            self._in_vain += 1
        if report is not None and in_band is not None and in_band.behind_queue:
            report = in_band.behind(report)
        elif report is not None and in_band is not None:
            report = report.beside(in_band)
        if report is None and in_band is not None:
            report, reason = in_band, Reason.IN_BAND  # the in-band report still says why there is no split
        self._settle(account, report, reason)

    def _settle(self, account: Account, report: EngineReport | None, reason: Reason) -> None:
        if (
            (report is None or report.narrows)
            and reason in ESTIMABLE
            and (account.estimate is not None or self.engine.reads_sums)
        ):
            report, reason = self._without_split(account, report, reason)
        told = NO_REPORT if report is None else report
        if told.usage is not None and account.marks.usage is None:
            account = self._counted(account, told.usage)
        ledger = close_ledger(account.marks, streaming=account.streaming, report=report, reason=reason)
        settled = replace(account, ledger=ledger)
        if told.parts or told.kv_transfer_seconds is not None or told.reasoning_seconds is not None:
            settled = self._with_times(settled, told)
        self._recorder.settled(settled, self._unix())
        at = self.clock()
        missed = self._slo.settled(settled.key, settled, at)
        if report is not None and reason is not Reason.ESTIMATED and self._estimates is not None:
            self._estimates.compare(settled)
        self._close(settled, at, missed)

    def _without_split(
        self, account: Account, report: EngineReport | None, reason: Reason
    ) -> tuple[EngineReport | None, Reason]:
        """An estimate where no report came or it does not split the TTFT; else what came, and the reason why there is no split."""
        if not self.engine.speaks.is_estimated:
            return report, Reason.NOT_TOLD_APART if report is None and self.engine.reads_sums else reason
        estimated = None if self._estimates is None else self._estimates.stand_in(account, report)
        return (report, reason) if estimated is None else (estimated, Reason.ESTIMATED)

    def _with_times(self, account: Account, told: EngineReport) -> Account:
        """The account with the times that few reports state, each as far as it fits into the ledger. One that is refused states none."""
        ledger = account.ledger
        if ledger is None or ledger.reason is Reason.REPORT_EXCEEDS_WIRE:
            return account
        transfer, reasoning = told.kv_transfer_seconds, told.reasoning_seconds
        if transfer is not None and exceeds(transfer, ledger.ttft_seconds or ledger.e2e_seconds):
            transfer = None
        if reasoning is not None and exceeds(reasoning, told.decode_seconds or ledger.e2e_seconds):
            reasoning = None
        if (transfer, reasoning) != (told.kv_transfer_seconds, told.reasoning_seconds):
            self._recorder.dropped("not_a_duration")
        parts = parts_of(ledger.shares, told.parts)
        return replace(account, kv_transfer_seconds=transfer, reasoning_seconds=reasoning, parts=parts)

    def _counted(self, account: Account, usage: Usage) -> Account:
        """The account with the token counts of a report, and with the bucket that they give."""
        marks = account.marks
        if usage.completion_tokens is not None and usage.completion_tokens < marks.output_events:
            # A disaggregated prefill worker counts the tokens that it has made itself.
            usage = usage._replace(completion_tokens=None)
        labels = account.labels
        if usage.prompt_tokens is not None:
            labels = self.on_counted(account, usage.prompt_tokens)
        counted = replace(account, marks=replace(marks, usage=usage), labels=labels)
        self._recorder.counted(counted, usage)
        return counted

    def _close(self, account: Account, at: float, missed: Sequence[Objective]) -> None:
        """Hand on an account that changes no more: to the ring, then to the log. `missed`: the objectives that it missed."""
        try:
            self._accounts.add(account, at, missed)
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._recorder.dropped("observer_error")
        self.log(account)
