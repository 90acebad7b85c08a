"""The budgets of one process: what it may hold at once, how much it holds, and what happens to more than that.

Every limit is derived once, from the memory and the files that the process was given and from the config: `limits_of`.
Pure: `machine.py` reads what was given. It refuses to know who takes from a budget: the owner adds to `used` when it
takes, and takes off exactly as much when it gives back. Each thing that finds no room is counted in `exceeded`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from sidecar.ledger.pending import MAX_ENTRIES


KEPT_FILES = 64
"""Files kept for what is no traffic: the admin side, the engine's health and metrics, logs."""
BACKLOG = 1024
"""Connections that the kernel may hold for one listener until they are accepted, and that one turn may accept."""
MOST_SPAN_REQUESTS = 34
"""Requests with spans inside the receiver at once: two in memory, the others wait unread."""
CONNECTION_BYTES = 16 << 10
"""Memory of one idle client connection, its parser included, rounded up (about 7 KiB measured)."""
REQUEST_BYTES = 256 << 10
"""Memory of one request whose client does not read: the client's buffer, one read from the engine, one event."""
KEEPS_PLACE_SECONDS = 60.0
"""A websocket that is silent for longer makes room for another one: realtime clients send audio all the time and pings
every 20 s (the `websockets` library), and nginx and AWS's load balancer end silent ones after 60 s in any case."""
ACCOUNTS_BYTES = 16 << 20
"""Default of `accounts.ring_bytes`: at least 270,000 closed requests, which is an hour of 75 requests a second."""
LEAST_LIMIT = 16
"""No derived limit of connections, uploads or requests is below this, however small the machine is."""
LEAST_HELD_BYTES = 8 << 20
PROCESS_BYTES = 64 << 20
"""Memory of the process itself before the first request, rounded up (60 MiB measured, its pages asked for once)."""
LEAST_FILES = KEPT_FILES + 5 * LEAST_LIMIT
"""With fewer files `serve` does not start: the least connections, with those to the engine, take four times LEAST_LIMIT of them, one turn
accepts LEAST_LIMIT more, and those that are kept would be used up. Then every client would be answered 503."""
LEAST_MEMORY_BYTES = 160 << 20
"""With less memory the limits and the process itself need more than there is: `serve` starts, and says so."""
MORE_FILES = "raise the hard limit of open files (ulimit -Hn, LimitNOFILE=) to 65536"


class Kind(Enum):
    """Each kind of budget: its name, its unit, and what happens to what finds no room."""

    HELD_BYTES = (
        "held_bytes",
        "bytes",
        (
            "Bytes of request bodies that are held to be read, of answers that are read whole, of unfinished heads above 8 KiB,"
            " of requests that wait on their connection, and of the last read of a client that is not read any further."
        ),
        (
            "A body streams on and is read as it passes or not at all, of an answer only the outline is kept, a connection is not read until its answer is sent; a head is"
            " refused: 503 `no_room_for_head`."
        ),
    )
    FILES = (
        "files",
        "files",
        "Sockets of clients and of the engine. 64 files more are kept for the admin side and the engine's probes.",
        "A new connection is closed at once. Files that run out all the same are logged as `out_of_files`.",
    )
    CONNECTIONS = (
        "connections",
        "connections",
        "Open connections of clients.",
        (
            "The connection that has been idle longest is closed; if none is, the slowest upload gets 408"
            " `made_room`; without one the new connection gets 503 `too_many_connections`."
        ),
    )
    UPLOADS = (
        "uploads",
        "requests",
        "Requests whose body has not come whole.",
        (
            "The slowest upload by its mean rate (of some that are compared in turn) gets 408 `made_room`; those that the sidecar"
            " itself does not read go last."
        ),
    )
    REQUESTS = (
        "requests",
        "requests",
        (
            "Requests that came whole and are not answered yet. A place is taken before the last byte goes to the engine; an"
            " unfinished upload has none."
        ),
        "503 `too_many_in_flight` with Retry-After, but not once the answer has begun: such a request is counted all the same.",
    )
    LEDGERS = (
        "ledgers",
        "ledgers",
        "Requests that have ended and wait for the engine's report.",
        "The oldest is closed without a report; its time to first token is `unattributed`.",
    )
    SPANS = (
        "spans",
        "requests",
        "Requests with spans that are being received.",
        "503: the exporter sends the request again.",
    )
    ACCOUNTS = (
        "accounts",
        "bytes",
        "Rows of closed requests, each kept for the slowest requests and for `/workload.jsonl` (`accounts.ring_bytes`).",
        "The oldest row is overwritten. That is how a full ring works, so it is not counted as without room.",
    )
    TUNNELS = (
        "tunnels",
        "tunnels",
        "Websockets, from the request on.",
        (
            "The one of them that has been silent for longest is ended, if no byte has passed for"
            f" {KEEPS_PLACE_SECONDS:g} s (`tunnel_idle`); else 503"
            " `too_many_tunnels`."
        ),
    )

    def __init__(self, label: str, unit: str, counts: str, beyond: str) -> None:
        self.label = label
        """The value of the label `budget`."""
        self.unit = unit
        self.counts = counts
        """The things that are counted."""
        self.beyond = beyond
        """The consequence for what finds no room."""


