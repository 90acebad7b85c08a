"""The player turns virtual instants into wake-ups of a clock that the test controls."""

import asyncio
from collections.abc import Callable

import pytest

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.player import Player, Reception
from sidecar.commands.simulator.simulation import Simulation


LIMITS = Limits(max_num_seqs=4, max_num_batched_tokens=512, max_model_len=1024, kv_blocks=512)
COSTS = Costs(step_seconds=0.01, per_prompt_token_seconds=1e-3, delivery_seconds=0.002)


class Timer:
    """One scheduled call."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A clock that starts at an odd number, because the player must not assume that clocks start at 0."""

    def __init__(self) -> None:
        self.now = 1234.5
        self.timers: list[Timer] = []

    def __call__(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self.now + seconds, call)
        self.timers.append(timer)
        return timer

    def wake(self, *, late: float = 0.0) -> bool:
        """Move to the next timer, or past it, and call it; False if there is none."""
        pending = [timer for timer in self.timers if not timer.cancelled]
        assert len(pending) <= 1, "one player, one wake-up"
        self.timers.clear()
        if not pending:
            return False
        self.now = max(self.now, pending[0].at + late)
        pending[0].call()
        return True


def player_and_clock() -> tuple[Player, FakeClock]:
    clock = FakeClock()
    return Player(Simulation(LIMITS, COSTS), clock, clock.call_later), clock


def deliveries(clock: FakeClock, reception: Reception, *, late: float = 0.0) -> list[float]:
    """Instants of all tokens, in seconds from now; the player is woken each time it asked for, plus `late` seconds."""
    start = clock.now

    async def watch() -> list[float]:
        came: list[float] = []

        async def read() -> None:
            while not reception.complete:
                tokens = await reception.take()
                came.extend([clock.now - start] * tokens)

        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        while clock.wake(late=late):  # noqa: ASYNC110  the loop is the clock: there is no event to wait for
            await asyncio.sleep(0)
        await reader
        return came

    return asyncio.run(watch())


def test_each_token_comes_out_when_it_exists_plus_its_delivery() -> None:
    player, clock = player_and_clock()
    reception = player.submit(100, 4)

    came = deliveries(clock, reception)

    assert came == pytest.approx([0.112, 0.122, 0.132, 0.142])


def test_late_wake_ups_do_not_add_up() -> None:
    """Every wake-up is 3 ms late; the hundredth token is 3 ms late too, not 300."""
    player, clock = player_and_clock()
    reception = player.submit(100, 100)

    came = deliveries(clock, reception, late=0.003)

    due = 0.112 + 99 * 0.01
    assert due <= came[-1] <= due + 0.0031
    assert len(came) == 100


def test_early_wake_ups_do_not_add_up() -> None:
    """A timer rounded to milliseconds fires half a millisecond early each time; the hundredth token is as early, not 50 ms."""
    player, clock = player_and_clock()
    reception = player.submit(100, 100)

    came = deliveries(clock, reception, late=-0.0005)

    due = 0.112 + 99 * 0.01
    assert came[-1] == pytest.approx(due, abs=0.0006)


def test_a_wake_up_that_comes_very_late_plays_all_that_is_due() -> None:
    player, clock = player_and_clock()
    reception = player.submit(100, 10)

    clock.wake(late=5.0)

    assert asyncio.run(reception.take()) == 10
    assert reception.complete
    assert not clock.wake()


def test_withheld_output_comes_in_one_burst_and_ends_when_it_would_have() -> None:
    """A buffering hop: nothing for 45 ms after the first token, then all of it; the last token is not late."""
    player, clock = player_and_clock()
    player.withhold_seconds = 0.045
    reception = player.submit(100, 8)

    came = deliveries(clock, reception)

    assert came == pytest.approx([0.157] * 5 + [0.162, 0.172, 0.182])


def test_who_leaves_gets_nothing_more_and_frees_the_slot() -> None:
    player, clock = player_and_clock()
    reception = player.submit(100, 50)
    clock.wake()
    assert len(player.simulation.running) == 1

    player.abort(reception)

    assert player.simulation.running == []
    assert player.simulation.totals.aborted == 1
    while clock.wake():
        pass
    assert player.simulation.totals.finished == 0


def test_an_idle_player_asks_for_no_wake_up() -> None:
    player, clock = player_and_clock()
    reception = player.submit(10, 1)
    deliveries(clock, reception)

    assert not clock.wake()


def test_a_knob_turned_while_idle_takes_effect_for_requests_that_wait() -> None:
    """Without slots the player asks for no wake-up. When the slots come back, the waiting request starts at that
    instant."""
    player, clock = player_and_clock()
    player.adjust(slots=0)
    reception = player.submit(100, 1)
    assert not clock.wake()
    clock.now += 2.0

    player.adjust(slots=None)

    assert deliveries(clock, reception) == pytest.approx([0.112])
    assert reception.request.phases.queue_seconds == pytest.approx(2.0)
