"""A TCP relay between two parties that breaks the network on order: delays, slices, slows, stops, resets, half-closes.

It knows sockets and no HTTP. Without a fault bytes pass as they are read. Both directions of a connection are bounded: a side
that does not take its bytes stops the reading of the other. Every connection that it injured (a reset, a half-close) is counted,
so that a bench can tell the failures that it caused from those that it did not.
"""

import asyncio
import random
import socket
import struct
from collections import deque
from typing import cast

from bench.soak.faults import INJURES, Fault, Kind, delivered


MOST_HELD_BYTES = 262_144
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class End(asyncio.Protocol):
    """One of the two sockets of a connection: it reads, and its peer writes."""

    def __init__(self, relay: "ChaosRelay") -> None:
        self.relay = relay
        self.transport: asyncio.Transport | None = None
        self.peer: End | None = None
        self.fault: Fault | None = None
        self.fault_until = 0.0
        self.silenced = False
        """Its direction was closed by a half-close: what it still reads is dropped."""
        self.half_closed = False
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._stopped_by_peer = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.peer is None:
            self.relay.came(self)

    def joined(self, peer: "End") -> None:
        """The way to the other party is open: what was read meanwhile goes there."""
        self.peer, peer.peer = peer, self
        self.flush()

    def data_received(self, data: bytes) -> None:
        if self.silenced:
            return
        now = self.relay.clock()
        if self.fault is None and not self._held and self.peer is not None:
            self._write(data)
            return
        if now >= self.fault_until:
            self.fault = None
        free_at = self._held[-1][0] if self._held else now
        for piece in delivered(data, self.fault, now, self.fault_until, free_at):
            self._held.append(piece)
            self._held_bytes += len(piece[1])
        self._steer()
        self.flush()

    def eof_received(self) -> bool:
        self._ended = True
        self.flush()
        return True  # the other direction may go on

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay.gone(self)
        if self._timer is not None:
            self._timer.cancel()
        peer = self.peer
        if peer is None or peer.transport is None or peer.transport.is_closing():
            return
        if isinstance(exc, ConnectionError):
            peer.reset()
        else:
            while self._held:
                self._write(self._held.popleft()[1])
            peer.transport.close()

    def pause_writing(self) -> None:
        self._stop_peer(stop=True)

    def resume_writing(self) -> None:
        self._stop_peer(stop=False)

    # --- faults ------------------------------------------------------------------------------------------------------

    def suffer(self, fault: Fault) -> None:
        """Take on this fault from now on; one that does not delay happens at once."""
        if fault.kind is Kind.RESET:
            self.reset()
            if self.peer is not None:
                self.peer.reset()
        elif fault.kind is Kind.HALF_CLOSE:
            self.silenced = True
            self._half_close()
        else:
            self.fault, self.fault_until = fault, self.relay.clock() + fault.seconds

    def reset(self) -> None:
        """Close so that the kernel sends a reset, and drops what it holds."""
        if self.transport is None or self.transport.is_closing():
            return
        own = self.transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    # --- bytes -------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what is due, and wait for what is not."""
        if self.peer is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self.relay.clock()
        while self._held and self._held[0][0] <= now:
            data = self._held.popleft()[1]
            self._held_bytes -= len(data)
            self._write(data)
        if self._held:
            self._timer = self.relay.call_later(self._held[0][0] - now, self.flush)
        elif self._ended:
            self._half_close()
        self._steer()

    def _write(self, data: bytes) -> None:
        if self.silenced:
            return
        peer = self.peer
        if peer is not None and peer.transport is not None and not peer.transport.is_closing():
            peer.transport.write(data)

    def _half_close(self) -> None:
        peer = self.peer
        if self.half_closed or peer is None or peer.transport is None or peer.transport.is_closing():
            return
        self.half_closed = True
        if peer.half_closed:
            peer.transport.close()
        elif peer.transport.can_write_eof():
            peer.transport.write_eof()

    def _stop_peer(self, *, stop: bool) -> None:
        if self.peer is not None:
            self.peer.stopped(stop=stop)

    def stopped(self, *, stop: bool) -> None:
        """The other party takes no more bytes for now, or takes them again."""
        self._stopped_by_peer = stop
        self._steer()

    def _steer(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._stopped_by_peer or self._held_bytes > MOST_HELD_BYTES:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class ChaosRelay:
    """Listens, and connects each connection on to `target_port` of loopback."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.injured = 0
        """Connections that were reset or half-closed by order."""
        self.refused = 0
        """Connections that the target did not take."""
        self.connections = 0
        self._open: dict[End, End] = {}
        """Each connection's accepted end, and the end towards the target."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock, self.call_later = loop.time, loop.call_later
        self._server = server = await loop.create_server(lambda: End(self), "127.0.0.1", 0, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no connection more, and reset those that are open."""
        if self._server is not None:
            self._server.close()
        for accepted, onward in list(self._open.items()):
            accepted.reset()
            onward.reset()
        await asyncio.sleep(0)

    @property
    def open(self) -> int:
        return len(self._open)

    def came(self, accepted: End) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._connect(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def gone(self, end: End) -> None:
        self._open.pop(end, None)

    async def _connect(self, accepted: End) -> None:
        onward = End(self)
        onward.peer = accepted
        try:
            await asyncio.get_running_loop().create_connection(lambda: onward, "127.0.0.1", self.target_port)
        except OSError:
            self.refused += 1
            accepted.reset()
            return
        self._open[accepted] = onward
        accepted.joined(onward)
        if accepted.transport is None or accepted.transport.is_closing():
            self.gone(accepted)
            onward.reset()

    def break_some(self, fault: Fault) -> int:
        """Let the fault come over some of the open connections, in one direction drawn for each; returns their number."""
        draw = random.Random(fault.draw)
        among = list(self._open.items())
        chosen = draw.sample(among, min(len(among), max(1, round(fault.share * len(among)))))
        for accepted, onward in chosen:
            if fault.kind in INJURES:
                self.injured += 1
            draw.choice((accepted, onward)).suffer(fault)
        return len(chosen)
