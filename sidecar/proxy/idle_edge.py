"""The idle edge: the engine closes an idle connection while a request is on its way, and the kernel knows who was first.

Looks for the proof that the engine never had the request, so that it may be sent once more (RFC 9110 9.2.2 allows that for
a POST only if it is known that the first was never applied). Knows one socket and its TCP_INFO; refuses to know requests.

The engine's end (FIN) has come. An engine that has closed its socket resets whatever comes later, and acknowledges none of
it: that is the proof. One that has only stopped sending still takes it, and may read it: then its kernel acknowledges. One
that has read the request and closes acknowledges with its end. One that closes or dies with the request unread resets at
once, and no end comes: then there is nothing to look for.
"""

import asyncio
import socket
from collections.abc import Callable

from sidecar.proxy.tcp import heard


PROOF_SECONDS = (0.001, 0.004, 0.01, 0.03, 0.1)
"""Waits between the looks. On loopback the reset is there at once; an acknowledgement may be delayed by 40 ms (Linux,
TCP_DELACK_MIN), so at the last look it is known whether the engine's kernel has taken the request."""


class Evidence:
    """One look-out for the proof; `verdict` is called once, later or at once, with whether it was found."""

    def __init__(self, sock: socket.socket, unheard_from: int, verdict: Callable[[bool], None]) -> None:
        """`unheard_from`: bytes acknowledged, since the connection began, at which none of the request is among them.

        Raises OSError if there is no file left to keep the socket by: the transport may close its own at any time.
        """
        self._sock = sock.dup()
        self._unheard_from = unheard_from
        self._verdict = verdict

    def look(self, waits: tuple[float, ...] = PROOF_SECONDS) -> None:
        """Look now, and again after each of these waits in seconds, until it is known."""
        now = heard(self._sock)
        unheard = now is not None and now.acknowledged_bytes <= self._unheard_from
        if now is not None and unheard and not now.closed and waits:
            asyncio.get_running_loop().call_later(waits[0], self.look, waits[1:])
            return
        self._sock.close()
        self._verdict(now is not None and unheard and now.closed)
