"""At most 64 KiB of one connection are parsed in one turn of the event loop; then every other connection has its turn.

Knows the transport and when to stop it. It does not know what the bytes mean, nor why its connection wants to stop
reading. uvloop reads up to 256,000 bytes at once, and libuv repeats a read that filled this buffer up to 32 times in
the same turn: 8 MB of one connection, during which no other one is read.
"""

import asyncio
from collections.abc import Callable


TURN_BYTES = 65536

Soon = Callable[[Callable[[], None]], object]


def soon(work: Callable[[], None]) -> None:
    """Call `work` in the next turn of the running loop, before its sockets are polled."""
    asyncio.get_running_loop().call_soon(work)


class ReadLimit(asyncio.Protocol):
    """Base of both kinds of connection. Their `data_received` passes a read of more than TURN_BYTES through `first_part`.

    A shorter read needs nothing: it did not fill uvloop's buffer, so libuv does not read this connection again in this
    turn.
    """

    def __init__(self, soon: Soon) -> None:
        self.transport: asyncio.Transport | None = None
        self.reading_paused = False
        """Whether `pause_reading` is in force; the end of a turn, which also stops the transport, does not count."""
        self._soon = soon
        self._unread = b""
        self._turn_over = False
        self._stopped = False

    def first_part(self, data: bytes) -> bytes:
        """The bytes of `data` for this turn. The rest comes through `data_received` in the next turns; then reading goes on."""
        self._unread = data[TURN_BYTES:]
        self._wait_for_turn()
        return data[:TURN_BYTES]

    def pause_reading(self) -> None:
        """Take nothing more until `resume_reading`: the other side does not keep up, or too much waits here."""
        self.reading_paused = True
        self._steer()

    def resume_reading(self) -> None:
        """Read on: the rest of an earlier read first, in a turn of its own."""
        self.reading_paused = False
        if self._unread and not self._turn_over:
            self._wait_for_turn()
        self._steer()

    def _wait_for_turn(self) -> None:
        self._turn_over = True
        self._steer()
        self._soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_over = False
        if self._unread and not self.reading_paused and self.transport is not None and not self.transport.is_closing():
            self._wait_for_turn()  # the rest of a read and a new read never share a turn
            self._read_on()
        self._steer()

    def _read_on(self) -> None:
        data, self._unread = self._unread[:TURN_BYTES], self._unread[TURN_BYTES:]
        self.data_received(data)

    def _steer(self) -> None:
        """Pause or resume the transport, if the reasons to stop reading have changed."""
        stop = self.reading_paused or self._turn_over
        if stop == self._stopped or self.transport is None or self.transport.is_closing():
            return
        self._stopped = stop
        if stop:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
