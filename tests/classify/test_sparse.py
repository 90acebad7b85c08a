"""Whether some bytes stand in a text at all."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.sparse import holds


@given(st.binary(max_size=12), st.sampled_from([b";", b";b", b";;", b";base64,"]), st.integers(0, 100), st.data())
def test_a_text_holds_what_stands_whole_between_the_offsets(
    around: bytes, sought: bytes, others: int, data: st.DataObject
) -> None:
    """Up to 64 first bytes that lead to nothing are tried one by one, more are not."""
    text = around + b"; " * others + data.draw(st.sampled_from([b"", sought, sought[:-1]])) + around
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text) + 8))

    assert holds(text, sought, begin, end) == (sought in text[begin:end])
