"""All client connections that are open, and which of them goes when a further one finds no room.

The connection that has been without a request for longest goes first: a client may open it again at any time. Knows the
budget of connections, that of files and, where the config asks for one, the share of a peer's address. Refuses to know
the bytes on a connection. A share is off by default, because all clients of an ingress have its one address.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from socket import socket
from typing import Protocol

from sidecar.budgets.budgets import Budgets
from sidecar.proxy.errors import Failure
from sidecar.proxy.gate import Gate


LOOKED_AT = 16
"""Connections without a request that are looked at for one of which no head has begun."""


class Member(Protocol):
    """A client connection."""

    @property
    def idle(self) -> bool: ...
    def leave_room(self, at: float) -> None:
        """Close, so that another client has room."""
        ...


class Crowd:
    """The open connections of one listener."""

    def __init__(self, budgets: Budgets, uploads: Gate) -> None:
        self.without_request: dict[Member, None] = {}
        """Connections on which no request is being answered, in the order in which the last one ended. An unfinished head
        changes nothing here: else bytes of a head would keep a connection for ever."""
        self._budgets = budgets
        self._uploads = uploads
        self._open: dict[Member, str | None] = {}
        self._peers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._open)

    def enter(self, connection: Member, at: float, sock: socket | None, share: int) -> Failure | None:
        """Take in a new connection. Returns the reason for which it must be closed again, or None.

        `sock`: the kernel gives the lowest free file number, so one above the budget of files says that these are used up.
        `share`: the most connections of one peer's address; 0: any number.
        """
        file = 0 if sock is None else sock.fileno()
        peer = _address_of(sock) if share and sock is not None else None
        budgets, budget = self._budgets, self._budgets.connections
        self._open[connection] = peer
        budget.used += 1
        failure: Failure | None = None
        if peer is not None:
            self._peers[peer] += 1
            if self._peers[peer] > share:
                failure = Failure.TOO_MANY_OF_ONE_PEER
                budget.exceeded += 1
        if failure is None and file >= budgets.files.limit:
            budgets.files.exceeded += 1
            self._make_room(at)  # for the next one: this one has a file that is kept
            failure = Failure.TOO_MANY_CONNECTIONS
        elif failure is None and budget.used > budget.limit:
            budget.exceeded += 1
            if not self._make_room(at):
                failure = Failure.TOO_MANY_CONNECTIONS
        self.without_request[connection] = None
        return failure

    def leave(self, connection: Member) -> None:
        """The connection's socket is closed."""
        self.without_request.pop(connection, None)
        if connection not in self._open:
            return
        peer = self._open.pop(connection)
        self._budgets.connections.used -= 1
        if peer is not None:
            self._peers[peer] -= 1
            if self._peers[peer] <= 0:
                del self._peers[peer]

    def _make_room(self, at: float) -> bool:
        oldest = list(islice(self.without_request, LOOKED_AT))
        if not oldest:
            return self._uploads.make_room(at)
        going = next((connection for connection in oldest if connection.idle), oldest[0])
        del self.without_request[going]
        going.leave_room(at)
        return True


def _address_of(sock: socket) -> str | None:
    try:
        return str((sock.getpeername() or ("",))[0])
    except OSError:
        return None  # the peer has reset the connection before it was accepted
