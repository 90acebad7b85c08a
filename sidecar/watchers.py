"""What the watches of all requests share, and where a request's phases are settled: now, or when the engine's word has come.

Makes a watch for each request (`watch.py`), holds the requests that wait for their engine (`ledger/joins.py`), mints the
spans by which its word finds them, and hands closed accounts to the recorder and the log.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from sidecar.classify.lane import LaneRules
from sidecar.classify.length import PromptBuckets, PromptLengthEstimator
from sidecar.classify.trace import Minted, TraceContext
from sidecar.engines.engine import Engine
from sidecar.engines.span import Word
from sidecar.ledger.account import Account, Reason
from sidecar.ledger.joins import Joins
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.metrics.in_flight import InFlight
from sidecar.metrics.record import Recorder
from sidecar.proxy.headers import Fields, RequestHead
from sidecar.proxy.watching import Watch
from sidecar.timeline.dialects import dialect_for
from sidecar.timeline.outcome import Outcome
from sidecar.watch import Passage, RequestWatch


MAX_MINTED = 16_384
"""Spans that are remembered: four times the requests that may wait for their word."""


class Watchers:
    """What all watches share. `rules` is replaced as a whole on reload; requests in flight keep their lane."""

    def __init__(
        self,
        *,
        rules: LaneRules,
        buckets: PromptBuckets,
        recorder: Recorder,
        in_flight: InFlight,
        engine: Engine,
        log: Callable[[Account], None],
        headers_for_log: Callable[[Fields], dict[str, str]],
        unix: Callable[[], float],
        max_event_bytes: int,
        include_usage: bool,
        clock: Callable[[], float],
        random_hex: Callable[[int], str],
        mints: bool = False,
    ) -> None:
        """`unix`: wall-clock seconds, for exemplars only. `random_hex`: that many random bytes in hex. `mints`: engines' spans are received."""
        self.rules = rules
        self.buckets = buckets
        self.lengths = PromptLengthEstimator(buckets)
        self.recorder = recorder
        self.in_flight = in_flight
        self.engine = engine
        self.log = log
        self.headers_for_log = headers_for_log
        self.unix = unix
        self.max_event_bytes = max_event_bytes
        self.include_usage = include_usage
        self.clock = clock
        self.random_hex = random_hex
        self.mints = mints
        self.joins: Joins[tuple[Account, EngineReport | None]] = Joins(
            self._joined, lambda lost: recorder.dropped(lost.value), wait_seconds=engine.speaks.late_report_seconds
        )
        self.minted: dict[str, Minted] = {}
        """Span id to what was minted, for as long as words may still come; the oldest goes first."""

    def watch(self, head: RequestHead) -> Watch:
        """A watch for one request: an inference request's companion, or one counter for everything else."""
        dialect = dialect_for(head.path) if head.method == b"POST" else None
        return Passage(self.recorder) if dialect is None else RequestWatch(self, head, dialect)

    def engine_known(self) -> None:
        """The engine told what it is: from now on its words are waited for as long as they may take."""
        self.joins.wait_seconds = self.engine.speaks.late_report_seconds

    def mint(self, client: TraceContext | None) -> Minted | None:
        """A span for one request, where this engine's spans are worth it."""
        if not (self.mints and self.engine.speaks.reads_spans):
            return None
        trace_id = self.random_hex(16) if client is None else client.trace_id
        minted = Minted(trace_id, self.random_hex(8), client)
        self.minted[minted.span_id] = minted
        if len(self.minted) > MAX_MINTED:
            del self.minted[next(iter(self.minted))]
        return minted

    def word(self, word: Word) -> None:
        """An engine's word came out-of-band."""
        self.joins.word(word.keys, word.report, self.clock(), word.trace_id)

    def ended(
        self, account: Account, report: EngineReport | None, keys: tuple[Hashable, ...], trace_id: str | None, at: float
    ) -> None:
        """One request has ended; its phases are settled now, or when the engine's word has come."""
        self.recorder.ended(account, self.unix())
        if account.outcome is not Outcome.OK:
            self.log(account)
        elif (report is None or report.merged) and self.joins.wait_seconds > 0:
            self.joins.open(keys, (account, report), at, trace_id)
        else:
            self._settle(account, report, Reason.IN_BAND)

    def _joined(
        self, waiting: tuple[Account, EngineReport | None], report: EngineReport | None, reason: Reason
    ) -> None:
        account, in_band = waiting
        if report is None and in_band is not None:
            report, reason = in_band, Reason.IN_BAND  # what was said in-band still says why there is no split
        self._settle(account, report, reason)

    def _settle(self, account: Account, report: EngineReport | None, reason: Reason) -> None:
        ledger = close_ledger(account.marks, streaming=account.streaming, report=report, reason=reason)
        transfer = None if report is None else report.kv_transfer_seconds
        settled = replace(account, ledger=ledger, kv_transfer_seconds=transfer)
        self.recorder.settled(settled, self.unix())
        self.log(settled)
