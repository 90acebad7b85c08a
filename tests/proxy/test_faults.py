"""For any mixture of faults: every request ends exactly once, nothing is left behind, and bytes are never wrong."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.read_limit import TURN_BYTES
from sidecar.proxy.relay import Exchange
from tests.proxy.sample_messages import OK, POST
from tests.support.memory import LIMITS, Road
from tests.support.origin import Origin, RelayLeftError, Visit
from tests.support.proxy import RawClient, Relay, running
from tests.support.scenario_loop import play


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def ended_by_a_defect(relay: Relay) -> None:
    """A request is answered 500, and its failure is the sidecar's own."""
    client = await RawClient.connect(relay.port)
    client.send(POST)
    answer, _ = await client.rest()
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    await client.close()
    assert [end[1] for end in relay.ends] == [Failure.INTERNAL]


def test_an_unforeseen_failure_ends_the_request_too() -> None:
    """Connecting runs in a task: an exception other than OSError must not leave the client without an answer."""

    async def scenario() -> None:
        async with running(1) as relay:
            relay.pool.host = "x" * 64  # too long a label for a host name: UnicodeError
            await ended_by_a_defect(relay)

    play(scenario())


@pytest.mark.reaches_in
@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_an_unforeseen_failure_of_sending_ends_the_request_too(error: type[Exception]) -> None:
    """The connection was open already: it is closed, and the engine is not blamed for it."""

    def write(_data: bytes) -> None:
        raise error

    async def script(visit: Visit) -> None:
        await visit.until_left()

    async def scenario() -> None:
        origin = Origin(script)
        async with origin.listening(), running(origin.port) as relay:
            connect = relay.pool.connect

            async def connected(timeout_seconds: float) -> EngineConnection:
                engine = await connect(timeout_seconds)
                engine.__dict__["write"] = write
                return engine

            relay.pool.__dict__["connect"] = connected
            await ended_by_a_defect(relay)
            assert relay.pool.open_connections == 0

    play(scenario())


@pytest.mark.reaches_in
@pytest.mark.parametrize("size", [4, 2 * TURN_BYTES], ids=["as it comes", "in turns"])
@pytest.mark.parametrize("method", ["client_body", "client_end", "engine_head", "engine_read"])
def test_an_unforeseen_failure_of_reading_is_neither_the_clients_nor_the_engines(
    method: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever side was read, within a call of the parser or after it: the request failed in the sidecar.

    Others are served.
    """
    read = getattr(Exchange, method)

    def fails(exchange: Exchange, *arguments: object, **options: object) -> None:
        if exchange.head.target != b"/well":
            raise RuntimeError("a defect of the sidecar")
        read(exchange, *arguments, **options)

    async def script(visit: Visit) -> None:
        while True:
            await visit.request()
            visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)

    async def scenario() -> None:
        origin = Origin(script)
        async with origin.listening(), running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(b"POST /ill HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await client.rest()
            client.leave()
            well = await RawClient.connect(relay.port)
            well.send(b"POST /well HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody")
            assert (await well.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            await well.reader.readexactly(size)
            await well.close()
            await relay.settled()
            assert [end[1] for end in relay.ends] == [Failure.INTERNAL, None]
            assert [str(context["exception"]) for context in relay.loop_errors] == ["a defect of the sidecar"]
            relay.loop_errors.clear()

    monkeypatch.setattr(Exchange, method, fails)
    play(scenario())


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


@pytest.mark.long
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
