"""Finds the request of a span, if the engine has spans of its own between it and the span that the sidecar minted. Pure.

It remembers the parents of a bounded number of spans, and holds a report back until the way up from its span ends at a minted
one. It refuses to guess: a report that has not reached a minted span within the hold goes on with its trace id alone, which
counts only while one request has that trace (`ledger/pending.py`); if several of one trace have not, none of them does.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport, span_key


MAX_PARENTS = 16_384
"""Number of spans whose parent is kept: a dozen per request, for the seconds of a hold at 200 requests per second."""
MAX_HELD = 4096
MAX_OF_A_TRACE = 64
"""Most reports of one trace that are held at once: in a trace that all requests share, each span costs a walk over them."""
MAX_ANCESTORS = 32
"""Longest chain of spans: a front end, a router, a worker and the engine make less than ten."""


@dataclass(slots=True)
class _Held:
    span: Span
    report: EngineReport
    due_at: float
    minted: str | None = None


class Descendants:
    """An `Assembler` for engines that report a request in one span, which is somewhere below the minted span."""

    def __init__(
        self,
        report_of: Callable[[Span], EngineReport | None],
        is_minted: Callable[[str], bool],
        *,
        hold_seconds: float,
    ) -> None:
        """`report_of`: what one span says. `hold_seconds`: how far apart the batches of one request may come."""
        self.lost = 0
        self._report_of = report_of
        self._is_minted = is_minted
        self._hold_seconds = hold_seconds
        self._parents: OrderedDict[str, str] = OrderedDict()
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._by_trace: dict[str, list[_Held]] = {}

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:
        """The reports that this span completes. Any span may be a missing parent, so none counts as unknown."""
        self._parents[span.span_id] = span.parent_span_id
        if len(self._parents) > MAX_PARENTS:
            self._parents.popitem(last=False)
        report = self._report_of(span)
        if report is not None and span.span_id not in self._held:
            self._hold(_Held(span, report, at + self._hold_seconds))
        found = [held for held in self._by_trace.get(span.trace_id, ()) if self._minted_above(held) is not None]
        return [self._released(held) for held in found]

    def due(self, at: float) -> Sequence[KeyedReport]:
        """The reports whose hold has ended, in the order of arrival. Those of one trace that are still held are dropped together."""
        reports = []
        while self._held and (held := next(iter(self._held.values()))).due_at <= at:
            of_the_trace = list(self._by_trace[held.span.trace_id])
            if len(of_the_trace) == 1:
                reports.append(self._released(held))
                continue
            for each in of_the_trace:
                self._drop(each)
            self.lost += len(of_the_trace)
        return reports

    def _hold(self, held: _Held) -> None:
        of_the_trace = self._by_trace.setdefault(held.span.trace_id, [])
        if len(of_the_trace) >= MAX_OF_A_TRACE:
            self._drop(of_the_trace[0])
            self.lost += 1
        self._held[held.span.span_id] = held
        self._by_trace.setdefault(held.span.trace_id, of_the_trace).append(held)
        if len(self._held) > MAX_HELD:
            self._drop(next(iter(self._held.values())))
            self.lost += 1

    def _drop(self, held: _Held) -> None:
        del self._held[held.span.span_id]
        of_the_trace = self._by_trace[held.span.trace_id]
        of_the_trace.remove(held)
        if not of_the_trace:
            del self._by_trace[held.span.trace_id]

    def _released(self, held: _Held) -> KeyedReport:
        self._drop(held)
        minted = self._minted_above(held)
        keys = () if minted is None else (span_key(minted),)
        return KeyedReport(keys, held.report, held.span.trace_id or None, part=held.span.span_id)

    def _minted_above(self, held: _Held) -> str | None:
        parent = held.span.parent_span_id
        for _ in range(MAX_ANCESTORS):
            if held.minted is not None or not parent:
                break
            if self._is_minted(parent):
                held.minted = parent
            parent = self._parents.get(parent, "")
        return held.minted
