"""The sending half of an engine connection: how much was written to it, what its socket has not taken, what it has heard.

Knows sockets and counts of bytes; the answer is read in `forward.py`. Refuses to know what the bytes mean.
"""

import select
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import ResponseHead
from sidecar.proxy.idle_edge import Evidence
from sidecar.proxy.read_limit import ReadLimit, Turns
from sidecar.proxy.tcp import arrivals, heard


Buffer = bytes | bytearray | memoryview


class Consumer(Protocol):
    """The owner of an engine connection for the time of one exchange."""

    @property
    def may_send_again(self) -> bool:
        """Whether the whole request is still in memory, and was sent only once."""
        ...

    def engine_never_had_it(self, proof: str) -> None:
        """The engine had closed before the request came: it may be sent once more."""
        ...

    def engine_head(self, head: ResponseHead) -> None: ...
    def engine_read(self, at: float, pieces: list[bytes], *, complete: bool) -> None:
        """All of one read has been parsed. `pieces`: its pieces of body. `complete`: the response ended with them."""
        ...

    def engine_chunk(self, at: float, chunk: bytes, said: bytes) -> None:
        """One read was `chunk` and nothing else, whose body is `said`: as `engine_read` with this one piece."""
        ...

    def engine_failed(self, failure: Failure, at: float) -> None: ...
    def engine_blocked(self) -> None: ...
    def engine_unblocked(self) -> None: ...


class Sending(ReadLimit):
    """Base of `EngineConnection`: everything that is written."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self.consumer: Consumer | None = None
        self.socket: socket.socket | None = None
        self.arrivals: select.poll | None = None
        self.blocked = False
        """Its socket has not taken everything."""
        self.reused = False
        """This exchange is not the connection's first."""
        self._written_bytes = 0
        self._written_before = 0
        self._acknowledged_at_first = 0
        self.in_question = False
        """The engine has closed, and it is being found out whether it ever had the request."""

    def opened_on(self, sock: socket.socket) -> None:
        """The connection is open on this socket, and nothing has been sent."""
        self.socket = sock
        self.arrivals = arrivals(sock)
        at_first = heard(sock)
        self._acknowledged_at_first = 0 if at_first is None else at_first.acknowledged_bytes

    @property
    def request_bytes(self) -> int:
        """Bytes of the present request that were written."""
        return self._written_bytes - self._written_before

    def write(self, data: Buffer) -> None:
        """Hand bytes to the engine's socket."""
        self._written_bytes += len(data)
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(data)

    def write_all(self, buffers: Sequence[Buffer]) -> None:
        """Hand bytes to the engine's socket, none of them empty. They must not be changed any more. uvloop sends them by one writev."""
        if len(buffers) == 1:
            self.write(buffers[0])
            return
        self._written_bytes += sum(map(len, buffers))
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.writelines(buffers)

    @property
    def has_ended(self) -> bool:
        """Whether both sides have ended it, though the loop has not looked: to write on would fail, and prove nothing."""
        now = None if self.socket is None else heard(self.socket)
        return now is not None and now.closed

    def pause_writing(self) -> None:
        self.blocked = True
        if self.consumer is not None:
            self.consumer.engine_blocked()

    def resume_writing(self) -> None:
        self.blocked = False
        if self.consumer is not None:
            self.consumer.engine_unblocked()

    def seek_proof(self, proven: Callable[[bool], None]) -> bool:
        """Whether it can be found out that the engine never had the request; then `proven` is told, now or soon."""
        if not self.reused or self.consumer is None or not self.consumer.may_send_again:
            return False
        if self.socket is None or self.socket.family == socket.AF_UNIX:
            return False

        def verdict(never_had_it: bool) -> None:
            self.in_question = False
            proven(never_had_it)

        try:
            evidence = Evidence(self.socket, self._acknowledged_at_first + self._written_before, verdict)
        except OSError:
            return False
        self.in_question = True
        evidence.look()
        return True
