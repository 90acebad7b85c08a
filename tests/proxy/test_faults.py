"""For any mixture of faults: every request ends exactly once, nothing is left behind, and bytes are never wrong.

Measuring is one of the things that can fail: an exception in an observer must not affect traffic.
"""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import RequestHead, ResponseHead
from sidecar.proxy.observer import Cutter, End, Instead, Mark, Observer, Unobserved
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS, Road
from tests.support.messages import read
from tests.support.origin import Origin, RelayLeftError, Visit
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody"


class Broken(Exception):  # noqa: N818  it is what a bug in an observer would raise
    pass


class Throwing(Unobserved):
    """An observer that raises in one hook."""

    def __init__(self, hook: str, *, cuts: bool) -> None:
        self.wants_body = True
        self.closed: list[Outcome] = []
        self._cuts = cuts
        self._hook = hook

    def _maybe(self, hook: str) -> None:
        if hook == self._hook:
            raise Broken(hook)

    def request_body(self, body: bytes, *, whole: bool) -> Instead:
        self._maybe("request_body")
        return super().request_body(body, whole=whole)

    def mark(self, mark: Mark, at: float) -> None:
        del at
        self._maybe(mark.value)

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        del at, head
        self._maybe("head")
        return self if self._cuts else None

    def data(self, at: float, data: bytes) -> None:
        del at, data
        self._maybe("data")

    def cut(self, data: bytes) -> bytes:
        self._maybe("cut")
        return data

    def rest(self) -> bytes:
        self._maybe("rest")
        return b""

    def close(self, at: float, end: End) -> None:
        del at
        self.closed.append(end.outcome)
        self._maybe("close")


MARKS = [mark.value for mark in Mark if mark not in (Mark.CONNECTING, Mark.CONNECTED)]
HOOKS = ["request_body", "head", "data", "cut", "rest", *MARKS, "close"]
CUTTING = {"cut", "rest"}


def slow_scenario(road: Road) -> tuple[bytes, bytes]:
    """A streamed answer to a client that reads slowly: (bytes the engine got, bytes the client got)."""
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.send(STREAM + b"5dc\r\n" + b"x" * 1500 + b"\r\n")
    client.take(None)
    road.engine.send(b"5\r\nhello\r\n")
    road.engine.send(b"0\r\n\r\n")
    return bytes(road.engine.taken), bytes(client.taken)


@pytest.mark.parametrize("hook", HOOKS)
def test_an_observer_that_throws_is_not_felt(hook: str) -> None:
    """Engine and client get the same bytes as without an observer; the failure is counted, the request closed once."""
    unobserved = slow_scenario(Road(observe=lambda _head: Unobserved()))
    throwing: list[Throwing] = []

    def observe(_head: RequestHead) -> Observer:
        throwing.append(Throwing(hook, cuts=hook in CUTTING))
        return throwing[-1]

    road = Road(observe=observe)
    assert slow_scenario(road) == unobserved
    assert set(road.dropped) == {"observer_error"}
    assert [seen.closed for seen in throwing] == [[Outcome.OK]]
    assert road.in_flight == 0


class Holding(Throwing):
    """Holds each piece back until the next one comes, and raises in one hook."""

    _held = b""

    def cut(self, data: bytes) -> bytes:
        now, self._held = self._held, data
        return now

    def rest(self) -> bytes:
        rest, self._held = self._held, b""
        return rest


@pytest.mark.parametrize("hook", ["data", "ended", "close"])
def test_what_is_held_back_keeps_its_place_when_another_hook_throws(hook: str) -> None:
    """The cutter is not called any more: the bytes that it held go out before later ones."""
    road = Road(observe=lambda _head: Holding(hook, cuts=True))
    client = road.client()
    client.send(POST)

    road.engine.send(STREAM)
    for piece in (b"one ", b"two ", b"three"):
        road.engine.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    road.engine.send(b"0\r\n\r\n")

    assert read(bytes(client.taken))[2] == b"one two three"
    assert road.dropped == ["observer_error"]


def test_an_observer_that_throws_when_a_connection_opens_is_not_felt() -> None:
    """This is the one hook called from a task: its failure must end neither the task nor the request."""

    async def script(visit: Visit) -> None:
        await visit.request()
        visit.send(OK)
        await visit.flush()

    async def scenario() -> None:
        async with (
            Origin(script).listening() as origin,
            running(origin.port, observe=lambda _head: Throwing("connected", cuts=False)) as relay,
        ):
            client = await RawClient.connect(relay.port)
            client.send(POST)
            assert await client.until(b"ok") == OK
            await client.close()
            assert relay.dropped == ["observer_error"]

    play(scenario())


def test_an_unforeseen_failure_ends_the_request_too() -> None:
    """Connecting runs in a task: an exception other than OSError must not leave the client without an answer."""

    async def scenario() -> None:
        async with running(1) as relay:
            relay.pool.host = "x" * 64  # too long a label for a host name: UnicodeError
            client = await RawClient.connect(relay.port)
            client.send(POST)
            answer, _ = await client.rest()
            assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
            await client.close()
            assert [end[1] for end in relay.ends] == [Failure.INTERNAL]

    play(scenario())


def test_a_request_that_cannot_be_observed_is_served() -> None:
    """Even a failure to make an observer must not cost a request."""

    def observe(_head: RequestHead) -> Observer:
        raise Broken

    road = Road(observe=observe)
    client = road.client()
    client.send(POST)
    road.engine.send(OK)

    assert client.taken == OK
    assert road.dropped == ["observer_error"]


