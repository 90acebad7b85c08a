"""The number of replicas by hand and from a watched replica, and the replicas that the model does not describe."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sidecar.commands.capacity.answer import Origin
from sidecar.commands.capacity.observation import Reading
from tests.commands.capacity.asked import LOAD, SEVENTY_B, Run


# --- worked cases ------------------------------------------------------------------------------------------------------------


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


# --- what is running ---------------------------------------------------------------------------------------------------------


def steady(queue_seconds: float, **last: float) -> Callable[[str, float], list[Reading]]:
    """Ten minutes at 2 requests per second with four inside on average: S(n) can be estimated, because the number
    inside varies from two to six."""

    def observe(_url: str, _window: float) -> list[Reading]:
        readings = [Reading(0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
        for step in range(1, 1201):
            before = readings[-1]
            inside = (2, 3, 4, 5, 6, 5, 4, 3)[step % 8]
            # R(n) = n / (1.5 + 0.125 n): 2 per second with four inside.
            ended = before.ended + before.in_flight / (1.5 + 0.125 * before.in_flight) / 2
            readings.append(
                Reading(
                    step / 2,
                    step,
                    ended,
                    ended,
                    inside,
                    step * queue_seconds,
                    step,
                    0,
                    step * 0.1,
                    step,
                    step * 0.1,
                    {0.075: 0, 0.15: step},
                )
            )
        readings[-1] = replace(readings[-1], **last)  # type: ignore[arg-type]
        return [replace(reading, ended=round(reading.ended), ok=round(reading.ok)) for reading in readings]

    return observe


WATCHED = ("--sidecar.url=http://s:1", "--wait=50ms", "--slots=6", "--replicas.now=3")


def test_a_watched_replica_carries_an_answer_for_the_fleet(run: Run) -> None:
    """One of three replicas gets 2 requests per second, so the fleet gets 6; today's wait is above the target, so more
    than three are needed."""
    answer = run(*WATCHED, observe=steady(0.2))["replicas"]

    assert answer["numbers"]["rate"] == pytest.approx(6.0)
    assert answer["numbers"]["replicas"] > 3
    assert {fact["name"]: fact["origin"] for fact in answer["facts"]}["queue_seconds"] == Origin.MEASURED


@pytest.mark.parametrize(
    ("flags", "observe", "words"),
    [
        (WATCHED, steady(60.0), "does not describe this replica"),
        (WATCHED, steady(0.0001), "does not describe this replica"),
        (WATCHED[:2], steady(0.2), "give --slots"),
        ((*WATCHED[:2], "--slots=2"), steady(0.2), "is overloaded"),
        (WATCHED, lambda _url, _window: steady(0.2)("", 0)[:40], "at least 50 of each"),
    ],
    ids=["waits far longer", "hardly waits", "slots unknown", "overloaded", "too few"],
)
def test_a_replica_that_the_model_does_not_describe_is_refused(
    run: Run, flags: tuple[str, ...], observe: Callable[[str, float], list[Reading]], words: str
) -> None:
    assert words in run(*flags, rc=2, observe=observe)["replicas"]["refusal"]
