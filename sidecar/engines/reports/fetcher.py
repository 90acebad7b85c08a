"""Fetches the reports that an engine does not send by itself: exported files, polled records, sums of lone requests.

One task fetches from the source that the engine's kind declares: soon after a request that waits for its report has ended, and
otherwise as rarely as the source allows. It knows when to fetch, how to ask and which fetch failed. Pure modules interpret the
content (`export_lines.py`, `lone_requests.py`, the engine's own). If the engine or a disk hangs, reports are late or missing,
and nothing else is affected.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from time import time as wall_clock  # noqa: TID251  compared with a directory's time stamp; no duration of a request
from typing import Protocol

import structlog

from sidecar.engines.engine import Engine
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.scrape import MAX_PAGE_BYTES
from sidecar.engines.probe.state import STEP_BYTES
from sidecar.engines.reports.export_files import ExportDirectory, OwnThread
from sidecar.engines.reports.export_lines import EXPORT_STEP_BYTES, ExportLines
from sidecar.engines.reports.gzip_members import GzipMembers
from sidecar.engines.reports.lone_requests import SETTLE_SECONDS, Ending, LoneRequests, PageReading, SumsScan
from sidecar.engines.reports.report_sources import ExportedFiles, LoneSums, PolledRecords
from sidecar.engines.reports.sink import FAILED_SECONDS, NOT_THERE, ReportSink, SourceClient, SourceHealth, Unanswered
from sidecar.ledger.report import KeyedReport


IDLE_SECONDS = 1.0
"""Seconds between two fetches while no request waits."""
MAX_RECORDS_BYTES = 1 << 20
"""Decoded in a thread: 2,400 records, or six of 1,000 tokens each where every step of the engine is written down too."""
RECORDS_A_STEP = 32
"""Reports that are made and joined before other tasks of the loop run."""

log = structlog.get_logger()


class Settings(Protocol):
    """The section of the config on the engine; a source names further keys of it (`setting`)."""

    @property
    def url(self) -> str: ...

    @property
    def metrics_url(self) -> str: ...


class Reader(Protocol):
    """Reads one source of reports."""

    def ended(self, ending: Ending) -> bool:
        """A request ended; returns whether to fetch now."""

    async def fetch(self) -> float:
        """Fetch once; returns the seconds until the next fetch."""

    async def close(self) -> None:
        """Close what is open."""


class ReportFetcher:
    """Fetches with the reader of the engine's kind, if it has one."""

    def __init__(self, readers: Mapping[str, Reader], engine: Engine) -> None:
        """`readers`: by the kind's name."""
        self._readers = readers
        self._engine = engine
        self._now = asyncio.Event()

    @property
    def listens(self) -> bool:
        """Reports of this engine are fetched."""
        return self._engine.kind in self._readers

    def ended(self, ending: Ending) -> None:
        reader = self._readers.get(self._engine.kind)
        if reader is not None and reader.ended(ending):
            self._now.set()

    async def run(self) -> None:
        """Fetch for ever. Cancel to stop."""
        try:
            while True:
                self._now.clear()
                pause = await self.fetch()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._now.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        for reader in self._readers.values():
            await reader.close()

    async def fetch(self) -> float:
        """Fetch once; returns the seconds until the next fetch. Never raises."""
        reader = self._readers.get(self._engine.kind)
        if reader is None:
            return IDLE_SECONDS
        try:
            return await reader.fetch()
        except Exception:
            log.exception("report_source_failed", engine=self._engine.kind)
            return FAILED_SECONDS


def readers_of(settings: Settings, engine: Engine, sink: ReportSink) -> dict[str, Reader]:
    """The readers of the sources that the config allows, by the kind's name: of each kind the first such source."""
    readers: dict[str, Reader] = {}
    for name, kind in KINDS.items():
        for source in kind.sources:
            if name in readers:
                break
            match source:
                case ExportedFiles(setting) as files if folder := getattr(settings, setting):
                    readers[name] = ExportTail(folder, files, sink)
                case PolledRecords(setting) as records if getattr(settings, setting):
                    readers[name] = RecordsPoll(settings.url, records, sink, engine.lacks_source)
                case LoneSums() as sums:
                    readers[name] = LoneReadings(settings.metrics_url, sums, engine, sink)
    return readers


