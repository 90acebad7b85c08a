"""A file of gzip members gives its bytes wherever it is cut, and what is damaged costs its own member alone."""

import gzip
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.reports.gzip_members import GzipMembers
from tests.support.fetching import WORDS


RECORDED = (WORDS / "dynamo-request-trace.jsonl.gz").read_bytes()


def read(pieces: list[bytes], most: int = 65_536) -> tuple[bytes, int]:
    members = GzipMembers(most)
    found = [inflated for piece in pieces for inflated in members.feed(piece)]
    assert [inflated for inflated in found if len(inflated) > most] == []
    return b"".join(found), members.damaged


def test_a_real_file_is_read_at_every_split_and_byte_by_byte() -> None:
    """Dynamo writes a member each time that it writes lines."""
    whole = gzip.decompress(RECORDED)

    assert RECORDED.count(b"\x1f\x8b\x08") == 3
    assert read([RECORDED]) == (whole, 0)
    assert {read([RECORDED[:at], RECORDED[at:]]) for at in range(len(RECORDED))} == {(whole, 0)}
    assert read([RECORDED[at : at + 1] for at in range(len(RECORDED))]) == (whole, 0)


def test_little_is_inflated_at_once() -> None:
    whole = b"x" * 1_000_000

    assert read([gzip.compress(whole)], most=1_000) == (whole, 0)


def test_what_begins_in_the_middle_of_a_member_is_passed_over_up_to_the_next() -> None:
    second = gzip.compress(b"second\n")
    first = gzip.compress(b"first\n" * 50)

    for at in range(1, len(first)):
        found, damaged = read([first[at:] + second])
        assert (found, damaged > 0) == (b"second\n", True)


def test_a_damaged_member_costs_no_other() -> None:
    first, second = gzip.compress(b"first\n", mtime=0), gzip.compress(b"second\n", mtime=0)
    broken = first[:12] + b"\xff\xff" + first[14:]

    found, damaged = read([broken + second])
    assert (found.endswith(b"second\n"), damaged > 0) == (True, True)


def test_a_member_that_was_broken_off_is_no_part_of_the_next_file() -> None:
    members = GzipMembers(100)
    member = gzip.compress(b"some\n")

    assert list(members.feed(member[:9])) == []
    members.broken_off()
    assert (list(members.feed(member)), members.damaged) == ([b"some\n"], 1)


@pytest.mark.parametrize("most", [1, 7, 100])
@given(st.lists(st.binary(max_size=60), max_size=4), st.lists(st.integers(0, 300), max_size=5))
def test_any_members_at_any_cuts(most: int, contents: list[bytes], cuts: list[int]) -> None:
    data = b"".join(gzip.compress(content) for content in contents)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    assert read([data[a:b] for a, b in itertools.pairwise(edges)], most) == (b"".join(contents), 0)


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.just(b"\x1f\x8b\x08"), st.just(gzip.compress(b"so\n"))), max_size=8)
)
def test_nonsense_ends_and_cuts_change_nothing(parts: list[bytes]) -> None:
    data = b"".join(parts)
    whole, damaged = read([data])
    by_byte, byte_damaged = read([data[at : at + 1] for at in range(len(data))])

    assert (whole, damaged > 0) == (by_byte, byte_damaged > 0)
