"""The number of replicas by hand."""

from tests.commands.capacity.asked import LOAD, SEVENTY_B, Run


def test_replicas_by_hand(run: Run) -> None:
    numbers = run(*LOAD)["replicas"]["numbers"]
    waits = {row["replicas"]: row["wait_seconds"] for row in numbers["rows"]}

    assert (numbers["replicas"], [*waits]) == (7, [6, 7, 8])
    assert waits[7] <= 0.2 < waits[6]


def test_a_cache_that_is_too_small_bounds_the_slots(run: Run) -> None:
    """The flags ask for 64 slots, but the cache has room for 13 sequences of 32,768 tokens."""
    answers = run(*SEVENTY_B, "--tokens=32768", *LOAD)

    assert {fact["name"]: fact["value"] for fact in answers["replicas"]["facts"]}["slots_in_cache"] == 13


def test_slots_beyond_the_load_test_do_not_count(run: Run) -> None:
    """Tested with at most four requests at once, the replica's speed with 64 is not known."""
    load = ("--rate=8", "--wait=5s", "--service=1:3.1s", "--service=4:3.4s")
    of_four, of_64 = (run(*load, f"--slots={slots}")["replicas"] for slots in (4, 64))

    assert of_64["numbers"] == of_four["numbers"]
    assert any("Only 4 of the 64 slots are counted" in said for said in of_64["assumptions"])
