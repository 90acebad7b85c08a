"""What SGLang says in its spans (`srt/observability/trace.py`, `req_time_stats.py`; read in 0.5.23, from fixtures). Pure.

It knows how a request is laid out: a root (attributes `rid` and `module`), whose parent is the span that the sidecar minted;
below it one span for each thread that handled the request (`thread_label`); below the scheduler's the slices
`prefill_waiting`, which is the queue, `prefill_forward`, which is the prefill, and `decode_forward`. They come in several
batches from several processes, and the slices of a long request long before its root: so they are put together here, in
bounded tables. Slices end before their thread and are exported in that order, so with the thread a scheduler's word is whole.
Decode runs from the end of the prefill to the end of `decode_forward`: two instants of one process.

It refuses the root's `gen_ai.latency.time_in_model_prefill`: vLLM's name, but there it includes the queue. Of a request that
was retracted, the first slices count: its second wait lies in decode. Where tensor ranks each send slices, the first rank to
be whole speaks; they run in step. Of a disaggregated pair only the prefill side splits the TTFT, and it states the transfer
of its cache, which is part of first_token. Several samples are told apart by nothing: `reports_on` says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport, RequestKey, response_key, span_key


QUEUE, PREFILL, DECODE = "prefill_waiting", "prefill_forward", "decode_forward"
TRANSFER = "prefill_transfer_kv_cache"
SLICES = (QUEUE, PREFILL, DECODE, TRANSFER)
SCOPE = "sglang server"
"""Its tracer's name: spans of its other stages are known, and not needed."""
MAX_REQUESTS = 8192
"""In each table: slices of a request that runs for minutes wait for its root for minutes."""


@dataclass(slots=True)
class _Thread:
    """The slices of one thread; the first of each name, by when it began."""

    slices: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, span: Span) -> None:
        known = self.slices.get(span.name)
        if known is None or span.start_unix_nano < known[0]:
            self.slices[span.name] = (span.start_unix_nano, span.end_unix_nano)

    def report(self) -> EngineReport | None:
        """None where this thread is no scheduler of a prefill."""
        if QUEUE not in self.slices or PREFILL not in self.slices:
            return None
        decode = None
        if DECODE in self.slices:
            decode = _seconds(self.slices[PREFILL][1], self.slices[DECODE][1])
        return EngineReport(
            queue_seconds=_seconds(*self.slices[QUEUE]),
            prefill_seconds=_seconds(*self.slices[PREFILL]),
            decode_seconds=decode,
            kv_transfer_seconds=_seconds(*self.slices[TRANSFER]) if TRANSFER in self.slices else None,
        )


class Slices:
    """Puts a request's slices together. `lost`: of how many requests a part was given up because a table was full."""

    def __init__(self) -> None:
        self.lost = 0
        self._threads: dict[str, _Thread] = {}
        """By the thread's span id, until it comes itself."""
        self._reports: dict[str, EngineReport] = {}
        """By the root's span id, until it comes itself."""
        self._roots: dict[str, Span] = {}
        self._told: dict[str, None] = {}
        """Roots that have had their word: other ranks come after the first."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:  # noqa: ARG002  the interface; nothing here waits for a time
        """The word that this span makes whole; None where it is no part of one."""
        attributes = span.attributes
        if span.name in SLICES:
            self._threads.setdefault(span.parent_span_id, _Thread()).add(span)
            self._bound(self._threads)
            return ()
        if "thread_label" in attributes:
            return self._thread_ended(span)
        if isinstance(attributes.get("rid"), str) and str(attributes.get("module")).startswith("sglang::"):
            return self._root_ended(span)
        return () if span.scope == SCOPE else None

    def due(self, at: float) -> Sequence[KeyedReport]:  # noqa: ARG002  the interface
        """Nothing is held back for a time."""
        return ()

    def _thread_ended(self, span: Span) -> Sequence[KeyedReport]:
        thread = self._threads.pop(span.span_id, None)
        report = None if thread is None else thread.report()
        root_id = span.parent_span_id
        if report is None or root_id in self._told or root_id in self._reports:
            return ()
        root = self._roots.pop(root_id, None)
        if root is not None:
            return (self._word(root, report),)
        self._reports[root_id] = report
        self._bound(self._reports)
        return ()

    def _root_ended(self, span: Span) -> Sequence[KeyedReport]:
        report = self._reports.pop(span.span_id, None)
        if report is not None:
            return (self._word(span, report),)
        if span.span_id not in self._told:
            self._roots[span.span_id] = span
            self._bound(self._roots)
        return ()

    def _word(self, root: Span, report: EngineReport) -> KeyedReport:
        self._told[root.span_id] = None
        if len(self._told) > MAX_REQUESTS:
            del self._told[next(iter(self._told))]
        keys: list[RequestKey] = [span_key(root.parent_span_id)] if root.parent_span_id else []
        return KeyedReport((*keys, response_key(str(root.attributes["rid"]))), report, root.trace_id or None)

    def _bound(self, table: dict[str, _Thread] | dict[str, EngineReport] | dict[str, Span]) -> None:
        if len(table) > MAX_REQUESTS:
            del table[next(iter(table))]
            self.lost += 1


def _seconds(start: int, end: int) -> float | None:
    return (end - start) / 1e9 if end >= start else None
