"""How often a byte stands in a text: at most so many times, or more often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.at_most import has_at_most


@pytest.mark.parametrize("most", [0, 1, 2, 255, 256, 257, 1_000])
@pytest.mark.parametrize("between", [b"", b"x" * 100])
def test_the_last_one_that_is_allowed_is_told_from_the_first_one_that_is_not(most: int, between: bytes) -> None:
    text = between.join([b"{"] * most)

    assert has_at_most(most, b"{", text)
    assert has_at_most(most, b"{", bytearray(text + between))
    assert not has_at_most(most, b"{", text + b"{")
    assert not has_at_most(most, b"{", b"{" + between + text + between)


@given(st.lists(st.sampled_from([b"{", b"x", b"{" * 17, b"x" * 15, b"{" * 4096]), max_size=40), st.integers(0, 5000))
def test_it_is_what_counting_says(parts: list[bytes], most: int) -> None:
    text = b"".join(parts)

    assert has_at_most(most, b"{", text) == (text.count(b"{") <= most)
    assert has_at_most(most, b"{", bytearray(text)) == (text.count(b"{") <= most)
