"""Receives the spans that an engine sends while it is probed, where no sidecar receives them yet.

It listens at one address for `/v1/traces`, with the sidecar's own reader of OTLP over HTTP and the engine's own reader of its spans, and
keeps the report of each probe by the trace that the probe has minted. Spans of other requests are read and dropped.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Self

from aiohttp import web

from sidecar.engines.kind import EngineKind
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport
from sidecar.ledger.workers import is_router
from sidecar.otlp.intake import Intake
from sidecar.otlp.receiver import PATH, SpanReceiver


EVERY_LOOK_SECONDS = 0.25


class SpanListener:
    """`async with SpanListener(...)`. Raises OSError if the address is taken."""

    def __init__(self, host: str, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = (host, port)
        self._clock = clock
        self._minted: dict[str, str] = {}
        """Trace id to span id."""
        self._reports: dict[str, EngineReport] = {}
        """By trace id."""
        self._kind: EngineKind | None = None
        self.address: tuple[str, int] = (host, port)

    async def __aenter__(self) -> Self:
        intake = Intake(self._take, clock=self._clock, count=lambda *_: None, dropped=lambda *_: None)
        app = web.Application()
        app.router.add_post(PATH, SpanReceiver(intake).handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, *self._place).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.address = self._runner.addresses[0][:2]
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()

    def reads(self, kind: EngineKind) -> None:
        """The engine is of this kind: call it before the first probe."""
        self._kind = kind
        self._assembler = kind.assembler(lambda span_id: span_id in self._minted.values())

    def mint(self) -> tuple[str, str]:
        """A trace and a span for one probe."""
        trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
        self._minted[trace_id] = span_id
        return trace_id, span_id

    async def last_ones(self) -> None:
        """Wait for the reports that are still to come, for as long as this kind's may take."""
        if self._kind is None:
            return
        until = self._clock() + self._kind.late_report_seconds
        while len(self._reports) < len(self._minted) and self._clock() < until:
            await asyncio.sleep(EVERY_LOOK_SECONDS)
            self._keep(() if self._assembler is None else self._assembler.due(self._clock()))

    def report(self, trace_id: str) -> EngineReport | None:
        return self._reports.get(trace_id)

    def _take(self, span: Span) -> bool:
        if self._kind is None or span.trace_id not in self._minted:
            return False
        if self._assembler is not None:
            found = self._assembler.span(span, self._clock())
        else:
            keyed = self._kind.span(span)
            found = None if keyed is None else (keyed,)
        self._keep(found or ())
        return found is not None

    def _keep(self, found: Sequence[KeyedReport]) -> None:
        for keyed in found:
            if keyed.trace_id in self._minted and not is_router(keyed.report):
                self._reports[keyed.trace_id] = keyed.report
