"""More connections at once than asyncio's own queue takes, to a server whose loop stands still meanwhile.

Knows only what the kernel does: it opens a connection that finds room in the listener's queue, and drops the request for one
that finds none; the client asks again after a second.
"""

import socket
from contextlib import ExitStack


FLOOD = 120
"""Above asyncio's queue (100), and below the longest one of a Linux before 5.4 (`net.core.somaxconn` 128)."""


def opened_at_once(port: int) -> int:
    """How many of FLOOD connections the kernel opens, up to the first that it does not. The caller's loop stands still."""
    with ExitStack() as connections:
        for count in range(FLOOD):
            sock = connections.enter_context(socket.socket())
            sock.settimeout(0.5)
            try:
                sock.connect(("127.0.0.1", port))
            except TimeoutError:
                return count
    return FLOOD
