"""An engine's recorded or composed answer, played through the whole sidecar with a fake clock; and damage to it.

`play(case, events)` sends the case's request and the answer, event by event: the response head after `head_after`, the
first output 0.45 s after the request, the last 0.2 s later, the end of the message after another 0.05 s.
`damaged(events)` draws the same events with values of their JSON missing, null, negative, a string, huge, of another
type, or under another name: no parser may take these for a number.
"""

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sidecar.engines.engine import Engine
from tests.support.messages import read
from tests.support.walk import Walk


STREAMS = pathlib.Path(__file__).parent.parent / "streams"
SSE = b"text/event-stream"
NDJSON = b"application/x-ndjson"
JSON = b"application/json"
TTFT_SECONDS = 0.45
DECODE_SECONDS = 0.2
REST_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """One engine's answer to one request."""

    engine: str
    path: str
    answer: str
    """A file in tests/streams, or the answer itself if it is a whole one."""
    request: dict[str, object] = field(default_factory=dict)
    head_after: float = 0.0
    fields: tuple[bytes, ...] = ()
    asks: tuple[bytes, ...] = ()
    """Header lines of the request."""
    expected: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Phase to (milliseconds, source)."""
    reason: str = "in_band"
    last: int = -2
    """Index of the last event with output."""

    @property
    def id(self) -> str:
        """The name of the case in pytest."""
        name = self.answer.rpartition(".")[0] if self.streamed else "whole"
        return f"{self.engine}-{self.path}-{name}"

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""
        return not self.answer.startswith(("{", "["))

    @property
    def media_type(self) -> bytes:
        """The Content-Type that the engine states."""
        return JSON if not self.streamed else NDJSON if self.answer.endswith(".ndjson") else SSE

    def stream(self) -> bytes:
        """The answer's bytes."""
        return (STREAMS / self.answer).read_bytes() if self.streamed else self.answer.encode()

    def events(self) -> list[bytes]:
        """The stream, cut after each event."""
        raw = self.stream()
        end = b"\n" if self.media_type == NDJSON else b"\n\n"
        return [event + end for event in raw.split(end) if event.strip()] if self.streamed else [raw]


def play(case: Case, events: list[bytes]) -> tuple[Walk, bool]:
    """The walk after this answer, and whether the client got its body byte for byte."""
    walk = Walk(engine=Engine(case.engine, ["tiny"]), include_usage=False)
    client = walk.client()
    body = json.dumps(case.request).encode()
    asks = b"".join(line + b"\r\n" for line in case.asks)
    head = b"POST %s HTTP/1.1\r\nHost: pod\r\n%sContent-Length: %d\r\n\r\n" % (case.path.encode(), asks, len(body))
    client.send(head + body)
    walk.clock.later(case.head_after)
    if not case.streamed:
        whole = b"".join(events)
        walk.clock.later(TTFT_SECONDS + DECODE_SECONDS - case.head_after)
        walk.engine.send(_head(case, b"content-length: %d" % len(whole)))
        walk.clock.later(REST_SECONDS)
        walk.engine.send(whole)
    else:
        walk.engine.send(_head(case, b"transfer-encoding: chunked"))
        walk.clock.later(TTFT_SECONDS - case.head_after)
        for number, event in enumerate(events):
            last = case.last % len(case.events())
            if number == last:
                walk.clock.later(DECODE_SECONDS)
            if number > last and number == len(events) - 1:
                walk.clock.later(REST_SECONDS)  # behind the API's own end mark nothing is the client's time
            walk.engine.send(b"%x\r\n%s\r\n" % (len(event), event))
        walk.clock.later(0.0 if len(events) - 1 > case.last % len(case.events()) else REST_SECONDS)
        walk.engine.send(b"0\r\n\r\n")
    # The body, not its chunks: an event of more than SMALL_BYTES is passed on in pieces (docs/deviations.md).
    _, _, body, rest = read(bytes(client.taken))
    return walk, (body, rest) == (b"".join(events), b"")


def _head(case: Case, framing: bytes) -> bytes:
    fields = (b"content-type: " + case.media_type, framing, *case.fields)
    return b"HTTP/1.1 200 OK\r\n" + b"".join(line + b"\r\n" for line in fields) + b"\r\n"


# --- damage --------------------------------------------------------------------------------------------------------------

_WRONG: tuple[Any, ...] = (None, -1, -0.001, "", "abc", "1h", True, [], {}, [1, 2], 10**400, 2**63, 1e308, float("nan"))
MISSING = object()
RENAMED = object()


@st.composite
def damaged(draw: st.DrawFn, events: list[bytes]) -> list[bytes]:
    """These events with one to three values of their JSON damaged."""
    events = list(events)
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(events) - 1))
        before, brace, rest = events[number].partition(b"{")
        try:
            said = json.loads(brace + rest)
        except ValueError:  # a [DONE], a comment, or damaged beyond repair
            continue
        places = list(_places(said))
        if not places:
            continue
        holder, key = draw(st.sampled_from(places))
        wrong = draw(st.sampled_from((*_WRONG, MISSING, RENAMED)))
        value = holder.pop(key) if isinstance(holder, dict) and wrong in (MISSING, RENAMED) else holder[key]
        if wrong is RENAMED and isinstance(holder, dict):
            holder[f"{key}_new"] = value
        elif wrong is not MISSING and wrong is not RENAMED:
            holder[key] = wrong
        events[number] = before + _written(said) + events[number][len(events[number].rstrip(b"\r\n")) :]
    return events


def _places(said: Any) -> Any:
    """Every value inside, as its holder and its key."""
    inside = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    for key, value in list(inside):
        yield said, key
        yield from _places(value)


def _written(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()