UNLIMITED = 1 << 62


class Budget:
    """One budget. `used` may exceed `limit` by what one piece of work adds, and after a reload that lowers the limit."""

    __slots__ = ("exceeded", "kind", "limit", "used")

    def __init__(self, kind: Kind, limit: int) -> None:
        self.kind = kind
        self.limit = limit
        self.used = 0
        self.exceeded = 0
        """Things that found no room since the start."""

    def __repr__(self) -> str:
        return f"<Budget {self.kind.label}: {self.used} of {self.limit}, {self.exceeded} beyond>"


class Asked(Protocol):
    """The limits that the config states (`ProxyConfig`); 0: derived."""

    max_in_flight: int
    max_connections: int
    max_uploads: int
    max_tunnels: int


def limits_of(memory_bytes: int, files: int, asked: Asked, accounts_bytes: int = ACCOUNTS_BYTES) -> dict[Kind, int]:
    """Every limit, from the bytes of memory and the number of files that this process may have.

    One eighth of the memory is for bytes held, one eighth for connections, one quarter for requests in flight, at most
    one sixteenth for rows of closed requests; the rest is for the process itself and for bytes on their way. A stated limit
    above what the files or the memory allow is lowered, because it could not be kept. From LEAST_FILES and LEAST_MEMORY_BYTES on
    all limits can be kept at once.
    """
    spare = files - KEPT_FILES
    room = max(4 * LEAST_LIMIT, spare - backlog_of(spare))
    requests = min(asked.max_in_flight, max(LEAST_LIMIT, min(memory_bytes // 4 // REQUEST_BYTES, room // 4)))
    uploads = min(asked.max_uploads or requests, max(LEAST_LIMIT, room // 8))
    tunnels = min(asked.max_tunnels or -(-requests // 4), max(LEAST_LIMIT, room // 8))
    most = max(LEAST_LIMIT, min(memory_bytes // 8 // CONNECTION_BYTES, room - requests - uploads - tunnels))
    return {
        Kind.HELD_BYTES: min(max(memory_bytes // 8, LEAST_HELD_BYTES), 1 << 30),
        Kind.FILES: max(LEAST_LIMIT, spare),
        Kind.CONNECTIONS: min(asked.max_connections or most, most),
        Kind.UPLOADS: uploads,
        Kind.REQUESTS: requests,
        Kind.LEDGERS: MAX_ENTRIES,
        Kind.SPANS: MOST_SPAN_REQUESTS,
        Kind.ACCOUNTS: min(accounts_bytes, memory_bytes // 16),
        Kind.TUNNELS: tunnels,
    }


def backlog_of(files: int) -> int:
    """The length of a listener's queue: what one turn accepts must not use up the files, out of `files` for traffic."""
    return max(LEAST_LIMIT, min(BACKLOG, files // 8))


class Budgets:
    """All budgets of one process, by kind; those of the hot path by name too."""

    def __init__(self, limits: Mapping[Kind, int]) -> None:
        self._all = {kind: Budget(kind, limits[kind]) for kind in Kind}
        self.held = self._all[Kind.HELD_BYTES]
        self.files = self._all[Kind.FILES]
        self.connections = self._all[Kind.CONNECTIONS]
        self.uploads = self._all[Kind.UPLOADS]
        self.requests = self._all[Kind.REQUESTS]
        self.tunnels = self._all[Kind.TUNNELS]

    def __getitem__(self, kind: Kind) -> Budget:
        return self._all[kind]

    def apply(self, limits: Mapping[Kind, int]) -> None:
        """Put other limits into force. What is over its new limit stays: only what comes finds no room."""
        for kind, limit in limits.items():
            self._all[kind].limit = limit

    @property
    def memory_bytes(self) -> int:
        """Memory that clients use now, at most: bytes held, connections and requests."""
        fixed = self.connections.used * CONNECTION_BYTES + self.requests.used * REQUEST_BYTES
        return self.held.used + fixed

    def rows(self) -> list[Budget]:
        """All budgets, in the order of `Kind`."""
        return list(self._all.values())
