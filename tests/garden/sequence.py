"""One attack on a hop: the bytes of one connection, by name and family, with a canary request behind them.

Knows the form of an attack, and how a request is marked so that an origin behind any number of hops can tell from which
attack it came. Sends nothing; the tricks themselves are in the modules beside this one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Family(StrEnum):
    """The kinds of request sequences, by the part of a request that they bend."""

    FRAMING = "framing"
    LENGTHS = "lengths"
    CHUNKS = "chunks"
    TRAILERS = "trailers"
    LINES = "lines"
    NAMES = "names"
    CONNECTION = "connection"
    TARGETS = "targets"
    HOSTS = "hosts"
    EXPECTATIONS = "expectations"
    UPGRADES = "upgrades"
    VERSIONS = "versions"
    BODIES = "bodies"
    PIPELINES = "pipelines"
    PAUSES = "pauses"
    TRUNCATED = "truncated"
    LONG = "long"
    MIXED = "mixed"


FAMILY_WORDS = {
    Family.FRAMING: "Transfer-Encoding in hundreds of spellings, alone and beside Content-Length",
    Family.LENGTHS: "Content-Length: duplicates, signs, hex, commas, control characters",
    Family.CHUNKS: "chunk sizes, extensions and ends that two readers read differently",
    Family.TRAILERS: "trailer fields that name the framing or another request",
    Family.LINES: "bare CR, bare LF, folded lines, NUL and control characters in the head",
    Family.NAMES: "field names that some servers take for others (Content_Length)",
    Family.CONNECTION: "`Connection` that names fields meant for the origin",
    Family.TARGETS: "targets: absolute form, dot segments, fragments, CR and LF, other schemes",
    Family.HOSTS: "Host: missing, twice, with a path, with user information",
    Family.EXPECTATIONS: "Expect: 100-continue with, without and before a body",
    Family.UPGRADES: "Upgrade with bodies and with requests behind it",
    Family.VERSIONS: "HTTP/0.9, HTTP/1.0 with Transfer-Encoding, HTTP/2.0 and others in the request line",
    Family.BODIES: "bodies of GET, HEAD, DELETE and OPTIONS that look like requests",
    Family.PIPELINES: "many requests at once, good and bad ones mixed",
    Family.PAUSES: "requests that pause between head and body",
    Family.TRUNCATED: "requests that end too early, with another one behind",
    Family.LONG: "very long lines, many fields, long chunk extensions",
    Family.MIXED: "random changes to all of these, from the seed",
}

_MARK = b"GARDENID"
_MARKED = re.compile(rb"g[0-9]{7}")
SMUGGLED = b"GET /garden/GARDENID/smuggled HTTP/1.1\r\nHost: garden\r\n\r\n"
"""A whole request, to be hidden in a body. If an origin reads it although the hop took it for a body, it is smuggled."""
SWALLOWING = b"GET /garden/GARDENID/smuggled HTTP/1.1\r\nHost: garden\r\nX-Swallowed: "
"""A request without an end: if an origin reads it, the request behind becomes the value of its last field."""
CANARY = b"GET /garden/GARDENID/canary HTTP/1.1\r\nHost: garden\r\n\r\n"
"""The good request behind every attack: it must be answered, refused with the attack, or lost with the connection."""
PAUSE_SECONDS = 0.02
"""Time between two pieces of one attack; longer than a hop on the same host needs to pass on the first."""


@dataclass(frozen=True, slots=True)
class Trick:
    """The bytes of an attack before it has a number. `cuts`: offsets at which the sender pauses."""

    family: Family
    name: str
    data: bytes
    cuts: tuple[int, ...] = ()


Tricks = Iterator[Trick]


@dataclass(frozen=True, slots=True)
class AttackSequence:
    """The bytes of one connection. The sender pauses for PAUSE_SECONDS between two pieces."""

    number: int
    family: Family
    name: str
    pieces: tuple[bytes, ...]

    @property
    def sent(self) -> bytes:
        """All bytes of the connection."""
        return b"".join(self.pieces)

    def __str__(self) -> str:
        return f"{self.family} {self.number}: {self.name}"


def sequence_of(trick: Trick, number: int) -> AttackSequence:
    """The trick with its number in each of its requests, and the canary behind it."""
    data = marked(trick.data + CANARY, number)
    edges = [0, *(cut for cut in sorted(set(trick.cuts)) if 0 < cut < len(data)), len(data)]
    pieces = tuple(data[start:end] for start, end in pairwise(edges))
    return AttackSequence(number, trick.family, trick.name, pieces)


def marked(data: bytes, number: int) -> bytes:
    """The data with the number in place of each mark; the length stays, so that stated lengths stay right."""
    return data.replace(_MARK, b"g%07d" % number)


def outside_marks(data: bytes, place: int) -> int:
    """The place, or the end of the mark that it would damage."""
    start = data.rfind(_MARK, max(0, place - len(_MARK) + 1), place + len(_MARK))
    return start + len(_MARK) if start >= 0 and start < place < start + len(_MARK) else place


def has_mark(data: bytes) -> bool:
    """Whether the data of a trick can be told from that of others."""
    return _MARK in data


def numbers_in(data: bytes) -> set[int]:
    """The numbers of all attacks whose mark is in these bytes."""
    return {int(found[1:]) for found in _MARKED.findall(data)}


def post(*lines: bytes, body: bytes = b"", start: bytes = b"POST /garden/GARDENID/attack HTTP/1.1") -> bytes:
    """A request with a Host field, these lines after it, and this body."""
    return b"\r\n".join((start, b"Host: garden", *lines, b"", b"")) + body


def chunked(*pieces: bytes) -> bytes:
    """The pieces as chunks, with the last chunk behind them."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def shown(data: bytes) -> str:
    """The bytes as text of printable ASCII, for names."""
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")
