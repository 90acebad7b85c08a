"""Fetches the words of engines that neither send nor say them: SGLang's files, TensorRT-LLM's records, LMDeploy's page.

One task, which looks with the source of the engine's kind: soon after a request that waits for its word has ended, and
otherwise as rarely as the source allows. Knows when to look, how to ask and what failed; what is read is judged in pure
files of their own (`sglang_export.py`, `perf_metrics.py`, `lmdeploy_counts.py`). An engine or a disk that hangs costs words
that are late or missing, and nothing else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from time import time as wall_clock  # noqa: TID251  compared with a directory's time stamp; no duration of a request
from typing import Protocol

import structlog

from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import Engine
from sidecar.engines.probe.scrape import MAX_PAGE_BYTES
from sidecar.engines.reports.ending import Ending
from sidecar.engines.reports.export_files import ExportDirectory, OwnThread
from sidecar.engines.reports.lmdeploy_counts import PATH as COUNTS_PATH
from sidecar.engines.reports.lmdeploy_counts import SETTLE_SECONDS, STEP_BYTES, LoneRequests, PageReading, SumsScan
from sidecar.engines.reports.perf_metrics import MAX_BODY_BYTES, RECORDS_A_STEP, records_of, word_of
from sidecar.engines.reports.perf_metrics import PATH as RECORDS_PATH
from sidecar.engines.reports.sglang_export import ExportLines
from sidecar.engines.reports.sink import FAILED_SECONDS, Asking, ReportSink, Trouble, Unanswered


IDLE_SECONDS = 1.0
"""Between two looks while nobody waits."""

log = structlog.get_logger()


class Source(Protocol):
    """One way of fetching words."""

    def ended(self, ending: Ending) -> bool:
        """A request ended; returns whether to look now."""
        ...

    async def look(self) -> float:
        """One look; returns after how many seconds the next is due."""
        ...

    async def close(self) -> None:
        """Let go of what is held."""
        ...


class ReportFetcher:
    """Looks with the source of the engine's kind, if it has one."""

    def __init__(self, sources: Mapping[str, Source], engine: Engine) -> None:
        """`sources`: by the kind's name."""
        self._sources = sources
        self._engine = engine
        self._now = asyncio.Event()

    @property
    def listens(self) -> bool:
        """Words of this engine are fetched."""
        return self._engine.kind in self._sources

    def ended(self, ending: Ending) -> None:
        """A request ended."""
        source = self._sources.get(self._engine.kind)
        if source is not None and source.ended(ending):
            self._now.set()

    async def run(self) -> None:
        """Look for ever. Cancel to stop."""
        try:
            while True:
                self._now.clear()
                pause = await self.look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._now.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of what the sources hold."""
        for source in self._sources.values():
            await source.close()

    async def look(self) -> float:
        """One look; returns after how many seconds the next is due. Never raises."""
        source = self._sources.get(self._engine.kind)
        if source is None:
            return IDLE_SECONDS
        try:
            return await source.look()
        except Exception:
            log.exception("report_source_failed", engine=self._engine.kind)
            return FAILED_SECONDS


def sources_of(config: EngineConfig, engine: Engine, sink: ReportSink) -> dict[str, Source]:
    """The sources that the config allows, by the kind's name."""
    sources: dict[str, Source] = {"lmdeploy": LoneReadings(config.metrics_url, engine, sink)}
    if config.sglang_metrics_dir:
        sources["sglang"] = ExportTail(config.sglang_metrics_dir, sink)
    if config.poll_perf_metrics:
        sources["tensorrt_llm"] = RecordsPoll(config.url, sink)
    return sources


class ExportTail:
    """SGLang's exported files."""

    WAITING_SECONDS = 0.1

    def __init__(self, path: str, sink: ReportSink, unix: Callable[[], float] = wall_clock) -> None:
        self._directory = ExportDirectory(path)
        self._thread = OwnThread("sglang-export")
        self._sink = sink
        self._unix = unix
        self._lines: dict[int, ExportLines] = {}
        self._trouble = Trouble(
            "engine.sglang_metrics_dir",
            "it is what SGLang was given as --export-metrics-to-file-dir, mounted here for reading",
            sink.dropped,
        )

    def ended(self, ending: Ending) -> bool:
        return ending.waits

    async def look(self) -> float:
        unix = self._unix()
        looked = await self._thread.run(lambda: self._directory.look(unix))
        for piece in looked.pieces:
            lines = self._lines.setdefault(piece.file, ExportLines(begun=piece.begun))
            if piece.broken_off:
                lines.broken_off()
            for word in lines.feed(piece.data):
                self._sink.reported(word)
            await asyncio.sleep(0)  # bytes at hand are read without waiting: others must have their turn
        gone = [self._lines.pop(number) for number in list(self._lines) if number not in looked.followed]
        for lines in gone:
            lines.broken_off()
        for lines in (*gone, *self._lines.values()):
            if lines.unreadable:
                self._sink.dropped("report_unreadable", lines.unreadable)
                lines.unreadable = 0
        if looked.error is not None:
            return self._trouble.failed(looked.error.strerror or type(looked.error).__name__)
        self._trouble.over()
        if looked.more:
            return 0.0
        return self.WAITING_SECONDS if self._sink.waiting() else IDLE_SECONDS

    async def close(self) -> None:
        self._thread.stop()


