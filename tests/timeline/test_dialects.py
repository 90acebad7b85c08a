"""Every stream in tests/streams gives the expected events, whether fed whole, byte by byte or split anywhere."""

import json
import pathlib
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.timeline.apis import API_OF_NAME, SERVED
from sidecar.timeline.events import Dialect, StreamEvent, UnreadableEvent
from sidecar.timeline.reader import EventReader
from tests.support.apis import dialect_for
from tests.support.streams import STREAMS, dialect_of, reader_of, readings, streams, written


ALL = [
    *(api.dialect for api in API_OF_NAME.values()),
    *(api.dialect for _, api in SERVED if api.dialect.name not in API_OF_NAME),
]


READINGS = readings()


def read(stream: pathlib.Path, *segments: bytes) -> list[StreamEvent]:
    reader = reader_of(stream)
    return [stream_event for segment in segments for stream_event in reader.feed(segment)] + reader.finish()


@pytest.mark.parametrize("stream", streams(), ids=lambda stream: stream.stem)
class TestEveryStream:
    def test_says_what_is_written_beside_it(self, stream: pathlib.Path) -> None:
        if stream.stem not in READINGS:
            pytest.skip("a recording whose events are not written down")

        assert READINGS[stream.stem] == written(read(stream, stream.read_bytes()))

    def test_is_read_the_same_byte_by_byte_and_at_every_split(self, stream: pathlib.Path) -> None:
        raw = stream.read_bytes()
        whole = read(stream, raw)

        assert whole
        assert whole == read(stream, *(raw[at : at + 1] for at in range(len(raw))))
        if len(raw) <= 1024:
            splits = list(range(len(raw)))
        else:  # at every byte around each line end, and at some bytes between
            near = {at + step for at, byte in enumerate(raw) if byte == 0x0A for step in (-1, 0, 1, 2)}
            splits = sorted(near.union(range(0, len(raw), 29)))
        for at in splits:
            assert whole == read(stream, raw[:at], raw[at:])

    def test_carries_output_and_comes_to_an_end(self, stream: pathlib.Path) -> None:
        stream_events = read(stream, stream.read_bytes())

        assert any(stream_event.output for stream_event in stream_events)
        if "cut-short" not in stream.stem and not stream.stem.startswith("composed-odd"):
            assert any(
                stream_event.done or stream_event.finished or stream_event.error for stream_event in stream_events
            )


@pytest.mark.parametrize(
    "body",
    sorted((*STREAMS.glob("vllm-*-json.http"), *STREAMS.glob("llama-cpp-*-json.http"))),
    ids=lambda body: body.stem,
)
def test_a_whole_answer_states_its_usage_and_its_finish(body: pathlib.Path) -> None:
    stream_event = dialect_of(body).read_body(body.read_bytes().partition(b"\r\n\r\n")[2])

    assert stream_event.usage is not None
    assert stream_event.usage.prompt_tokens
    assert stream_event.usage.completion_tokens
    assert (stream_event.output, stream_event.finished, stream_event.error) == ((0,), (0,), False)


def test_an_error_answer_is_an_error_in_every_dialect() -> None:
    openai = b'{"error":{"message":"no","type":"BadRequestError","code":400}}'
    anthropic = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
    plain = b'{"error":"no"}'
    found = [dialect.read_body(body).error for dialect in ALL for body in (openai, anthropic, plain)]

    assert found == [True] * 3 * len(ALL)


JUNK = [
    b"{",
    b'"',
    b"nul",
    b"[" * 100_000,
    b'{"choices":' * 20_000,
    b'{"usage":{"a":' + b"[" * 100_000,
    b'{"choices":[{"index":' + b"9" * 5000 + b'}],"usage":{"prompt_tokens":' + b"9" * 5000 + b"}}",
    b'{"choices":[{"index":1e999}]}',
    b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}',
    b'{"choices":[{"delta":{"content":"\\ud800"}}]}',
    b'{"type":"\\udfff"}',
    b'{"choices":{}}',
    b'{"choices":[[]]}',
    b'{"usage":[],"response":3,"message":true}',
    b"\x00",
    b"NaN",
]


