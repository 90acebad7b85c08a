"""The memory of a request with spans: what was added is read as one body, and goes back a part at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.otlp.request_memory import PART_BYTES, RequestMemory


MOST_BYTES = 4 * PART_BYTES


def filled(*pieces: bytes) -> RequestMemory:
    memory = RequestMemory(MOST_BYTES)
    for piece in pieces:
        memory.add(piece)
    return memory


@given(st.lists(st.binary(max_size=20)))
def test_the_body_is_all_pieces_in_their_order(pieces: list[bytes]) -> None:
    """Also where it is empty, and it ends where the last piece ended: a decoder finds nothing behind it."""
    whole, read = b"".join(pieces), filled(*pieces).body()

    assert (len(read), bytes(read[:]), bytes(read[len(whole) : len(whole) + 1])) == (len(whole), whole, b"")


def test_it_can_be_full_and_no_fuller() -> None:
    memory = filled(bytes(MOST_BYTES - 1), b"\x01")

    with pytest.raises(ValueError, match="out of range"):
        memory.add(b"\x01")
    assert len(memory.body()) == MOST_BYTES


def test_it_goes_back_a_part_after_each_step() -> None:
    """The memory of two and a half parts; what went back reads as zeros."""
    memory = filled(b"\x01" * (5 * PART_BYTES // 2))
    body = memory.body()

    def held() -> list[int]:
        return [body[at] for at in range(0, len(body), PART_BYTES)]

    assert [held() for _ in memory.give_back()] == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert held() == [0, 0, 0]
    assert not any(body[:])


def test_memory_that_was_never_written_goes_back_as_well() -> None:
    assert list(RequestMemory(MOST_BYTES).give_back()) == []
