"""Usage is asked for without rewriting the body, and its chunk is cut out without delaying a token or losing a byte."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.body import peek
from sidecar.metrics.vocabulary import NotAsked
from sidecar.observe.usage_chunk import MAX_HELD_BYTES, UsageCut, ask_for_usage
from sidecar.timeline.events import StreamEvent
from sidecar.timeline.reader import ONE_TOKEN, EventReader
from tests.fuzz.bodies import in_steps
from tests.support.apis import dialect_for
from tests.support.streams import STREAMS, dialect_of, written


def asked(body: bytes, *, whole: bool = True) -> bytes | NotAsked:
    """The body as the engine gets it, or why it is not changed."""
    found = ask_for_usage(body, peek(body, whole=whole))
    return found if isinstance(found, NotAsked) else body[: found.start] + found.text + body[found.end :]


class TestAsking:
    def test_inserts_the_key_right_after_the_opening_brace(self) -> None:
        body = b' {\n "stream": true, "messages": ["h\\u00e9"] } '

        assert (
            asked(body) == b' {"stream_options":{"include_usage":true},\n "stream": true, "messages": ["h\\u00e9"] } '
        )

    def test_replaces_a_null(self) -> None:
        assert asked(b'{"stream":true,"stream_options" : null ,"a":1}') == (
            b'{"stream":true,"stream_options" : {"include_usage":true} ,"a":1}'
        )

    def test_replaces_a_null_that_was_found_in_steps_behind_thousands_of_values(self) -> None:
        body = b'{"stream":true,"x":[' + b"[]," * 20_000 + b'0],"stream_options":null}'

        assert asked(body) is NotAsked.UNCLEAR
        assert ask_for_usage(body, in_steps(body)) == (len(body) - 5, len(body) - 1, b'{"include_usage":true}')

    def test_replaces_the_null_that_counts(self) -> None:
        body = b'{"stream_options":{"include_usage":false},"a":{"stream_options":null},"stream\\u005foptions":null,"stream":true}'

        assert asked(body) == body.replace(
            b'"stream\\u005foptions":null', b'"stream\\u005foptions":{"include_usage":true}'
        )

    def test_is_not_misled_by_the_word_in_a_prompt(self) -> None:
        body = b'{"prompt":"\\"stream_options\\":null","x":{"stream_options":null},"stream":true}'

        assert asked(body) == b'{"stream_options":{"include_usage":true},' + body[1:]

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b'{"stream":true,"stream_options":{"include_usage":true}}', NotAsked.ALREADY_ASKED),
            (b'{"stream":true,"stream_options":{"include_usage":false}}', NotAsked.DECLINED),
            (b'{"stream":true,"stream_options":{}}', NotAsked.ENGINE_DEFAULT),
            (b'{"stream":true,"stream_options":{"continuous_usage_stats":false}}', NotAsked.ENGINE_DEFAULT),
            (b'{"stream":true,"stream_options":[]}', NotAsked.UNCLEAR),
            (b'{"stream":true,"stream_options":{"include_usage":1}}', NotAsked.UNCLEAR),
            (b'{"stream":false}', NotAsked.NOT_STREAMED),
            (b'{"stream":"true"}', NotAsked.NOT_STREAMED),
            (b"{}", NotAsked.NOT_STREAMED),
            (b'{"stream":true,"n":2}', NotAsked.SEVERAL_CHOICES),
            (b'{"stream":true,"prompt":["a","b"]}', NotAsked.SEVERAL_CHOICES),
            (b'{"stream":true,"n":"x"}', NotAsked.UNCLEAR),
            (b'{"stream":true', NotAsked.NOT_WHOLE),
            (b"[]", NotAsked.NOT_WHOLE),
            (b"", NotAsked.NOT_WHOLE),
            (b"{" + b'"x":0,' * 300 + b'"stream":true,"stream_options":null}', NotAsked.UNCLEAR),
        ],
    )
    def test_leaves_a_body_alone_and_says_why(self, body: bytes, reason: NotAsked) -> None:
        assert asked(body) is reason

    @pytest.mark.parametrize("body", [b'{"stream":true,"n":2}', b'{"stream":true,"prompt":["a","b"]}'])
    def test_asks_for_several_choices_where_one_chunk_answers_for_all(self, body: bytes) -> None:
        found = ask_for_usage(body, peek(body, whole=True), of_choices=True)

        assert found == (1, 1, b'"stream_options":{"include_usage":true},')

    def test_leaves_the_beginning_of_a_long_body_alone(self) -> None:
        assert asked(b'{"stream":true}', whole=False) is NotAsked.NOT_WHOLE

    @given(
        said=st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["stream_options", "n", "messages", "prompt"]),
            st.none() | st.integers() | st.text(max_size=4) | st.lists(st.none() | st.text(max_size=4), max_size=2),
        ),
        indent=st.sampled_from([None, 0, 2]),
        ascii_only=st.booleans(),
    )
    def test_adds_that_one_key_and_nothing_else(
        self, said: dict[str, object], indent: int | None, ascii_only: bool
    ) -> None:
        body = json.dumps({**said, "stream": True}, indent=indent, ensure_ascii=ascii_only).encode(
            "utf-8", "surrogatepass"
        )
        result = asked(body)

        if isinstance(result, NotAsked):
            return
        before, after = json.loads(body), json.loads(result)
        assert before.pop("stream_options", None) is None
        assert after.pop("stream_options") == {"include_usage": True}
        assert after == before
        insertion = b'"stream_options":{"include_usage":true},'
        assert body in (result.replace(insertion, b"", 1), result.replace(b'{"include_usage":true}', b"null", 1))


def chunk(said: object, end: bytes = b"\n") -> bytes:
    return b"data: " + json.dumps(said).encode() + end * 2


def token(text: str = "a", index: int = 0, finish: str | None = None, **more: object) -> dict[str, object]:
    return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}], **more}


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}, "metrics": {"queue_time_ms": 1.0}}
DONE = b"data: [DONE]\n\n"


def cutter(choices: int = 1, *, nulls: bool = False) -> UsageCut:
    dialect = dialect_for(b"/v1/chat/completions")
    assert dialect is not None
    return UsageCut(EventReader(dialect), choices, nulls=nulls)


def fed(cut: UsageCut, data: bytes) -> tuple[bytes, Sequence[StreamEvent]]:
    """Feed one read, as `observe/response.py` does: (bytes for the client, the reader's events in them)."""
    stream_events = cut._reader.feed(data)
    return data if stream_events is ONE_TOKEN else cut.kept(data, stream_events), stream_events


def passed(cut: UsageCut, *segments: bytes) -> bytes:
    return b"".join(fed(cut, segment)[0] for segment in segments) + cut.finish()


class TestCutting:
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_takes_out_the_usage_chunk_with_its_blank_line(self, end: bytes) -> None:
        head, tail = chunk(token(), end) + chunk(token("b", finish="stop"), end), b"data: [DONE]" + end * 2

        assert passed(cutter(), head + chunk(USAGE, end) + tail) == head + tail

    def test_gives_the_readings_of_the_very_same_pass(self) -> None:
        out, stream_events = fed(cutter(), chunk(token(finish="stop")) + chunk(USAGE) + DONE)

        assert written(stream_events) == [
            "output=0 finished=0 finish=stop",
            "usage(prompt=5 cached=? completion=2 reasoning=?) bare extras(metrics)",
            "done",
        ]
        assert out == chunk(token(finish="stop")) + DONE

    def test_a_cut_chunk_takes_the_lf_along_that_comes_later(self) -> None:
        cut = cutter()
        head = chunk(token(finish="stop"), b"\r\n")
        usage = chunk(USAGE, b"\r\n")

        assert [fed(cut, segment)[0] for segment in (head, usage[:-1], usage[-1:] + DONE)] == [head, b"", DONE]

    def test_a_cut_chunk_takes_nothing_along_that_is_no_lf(self) -> None:
        cut = cutter()
        head = chunk(token(finish="stop"), b"\r")

        assert passed(cut, head, chunk(USAGE, b"\r"), DONE) == head + DONE

    def test_comments_are_passed_on_at_once(self) -> None:
        cut = cutter()
        head = chunk(token(finish="stop"))
        usage = chunk(USAGE)
        segments = [head, b": keep", b"-alive\n\n", b":\n", usage[:30], usage[30:], b": bye\n\n", DONE]

        assert [fed(cut, segment)[0] for segment in segments] == [
            *(head, b": keep", b"-alive\n\n", b":\n", b"", b"", b": bye\n\n", DONE)
        ]

    def test_holds_back_only_what_may_still_be_the_usage_chunk(self) -> None:
        cut = cutter()
        late = chunk(token("late"))
        fed(cut, chunk(token(finish="stop")))

        assert [fed(cut, segment)[0] for segment in (late[:9], late[9:-1], late[-1:])] == [b"", b"", late]

    def test_waits_for_every_choice(self) -> None:
        cut = cutter(choices=2)
        first, second, more = token(index=0, finish="stop"), token(index=1, finish="stop"), chunk(token(index=1))
        fed(cut, chunk(first))

        assert [fed(cut, more)[0], fed(cut, chunk(USAGE))[0], fed(cut, more)[0]] == [more, b"", chunk(USAGE) + more]
        assert passed(cut, chunk(second) + chunk(USAGE) + DONE) == chunk(second) + DONE
        assert (cut.cut, cut.shows) == (True, True)

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    @pytest.mark.parametrize("begun", [[], [token()], [token(), token(index=1, finish="stop")]])
    def test_usage_before_the_end_mark_is_taken_out_whether_a_finish_came_or_not(
        self, begun: list[dict[str, object]], end: bytes
    ) -> None:
        """Byte by byte, at every split, and at once; a comment in between stays."""
        head, note, done = b"".join(chunk(said, end) for said in begun), b": hi" + end * 2, b"data: [DONE]" + end * 2
        stream = head + chunk(USAGE, end) + note + done
        splits = [(stream[:at], stream[at:]) for at in range(len(stream))]
        cuts = [cutter(choices=2) for _ in (*splits, 1)]
        outs = [
            passed(cut, *pieces) for cut, pieces in zip(cuts, [*splits, [b"%c" % byte for byte in stream]], strict=True)
        ]

        assert set(outs) == {head + note + done}
        assert {(cut.cut, cut.shows) for cut in cuts} == {(True, False)}

    def test_usage_in_the_middle_goes_on_in_its_place(self) -> None:
        """In front of a token, alone in its read or not, or at the end of a stream without an end mark."""
        for behind in ([chunk(token())], [chunk(token("b")) + DONE], [chunk({"choices": []})], [b": hi\n\n"], []):
            cut = cutter()
            segments = [chunk(token()), chunk(USAGE), *behind]

            assert passed(cut, *segments) == b"".join(segments)
            assert not cut.cut

    def test_takes_out_one_chunk_only(self) -> None:
        head = chunk(token(finish="stop"))

        assert passed(cutter(), head + chunk(USAGE) + chunk(USAGE) + DONE) == head + chunk(USAGE) + DONE

    def test_a_stream_cut_short_within_the_chunk_gives_back_what_was_held(self) -> None:
        cut = cutter()
        stream = chunk(token(finish="stop")) + chunk(USAGE)[:-1]

        assert passed(cut, stream) == stream
        assert not cut.cut

    def test_an_event_too_long_to_hold_passes_and_says_so(self) -> None:
        cut = cutter()
        stream = chunk(token(finish="stop")) + chunk({**USAGE, "padding": "x" * (MAX_HELD_BYTES + 2000)}) + DONE

        assert passed(cut, *(stream[at : at + 1000] for at in range(0, len(stream), 1000))) == stream
        assert (cut.shows, cut.cut) == (True, False)

    def test_behind_an_event_too_long_to_hold_the_chunk_is_found(self) -> None:
        long = chunk(token("x" * (MAX_HELD_BYTES + 2000)))
        stream = long + chunk(token(finish="stop")) + chunk(USAGE) + DONE
        cut = cutter()

        assert passed(cut, *(stream[at : at + 1000] for at in range(0, len(stream), 1000))) == stream.replace(
            chunk(USAGE), b""
        )
        assert (cut.shows, cut.cut) == (False, True)


class TestEnginesWithHabits:
    def test_usage_before_the_finish_is_the_engines_own_and_stays(self) -> None:
        cut = cutter()
        usage = {"prompt_tokens": 5, "completion_tokens": 1}
        stream = chunk(token(usage=usage)) + chunk(token(finish="stop", usage=usage)) + chunk(USAGE) + DONE

        assert passed(cut, stream) == stream
        assert (cut.shows, cut.cut) == (True, False)

    def test_usage_beside_the_finish_stays(self) -> None:
        cut = cutter()
        stream = chunk(token()) + chunk(token(finish="stop", usage={"prompt_tokens": 5})) + chunk(USAGE) + DONE

        assert passed(cut, stream) == stream
        assert cut.shows

    def test_a_usage_chunk_before_the_finish_stays(self) -> None:
        cut = cutter()
        stream = chunk(USAGE) + chunk(token(finish="stop")) + DONE

        assert passed(cut, stream) == stream
        assert cut.shows

    def test_null_usage_in_every_chunk_shows_and_the_last_one_is_taken_out(self) -> None:
        cut = cutter()
        head = chunk(token(usage=None)) + chunk(token(finish="stop", usage=None))

        assert passed(cut, head + chunk(USAGE) + DONE) == head + DONE
        assert (cut.shows, cut.cut) == (True, True)

    def test_null_usage_that_the_engine_writes_unasked_proves_nothing(self) -> None:
        """Dynamo's completions. Another usage before the finish is still the engine's own."""
        cut = cutter(nulls=True)
        head = chunk(token(usage=None)) + chunk(token(finish="stop", usage=None))
        forced = cutter(nulls=True)
        own = chunk(token(usage={"prompt_tokens": 5})) + head + chunk(USAGE) + DONE

        assert passed(cut, head + chunk(USAGE) + DONE) == head + DONE
        assert (cut.shows, cut.cut) == (False, True)
        assert passed(forced, own) == own
        assert forced.shows


class TestRecordings:
    def test_a_real_stream_with_usage_becomes_the_stream_without(self) -> None:
        """Two recordings of one seeded request: one with usage asked for and then cut out, one without usage.

        They differ in ids and times, as any two recordings do, and in the one field that vLLM moves to the usage chunk.
        """
        with_usage, without = STREAMS / "vllm-chat-usage.sse", STREAMS / "vllm-chat.sse"
        cut = UsageCut(EventReader(dialect_of(with_usage)))
        left = passed(cut, with_usage.read_bytes())

        assert cut.cut
        assert _anonymous(left) == _anonymous(without.read_bytes())

    @pytest.mark.parametrize("name", ["vllm-chat-two-choices", "vllm-completions-two-prompts"])
    def test_one_chunk_of_two_choices_is_taken_out_of_a_real_stream(self, name: str) -> None:
        stream = STREAMS / f"{name}.sse"
        *events, usage, done, _ = stream.read_bytes().split(b"\n\n")

        left = passed(UsageCut(EventReader(dialect_of(stream)), choices=2), stream.read_bytes())

        assert (b'"choices":[],"usage":{' in usage, left) == (True, b"\n\n".join([*events, done, b""]))

    @pytest.mark.parametrize(
        "name", ["dynamo-chat-usage", "dynamo-chat-usage-timing", "dynamo-completions-usage-timing"]
    )
    def test_the_chunk_of_a_real_dynamo_is_taken_out_at_every_split(self, name: str) -> None:
        stream = STREAMS / f"{name}.sse"
        whole = stream.read_bytes()
        *events, usage, done, _ = whole.split(b"\n\n")

        left = set()
        for at in range(1, len(whole)):
            cut = UsageCut(EventReader(dialect_of(stream)), nulls="completions" in name)
            left.add(passed(cut, whole[:at], whole[at:]))

        assert (b'"choices":[],' in usage, left) == (True, {b"\n\n".join([*events, done, b""])})

    def test_a_stream_with_usage_in_each_event_is_left_alone(self) -> None:
        stream = STREAMS / "vllm-chat-continuous-usage.sse"
        cut = UsageCut(EventReader(dialect_of(stream)))

        assert passed(cut, stream.read_bytes()) == stream.read_bytes()
        assert cut.shows


def test_tokens_of_one_choice_go_alone_while_another_has_finished() -> None:
    """The reader notes no offsets of a token that comes alone. Found by a random example of the test below."""
    alone = chunk(token())
    together = [chunk(token("b", index=1, id="r-1")) + alone, chunk(token(index=1, finish="stop")) + alone]
    segments = [*together, *[alone] * 3, chunk(token(finish="stop"))]
    cut = cutter(choices=2)

    went = [fed(cut, segment) for segment in [*segments, chunk(USAGE), DONE]]

    assert [found is ONE_TOKEN for _, found in went] == [False, False, True, True, True, False, False, False]
    assert [out for out, _ in went] == [*segments, b"", DONE]


def _anonymous(stream: bytes) -> bytes:
    return re.sub(rb'"id":"[^"]*"|"created":\d+|,"system_fingerprint":"[^"]*"', b"", stream)


EVENTS = st.sampled_from(
    [
        *(token(), token("b", finish="stop"), token("", finish="length"), USAGE, token("é"), {"choices": []}),
        *({"error": {"message": "x"}}, token(index=1, finish="stop"), token(usage={"prompt_tokens": 5}), "[DONE]"),
    ]
)
NOISE = st.sampled_from(
    [b"", b"", b": hi\n\n", b":\n", b"\n", b"\r\n", b"event: x\n\n", b"data:\n\n", b"id: 4\n", b"data: {\n\n"]
)
PIECES = st.lists(st.tuples(NOISE, EVENTS, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=7).map(
    lambda pieces: [
        noise + (b"data: [DONE]" + end * 2 if event == "[DONE]" else chunk(event, end)) for noise, event, end in pieces
    ]
)


@given(pieces=PIECES, tail=st.binary(max_size=20), data=st.data())
def test_no_token_waits_and_no_byte_is_lost(pieces: list[bytes], tail: bytes, data: st.DataObject) -> None:
    """After any prefix, all bytes up to the end of the last complete event have gone out, except for a chunk that is cut, or may be."""
    stream = b"".join(pieces) + tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    removed = _chunk_in(stream)
    cut = cutter()
    observer = EventReader(dialect_of(STREAMS / "vllm-chat.sse"))
    out, waiting, complete = b"", False, 0
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += fed(cut, stream[start:end])[0]
        stream_events = observer.feed(stream[start:end])
        spans = [(start, end)] if stream_events is ONE_TOKEN else observer.parser.spans
        for stream_event, span in zip(stream_events, spans, strict=True):
            waiting = stream_event.bare_usage
            complete = complete if waiting else span[1]
        assert _without(stream, removed).startswith(out)
        assert len(out) >= len(_without(stream[:complete], removed))
    assert out + cut.finish() == _without(stream, removed)
    assert cut.cut is (removed is not None)


def _chunk_in(stream: bytes) -> tuple[int, int] | None:
    """The span of the event with usage and no choice that is cut: behind the finish, or in front of the end mark."""
    reader, finished, found = EventReader(dialect_of(STREAMS / "vllm-chat.sse")), False, None
    reader.goes_long_way()
    for stream_event, span in zip(reader.feed(stream), reader.parser.spans, strict=True):
        if found is not None and (finished or stream_event.done):
            return found
        found = span if stream_event.bare_usage else None
        if stream_event.done or (stream_event.usage is not None and found is None):
            return None
        finished = finished or bool(stream_event.finished)
    return found if finished else None


def _without(stream: bytes, span: tuple[int, int] | None) -> bytes:
    if span is None:
        return stream
    start, end = span
    # The blank line's CR may end one segment while its LF begins the next.
    if stream[end - 1 : end + 1] == b"\r\n":
        end += 1
    return stream[:start] + stream[end:]
