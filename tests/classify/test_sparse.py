"""How often a byte stands in a text: at most so many times, or more often."""

import pytest

from sidecar.classify.sparse import has_at_most


@pytest.mark.parametrize("most", [0, 1, 2, 255, 256, 257, 1_000])
@pytest.mark.parametrize("between", [b"", b"x" * 100])
def test_the_last_one_that_is_allowed_is_told_from_the_first_one_that_is_not(most: int, between: bytes) -> None:
    text = between.join([b"{"] * most)

    assert has_at_most(most, b"{", text)
    assert has_at_most(most, b"{", bytearray(text + between))
    assert not has_at_most(most, b"{", text + b"{")
    assert not has_at_most(most, b"{", b"{" + between + text + between)
