"""The hooks by which the relay tells an observer about a request.

The relay moves bytes and calls these hooks with instants; it knows nothing of lanes, tokens or metrics. `guard.py` stands
between and protects traffic from observers.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, ResponseHead
from sidecar.proxy.tcp import SendTimes
from sidecar.timeline.outcome import Outcome


class Mark(Enum):
    """An event of a request; the hook also gets its instant."""

    RECEIVED = "received"
    """The last byte of the request body was read."""
    CONNECTING = "connecting"
    """A new connection to the engine is opened for the request."""
    CONNECTED = "connected"
    SENT = "sent"
    """The engine's socket has the whole request."""
    PAUSED = "paused"
    """The client does not keep up: reading from the engine stopped."""
    RESUMED = "resumed"
    ENDED = "ended"
    """The engine's message is complete. It is not told of one that broke off, or whose client left."""
    FLUSHED = "flushed"
    """The client's socket took the last byte."""


class Splice(NamedTuple):
    """The one change of a body: its bytes from `start` to `end` (exclusive) become `text`."""

    start: int
    end: int
    text: bytes


@dataclass(slots=True)
class Instead:
    """How the request that goes to the engine differs from the client's."""

    splice: Splice | None = None
    """None: the body is unchanged."""
    fields: Fields = ()
    """Fields that replace the client's of the same name, or are added."""
    caused: re.Pattern[bytes] | None = None
    """The lines `name: value` of the answer's head that these fields cause, and that the client does not get; the observer sees them."""


UNCHANGED = Instead()


class End(NamedTuple):
    """How a request ended."""

    outcome: Outcome
    failure: Failure | None = None
    status: int | None = None
    """Status of the response; None if no response came."""
    delivery: SendTimes | None = None
    """Kernel times for which the last hop held the response back; None if it was not delivered whole."""
    resent: str | None = None
    """The request was sent twice; the proof that the engine never had the first."""


Wakes = Callable[[Callable[[], None]], None]
"""Takes what is to be called once, when the next step of a look can come."""


class Cutter(Protocol):
    """Takes bytes out of a response body before it is written. Bytes that it holds back go out later, in order."""

    def cut(self, data: bytes) -> bytes:
        """The bytes that go to the client now, out of `data` and of the bytes held back before."""
        ...

    def rest(self) -> bytes:
        """The body is over: returns the bytes still held back. A second call returns none."""
        ...


class Observer(Protocol):
    """One request's observer. All instants are monotonic seconds."""

    wants_body: bool
    """Whether `request_body` is called, before anything is sent, with as much body as the look-in bound allows."""

    @property
    def done(self) -> bool:
        """The stream's own end mark has been seen: a client that leaves now has everything."""
        ...

    @property
    def awaits_output(self) -> bool:
        """The answer has begun, and no output is in it yet: an engine may send its head long before its first token."""
        ...

    def look(self, body: bytes | bytearray) -> Iterator[Wakes | None]:
        """Read a whole body that is too long for one turn of the loop; each step takes about 0.2 ms. Then comes `request_body`.

        The next step comes at once behind None, else when the caller is woken.
        """
        ...

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:
        """Take in the body, or its beginning, and keep none of it. Returns the changes to the request that the engine gets."""
        ...

    def request_data(self, data: bytes | bytearray) -> None:
        """Take in bytes of a body that is too long to be held, behind its beginning; they have gone on to the engine. Where its length is not
        stated they come as they are collected, from the first byte on, before `request_body`.
        """
        ...

    def mark(self, mark: Mark, at: float) -> None: ...

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        """The response head was read. The cutter, if there is one, sees the body before it is written."""
        ...

    def data(self, at: float, data: bytes) -> None:
        """Body bytes that were read at `at` have been written to the client. `data`: as read, with nothing cut out."""
        ...

    def blinded(self) -> None:
        """A hook has raised: from now on only `close` is called."""
        ...

    def close(self, at: float, end: End) -> None: ...
