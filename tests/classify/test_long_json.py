"""A long text that is checked in pieces is taken or refused as msgspec takes or refuses it in one call."""

import json
from collections.abc import Generator
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify import long_json
from sidecar.classify.json_text import TooLongError, UnreadableError
from sidecar.classify.long_json import CHECKED_BYTES, MAX_MEMBERS, checked_members
from sidecar.timeline.outline import FIRST_LOOK_BYTES


T = TypeVar("T")


def result_of(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def values_of(body: bytes, piece_bytes: int = CHECKED_BYTES) -> list[tuple[str, bytes]]:
    return [(m.name, body[m.start : m.end]) for m in result_of(checked_members(body, piece_bytes))]


class _Nothing(msgspec.Struct):
    """Every member is stepped over, and checked."""


def is_taken_at_once(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=_Nothing)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ['"quoted" \\ back', "\\" * 7, '\\"' * 4, "word " * 30, "[{,:}]", "\U0001f600" * 9, '"image_url":']
    ),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-9, 99), st.sampled_from([1.5, -2e10])),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)
BODIES = st.builds(
    lambda said, ascii_only, indent: json.dumps(said, ensure_ascii=ascii_only, indent=indent).encode(
        errors="surrogatepass"
    ),
    st.dictionaries(TEXTS, VALUES, max_size=5),
    st.booleans(),
    st.sampled_from([None, None, 2]),
)
CHANGES = st.sampled_from(
    [b'"', b"\\", b",", b"{", b"}", b"[", b"]", b":", b"", b"0", b"\x01", b"\\ud83d", b"\\ude00", b"\xff"]
)


@given(body=BODIES, piece_bytes=st.integers(16, 400))
def test_it_finds_the_members_however_it_is_cut(body: bytes, piece_bytes: int) -> None:
    """Pieces so small may lack a comma and a string; with those of the product, every text of this size is taken."""
    if not is_taken_at_once(body):
        return  # half of a surrogate pair
    expected = [(name, json.dumps(value)) for name, value in json.loads(body).items()]

    assert [(name, json.dumps(json.loads(raw))) for name, raw in values_of(body)] == expected
    try:
        found = values_of(body, piece_bytes)
    except TooLongError:
        return
    assert found == values_of(body)


@given(body=BODIES, piece_bytes=st.integers(16, 400), at=st.integers(0, 10_000), change=CHANGES, lost=st.integers(0, 2))
def test_no_cut_makes_a_wrong_text_right(body: bytes, piece_bytes: int, at: int, change: bytes, lost: int) -> None:
    at %= len(body)
    changed = body[:at] + change + body[at + lost :]

    for size in (piece_bytes, CHECKED_BYTES):
        try:
            result_of(checked_members(changed, size))
        except TooLongError:
            continue
        except UnreadableError:
            taken = False
        else:
            taken = True
        assert taken is is_taken_at_once(changed)


UNIT = b"\\\\" * 10 + b"ud83d\\n"
"""Ten backslashes, the letters of half a pair of surrogates, and a line's end."""
NAMES = b"".join(b'{"%b":' % (b"x" * (200 - n)) for n in range(200)) + b"1" + b"}" * 200
"""Names of decreasing length, each the only member of the object in the one before it: 20 KB without a comma."""
LONG = {
    "one text": b'{"prompt":"' + b"word " * 20_000 + b'"}',
    "escapes": b'{"prompt":"' + b"\\u0041" * 20_000 + b'"}',
    "pairs": b'{"messages":[{"content":"' + b"\\ud83d\\ude00" * 9_001 + b'"}]}',
    "backslashes": b'{"a":[{"content":"' + b"\\\\" * 40_001 + b'"},1]}',
    "quotes": b'{"a":[{"content":"' + b'\\"' * 40_001 + b'"},1]}',
    "digits": b'{"prompt":[' + b"1," * 50_000 + b"1]}",
    "objects": b'{"prompt":[' + b"{}," * 30_000 + b'{}],"n":1}',
    "empty texts": b'{"prompt":[' + b'"",' * 30_000 + b'""]}',
    "a long name": b'{"a":{"' + b"x" * 50_000 + b'":1}}',
    "long names without a comma": b'{"a":[' + b",".join([NAMES] * 9) + b"]}",
    "an image": b'{"a":[{"b":{"url":"' + b"A" * 100_000 + b'"}}]}',
}


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
@pytest.mark.parametrize("more", range(16))
def test_long_texts_are_taken_wherever_their_pieces_end(body: bytes, more: int) -> None:
    shifted = body.replace(b":", b":" + b" " * more, 1)

    assert dict(values_of(shifted)).keys() == json.loads(shifted).keys()
    with pytest.raises(UnreadableError):
        values_of(shifted[:-1])


@pytest.mark.parametrize("more", range(len(UNIT)))
def test_backslashes_before_letters_are_no_half_of_a_pair(more: int) -> None:
    body = b'{"a":["' + b"x" * more + UNIT * 3_000 + b'"]}'

    assert is_taken_at_once(body)
    assert [name for name, _ in values_of(body)] == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[1]",
        b"[" * 100_000,
        b'{"a":' + b"[" * 300 + b"1," * 20_000 + b"1" + b"]" * 300 + b"}",
        b'{"a":[' + b"[" * 20_000 + b"]" * 20_000 + b"]}",
        b'{"a":[1' + b" " * 20_000 + b"]}",
        b"{" + b'"a":1,' * MAX_MEMBERS + b'"a":1}',
    ],
)
def test_a_text_that_no_client_writes_is_given_up(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        values_of(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(LONG["digits"], id="one array"),
        pytest.param(LONG["long names without a comma"], id="names"),
        pytest.param(
            b'{"p":[' + b'"",' * 12_000 + b"1]," + b'"a":[],' * 200 + b'"b":1}', id="short arrays behind a long one"
        ),
        pytest.param(
            b"{" + b'"a":[],' * 200 + b'"p":[' + b'["",[[]]],' * 4_000 + b"1]}", id="short arrays before a long one"
        ),
        pytest.param(b"{" + b'"a":["%b"],' % (b"x" * 1_800) * 200 + b'"b":1}', id="arrays of 1,800 bytes"),
    ],
)
def test_a_step_is_little_work(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps at most a few pieces are taken apart, whatever the values are: each byte costs work a few times at most."""
    work = [0]
    take_apart = long_json._parts

    def counted(piece: bytes, *, in_string: bool) -> tuple[list[bytes], list[bytes]]:
        work[-1] += len(piece)
        return take_apart(piece, in_string=in_string)

    monkeypatch.setattr(long_json, "_parts", counted)
    steps = checked_members(body)
    while next(steps, steps) is not steps:
        work.append(0)

    assert max(work) <= 4 * CHECKED_BYTES
    assert sum(work) <= 3 * len(body) + 500 * FIRST_LOOK_BYTES


def test_a_step_is_one_piece() -> None:
    """A hundred pieces are a hundred steps, so that the loop can do other work between any two."""
    body = b'{"prompt":[' + b"12," * (100 * CHECKED_BYTES // 3) + b"1]}"

    assert 99 <= sum(1 for _ in checked_members(body)) <= 102
