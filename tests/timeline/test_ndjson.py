"""Newline-delimited JSON is read the same however it is segmented, and no input does harm."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.timeline.ndjson import NdjsonParser


def values(*segments: bytes, cap: int = 1000) -> list[bytes]:
    parser = NdjsonParser(cap)
    told = [value for segment in segments for _, value in parser.feed(segment)]
    return told + [value for _, value in parser.finish()]


class TestLines:
    @pytest.mark.parametrize(
        ("stream", "expected"),
        [
            pytest.param(b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], id="LF"),
            pytest.param(b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], id="CRLF"),
            pytest.param(b'\n\r\n{"a":1}\n \t\n\n{"b":2}\n\n', [b'{"a":1}', b'{"b":2}'], id="blank lines"),
            pytest.param(b'\xef\xbb\xbf{"a":1}\n', [b'{"a":1}'], id="a BOM"),
            pytest.param(b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}'], id="a last line without its end"),
            pytest.param(b'{"a":"}{[\\"]"}\n{"b":2}\n', [b'{"a":"}{[\\"]"}', b'{"b":2}'], id="brackets in strings"),
            pytest.param(b'nonsense\n{"b":2}\n', [b"nonsense", b'{"b":2}'], id="a line that is no JSON"),
            pytest.param(b'{"a":1\n{"b":2}\n', [b'{"a":1', b'{"b":2}'], id="a damaged line costs one value"),
            pytest.param(b'{"a":"\n{"b":2}\n', [b'{"a":"', b'{"b":2}'], id="an open string ends with its line"),
            pytest.param(b'}\n]]\n{"b":2}\n', [b"}", b"]]", b'{"b":2}'], id="too many closed"),
            pytest.param(b"", [], id="nothing"),
        ],
    )
    def test_a_value_is_a_line(self, stream: bytes, expected: list[bytes]) -> None:
        assert values(stream) == expected

    def test_a_value_may_be_written_for_peoples_eyes(self) -> None:
        """Lines are joined until every open bracket is closed, and the next value begins in its first column."""
        said = [{"a": {"b": [1, 2, {"c": "}"}]}}, {"done": True}]
        pretty = "\n".join(json.dumps(value, indent=2) for value in said).encode() + b"\n"

        assert [json.loads(value) for value in values(pretty)] == said

    def test_a_value_lies_where_its_span_says(self) -> None:
        parser = NdjsonParser()
        stream = b'\n{"a":1}\r\n\n{"b":\n 2}\n'
        parser.feed(stream)

        assert [stream[start:end] for start, end in parser.spans] == [b'{"a":1}\r\n', b'{"b":\n 2}\n']

    def test_what_is_not_finished_is_seen(self) -> None:
        parser = NdjsonParser()
        parser.feed(b'{"a":1}\n{"b"')
        assert parser.unfinished_at == 8

        parser.feed(b":2}\n")
        assert parser.unfinished_at is None


class TestTheCap:
    def test_a_line_over_the_cap_gives_its_outline(self) -> None:
        line = b'{"a":"' + b"x" * 2000 + b'","b":1}\n'
        whole = told_by(NdjsonParser(20), line + b'{"b":2}\n')

        assert whole[0] == [(b"", b'{"a":"-","b":1}'), (b"", b'{"b":2}')]
        assert whole[1:3] == ([(0, len(line)), (len(line), len(line) + 8)], 0)
        assert told_by(NdjsonParser(20), *(bytes([byte]) for byte in line + b'{"b":2}\n')) == whole

    def test_many_small_lines_make_a_large_value(self) -> None:
        parser = NdjsonParser(20)
        told = parser.feed(b'{\n"a":1,\n"b":2,\n"c":3,\n"d":4\n}\n{"b":2}\n')

        assert told == [(b"", b'{"a":1,"b":2,"c":3,"d":4}'), (b"", b'{"b":2}')]

    def test_a_long_last_value_needs_no_line_end(self) -> None:
        parser = NdjsonParser(20)
        parser.feed(b'{"a":"' + b"x" * 2000 + b'"}')

        assert parser.finish() == [(b"", b'{"a":"-"}')]

    @pytest.mark.parametrize("rest", [b"", b"\n", b"\nmore\n"])
    def test_a_long_line_that_is_no_value_is_counted_and_the_next_one_is_read(self, rest: bytes) -> None:
        parser = NdjsonParser(20)
        parser.feed(b"{" + b"x" * 50 + rest)

        assert parser.feed(b'\n{"a":1}\n') == [(b"", b'{"a":1}')]
        assert parser.oversized == 1

    def test_a_line_without_end_holds_no_more_than_the_cap(self) -> None:
        parser = NdjsonParser(1000)
        for _ in range(1000):
            parser.feed(b"{" + b"x" * 999)

        assert len(parser._line) <= 1000
        assert parser.feed(b'\n{"a":1}\n') == [(b"", b'{"a":1}')]
        assert parser.oversized == 1

    def test_a_blank_line_longer_than_the_cap_is_still_a_blank_line(self) -> None:
        """It was passed over behind a blank line and counted as a value behind a cut: found by fuzzing."""
        for stream in (b"\n" + b"\t" * 115 + b"\n", b" " * 115 + b"\n", b'{\n"a":\n' + b" " * 115 + b"\n1}\n"):
            whole = told_by(NdjsonParser(48), stream)

            assert whole[2] == 0
            assert all(told_by(NdjsonParser(48), stream[:cut], stream[cut:]) == whole for cut in range(len(stream)))

    def test_the_indentation_of_a_line_counts_as_one_blank(self) -> None:
        line = b" " * 60 + b'{"a":1}\n'

        assert told_by(NdjsonParser(20), line)[0] == [(b"", b'{"a":1}')]
        assert told_by(NdjsonParser(20), *(bytes([byte]) for byte in line)) == told_by(NdjsonParser(20), line)

    def test_a_line_fed_one_byte_at_a_time_is_not_copied_for_each(self) -> None:
        """Quadratic work on 256 KiB would be 34 GB of copies; linear work is a fraction of a second even on a busy machine."""
        line = b'{"a":"' + b"x" * 262_000 + b'"}\n'
        parser = NdjsonParser()
        began = time.process_time()
        told = [value for at in range(len(line)) for value in parser.feed(line[at : at + 1])]

        assert len(told) == 1
        assert time.process_time() - began < 5


AWKWARD = st.lists(
    st.sampled_from(
        [
            *(
                b'{"a":1}',
                b"{",
                b"}",
                b"[",
                b"]",
                b'"',
                b"\\",
                b"\xff",
                b"\xef\xbb\xbf",
                b"\r",
                b"\n",
                b"\r\n",
                b"\n\n",
            ),
            *(b" ", b"x" * 30, b'{"a":1}\n', b'{\n "a":1\n}\n', b"1\n"),
        ]
    )
    | st.binary(max_size=3),
    max_size=12,
).map(b"".join)


def told_by(parser: NdjsonParser, *segments: bytes) -> tuple[object, ...]:
    told, spans = [], []
    for segment in segments:
        told += parser.feed(segment)
        spans += parser.spans
    seen = parser.unfinished_at
    told += parser.finish()
    return told, spans, parser.oversized, seen, parser.fed


@given(stream=AWKWARD, cap=st.sampled_from([8, 15, 1000]), data=st.data())
def test_any_segmentation_says_the_same(stream: bytes, cap: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    whole = told_by(NdjsonParser(cap), stream)
    assert whole == told_by(NdjsonParser(cap), *pieces)
    assert whole == told_by(NdjsonParser(cap), *(stream[at : at + 1] for at in range(len(stream))))


BLANK = st.lists(
    st.sampled_from([b"\n", b"\r\n", b" \n", b"\t\n", b"\x0b\n", b" " * 12 + b"\n", b"\t" * 9]), min_size=1, max_size=20
).map(b"".join)


@given(stream=st.lists(BLANK | AWKWARD, max_size=6).map(b"".join), cap=st.sampled_from([8, 1000]))
def test_a_flood_of_blank_lines_says_at_every_split_what_it_says_byte_by_byte(stream: bytes, cap: int) -> None:
    """Blank lines behind a blank line are passed over at once; a byte alone never is."""
    slow = told_by(NdjsonParser(cap), *(stream[at : at + 1] for at in range(len(stream))))

    for cut in range(len(stream) + 1):
        assert told_by(NdjsonParser(cap), stream[:cut], stream[cut:]) == slow


@given(segments=st.lists(st.binary(max_size=200)))
def test_random_bytes_never_raise(segments: list[bytes]) -> None:
    parser = NdjsonParser(64)
    for segment in segments:
        assert len(parser.feed(segment)) == len(parser.spans)
        assert len(parser._line) + len(parser._value) <= 2 * 64


@given(
    said=st.lists(st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers() | st.none(), max_size=4)),
    indent=st.sampled_from([None, 1, 2]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_was_written_is_read(said: list[dict[str, object]], indent: int | None, end: str) -> None:
    """The values are read for any layout, and with any characters in their strings."""
    stream = "".join(json.dumps(value, indent=indent) + "\n" for value in said).replace("\n", end).encode()

    assert [json.loads(value) for value in values(stream, cap=100_000)] == said
