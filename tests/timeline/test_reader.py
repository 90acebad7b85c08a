"""The short path for a whole event with one token gives the same events as the long path through parser and
dialect."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.timeline.dialects.field_table import OPENAI_CHAT, OPENAI_COMPLETIONS, TRITON_TIMES, tgi, triton
from sidecar.timeline.events import DONE, ERROR, NOTHING, OUTPUT, REASONING, Dialect, StreamEvent, UnreadableEvent
from sidecar.timeline.reader import ONE_TOKEN, TRIES, EventReader
from sidecar.timeline.sse import SseParser


DIALECTS: tuple[Dialect, ...] = (OPENAI_CHAT, OPENAI_COMPLETIONS, tgi(), triton(streams_unsaid=True))
ODDITIES: tuple[Any, ...] = (
    *(None, "", "a", "\n", "\u2028", "\ud800", 0, 1, -1, 0.0, True, False, [], {}, [1], {"a": None}, 2**70),
    *({"content": "a"}, {"content": ""}, {"prompt_tokens": 3}, [{"delta": {"content": "a"}}]),
)
ODD = st.sampled_from(ODDITIES)
CHOICE: dict[str, Any] = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
TEXT: dict[str, Any] = {"index": 0, "text": "x", "finish_reason": None}
TOKEN = b"data: " + json.dumps({"id": "a", "choices": [TEXT]}).encode() + b"\n\n"
TOP = ("id", "usage", "error", "metrics", "timings", "nvext", "meta_info", "sglext", "prompt_progress")
INSIDE = ("index", "text", "delta", "message", "finish_reason", "logprobs")
DELTA = ("content", "role", "reasoning", "reasoning_content", "tool_calls", "function_call", "refusal")
OWN: dict[str, Any] = {"token": {"id": 5}, "text_output": "x"}
OF_OWN = (*OWN, "generated_text", "details", "num_input_tokens", *TRITON_TIMES)


@st.composite
def chunks(draw: st.DrawFn) -> object:
    """A chunk with one token, most of them with another field in it, missing or odd."""
    choice: dict[str, object] = dict(draw(st.sampled_from([CHOICE, TEXT])))
    said: dict[str, object] = {
        "id": "a",
        "choices": draw(st.sampled_from([[choice]] * 8 + [[choice] * 2, [], None])),
        **OWN,
    }
    places = [(said, TOP + OF_OWN), (choice, INSIDE)]
    if isinstance(choice.get("delta"), dict):
        choice["delta"] = delta = dict(CHOICE["delta"])
        places.append((delta, DELTA))
    for _ in range(draw(st.integers(0, 2))):
        holder, names = draw(st.sampled_from(places))
        name = draw(st.sampled_from(names))
        if draw(st.booleans()):
            holder[name] = draw(ODD)
        else:
            holder.pop(name, None)
    return said


DATA = st.builds(lambda said: json.dumps(said).encode("utf-8", "surrogatepass"), chunks() | ODD) | st.sampled_from(
    [b"[DONE]", b"", b"{", b'{"choices":[{"delta":{"content":"\xff"}}]}', b'{"choices":[{"text":"\xff"}]}']
)
EVENTS = st.tuples(
    st.sampled_from(
        [b"data: %b\n\n"] * 6 + [b"data: %b\r\n\r\n", b"data:%b\n\n", b"data: %b\r\r", b"event: e\ndata: %b\n\n"]
    )
    | st.sampled_from(
        [b": c\n\ndata: %b\n\n", b"data: %b\ndata: \n\n", b"data: %b\n", b"\xef\xbb\xbfdata: %b\n\n", b"%b\n\n"]
    ),
    DATA,
).map(lambda event: event[0] % event[1])


def long_way(dialect: Dialect, parser: SseParser, data: bytes) -> list[StreamEvent]:
    stream_events = []
    for event, said in parser.feed(data):
        plain = DONE if said == b"[DONE]" else ERROR if event == b"error" else None if said else NOTHING
        try:
            stream_events.append(dialect.read_event(event, said) if plain is None else plain)
        except UnreadableEvent:
            stream_events.append(NOTHING)
    return stream_events


@example(dialect=DIALECTS[1], events=[TOKEN, TOKEN], cuts=[], together=False, cap=1000)
@given(
    dialect=st.sampled_from(DIALECTS),
    events=st.lists(EVENTS, max_size=8),
    cuts=st.lists(st.integers(0, 600), max_size=4),
    together=st.booleans(),
    cap=st.sampled_from([70, 1000]),
)
def test_the_short_way_says_what_the_long_way_says(
    dialect: Dialect, events: list[bytes], cuts: list[int], together: bool, cap: int
) -> None:
    """However the stream is cut, both paths give the same events, positions, rests, and counts of bad events."""
    stream = b"".join(events)
    ends = sorted({*(min(cut, len(stream)) for cut in cuts), len(stream)})
    segments = [stream[start:end] for start, end in zip([0, *ends], ends, strict=False)] if together else events
    reader, parser = EventReader(dialect, cap), SseParser(cap)

    for segment in segments:
        read, found = long_way(dialect, parser, segment), reader.feed(segment)
        assert list(found) == read
        short, long = ((p.fed, p.unfinished_at, p.oversized) for p in (reader.parser, parser))
        assert short == long
        alone = [(parser.fed - len(segment), parser.fed)]
        assert (alone if found is ONE_TOKEN else reader.parser.spans) == parser.spans


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("place", ["top", "own", "choice", "delta"])
def test_no_field_makes_them_differ(dialect: Dialect, place: str) -> None:
    """Each field that a dialect reads, with each odd value, in a chunk that is otherwise a token."""
    for name, value in product({"top": TOP, "own": OF_OWN, "choice": INSIDE, "delta": DELTA}[place], ODDITIES):
        choice: dict[str, Any] = {**CHOICE, **TEXT}
        said: dict[str, Any] = {"id": "a", "choices": [choice], **OWN}
        choice["delta"] = delta = dict(choice["delta"])
        {"top": said, "own": said, "choice": choice, "delta": delta}[place][name] = value
        data = b"data: " + json.dumps(said).encode("utf-8", "surrogatepass") + b"\n\n"
        reader, parser = EventReader(dialect), SseParser()
        for segment in (FIRST, data):
            assert list(reader.feed(segment)) == long_way(dialect, parser, segment), said


def test_what_cannot_be_decoded_is_unreadable_wherever_it_stands() -> None:
    """This holds also for a field that is not needed to recognise a token."""
    reader = EventReader(OPENAI_CHAT)
    reader.feed(FIRST)

    assert reader.feed(b'data: {"choices":[{"delta":{"content":"a","role":"\x01"}}]}\n\n') == [NOTHING]
    assert reader.unreadable == 1


def event(said: object) -> bytes:
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def chat(delta: dict[str, object], **more: object) -> bytes:
    return event({"id": "a", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more})


FIRST = chat({"role": "assistant", "content": ""})


@pytest.mark.parametrize(
    ("data", "short"),
    [
        pytest.param(chat({"content": "a"}), True, id="a token"),
        pytest.param(chat({"content": "a", "role": "assistant"}), True, id="with a role"),
        pytest.param(chat({"content": ""}), False, id="a token of no text, which is read the long way"),
        pytest.param(chat({"content": "a"}, usage=None), False, id="with usage"),
        pytest.param(chat({"content": "a"}) * 2, False, id="two"),
        pytest.param(chat({"content": "a"}).replace(b"\n", b"\r\n"), False, id="with CRLF"),
    ],
)
def test_only_a_token_alone_goes_the_short_way(data: bytes, short: bool) -> None:
    reader = EventReader(OPENAI_CHAT)
    reader.feed(FIRST)

    stream_events = reader.feed(data)

    assert (stream_events is ONE_TOKEN) == short
    assert all(stream_event.output == (0,) for stream_event in stream_events)


def test_a_stream_of_other_events_is_not_tried_for_ever() -> None:
    """Reasoning tokens fail the short path, at a microsecond each; after some failures the reader stops trying."""
    reader = EventReader(OPENAI_CHAT)
    reader.feed(FIRST)

    def read(data: bytes, times: int) -> list[Sequence[StreamEvent]]:
        return [reader.feed(data) for _ in range(times)]

    thought = read(chat({"reasoning_content": "hm"}), TRIES - 1)
    short = read(chat({"content": "a"}), 1)
    read(chat({"reasoning_content": "hm"}), 1)
    long = read(chat({"content": "a"}), 1)

    assert [list(stream_events) for stream_events in thought] == [[REASONING]] * (TRIES - 1)
    assert [list(stream_events) for stream_events in (*short, *long)] == [[OUTPUT]] * 2
    assert (short[0] is ONE_TOKEN, long[0] is ONE_TOKEN) == (True, False)
