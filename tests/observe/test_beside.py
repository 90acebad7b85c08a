"""Compressed bodies are decoded two at once, within the budget of bytes held, and none keeps its request for long."""

import asyncio
import gzip
from functools import partial

import pytest

from sidecar.budgets.budgets import Budget, Kind
from sidecar.classify.inflate import MOST_INFLATED_BYTES, bytes_for
from sidecar.metrics.vocabulary import BodyUnread
from sidecar.observe.beside import DECODED_AT_ONCE, MOST_BODIES_WAITING, PLACE_WAIT_SECONDS, Beside, Decoding, Threads
from tests.support.threads import HeldThreads


BODY = gzip.compress(b"a prompt")
NEEDED = bytes_for(b"gzip", len(BODY)) or 0


class Desk:
    """Bodies on their way, under a clock of the test's own."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.held = Budget(Kind.HELD_BYTES, limit)
        self.dropped: list[BodyUnread] = []
        self.beside = Beside(self.held, self.dropped.append)
        self.beside.threads = self.threads = HeldThreads()
        self.woken: list[Decoding] = []

    def comes(self, body: bytes = BODY, coding: bytes = b"gzip") -> Decoding:
        decoding = self.beside.decode(body, coding)
        if decoding.waits:
            decoding.on_end(lambda: self.woken.append(decoding))
        return decoding


def test_two_are_decoded_at_once_and_each_keeps_its_place_until_it_is_read() -> None:
    """The bytes that came out are held while they are read: else two hundred of them would be."""
    desk = Desk()
    bodies = [desk.comes() for _ in range(3)]
    assert (len(desk.threads.started), desk.held.used) == (2, 2 * NEEDED)

    desk.threads.work()
    assert (bodies[0].plain, desk.woken) == (b"a prompt", [bodies[0]])
    assert (len(desk.threads.started), desk.held.used) == (1, NEEDED + len(b"a prompt"))

    desk.beside.over(bodies[0])
    desk.beside.over(bodies[0])
    assert (len(desk.threads.started), desk.held.used) == (2, 2 * NEEDED)

    desk.threads.work()
    desk.threads.work()
    for body in bodies:
        desk.beside.over(body)
    assert (desk.held.used, desk.dropped) == (0, [])


def test_the_65th_that_waits_is_not_read_and_no_one_waits_longer_than_50_ms() -> None:
    desk = Desk()
    bodies = [desk.comes() for _ in range(DECODED_AT_ONCE + MOST_BODIES_WAITING)]
    assert all(body.waits for body in bodies)

    one_more = desk.comes()
    assert (one_more.waits, one_more.plain, desk.dropped) == (False, None, [BodyUnread.NO_PLACE])

    desk.threads.pass_seconds(PLACE_WAIT_SECONDS)
    assert desk.woken == bodies[DECODED_AT_ONCE:]
    assert desk.dropped == [BodyUnread.NO_PLACE] * (1 + MOST_BODIES_WAITING)
    assert (desk.held.used, desk.held.exceeded) == (2 * NEEDED, 0)


def test_one_that_began_in_time_is_not_given_up() -> None:
    desk = Desk()
    _, _, late = [desk.comes() for _ in range(3)]
    desk.threads.pass_seconds(PLACE_WAIT_SECONDS * 0.9)
    desk.threads.work()
    desk.beside.over(desk.woken[0])
    desk.threads.pass_seconds(PLACE_WAIT_SECONDS)
    desk.threads.work()
    desk.threads.work()

    assert (late.plain, desk.dropped) == (b"a prompt", [])


def test_no_decoder_begins_before_its_memory_is_there() -> None:
    """The bytes that other requests hold are counted too."""
    desk = Desk(limit=NEEDED + 1000)
    desk.held.used = 2000
    large, small = desk.comes(), desk.comes(b"", b"no coding")
    assert (desk.threads.started, small.waits) == ([], False)

    desk.threads.pass_seconds(PLACE_WAIT_SECONDS)
    assert (large.waits, desk.dropped) == (False, [BodyUnread.UNREADABLE, BodyUnread.NO_MEMORY])
    assert (desk.held.used, desk.held.exceeded) == (2000, 1)

    again = desk.comes()
    desk.held.used = 0
    desk.threads.pass_seconds(PLACE_WAIT_SECONDS)
    desk.threads.work()
    assert again.plain == b"a prompt"


def test_what_can_never_have_its_memory_does_not_wait() -> None:
    desk = Desk(limit=NEEDED - 1)

    assert (desk.comes().waits, desk.dropped, desk.held.exceeded) == (False, [BodyUnread.NO_MEMORY], 1)


@pytest.mark.parametrize("waiting", [0, 2], ids=["decoded", "waiting"])
def test_a_client_that_leaves_frees_its_place(waiting: int) -> None:
    """At once if it waits; else as soon as its thread has seen it. Its request is not woken."""
    desk = Desk()
    bodies = [desk.comes() for _ in range(3)]
    desk.beside.over(bodies[waiting])
    assert desk.held.used == 2 * NEEDED

    while desk.threads.started:
        desk.threads.work()
        for body in desk.woken:
            desk.beside.over(body)
    assert bodies[waiting].plain is None
    assert bodies[waiting] not in desk.woken
    assert (desk.held.used, desk.dropped, len(desk.woken)) == (0, [], 2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"no gzip", BodyUnread.UNREADABLE, id="broken"),
        pytest.param(gzip.compress(bytes(MOST_INFLATED_BYTES + 1)), BodyUnread.TOO_LONG, id="too long"),
    ],
)
def test_what_is_not_read_holds_nothing(body: bytes, reason: BodyUnread) -> None:
    desk = Desk()
    decoding = desk.comes(body)
    desk.threads.work()

    assert (decoding.plain, decoding.waits, desk.woken) == (None, False, [decoding])
    assert (desk.dropped, desk.held.used) == ([reason], 0)


def test_threads_call_back_in_the_loop() -> None:
    """Their number is that of the pool; each result comes to the code that asked for it."""

    async def ended() -> list[bytes | None]:
        loop, threads, found = asyncio.get_running_loop(), Threads(), list[bytes | None]()
        over = loop.create_future()

        def done(told: bytes | None) -> None:
            assert asyncio.get_running_loop() is loop
            found.append(told)
            if len(found) == 5:
                threads.later(0.0, lambda: over.set_result(None))

        for number in range(5):
            threads.start(partial(b"%d".__mod__, number), done)
        await over
        return found

    assert sorted(filter(None, asyncio.run(ended()))) == [b"0", b"1", b"2", b"3", b"4"]