def _reading_or_none(dialect: Dialect, junk: bytes, *, whole: bool) -> StreamEvent | None:
    try:
        return dialect.read_body(junk) if whole else dialect.read_event(b"", junk)
    except UnreadableEvent:
        return None


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
class TestJunk:
    @pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
    def test_raises_unreadable_event_or_nothing(self, dialect: Dialect, junk: bytes) -> None:
        assert isinstance(_reading_or_none(dialect, junk, whole=False), StreamEvent | None)
        assert isinstance(_reading_or_none(dialect, junk, whole=True), StreamEvent | None)

    def test_is_unreadable_where_no_json_is(self, dialect: Dialect) -> None:
        with pytest.raises(UnreadableEvent):
            dialect.read_event(b"", b'{"choices":[')
        with pytest.raises(UnreadableEvent):
            dialect.read_body(b"<html>502</html>")


def test_an_unreadable_event_is_counted_and_the_stream_goes_on() -> None:
    dialect = dialect_for(b"/v1/chat/completions")
    assert dialect is not None
    reader = EventReader(dialect)
    stream_events = reader.feed(b'data: {"cho\n\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n')

    assert (written(stream_events), reader.unreadable) == (["nothing", "output=0"], 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _mutated(raw: bytes, at: int, byte: int) -> bytes:
    place = at % max(1, len(raw))
    return raw[:place] + bytes([byte]) + raw[place + 1 :]


FIELDS = ["choices", "usage", "error", "type", "delta", "response", "message", "metrics", "content", "output", "status"]
FIELDS += ["meta_info", "text", "finish_reason", "token", "details", "generated_text", "timings", "stop", "index"]
FIELDS += ["done", "total_duration", "text_output", "arrival_time_ns", "completion_tokens"]


@given(junk=st.binary(max_size=80))
def test_random_bytes_never_raise_anything_else(junk: bytes) -> None:
    for dialect in ALL:
        assert isinstance(EventReader(dialect).feed(b"data: " + junk + b"\n\n"), list)
        assert isinstance(EventReader(dialect, lines=True).feed(junk + b"\n"), list)
        assert isinstance(_reading_or_none(dialect, junk, whole=True), StreamEvent | None)


@pytest.mark.long
@settings(max_examples=80)  # each is for all dialects, and drawing one takes longer than reading it
@given(
    said=st.dictionaries(
        st.sampled_from(FIELDS),
        json_values | st.lists(st.dictionaries(st.sampled_from(FIELDS), json_values), max_size=2),
    ),
    mutations=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=2),
)
def test_mutated_json_never_raises_anything_else(said: dict[str, object], mutations: list[tuple[int, int]]) -> None:
    raw = reduce(lambda done, mutation: _mutated(done, *mutation), mutations, json.dumps(said).encode())
    for dialect in ALL:
        assert isinstance(_reading_or_none(dialect, raw, whole=False), StreamEvent | None)
        assert isinstance(_reading_or_none(dialect, raw, whole=True), StreamEvent | None)


@pytest.mark.parametrize(
    ("delta", "outputs"),
    [
        ({"audio": {"id": "audio_1", "transcript": "a"}}, True),
        ({"audio": {"data": "UklGRg=="}}, True),
        ({"audio": {"id": "audio_1"}}, False),
        ({"audio": {"expires_at": 1}}, False),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, True),
        ({"reasoning_details": []}, False),
    ],
)
def test_sound_and_details_of_reasoning_are_output(delta: dict[str, object], outputs: bool) -> None:
    """The frame of the sound is none: its id at the beginning, and its expiry at the end."""
    dialect = dialect_for(b"/v1/chat/completions")
    assert dialect is not None

    said = dialect.read_event(
        b"", json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode()
    )

    assert said.output == ((0,) if outputs else ())


def test_every_reading_is_of_a_stream() -> None:
    assert READINGS.keys() - {stream.stem for stream in streams()} == set()