class ExportTail:
    WAITING_SECONDS = 0.1

    def __init__(
        self, path: str, files: ExportedFiles, sink: ReportSink, unix: Callable[[], float] = wall_clock
    ) -> None:
        self._directory = ExportDirectory(path, files.name)
        self._files = files
        self._thread = OwnThread("exported-files")
        self._sink = sink
        self._unix = unix
        self._lines: dict[int, ExportLines] = {}
        self._members: dict[int, GzipMembers] = {}
        self._health = SourceHealth(f"engine.{files.setting}", files.hint, sink.dropped)

    def ended(self, ending: Ending) -> bool:
        return ending.waits

    async def fetch(self) -> float:
        unix = self._unix()
        found = await self._thread.run(lambda: self._directory.read(unix))
        for piece in found.pieces:
            lines = self._lines.setdefault(piece.file, ExportLines(self._files, begun=piece.begun))
            members = self._members.setdefault(piece.file, GzipMembers(EXPORT_STEP_BYTES)) if piece.packed else None
            if piece.broken_off:
                lines.broken_off()
                if members is not None:
                    members.broken_off()
            async for number, report in self._reports(piece.data, members, lines):
                self._sink.reported(report)
                if number % RECORDS_A_STEP == 0:
                    await asyncio.sleep(0)  # others must have their turn
        self._drop_unreadable(found.followed)
        if found.skipped:
            self._sink.dropped("report_file_skipped", found.skipped)
        if found.error is not None:
            return self._health.failed(found.error.strerror or type(found.error).__name__)
        self._health.over()
        if found.more:
            return 0.0
        return self.WAITING_SECONDS if self._sink.waiting() else IDLE_SECONDS

    async def _reports(
        self, data: bytes, members: GzipMembers | None, lines: ExportLines
    ) -> AsyncIterator[tuple[int, KeyedReport]]:
        """The reports, numbered. In the thread: what a damaged member still gives is found byte by byte, and a piece may have 30,000 lines."""
        reading = map(lines.feed, iter((data,)) if members is None else members.feed(data))
        while (found := await self._thread.run(lambda: next(reading, None))) is not None:
            for each in enumerate(found, 1):
                yield each

    def _drop_unreadable(self, followed: frozenset[int]) -> None:
        """Count what could not be read, and forget the files that bring no more."""
        gone = [self._lines.pop(number) for number in list(self._lines) if number not in followed]
        for lines in gone:
            lines.broken_off()
        for lines in (*gone, *self._lines.values()):
            if lines.unreadable:
                self._sink.dropped("report_unreadable", lines.unreadable)
                lines.unreadable = 0
        for number, members in list(self._members.items()):
            if number not in followed:
                members.broken_off()
                del self._members[number]
            if members.damaged:
                self._sink.dropped("report_unreadable", members.damaged)
                members.damaged = 0

    async def close(self) -> None:
        self._thread.stop()


