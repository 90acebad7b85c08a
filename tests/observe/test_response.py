"""The short way of a token, from its bytes to every number on the page, is equal to the long way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.slo_counters import Slo
from sidecar.timeline.dialects.field_table import OPENAI_CHAT
from sidecar.timeline.marks import Marks
from tests.support.memory import Socket
from tests.support.messages import read
from tests.support.walk import Walk


AIMS = Aims(ttft=Aim(1.0, 0.9), tpot=Aim(0.25, 0.95), e2e=Aim(8.0, 0.99))
OBJECTIVES = Objectives({"interactive": dict.fromkeys(("0-512", "512-4k", "4k+", "unknown"), AIMS)})
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def said(*deltas: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    choices = [{"index": index, "delta": delta, "finish_reason": finish} for index, delta in enumerate(deltas)]
    return json.dumps({"id": "a", "choices": choices, **more}).encode()


TOKEN = said({"content": "a"})
OTHERS = st.sampled_from(
    [
        said({"role": "assistant", "content": ""}),
        said({"content": ""}),
        said({"content": "a"}, {"content": "b"}),
        said({"reasoning_content": "hm"}),
        said({"content": "b"}, finish="stop"),
        said({}, finish="length"),
        said(usage={"prompt_tokens": 600, "completion_tokens": 9}),
        said({"content": "a"}, usage=None),
        said({"content": "a"}, error={"message": "no"}),
        said({"content": "a"}, timings={"prompt_ms": 1.0}),
        b"[DONE]",
        b"{",
        b"",
    ]
)
FRAMES = st.sampled_from(
    [b"data: %b\n\n"] * 8 + [b"data: %b\r\n\r\n", b": c\n\ndata: %b\n\n", b"data:%b\ndata:\n\n", b"data: %b"]
)
EVENTS = st.tuples(FRAMES, st.just(TOKEN) | st.just(TOKEN) | st.just(TOKEN) | OTHERS).map(lambda one: one[0] % one[1])
ONE_SECOND = 1.0
PAUSES = st.sampled_from([0.0, 0.0004, 0.03, 0.03, 0.2, 0.9, 9.0])


@contextmanager
def the_long_way() -> Iterator[None]:
    """Decode no event by the short way, and report every output through `Slo.output`."""
    token, OPENAI_CHAT.token = OPENAI_CHAT.token, None
    try:
        with patch.object(Slo, "flow_of", lambda _slo, _key: (None, None)):
            yield
    finally:
        OPENAI_CHAT.token = token


def played(reads: list[tuple[float, list[bytes]]], *, usage: bool, slow_at: int) -> tuple[bytes, str, list[Marks]]:
    """Two requests, the second answered by these reads of chunks each: (its client's bytes, page, marks)."""
    walk = Walk(include_usage=usage, objectives=OBJECTIVES, estimate=True)
    body = json.dumps({"model": "tiny", "messages": [], "stream": True}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    clients: list[Socket] = []
    for _ in range(2):
        clients.append(walk.client())
        clients[-1].send(request)
        walk.clock.later(0.1)
    client, engine = clients[-1], walk.engine
    engine.send(STREAM)
    for number, (pause, pieces) in enumerate(reads):
        at = walk.clock.later(pause)
        if pause >= ONE_SECOND:  # the product looks once a second for what is due
            walk.settlement.expire(at)
        client.room = 0 if number == slow_at else client.room
        if not engine.reading:
            client.take(None)
        engine.send(b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece))
    client.take(None)
    walk.clock.later(0.01)
    engine.send(b"0\r\n\r\n")
    walk.settlement.expire(walk.clock.later(20.0))
    page = "\n".join(line for line in walk.page().splitlines() if "overhead" not in line)
    return bytes(client.taken), page, [account.marks for account in walk.accounts]


@pytest.mark.long
@settings(max_examples=60)
@example(events=[b"data: %b\n\n" % TOKEN] * 8, cuts=[], pauses=[9.0], sizes=[1], usage=False, slow_at=0)
@given(
    events=st.lists(EVENTS, max_size=12),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    pauses=st.lists(PAUSES, min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    usage=st.booleans(),
    slow_at=st.integers(-1, 6),
)
def test_the_short_way_of_a_token_is_equal_to_the_long_way(
    events: list[bytes], cuts: list[int], pauses: list[float], sizes: list[int], *, usage: bool, slow_at: int
) -> None:
    """For any stream, cut into any pieces, at any pace: the client's bytes, the page and the marks are equal."""
    stream = b"".join(events)
    ends = sorted({*(cut for cut in cuts if 0 < cut < len(stream))})
    pieces = (
        [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)] if cuts else events
    )
    reads: list[tuple[float, list[bytes]]] = []
    at = 0
    while at < len(pieces):
        size = sizes[len(reads) % len(sizes)]
        reads.append((pauses[len(reads) % len(pauses)], pieces[at : at + size]))
        at += size

    short = played(reads, usage=usage, slow_at=slow_at)
    with the_long_way():
        long = played(reads, usage=usage, slow_at=slow_at)

    assert short == long
    if not usage:
        assert read(short[0])[2] == stream


@pytest.mark.parametrize("usage", [False, True], ids=["plain", "usage is cut"])
def test_tokens_of_one_read_are_all_counted(*, usage: bool) -> None:
    """Tokens come in chunks of their own or share one; each counts at the instant of the read that brought it."""
    event = b"data: %b\n\n" % TOKEN
    _, page, (first, *_) = played([(0.1, [event]), (0.2, [event, event + event])], usage=usage, slow_at=-1)

    assert (first.output_events, first.choices) == (4, 1)
    (reads,) = [line for line in page.splitlines() if line.startswith("llm_stream_events_per_read_count")]
    assert reads.endswith(" 2")
