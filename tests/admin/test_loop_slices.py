"""Long work in turns: the same result, and others have the loop in between."""

import asyncio

from sidecar.admin.loop_slices import in_turns
from sidecar.history.slices import Turns, at_once


def counting(to: int) -> Turns[int]:
    for _ in range(to):
        yield
    return to


def test_the_result_is_the_same_either_way() -> None:
    assert (at_once(counting(0)), at_once(counting(3)), asyncio.run(in_turns(counting(3)))) == (0, 3, 3)


def test_each_step_lets_others_have_the_loop() -> None:
    async def story() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await in_turns(counting(50))
        task.cancel()
        return turns

    assert asyncio.run(story()) == 50
