"""The parser follows WHATWG HTML 9.2.6 however the bytes are segmented, and no input does harm."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.timeline.sse import SseParser


def parsed(*segments: bytes, cap: int = 1000) -> list[tuple[bytes, bytes]]:
    parser = SseParser(cap)
    return [event for segment in segments for event in parser.feed(segment)]


def datas(*segments: bytes) -> list[bytes]:
    return [data for _, data in parsed(*segments)]


class TestTheStandard:
    @pytest.mark.parametrize(
        ("stream", "events"),
        [
            pytest.param(b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"], id="example-1"),
            pytest.param(
                b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                [b"first event", b"second event", b" third event"],
                id="example-2",
            ),
            pytest.param(b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"], id="example-3"),
            pytest.param(b"data:test\n\ndata: test\n\n", [b"test", b"test"], id="example-4"),
        ],
    )
    def test_the_examples_of_the_standard(self, stream: bytes, events: list[bytes]) -> None:
        assert events == datas(stream)

    @pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
    def test_every_line_end_ends_a_line(self, end: bytes) -> None:
        assert datas(end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])) == [b"a\nb", b"c"]

    def test_line_ends_may_be_mixed(self) -> None:
        assert datas(b"data: a\rdata: b\r\ndata: c\n\r\ndata: d\r\r") == [b"a\nb\nc", b"d"]

    def test_a_cr_at_the_end_of_a_segment_dispatches_at_once_and_its_lf_is_swallowed(self) -> None:
        parser = SseParser()
        assert parser.feed(b"data: a\r\n\r") == [(b"", b"a")]
        assert parser.feed(b"\n") == []
        assert parser.feed(b"data: b\r\r") == [(b"", b"b")]
        assert parser.feed(b"\n") == []
        assert parser.unfinished_at is None

    def test_one_bom_is_read_over_and_only_one(self) -> None:
        assert datas(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]
        assert datas(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n") == [b"b"]
        assert datas(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]

    def test_names_are_exact(self) -> None:
        assert datas(b" data: a\n\nData: a\n\ndata : a\n\ndatax: a\n\n") == []

    def test_one_space_is_stripped_and_no_tab(self) -> None:
        assert datas(b"data:\ta\n\ndata:  a\n\ndata: a \n\n") == [b"\ta", b" a", b"a "]

    def test_the_event_field_names_one_event(self) -> None:
        assert parsed(b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n") == [(b"b", b"1"), (b"", b"2")]

    def test_an_event_without_data_is_not_dispatched_and_its_name_forgotten(self) -> None:
        assert parsed(b"event: lost\n\ndata: 1\n\n") == [(b"", b"1")]

    def test_ids_and_retries_are_read_over_even_with_a_nul(self) -> None:
        assert datas(b"id: a\x00b\nretry: x\nunknown: y\ndata: 1\n\n") == [b"1"]

    def test_what_unicode_calls_a_line_end_is_none(self) -> None:
        text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg".encode()
        assert [text] == datas(b"data: " + text + b"\n\n")

    def test_an_unfinished_event_is_discarded_but_seen(self) -> None:
        parser = SseParser()
        assert parser.feed(b"data: a\n\ndata: b\n") == [(b"", b"a")]
        assert parser.unfinished_at == 9

    @pytest.mark.parametrize("rest", [b"", b"\n", b": comment", b": comment\n", b":"])
    def test_a_comment_at_the_end_is_no_unfinished_event(self, rest: bytes) -> None:
        parser = SseParser()
        parser.feed(b"data: a\n\n")
        parser.feed(rest)
        assert parser.unfinished_at is None


class TestSpans:
    def test_an_event_begins_with_its_first_field_and_ends_after_its_blank_line(self) -> None:
        stream = b"data: a\n\n: hi\n\nevent: x\n\n:\nid: 7\ndata: b\r\n\r\n"
        parser = SseParser()
        parser.feed(stream)

        assert [stream[start:end] for start, end in parser.spans] == [b"data: a\n\n", b"id: 7\ndata: b\r\n\r\n"]

    def test_they_count_from_the_start_of_the_stream(self) -> None:
        parser = SseParser()
        parser.feed(b"data: a\n\ndata: ")
        parser.feed(b"b\n\n")

        assert parser.spans == [(9, 18)]


class TestTheCap:
    def test_an_event_over_the_cap_is_counted_and_the_next_one_is_read(self) -> None:
        parser = SseParser(20)
        events = parser.feed(b"data: " + b"x" * 20 + b"\ndata: more\n\ndata: next\n\n")

        assert (events, parser.oversized) == ([(b"", b"next")], 1)

    @pytest.mark.parametrize("between", [b"id: 7\n", b"retry\n: a comment\n", b"datum: x\n", b"event: e\n"])
    @pytest.mark.parametrize("size", [1, 3, 1000])
    def test_other_fields_between_lines_of_data_add_nothing_to_it(self, between: bytes, size: int) -> None:
        """In a long event as in a short one: one line feed between two lines of data, and one more for `data` without a value."""
        parser = SseParser(16)
        stream = b'data: {"a": "one\n' + between + b"data\n" + between + b'data: two"}\n\n'
        events = [event for at in range(0, len(stream), size) for event in parser.feed(stream[at : at + size])]

        assert [said for _, said in events] == [b'{"a":"one\n\ntwo"}']

    @pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
    @pytest.mark.parametrize("space", [b" ", b""])
    def test_json_over_the_cap_gives_its_outline(self, end: bytes, space: bytes) -> None:
        """However many lines it is, whatever stands between them, and wherever the stream is cut."""
        lines = [
            b"event: a",
            b"data:" + space + b'{"a":"' + b"x" * 1100 + b'",',
            b"id: 7",
            b": no",
            b"data:" + space + b'"b":1}',
            b"",
        ]
        stream = end.join([b"data: 1", b"", *lines, b"data: 2", b"", b""])
        whole = told(SseParser(90), stream)

        assert whole[0] == [(b"", b"1"), (b"a", b'{"a":"-","b":1}'), (b"", b"2")]
        assert whole[2] == 0
        assert told(SseParser(90), *(stream[at : at + 1] for at in range(len(stream)))) == whole
        assert all(told(SseParser(90), stream[:cut], stream[cut:]) == whole for cut in range(0, len(stream), 7))

    def test_the_name_of_a_long_event_may_stand_behind_its_data(self) -> None:
        stream = b'data: {"a":"' + b"x" * 1100 + b'"}\nevent: error\n\n'

        for cut in range(len(stream) - 20, len(stream)):
            parser = SseParser(90)
            assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == [(b"error", b'{"a":"-"}')]

    def test_many_small_lines_make_a_large_event(self) -> None:
        parser = SseParser(20)
        events = parser.feed(b"data: x\n" * 3 + b"\ndata: next\n\n")

        assert (events, parser.oversized) == ([(b"", b"next")], 1)

    def test_a_line_without_end_holds_no_more_than_the_cap(self) -> None:
        parser = SseParser(1000)
        for _ in range(1000):
            parser.feed(b"data: " + b"x" * 994)

        assert len(parser._line) <= 1000
        assert parser.feed(b"\n\ndata: a\n\n") == [(b"", b"a")]
        assert parser.oversized == 1

    def test_a_comment_without_end_holds_nothing_and_is_no_event(self) -> None:
        parser = SseParser(1000)
        parser.feed(b":")
        for _ in range(1000):
            parser.feed(b"x" * 1000)

        assert (len(parser._line), parser.oversized) == (1, 0)
        assert parser.feed(b"\ndata: a\n\n") == [(b"", b"a")]

    def test_a_line_fed_one_byte_at_a_time_is_not_copied_for_each(self) -> None:
        """Quadratic work on 256 KiB would be 34 GB of copies; linear work is a fraction of a second even on a busy machine."""
        line = b'data: {"a":"' + b"x" * 262_000 + b'"}\n\n'
        parser = SseParser()
        began = time.process_time()
        events = [event for at in range(len(line)) for event in parser.feed(line[at : at + 1])]

        assert len(events) == 1
        assert time.process_time() - began < 5


AWKWARD = st.lists(
    st.sampled_from(
        [
            *(b"data: x", b"data:", b"data", b"event: e", b"data: \xff\xfe", b"id: 1", b": c", b":", b"\xef\xbb\xbf"),
            *(b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"x" * 30, b" ", b"data: a\n\n", b"event: n\ndata: a\n\n"),
        ]
    )
    | st.binary(max_size=3),
    max_size=12,
).map(b"".join)


def told(parser: SseParser, *segments: bytes) -> tuple[object, ...]:
    events = []
    spans = []
    for segment in segments:
        events += parser.feed(segment)
        spans += parser.spans
    return events, [start for start, _ in spans], parser.oversized, parser.unfinished_at, parser.fed


@given(stream=AWKWARD, cap=st.sampled_from([8, 15, 1000]), data=st.data())
def test_any_segmentation_says_the_same(stream: bytes, cap: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    whole = told(SseParser(cap), stream)
    assert whole == told(SseParser(cap), *pieces)
    assert whole == told(SseParser(cap), *(stream[at : at + 1] for at in range(len(stream))))


LINE_ENDS = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n"]), min_size=1, max_size=60).map(b"".join)


@given(stream=st.lists(LINE_ENDS | AWKWARD, max_size=6).map(b"".join), cap=st.sampled_from([8, 1000]))
def test_a_flood_of_line_ends_says_at_every_split_what_it_says_byte_by_byte(stream: bytes, cap: int) -> None:
    """Runs of line ends are passed over at once; a byte alone never is."""
    slow = told(SseParser(cap), *(stream[at : at + 1] for at in range(len(stream))))

    for cut in range(len(stream) + 1):
        assert told(SseParser(cap), stream[:cut], stream[cut:]) == slow


@pytest.mark.reaches_in
@pytest.mark.parametrize("flood", [b"\r", b"\n", b"\r\n", b"\n\r\r\n\r"])
def test_blank_lines_cost_no_call_each(flood: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two megabytes of them, in the pieces that the relay feeds, behind an event that they end."""
    parser = SseParser()
    parser.feed(b"data: a\r")
    lines: list[tuple[object, ...]] = []
    monkeypatch.setattr(SseParser, "_end_of_line", lambda _parser, *line: lines.append(line))
    for _ in range(128):
        parser.feed((flood * 16384)[:16384])

    assert 1 <= len(lines) <= 128 * 4


def test_a_comment_behind_a_byte_order_mark_is_a_comment_however_long_and_however_cut() -> None:
    """It was taken for an event over the cap, and the event behind it was lost (found by `make fuzz`)."""
    stream = b"\xef\xbb\xbf:" + bytes(20) + b"\ndata: a\n\n"

    for end in range(len(stream)):
        parser = SseParser(10)
        assert parser.feed(stream[:end]) + parser.feed(stream[end:]) == [(b"", b"a")]
        assert (parser.oversized, parser.unfinished_at) == (0, None)


@given(segments=st.lists(st.binary(max_size=200)))
def test_random_bytes_never_raise(segments: list[bytes]) -> None:
    parser = SseParser(64)
    for segment in segments:
        assert len(parser.feed(segment)) == len(parser.spans)
        assert len(parser._line) <= 64