@pytest.mark.parametrize("when", ["upload", "connecting-engine-gone", "waiting", "interim", "streaming", "flushing"])
@pytest.mark.parametrize("who", ["client", "client-reset", "engine", "engine-reset", "abandon", "both"])
def test_every_end_at_every_stage_is_one_end(who: str, when: str) -> None:
    """Any side may leave at any stage: one outcome, nothing in flight, the other connection gone or given back."""
    road = Road(LIMITS)
    client = road.client()
    stages = {
        "upload": [POST[:-2]],
        "connecting-engine-gone": [POST[:-4]],
        "waiting": [POST],
        "interim": [POST, b"HTTP/1.1 103 Early Hints\r\n\r\n"],
        "streaming": [POST, STREAM + b"5\r\nhello\r\n"],
        "flushing": [POST, b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000],
    }
    sent, *answered = stages[when]
    client.send(sent)
    client.room = 0 if when == "flushing" else None
    for answer in answered:
        road.engine.send(answer)

    engine = road.engine if road.pool.sockets else None
    if who in ("client", "both"):
        client.end()
    if who == "client-reset":
        client.lose(ConnectionResetError())
    if who in ("engine", "both") and engine is not None:
        engine.end()
    if who == "engine-reset" and engine is not None:
        engine.lose(ConnectionResetError())
    if who == "abandon":
        road.traffic.abandon()
    client.take(None)
    client.lose()

    assert road.in_flight == 0
    assert len(road.outcomes) == 1
    assert engine is None or engine.lost or when == "flushing"


class GoesAway(Exception):  # noqa: N818  the engine closes its side
    pass


async def streams(visit: Visit, choice: random.Random) -> None:
    visit.send(STREAM)
    for _ in range(choice.randrange(1, 8)):
        visit.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        await visit.flush()
        await asyncio.sleep(choice.choice([0, 0, 0.002]))


async def completes(visit: Visit, choice: random.Random) -> None:
    await streams(visit, choice)
    visit.send(b"0\r\n\r\n")


async def cuts(visit: Visit, choice: random.Random) -> None:
    await streams(visit, choice)
    raise GoesAway


async def resets(visit: Visit, choice: random.Random) -> None:
    await streams(visit, choice)
    visit.reset()
    raise GoesAway


async def hangs(visit: Visit, _choice: random.Random) -> None:
    await visit.until_left()
    raise RelayLeftError


async def ends_by_closing(visit: Visit, _choice: random.Random) -> None:
    visit.send(b"HTTP/1.0 200 OK\r\n\r\nuntil close")
    raise GoesAway


async def goes_away(_visit: Visit, _choice: random.Random) -> None:
    raise GoesAway


def says(data: bytes) -> Callable[[Visit, random.Random], Awaitable[None]]:
    async def say(visit: Visit, _choice: random.Random) -> None:
        visit.send(data)

    return say


FAULTS = [
    *(says(OK), says(OK), completes, cuts, resets, hangs, ends_by_closing, goes_away),
    says(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK),
    says(b"\x16\x03\x01 this is no HTTP\r\n\r\n"),
    says(b"HTTP/1.1 204 No Content\r\n\r\nbut here is some" + OK),
]


async def faulty(visit: Visit, choice: random.Random) -> None:
    """An engine that answers with random faults."""
    with suppress(GoesAway):
        while True:
            head = await visit.head()
            if choice.random() < 0.1:
                visit.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")  # before it read the upload
                raise GoesAway
            await visit.reader.readexactly(int(head.rpartition(b": ")[2]))
            await choice.choice(FAULTS)(visit, choice)


async def hurried(port: int, choice: random.Random, number: int) -> None:
    """A client that may leave at any time."""
    client = await RawClient.connect(port)
    body = b"b" * choice.choice([4, 4, 3000, 200_000])
    leaves = choice.choice(["never", "never", "upload", "waiting", "streaming", "at-once"])
    request = b"POST /%d HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (number, len(body), body)
    if leaves == "at-once":
        client.send(request[:30])
    elif leaves == "upload":
        client.send(request[:-2])
        await asyncio.sleep(choice.choice([0, 0.002]))
    else:
        client.send(request)
        await asyncio.sleep(0)
        if leaves != "waiting":
            try:
                async with asyncio.timeout(0.02 if leaves == "streaming" else 0.1):
                    await client.until(b"\r\n\r\n")
                    await client.rest()
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                pass
    client.leave()


@pytest.mark.parametrize("seed", range(4))
def test_after_any_mixture_of_faults_the_books_balance(seed: int) -> None:
    """Clients leave, engines refuse, hang, cut, lie and answer early, all at once: one outcome each, nothing left.

    (`running` checks, as it ends, all that must hold afterwards.)
    """

    async def scenario() -> None:
        choice = random.Random(seed)
        numbers = itertools.count()

        async def script(visit: Visit) -> None:
            await faulty(visit, choice)

        origin = Origin(script)
        async with origin.listening(), running(origin.port, max_in_flight=8, first_byte_timeout_seconds=0.2) as relay:
            for _ in range(6):
                await asyncio.gather(*(hurried(relay.port, choice, next(numbers)) for _ in range(40)))
            refused = Origin(script)
            async with refused.listening():
                pass
            relay.pool.port = refused.port  # nothing listens there any more
            await asyncio.gather(*(hurried(relay.port, choice, next(numbers)) for _ in range(10)))
            await relay.settled()
            outcomes = {end[0] for end in relay.ends}
            assert len(relay.ends) == len(relay.recordings)
            assert len(outcomes) > 3, "a mixture, not one fault"
            for head in set(origin.heads):
                assert origin.heads.count(head) == 1, "a POST was sent twice"

    play(scenario())
