"""Everything about spans in one object: intake, HTTP handler, gRPC listener, forwarding and export, as configured.

It knows the order in which these parts start and stop, so that `beside_traffic.py` has one object to hold. It refuses to know what
spans mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from sidecar.classify.trace import Minted
from sidecar.config.schema import SpansConfig
from sidecar.engines.span import Span
from sidecar.observe.record import Recorder
from sidecar.otlp.forwarding import Forward
from sidecar.otlp.intake import Intake
from sidecar.otlp.receiver import SpanReceiver


if TYPE_CHECKING:
    from sidecar.otlp.exporting import Export
    from sidecar.otlp.grpc_listener import GrpcListener
    from sidecar.otlp.outbox import Outbox


AT_END_SECONDS = 1.0
"""Time for what waits for the collector when the process ends without more of the drain's."""


class Spans:
    """The spans of one process. `sink`: as in `Intake`; `minted`, `sampled` and `exported`: as in `Forward`.

    `export`: sends the requests' own spans; None if they are not exported.
    """

    def __init__(
        self,
        config: SpansConfig,
        sink: Callable[[Span], bool],
        recorder: Recorder,
        *,
        minted: Mapping[str, Minted],
        sampled: Container[str],
        clock: Callable[[], float],
        exported: Callable[[Minted], bool] | None = None,
        export: Export | None = None,
    ) -> None:
        self._config = config
        self._outboxes: list[Outbox[Any]] = [] if export is None else [export.outbox]
        forward: Forward | None = None
        if config.receive and config.forward_url:
            forward = Forward(
                config.forward_url,
                minted=minted,
                sampled=sampled,
                exported=exported,
                sent=lambda n: recorder.spans("forwarded", n),
                dropped=lambda n: recorder.dropped("span_not_forwarded", n),
            )
            self._outboxes.append(forward.outbox)
        self.intake = Intake(
            sink,
            clock=clock,
            count=recorder.spans,
            dropped=recorder.dropped,
            forward=None if forward is None else forward.offer,
            unread=recorder.unread,
        )
        self.handlers = SpanReceiver(self.intake).handlers if config.receive else {}
        """By path; none if spans are not received."""
        self.from_anywhere = config.receive_from == "anywhere"
        self._grpc: GrpcListener | None = None
        self._sending: list[asyncio.Task[None]] = []

    async def start(self) -> tuple[str, int] | None:
        """Start forwarding, export and gRPC; returns the address of the gRPC listener, or None without one. Raises OSError."""
        self._sending = [asyncio.create_task(outbox.run(), name="otlp.outbox") for outbox in self._outboxes]
        address = self._config.grpc_address
        if not self._config.receive or address is None:
            return None
        from sidecar.otlp.grpc_listener import GrpcListener  # noqa: PLC0415  an extra: imported only if configured

        listener = GrpcListener(self.intake)
        bound = await listener.start(address.host, address.port)
        self._grpc = listener
        return bound

    async def send_last(self, seconds: float) -> None:
        """Send what waits for the collector, within so many seconds; what is left then is dropped."""
        for outbox in self._outboxes:
            outbox.finish()
        if self._sending:
            await asyncio.wait(self._sending, timeout=seconds)
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()

    async def stop(self) -> None:
        """Stop gRPC, then forwarding and export; spans that wait for the collector get AT_END_SECONDS."""
        if self._grpc is not None:
            await self._grpc.stop()
        await self.send_last(AT_END_SECONDS)
