"""The relay on real sockets: problems that only a kernel can cause."""

import asyncio
from collections.abc import Callable

import pytest

from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.support.origin import Origin, Visit, answering
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_an_expectation_is_answered_here_and_the_engine_gets_the_whole_request() -> None:
    """The client holds its body until the 100, as curl does; the engine does not get the expectation."""

    async def scenario() -> None:
        async with Origin(answering(OK)).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"body")
            assert await client.until(b"ok") == OK
            await client.close()
            assert origin.heads == [b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\n"]
            assert origin.bodies == [b"body"]

    play(scenario())


async def no_and_stay(visit: Visit) -> None:
    while True:
        head = await visit.head()
        visit.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
        try:
            await visit.reader.readexactly(int(head.rpartition(b": ")[2]))
        except asyncio.IncompleteReadError:
            return


async def no_and_go(visit: Visit) -> None:
    await visit.head()
    visit.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
    await visit.flush()
    visit.writer.close()  # with the upload unread: the kernel sends a reset behind the answer


async def no_until_close_and_go(visit: Visit) -> None:
    await visit.head()
    visit.send(b"HTTP/1.1 413 Content Too Large\r\n\r\nno\n")
    await visit.flush()
    visit.writer.write_eof()
    await visit.until_left()


@pytest.mark.parametrize("script", [no_and_stay, no_and_go, no_until_close_and_go])
@pytest.mark.parametrize("size", [200_000, 5_000_000])
def test_an_early_answer_reaches_a_client_that_is_still_sending(script: Callable[[Visit], object], size: int) -> None:
    """The engine refuses an upload without reading it: the client gets the 413, not a reset, every time."""

    async def scenario() -> None:
        async with Origin(script).listening() as origin, running(origin.port) as relay:  # type: ignore[arg-type]  # a script
            for _ in range(10):
                client = await RawClient.connect(relay.port)
                answer = asyncio.create_task(client.until(b"no\n"))
                client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % size)
                for _ in range(size // 100_000):
                    client.send(b"x" * 100_000)
                    await asyncio.sleep(0)
                assert (await answer).startswith(b"HTTP/1.1 413 Content Too Large\r\n")
                client.leave()
            await relay.settled()
            assert {end[0] for end in relay.ends} == {Outcome.CLIENT_ERROR}

    play(scenario())


async def echo(visit: Visit) -> None:
    while True:
        await visit.head()
        visit.send(CHUNKED)
        async for piece in visit.chunks():
            visit.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await visit.flush()
        visit.send(b"0\r\n\r\n")


def test_an_engine_may_answer_while_it_is_still_being_asked() -> None:
    """Full duplex: the client's bytes come back before it has sent the rest."""

    async def scenario() -> None:
        async with Origin(echo).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"4\r\nping\r\n")
            head = await client.until(b"\r\n\r\n")
            assert b"Connection: close\r\n" in head
            assert await client.until(b"ping\r\n") == b"4\r\nping\r\n"
            client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (300_000, b"y" * 300_000))
            rest, reset = await client.rest()
            assert not reset
            assert rest.count(b"y") == 300_000
            assert rest.endswith(b"\r\n0\r\n\r\n")
            await client.close()
            assert [end[0] for end in relay.ends] == [Outcome.OK]

    play(scenario())


def cut(answer: bytes, *, reset: bool) -> Callable[[Visit], object]:
    async def script(visit: Visit) -> None:
        await visit.request()
        visit.send(answer)
        await visit.flush()
        await asyncio.sleep(0.02)  # or a reset overtakes the bytes before it
        if reset:
            visit.reset()

    return script


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "reset"])
@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", b"\r\n\r\nhello"),
        (CHUNKED + b"5\r\nhello\r\n", b"\r\n\r\n5\r\nhello\r\n"),
        (CHUNKED + b"5\r\nhel", b"\r\n\r\n3\r\nhel\r\n"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", b"\r\n\r\n5\r\nhello\r\n"),
    ],
)
def test_a_message_cut_short_by_the_engine_is_cut_short_for_the_client(answer: bytes, seen: bytes, reset: bool) -> None:
    """Bytes that came go out, the end does not, and the connection closes."""

    async def scenario() -> None:
        async with (
            Origin(cut(answer, reset=reset)).listening() as origin,  # type: ignore[arg-type]  # a script
            running(origin.port) as relay,
        ):
            client = await RawClient.connect(relay.port)
            client.send(GET)
            answer_seen, _ = await client.rest()
            assert answer_seen.endswith(seen)
            await client.close()
            assert [end[0] for end in relay.ends] == [Outcome.ENGINE_TRUNCATED]

    play(scenario())


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "reset"])
def test_a_body_until_close_ends_for_the_client_as_it_ended_for_us(reset: bool) -> None:
    """A close is its end, a reset is not: there is no other way to tell the client."""

    async def scenario() -> None:
        script = cut(b"HTTP/1.1 200 OK\r\n\r\nhello", reset=reset)
        async with (
            Origin(script).listening() as origin,  # type: ignore[arg-type]  # a script
            running(origin.port) as relay,
        ):
            client = await RawClient.connect(relay.port)
            client.send(GET)
            _, was_reset = await client.rest()
            assert was_reset == reset
            client.leave()
            assert [end[0] for end in relay.ends] == [Outcome.ENGINE_TRUNCATED if reset else Outcome.OK]

    play(scenario())


