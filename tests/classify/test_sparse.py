"""How often a byte stands in a text: at most so many times, or more often; and whether some bytes stand in it at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.sparse import has_at_most, holds


@pytest.mark.parametrize("most", [0, 1, 2, 255, 256, 257, 1_000])
@pytest.mark.parametrize("between", [b"", b"x" * 100])
def test_the_last_one_that_is_allowed_is_told_from_the_first_one_that_is_not(most: int, between: bytes) -> None:
    text = between.join([b"{"] * most)

    assert has_at_most(most, b"{", text)
    assert has_at_most(most, b"{", bytearray(text + between))
    assert not has_at_most(most, b"{", text + b"{")
    assert not has_at_most(most, b"{", b"{" + between + text + between)


@given(st.binary(max_size=12), st.sampled_from([b";", b";b", b";;", b";base64,"]), st.integers(0, 100), st.data())
def test_a_text_holds_what_stands_whole_between_the_offsets(
    around: bytes, sought: bytes, others: int, data: st.DataObject
) -> None:
    """Up to 64 first bytes that lead to nothing are tried one by one, more are not."""
    text = around + b"; " * others + data.draw(st.sampled_from([b"", sought, sought[:-1]])) + around
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text) + 8))

    assert holds(text, sought, begin, end) == (sought in text[begin:end])
