"""Which traces one request has claimed: remembered in a memory of fixed size, and never wrong in favour of a join."""

import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.claims import Claims


KEEP_SECONDS = 100.0


@given(st.lists(st.integers(0, 60)))
def test_a_trace_is_alone_if_one_request_claimed_it(numbers: list[int]) -> None:
    """As a count of all claims says, while no table has been dropped."""
    claims = Claims(64, KEEP_SECONDS)
    for number in numbers:
        claims.claim(f"trace {number}", at=1.0)

    counted = Counter(numbers)
    assert [claims.alone(f"trace {number}") for number in range(62)] == [counted[number] == 1 for number in range(62)]


def test_a_claim_counts_for_at_least_as_long_as_a_request_may_last() -> None:
    """At most twice as long: then both tables were dropped since."""
    claims = Claims(16, KEEP_SECONDS)
    seen = []
    for at in (0.0, KEEP_SECONDS - 1):
        claims.claim("again", at)
        seen.append(claims.alone("again"))
    claims.claim("once", KEEP_SECONDS - 1)
    for at in (KEEP_SECONDS, 2 * KEEP_SECONDS - 1):
        claims.claim(f"another at {at}", at)
        seen += [claims.alone("again"), claims.alone("once")]
    claims.claim("another", 2 * KEEP_SECONDS)

    assert seen == [True, False, False, True, False, True]
    assert not claims.alone("once")


def test_a_second_claim_after_a_table_was_dropped_is_still_the_second() -> None:
    claims = Claims(16, KEEP_SECONDS)
    claims.claim("shared", 0.0)
    claims.claim("shared", KEEP_SECONDS)

    assert not claims.alone("shared")


def test_more_traces_than_there_is_room_for_push_out_the_oldest() -> None:
    """Those that are pushed out join nothing; the last ones are known."""
    claims = Claims(100, KEEP_SECONDS)
    for number in range(1000):
        claims.claim(str(number), at=0.0)

    assert [number for number in range(1000) if claims.alone(str(number))] == list(range(800, 1000))


def test_a_burst_leaves_no_small_objects_behind() -> None:
    """Spread over the heap, they would keep its pages: 9,000 requests left 180,000 objects once."""
    claims = Claims(16_384, KEEP_SECONDS)
    before = sys.getallocatedblocks()
    for number in range(10_000):
        claims.claim(f"{number:032x}", at=0.0)

    assert sys.getallocatedblocks() - before < 1000