def test_no_listener() -> None:
    """503 at once, with the reason in a header and the time of the next try."""

    async def scenario() -> None:
        async with Origin(answering(OK)).listening() as origin:
            pass
        async with running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(GET)
            answer, reset = await client.rest()
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"x-sidecar-error: engine_connect_failed\r\nretry-after: 5\r\n" in answer
            assert not reset
            assert relay.ends == [(Outcome.ENGINE_UNREACHABLE, Failure.ENGINE_REFUSED, None)]
            await client.close()

    play(scenario())


async def says_nothing(visit: Visit) -> None:
    await visit.request()
    await visit.until_left()


async def begins_and_stops(visit: Visit) -> None:
    await visit.request()
    visit.send(CHUNKED + b"5\r\nhello\r\n")
    await visit.until_left()


def test_an_engine_that_is_silent_for_too_long_is_left_and_told_so() -> None:
    """504 before the first byte, a cut stream after it; the engine sees the connection close."""

    async def scenario() -> None:
        for script, answered in ((says_nothing, b"HTTP/1.1 504 "), (begins_and_stops, b"HTTP/1.1 200 OK")):
            async with (
                Origin(script).listening() as origin,
                running(origin.port, first_byte_timeout_seconds=0.05, gap_timeout_seconds=0.05) as relay,
            ):
                client = await RawClient.connect(relay.port)
                client.send(GET)
                answer, _ = await client.rest()
                assert answer.startswith(answered)
                assert not answer.endswith(b"0\r\n\r\n")
                assert [end[0] for end in relay.ends] == [Outcome.ENGINE_TIMEOUT]
                await client.close()

    play(scenario())


def test_a_websocket_is_a_pair_of_pipes_after_the_engines_own_101() -> None:
    """Early bytes of both sides, large frames both ways at once, and an end that reaches the other side."""
    asked = b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    got: list[bytes] = []
    heard, left = asyncio.Event(), asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.head()
        visit.send(agreed + b"early engine" + b"e" * 500_000)
        got.append(await visit.reader.readexactly(12 + 500_000))
        heard.set()
        await visit.until_left()
        left.set()

    async def scenario() -> None:
        async with Origin(script).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(asked + b"early client" + b"c" * 500_000)
            assert await client.until(b"\r\n\r\n") == agreed
            assert await client.reader.readexactly(12 + 500_000) == b"early engine" + b"e" * 500_000
            await heard.wait()
            await client.close()
            await left.wait()
            assert got == [b"early client" + b"c" * 500_000]
            assert [end[0] for end in relay.ends] == [Outcome.OK]

    play(scenario())


def test_a_slow_client_holds_back_its_own_stream_and_costs_a_fixed_buffer() -> None:
    """64 MiB wait in the engine, not in the sidecar; others are served; then the slow client gets every byte."""
    size = 64 << 20  # more than the kernel holds between the two: tcp_rmem's greatest value is 32 MiB on some machines
    handed_over = 0

    async def script(visit: Visit) -> None:
        nonlocal handed_over
        while True:
            head, _ = await visit.request()
            if b"/large" not in head:
                visit.send(OK)
                continue
            visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size >> 16):
                visit.send(b"z" * 65536)
                await visit.flush()
                handed_over += 65536

    async def scenario() -> None:
        async with Origin(script).listening() as origin, running(origin.port) as relay:
            slow = await RawClient.connect(relay.port, receive_buffer_bytes=65536)
            slow.send(GET.replace(b"/health", b"/large"))
            before = -1
            while before != handed_over or not handed_over:
                before = handed_over
                await asyncio.sleep(0.1)
            held = max(connection.unsent_bytes for connection in relay.traffic._connections)
            assert held <= 65536 + 262_144
            assert handed_over < size

            other = await RawClient.connect(relay.port)
            for _ in range(20):
                other.send(GET)
                assert await other.until(b"ok") == OK
            await other.close()

            await slow.until(b"\r\n\r\n")
            assert await slow.reader.readexactly(size) == b"z" * size
            await slow.close()
            await relay.settled()
            assert {end[0] for end in relay.ends} == {Outcome.OK}

    play(scenario())


@pytest.mark.long
def test_posts_at_the_edge_of_the_engines_patience_are_sent_once_and_answered() -> None:
    """The engine closes connections that idle for 50 ms; POSTs come after 40 to 60: none is sent twice, none fails."""

    async def script(visit: Visit) -> None:
        while True:
            try:
                async with asyncio.timeout(0.05):
                    await visit.request()
            except TimeoutError:
                return
            visit.send(OK)

    async def scenario() -> None:
        async with Origin(script).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            for index in range(40):
                client.send(b"POST /%d HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody" % index)
                assert await client.until(b"ok") == OK
                # The first pause is well past the edge, so that the limit is learned; then around it, and sometimes 0.
                await asyncio.sleep(0.1 if index == 0 else 0.0 if index % 4 == 0 else 0.04 + index % 21 / 1000)
            await client.close()
            assert len(origin.bodies) == 40
            assert len(set(origin.heads)) == 40
            assert origin.visits < 40

    play(scenario())
