"""Long work in slices: the same result as run at once, and other tasks run on the loop in between."""

import asyncio

import pytest

from sidecar.history.slices import Sliced, run_now, run_sliced


def counting(to: int) -> Sliced[int]:
    for number in range(to):
        yield
        if number == 70:
            raise ValueError(number)
    return to


def test_a_mistake_is_no_result() -> None:
    with pytest.raises(ValueError, match="70"):
        run_now(counting(90))


def test_the_result_is_the_same_either_way() -> None:
    assert (run_now(counting(0)), run_now(counting(3)), asyncio.run(run_sliced(counting(3)))) == (0, 3, 3)


def test_each_step_lets_others_have_the_loop() -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await run_sliced(counting(50))
        task.cancel()
        return turns

    assert asyncio.run(scenario()) == 50
