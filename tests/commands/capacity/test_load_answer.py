"""The number of replicas by hand."""

from tests.commands.capacity.asked import LOAD, SEVENTY_B, Run


def test_replicas_by_hand(run: Run) -> None:
    numbers = run(*LOAD)["replicas"]["numbers"]
    waits = {row["replicas"]: row["wait_seconds"] for row in numbers["rows"]}

    assert numbers["replicas"] == 7
    assert waits[7] <= 0.2 < waits[6]


def test_a_router_that_knows_the_queues_gets_a_range(run: Run) -> None:
    numbers = run(*LOAD, "--router=shortest")["replicas"]["numbers"]

    assert (numbers["replicas_at_best"], numbers["replicas"]) == (4, 7)


def test_a_cache_that_is_too_small_bounds_the_slots(run: Run) -> None:
    """The flags ask for 64 slots, but the cache has room for 13 sequences of 32,768 tokens."""
    answers = run(*SEVENTY_B, "--tokens=32768", *LOAD)

    assert {fact["name"]: fact["value"] for fact in answers["replicas"]["facts"]}["slots_in_cache"] == 13
