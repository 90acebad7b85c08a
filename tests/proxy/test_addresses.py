"""Several addresses of one engine are tried beside each other, as RFC 8305 says, and what did not connect is tried last."""

import asyncio
import errno
import selectors
import socket
from typing import Any, cast

import pytest

from sidecar.proxy.addresses import ATTEMPT_DELAY_SECONDS, TRIED_LAST_SECONDS, Address, Remembered, first_connected


DELAY = ATTEMPT_DELAY_SECONDS
FOR_EVER = 1e6
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def four(last: int) -> Address:
    return (socket.AF_INET, socket.SOCK_STREAM, 6, (f"10.0.0.{last}", 8000))


def six(last: int) -> Address:
    return (socket.AF_INET6, socket.SOCK_STREAM, 6, (f"fd00::{last}", 8000, 0, 0))


def test_families_alternate_in_the_order_of_the_resolver() -> None:
    """RFC 8305 section 4; the first family is the resolver's choice."""
    found = [six(1), six(2), six(3), four(1)]

    assert Remembered().in_order(found, 0.0) == [six(1), four(1), six(2), six(3)]


def test_what_failed_comes_last_until_it_connects_or_some_time_has_passed() -> None:
    found = [four(1), four(2), four(3)]
    remembered = Remembered()
    remembered.failed(four(2), 10.0)
    remembered.failed(four(1), 11.0)

    assert remembered.in_order(found, 11.0) == [four(3), four(2), four(1)]
    assert remembered.in_order(found, 10.0 + TRIED_LAST_SECONDS) == [four(2), four(3), four(1)]
    remembered.connected(four(1))
    assert remembered.in_order(found, 11.0) == found


class Leaping(asyncio.SelectorEventLoop):
    """A loop whose clock leaps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Leaps(self))

    def time(self) -> float:
        return self.now


class _Leaps(selectors.SelectSelector):
    def __init__(self, loop: Leaping) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.now += timeout or 0.0
        return super().select(0)


class Socket:
    def __init__(self, last: int) -> None:
        self.last = last
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Race:
    """Attempts that take the seconds, and end as the plan says, for the addresses 0, 1, ..."""

    def __init__(self, *plan: tuple[float, OSError | None]) -> None:
        self.plan = plan
        self.began: list[tuple[int, float]] = []
        self.cancelled: list[int] = []
        self.sockets: list[Socket] = []
        self.failed: list[tuple[int, OSError | None]] = []

    async def attempt(self, address: Address) -> socket.socket:
        last = [four(each) for each in range(len(self.plan))].index(address)
        loop = asyncio.get_running_loop()
        self.began.append((last, loop.time()))
        seconds, error = self.plan[last]
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(last)
            raise
        if error is not None:
            raise error
        self.sockets.append(Socket(last))
        return cast("socket.socket", self.sockets[-1])

    async def run(self, until: float = FOR_EVER) -> int:
        addresses = [four(each) for each in range(len(self.plan))]

        def failed(address: Address, error: OSError | None) -> None:
            self.failed.append((addresses.index(address), error))

        try:
            address, sock = await first_connected(addresses, self.attempt, failed, until)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
        assert not cast("Any", sock).closed
        return addresses.index(address)

    @property
    def still_open(self) -> list[int]:
        return [each.last for each in self.sockets if not each.closed]


def play(race: Race, until: float = FOR_EVER) -> int:
    with asyncio.Runner(loop_factory=Leaping) as runner:
        return runner.run(race.run(until))


@pytest.mark.parametrize(
    ("plan", "winner", "began", "failed"),
    [
        pytest.param([(0.01, None), (0.0, None)], 0, [(0, 0.0)], [], id="the first connects: the second is not tried"),
        pytest.param(
            [(FOR_EVER, None), (0.01, None)], 1, [(0, 0.0), (1, DELAY)], [(0, None)], id="a black hole costs one delay"
        ),
        pytest.param(
            [(0.01, REFUSED), (0.01, None)], 1, [(0, 0.0), (1, 0.01)], [(0, REFUSED)], id="a refusal costs no delay"
        ),
        pytest.param(
            [(DELAY + 0.02, None), (1.0, None)], 0, [(0, 0.0), (1, DELAY)], [(1, None)], id="the earlier one goes on"
        ),
        pytest.param(
            [(2 * DELAY, None), (DELAY, None)],
            0,
            [(0, 0.0), (1, DELAY)],
            [(1, None)],
            id="both at once: the earlier one",
        ),
        pytest.param(
            [(FOR_EVER, None), (FOR_EVER, None), (0.0, None)],
            2,
            [(0, 0.0), (1, DELAY), (2, 2 * DELAY)],
            [(0, None), (1, None)],
            id="two black holes",
        ),
    ],
)
def test_the_first_connection_wins_and_all_others_are_closed(
    plan: list[tuple[float, OSError | None]],
    winner: int,
    began: list[tuple[int, float]],
    failed: list[tuple[int, OSError | None]],
) -> None:
    race = Race(*plan)

    assert (play(race), race.began, race.failed, race.still_open) == (winner, began, failed, [winner])
    connected = {each.last for each in race.sockets}
    assert {last for last, _ in began} == connected | set(race.cancelled) | {last for last, why in failed if why}


@pytest.mark.parametrize(
    ("plan", "until", "tried", "raised"),
    [
        ([(0.0, REFUSED), (0.1, REFUSED)], FOR_EVER, 2, ConnectionRefusedError),
        ([(0.0, REFUSED), (0.6, TimeoutError())], FOR_EVER, 2, TimeoutError),
        ([(0.4, TimeoutError()), (0.15, TimeoutError()), (0.0, REFUSED)], 0.4, 2, TimeoutError),
    ],
    ids=["all refuse", "one refuses and one is silent", "no attempt begins after the time"],
)
def test_if_none_connects_the_last_failure_is_told(
    plan: list[tuple[float, OSError | None]], until: float, tried: int, raised: type[OSError]
) -> None:
    race = Race(*plan)

    with pytest.raises(raised):
        play(race, until)

    assert (len(race.began), len(race.failed), race.sockets) == (tried, tried, [])


def test_a_client_that_leaves_ends_all_attempts() -> None:
    race = Race((FOR_EVER, None), (FOR_EVER, None), (FOR_EVER, None))

    async def leaves() -> None:
        running = asyncio.create_task(race.run())
        await asyncio.sleep(1.5 * DELAY)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with asyncio.Runner(loop_factory=Leaping) as runner:
        runner.run(leaves())

    assert (race.cancelled, race.still_open) == ([0, 1], [])
