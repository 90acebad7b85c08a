"""Everything that receives spans, in one object: intake, HTTP handler, gRPC listener and forwarding, as configured.

It knows the order in which these parts start and stop, so that `app.py` has one object to hold. It refuses to know what
spans mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING

from sidecar.classify.trace import Minted
from sidecar.config.schema import SpansConfig
from sidecar.engines.span import Span
from sidecar.observe.record import Recorder
from sidecar.otlp.forwarding import Forward
from sidecar.otlp.intake import Intake
from sidecar.otlp.receiver import SpanReceiver


if TYPE_CHECKING:
    from sidecar.otlp.grpc_listener import GrpcListener


class Spans:
    """The receiver of one process. `sink`: as in `Intake`; `minted` and `sampled`: as in `Forward`."""

    def __init__(
        self,
        config: SpansConfig,
        sink: Callable[[Span], bool],
        recorder: Recorder,
        *,
        minted: Mapping[str, Minted],
        sampled: Container[str],
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._forward: Forward | None = None
        if config.receive and config.forward_url:
            self._forward = Forward(
                config.forward_url,
                minted=minted,
                sampled=sampled,
                sent=lambda n: recorder.spans("forwarded", n),
                dropped=lambda n: recorder.dropped("span_not_forwarded", n),
            )
        self.intake = Intake(
            sink,
            clock=clock,
            count=recorder.spans,
            dropped=recorder.dropped,
            forward=None if self._forward is None else self._forward.offer,
        )
        self.handle = SpanReceiver(self.intake).handle if config.receive else None
        """Handler of `/v1/traces`; None if spans are not received."""
        self.from_anywhere = config.receive_from == "anywhere"
        self._grpc: GrpcListener | None = None
        self._forwarding: asyncio.Task[None] | None = None

    async def start(self) -> tuple[str, int] | None:
        """Start forwarding and gRPC; returns the address of the gRPC listener, or None without one. Raises OSError."""
        if self._forward is not None:
            self._forwarding = asyncio.create_task(self._forward.run(), name="otlp.forward")
        address = self._config.grpc_address
        if not self._config.receive or address is None:
            return None
        from sidecar.otlp.grpc_listener import GrpcListener  # noqa: PLC0415  an extra: imported only if configured

        listener = GrpcListener(self.intake)
        bound = await listener.start(address.host, address.port)
        self._grpc = listener
        return bound

    async def stop(self) -> None:
        """Stop gRPC and forwarding; spans that wait for the collector get 1 s."""
        if self._grpc is not None:
            await self._grpc.stop()
        if self._forwarding is not None:
            self._forwarding.cancel()
            await asyncio.gather(self._forwarding, return_exceptions=True)
