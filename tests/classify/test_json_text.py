"""One walk through JSON finds every value at its exact bytes, with any number of pauses; no input makes a step long."""

import json
import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.json_text import MAX_DEPTH, MAX_NAME_BYTES, JsonText, TooLongError, UnreadableError, plain_of


STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
TEXTS = st.text(alphabet=st.sampled_from('a"\\{}[],: \n\u00e9'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def walk(body: bytes, pause_tokens: int = 1 << 20) -> JsonText:
    return JsonText(body, pause_tokens=pause_tokens, max_tokens=1 << 20)


def skipped(text: JsonText) -> int:
    """Offset behind the value at the current position."""
    while not text.skip():
        pass
    return text.at


def members_of(text: JsonText) -> dict[str, object]:
    found = {}
    for name in text.members():
        if name is not None:
            start = text.at
            found[json.loads(b'"%b"' % name)] = json.loads(text.body[start : skipped(text)])
    return found


@given(
    said=st.dictionaries(TEXTS, VALUES, max_size=5),
    indent=st.sampled_from([None, 0, 3]),
    ascii_only=st.booleans(),
    pause_tokens=st.sampled_from([1, 3, 1 << 20]),
)
def test_every_member_is_found_where_a_library_finds_it(
    said: dict[str, object], indent: int | None, ascii_only: bool, pause_tokens: int
) -> None:
    text = walk(f" {json.dumps(said, indent=indent, ensure_ascii=ascii_only)}\n".encode(), pause_tokens)

    assert members_of(text) == said
    text.end()


@given(said=st.lists(VALUES, max_size=5), indent=st.sampled_from([None, 1]), pause_tokens=st.sampled_from([1, 1 << 20]))
def test_every_element_is_found_where_a_library_finds_it(
    said: list[object], indent: int | None, pause_tokens: int
) -> None:
    text = walk(json.dumps(said, indent=indent).encode(), pause_tokens)
    found = []
    for element in text.elements():
        if element:
            start = text.at
            found.append(json.loads(text.body[start : skipped(text)]))

    assert found == said
    text.end()


def test_pauses_come_at_most_so_many_tokens_apart_and_change_nothing() -> None:
    body = json.dumps({"a": [{"b": ["c", 1, {}], "d": 'e"' * 500}] * 30, "f": "g"}).encode()
    text = walk(body, pause_tokens=10)
    seen = [0]
    for name in text.members():
        seen.append(text.tokens)
        while name is not None and not text.skip():
            seen.append(text.tokens)

    assert len(seen) > 30
    assert max(after - before for before, after in pairwise(seen)) <= 10 + 3
    assert text.at == len(body)


@pytest.mark.parametrize(
    "length", [0, 1, 254, 255, 256, 257, 1023, 1024, 1025, 1278, 1279, 1280, 65_535, 65_536, 90_000]
)
@pytest.mark.parametrize("escapes", [b"", b"\\\\", b'\\"', b"\\\\\\\\\\n", b'\\\\\\"\\"', b"\\u005c"])
def test_a_string_ends_at_its_own_quote_wherever_its_escapes_stand(length: int, escapes: bytes) -> None:
    """Escapes may also lie at the edges of the blocks that are searched."""
    for body in (
        b'"' + b"x" * length + escapes + b'"',
        b'"' + escapes + b"x" * length + escapes + b'"',
        b'"' + escapes + b"\\n" * (length // 2) + escapes * 3 + b"y" + b'"',
    ):
        end = STRING.match(body)
        assert end is not None
        assert skipped(walk(body + b',"more"')) == end.end() == len(body)
        assert skipped(walk(b"[" + body + b',"more"] ')) == len(body) + 9


def test_a_prompt_of_a_megabyte_is_one_step() -> None:
    """A string of a megabyte holds the event loop for microseconds: no regular expression goes through its bytes."""
    text = walk(b'{"prompt": "' + b"long text. " * 100_000 + b'"}', pause_tokens=10)

    (_,) = [name for name in text.members() if text.skip()]

    assert text.tokens == 1


@given(
    text=st.lists(st.sampled_from([b'"', b"\\", b"{", b"[", b"]", b",", b"ab", b"x" * 1024]), max_size=12).map(b"".join)
)
@pytest.mark.parametrize("python", [(3, 11, 4), sys.version_info[:3]], ids=["old", "this"])
def test_plain_text_ends_before_a_bracket_or_a_string_with_escapes(python: tuple[int, int, int], text: bytes) -> None:
    """Also before a string of more than 1,024 bytes or without an end; the same in the form for old Pythons."""
    end = 0
    while end < len(text) and text[end] not in b"{}[]":
        close = text.find(b'"', end + 1) if text[end] == ord('"') else end
        if close < 0 or close - end > 1025 or b"\\" in text[end + 1 : close]:
            break
        end = close + 1

    found = plain_of(python).match(text)
    assert found is not None
    assert found.end() == end


@given(said=VALUES.filter(lambda value: isinstance(value, str | list | dict)), ascii_only=st.booleans())
def test_a_value_that_is_cut_short_has_no_end(said: object, ascii_only: bool) -> None:
    body = json.dumps(said, ensure_ascii=ascii_only).encode()
    refused = 0
    for size in range(len(body)):
        with pytest.raises(UnreadableError):
            skipped(walk(body[:size]))
        refused += 1

    assert refused == len(body)


@given(body=st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ nul0', max_size=60).map(str.encode))
def test_random_bytes_are_walked_or_refused_and_nothing_else(body: bytes) -> None:
    for pause_tokens in (1, 1 << 20):
        text = walk(body, pause_tokens)
        try:
            for name in text.members():
                if name is not None:
                    skipped(text)
        except UnreadableError:
            continue
        assert text.at <= len(body)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"[" * (MAX_DEPTH + 1), TooLongError, id="nested too deep"),
        pytest.param(b"[" + b"[]," * (1 << 20), TooLongError, id="brackets without end", marks=pytest.mark.long),
        pytest.param(b"[}", UnreadableError, id="closed by another kind"),
        pytest.param(b"", UnreadableError, id="nothing"),
    ],
)
def test_what_is_too_long_or_none_is_refused(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        skipped(walk(body))


def test_a_long_name_is_given_as_far_as_it_may_be_known() -> None:
    text = walk(b'{"' + b"n" * 1000 + b'": 1}')

    assert [(name, skipped(text)) for name in text.members()] == [(b"n" * MAX_NAME_BYTES, 1006)]