class RecordsPoll:
    """Polls a page whose records each read removes: it is read only while a request waits for its record."""

    FIRST_SECONDS, LAST_SECONDS = 0.2, 2.0

    def __init__(self, url: str, records: PolledRecords, sink: ReportSink, gone: Callable[[bool], None]) -> None:
        """`gone`: told whether this release of the engine has no such page."""
        self._client = SourceClient(url)
        self._gone = gone
        self._records = records
        self._sink = sink
        self._pause = self.FIRST_SECONDS
        self._asked_at = float("-inf")
        self._health = SourceHealth(records.path, records.hint, sink.dropped)

    def ended(self, ending: Ending) -> bool:
        if ending.waits:
            self._pause = self.FIRST_SECONDS
        return ending.waits

    async def fetch(self) -> float:
        if not self._sink.waiting():
            return IDLE_SECONDS
        early = self._asked_at + self.FIRST_SECONDS - self._sink.clock()
        if early > 0:
            return early
        self._asked_at = self._sink.clock()
        body = bytearray()
        try:
            async with contextlib.aclosing(self._client.get(self._records.path, 65_536, MAX_RECORDS_BYTES)) as pieces:
                async for piece in pieces:
                    body += piece
        except Unanswered as why:
            gone = str(why) == NOT_THERE
            self._gone(gone)
            return self._health.failed(str(why), self._records.gone if gone else "")
        self._gone(False)
        self._health.over()
        found = await asyncio.to_thread(lambda: list(self._records.reports_in(bytes(body))))
        for number, report in enumerate(found, 1):
            if report is None:
                self._sink.dropped("report_unreadable", 1)
            else:
                self._sink.reported(report)
            if number % RECORDS_A_STEP == 0:
                await asyncio.sleep(0)  # a step of the loop stays below 2 ms
        if not self._sink.waiting():
            return IDLE_SECONDS
        # The record is appended after the stream's last byte: it may not have been there yet.
        pause, self._pause = self._pause, min(2 * self._pause, self.LAST_SECONDS)
        return pause

    async def close(self) -> None:
        await self._client.close()


class LoneReadings:
    """Reads a page of sums when one request has ended since it was last read."""

    AGAIN_SECONDS = 0.5
    GONE_SECONDS = 300.0
    """Until it is looked for again, if there is no such page at this address."""

    def __init__(self, url: str, sums: LoneSums, engine: Engine, sink: ReportSink) -> None:
        self._client = SourceClient(url)
        self._sums = sums
        self._engine = engine
        self._sink = sink
        self._lone = LoneRequests(has_phases=not sums.counted_by)
        self._ended_at = float("-inf")
        self._asked_at = float("-inf")
        self._bypassed = False
        self._health = SourceHealth(sums.path, sums.hint, sink.dropped)

    def ended(self, ending: Ending) -> bool:
        self._lone.end(ending)
        self._ended_at = ending.at
        return ending.waits

    async def fetch(self) -> float:
        now = self._sink.clock()
        if not self._engine.up or self._lone.idle:
            return IDLE_SECONDS
        early = max(self._ended_at + SETTLE_SECONDS, self._asked_at + self.AGAIN_SECONDS) - now
        if early > 0:
            return early
        self._asked_at = now
        sums = self._sums
        scan = SumsScan(sums.names, counted_by=sums.counted_by, per_second=sums.per_second, inside=sums.inside)
        try:
            async with contextlib.aclosing(self._client.get(self._sums.path, STEP_BYTES, MAX_PAGE_BYTES)) as pieces:
                async for piece in pieces:
                    scan.feed(piece)
                    await asyncio.sleep(0)  # a page at hand is read without waiting: others must have their turn
        except Unanswered as why:
            self._lone.unknown()
            self._engine.reads_sums = False
            self._engine.lacks_source(str(why) == NOT_THERE)
            paused = self._health.failed(str(why))
            return self.GONE_SECONDS if self._engine.source_gone else paused
        self._engine.lacks_source(False)
        ranks = scan.finish()
        self._engine.reads_sums = ranks is not None
        if ranks is None:
            self._lone.unknown()
            return self._health.failed("the page has none of the sums that are needed")
        self._health.over()
        answered_at = self._sink.clock()
        judgement = self._lone.read(PageReading(ranks, now, answered_at, self._sink.in_flight(), scan.shows_inside))
        # Beside other requests a bare sum tells of none: that is as usual as it is told, in the reason of each split that failed.
        if judgement.refused and self._lone.has_phases:
            self._sink.dropped("report_ambiguous", 1)
        if judgement.bypassed and not self._bypassed:
            log.warning(
                "engine_bypassed",
                hint=f"more requests finished in {self._engine.speaks.title} than came through the sidecar, so clients bypass"
                " it: until that ends its sums are not used",
            )
        self._bypassed = judgement.bypassed
        if judgement.report is not None:
            self._sink.reported(judgement.report)
        return IDLE_SECONDS

    async def close(self) -> None:
        await self._client.close()