class RecordsPoll:
    """TensorRT-LLM's /perf_metrics. Whoever asks empties it: it is asked only while a request waits for its record."""

    FIRST_SECONDS, LAST_SECONDS = 0.2, 2.0

    def __init__(self, url: str, sink: ReportSink) -> None:
        self._asking = Asking(url)
        self._sink = sink
        self._pause = self.FIRST_SECONDS
        self._asked_at = float("-inf")
        self._trouble = Trouble(
            RECORDS_PATH, "TensorRT-LLM's YAML config wants return_perf_metrics: true", sink.dropped
        )

    def ended(self, ending: Ending) -> bool:
        if ending.waits:
            self._pause = self.FIRST_SECONDS
        return ending.waits

    async def look(self) -> float:
        if not self._sink.waiting():
            return IDLE_SECONDS
        early = self._asked_at + self.FIRST_SECONDS - self._sink.clock()
        if early > 0:
            return early
        self._asked_at = self._sink.clock()
        body = bytearray()
        try:
            async with contextlib.aclosing(self._asking.get(RECORDS_PATH, 65_536, MAX_BODY_BYTES)) as pieces:
                async for piece in pieces:
                    body += piece
        except Unanswered as why:
            return self._trouble.failed(str(why))
        self._trouble.over()
        for number, record in enumerate(records_of(bytes(body)), 1):
            word = word_of(record)
            if word is None:
                self._sink.dropped("report_unreadable", 1)
            else:
                self._sink.reported(word)
            if number % RECORDS_A_STEP == 0:
                await asyncio.sleep(0)  # a step of the loop stays below 2 ms
        if not self._sink.waiting():
            return IDLE_SECONDS
        # The record is appended after the stream's last byte: it may not have been there yet.
        pause, self._pause = self._pause, min(2 * self._pause, self.LAST_SECONDS)
        return pause

    async def close(self) -> None:
        await self._asking.close()


class LoneReadings:
    """LMDeploy's page, read when one request has ended since it was last read."""

    AGAIN_SECONDS = 0.5

    def __init__(self, url: str, engine: Engine, sink: ReportSink) -> None:
        self._asking = Asking(url)
        self._engine = engine
        self._sink = sink
        self._lone = LoneRequests()
        self._ended_at = float("-inf")
        self._asked_at = float("-inf")
        self._bypassed = False
        self._trouble = Trouble(
            COUNTS_PATH, "LMDeploy has it unless it was started with --disable-metrics", sink.dropped
        )

    def ended(self, ending: Ending) -> bool:
        self._lone.end(ending)
        self._ended_at = ending.at
        return ending.waits

    async def look(self) -> float:
        now = self._sink.clock()
        if not self._engine.up or (self._lone.has_reading and not self._lone.ended):
            return IDLE_SECONDS
        early = max(self._ended_at + SETTLE_SECONDS, self._asked_at + self.AGAIN_SECONDS) - now
        if early > 0:
            return early
        self._asked_at = now
        scan = SumsScan()
        try:
            async with contextlib.aclosing(self._asking.get(COUNTS_PATH, STEP_BYTES, MAX_PAGE_BYTES)) as pieces:
                async for piece in pieces:
                    scan.feed(piece)
                    await asyncio.sleep(0)  # a page at hand is read without waiting: others must have their turn
        except Unanswered as why:
            self._lone.unknown()
            return self._trouble.failed(str(why))
        ranks = scan.finish()
        if ranks is None:
            self._lone.unknown()
            return self._trouble.failed("none of the sums that are looked for")
        self._trouble.over()
        judgement = self._lone.read(PageReading(ranks, now, self._sink.clock(), self._sink.in_flight()))
        if judgement.refused:
            self._sink.dropped("report_ambiguous", 1)
        if judgement.bypassed and not self._bypassed:
            log.warning(
                "engine_bypassed",
                hint="more requests finished in LMDeploy than came through here: its sums are nobody's until that ends",
            )
        self._bypassed = judgement.bypassed
        if judgement.word is not None:
            self._sink.reported(judgement.word)
        return IDLE_SECONDS

    async def close(self) -> None:
        await self._asking.close()
