"""A client that leaves frees the engine at once, in any phase; and every request ends in exactly one outcome.

The tests check order and not time: in memory, the engine's connection is closed within the callback that reports that
the client is gone; on sockets, a simulated engine is frozen in the tested phase (no slots, or hung), so that only the
abort can change its state. `make bounds` measures the time in milliseconds.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from sidecar.ledger.account import Account
from sidecar.timeline.outcome import Outcome, Stage
from tests.support.client import Answer, Connection, post
from tests.support.road import Road, road_to
from tests.support.scenario_loop import play
from tests.support.walk import Walk


PATIENCE_SECONDS = 30.0
MODEL = SMALL_CHAT.model

# --- in memory: nothing comes between the client's leaving and the engine's release ---------------------------------------

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
BODY = b'{"model":"tiny","prompt":"abc","stream":true}'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
COMMENT = b": still prefilling\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("how", ["end", "lose"])
@pytest.mark.parametrize(
    ("sent", "answered", "stage"),
    [
        pytest.param(HEAD % 5000 + b"x" * 2000, b"", Stage.UPLOAD, id="upload"),
        pytest.param(HEAD % len(BODY) + BODY, b"", Stage.WAITING, id="queue"),
        pytest.param(HEAD % len(BODY) + BODY, STREAM + chunked(COMMENT), Stage.WAITING, id="prefill"),
        pytest.param(HEAD % len(BODY) + BODY, STREAM + chunked(TOKEN), Stage.STREAMING, id="decode"),
    ],
)
def test_the_engine_is_released_before_anything_is_written_down(
    sent: bytes, answered: bytes, stage: Stage, how: str
) -> None:
    """The engine's connection is closed before the account of the cancelled request is made."""
    walk = Walk()
    seen: list[tuple[bool, Account]] = []
    walk.settlement.log = lambda account: seen.append((walk.engine.reset, account))
    client = walk.client()
    client.send(sent)
    walk.engine.send(answered)

    getattr(client, how)()

    ((released, account),) = seen
    assert released
    assert (account.outcome, account.cancelled_in) == (Outcome.CLIENT_CANCELLED, stage)
    assert walk.value("llm_client_cancels_total", stage=stage.value) == 1
    assert walk.value("llm_requests_in_flight") == 0


# --- on sockets: a frozen engine has no request left -----------------------------------------------------------------------


@asynccontextmanager
async def engine_and_road() -> AsyncIterator[tuple[SimulatedEngine, Road]]:
    async with (
        SimulatedEngine(SMALL_CHAT) as engine,
        road_to(engine.url, [MODEL], proxy={"look_in_bytes": 4096}) as road,
    ):
        yield engine, road


async def until(true: Callable[[], bool]) -> None:
    """Return once the condition is true; the caller limits the wait."""
    while not true():  # noqa: ASYNC110  a simulation has no event for each of its states
        await asyncio.sleep(0.001)


async def all_gone(engine: SimulatedEngine, road: Road) -> None:
    """Return once the engine has no request, and no connection to it is open."""

    def gone() -> bool:
        simulation = engine.simulation
        return not simulation.running and not simulation.waiting and road.pool.open_connections == 0

    await until(gone)


def question(*, stream: bool = True) -> bytes:
    return post("/v1/completions", {"model": MODEL, "prompt": "abc " * 800, "max_tokens": 5000, "stream": stream})


def leaves_scenario(leave: Callable[[Connection], None], stage: str) -> tuple[list[Account], int, int]:
    """(accounts, requests that the simulation saw aborted, tokens made after the client had left)."""

    async def scenario() -> tuple[list[Account], int, int]:
        async with engine_and_road() as (engine, road):
            simulation = engine.simulation
            client = await Connection.open(road.port)
            if stage == "upload":
                client.write(post("/v1/completions", b"x" * 200_000)[:100_000])
                await until(lambda: road.pool.open_connections == 1)
            elif stage == "queue":
                engine.adjust(slots=0)
                client.write(question())
                await until(lambda: len(simulation.waiting) == 1)
            elif stage == "prefill":
                engine.adjust(hung=True)
                client.write(question())
                await until(lambda: len(simulation.waiting) == 1)
                engine.adjust(hung=False)  # the step is planned: prefill has begun
                engine.adjust(hung=True)
                assert [request.token_instants for request in simulation.running] == [[]]
            else:
                client.write(question(stream=stage == "decode"))
                await until(lambda: simulation.totals.generation_tokens >= 5)
                if stage == "decode":
                    while b"text" not in (await client.next_read() or (0.0, b"text"))[1]:
                        pass
                engine.adjust(hung=True)
            made = simulation.totals.generation_tokens
            leave(client)
            await all_gone(engine, road)
            assert road.total("llm_requests_in_flight") == 0
            return road.accounts, simulation.totals.aborted, simulation.totals.generation_tokens - made

    return play(scenario(), patience_seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("leave", [Connection.abort, Connection.close], ids=["reset", "fin"])
@pytest.mark.parametrize(
    ("where", "stage", "reached_the_engine"),
    [
        ("upload", Stage.UPLOAD, False),
        ("queue", Stage.WAITING, True),
        ("prefill", Stage.WAITING, True),
        ("decode", Stage.STREAMING, True),
        ("decode of a whole answer", Stage.WAITING, True),
    ],
)
def test_who_leaves_frees_the_engine_in_every_phase(
    where: str, stage: Stage, leave: Callable[[Connection], None], *, reached_the_engine: bool
) -> None:
    """The engine is frozen and the client leaves: the request is gone from queue and batch, with no further token."""
    accounts, aborted, tokens = leaves_scenario(leave, where)

    assert [(account.outcome, account.cancelled_in) for account in accounts] == [(Outcome.CLIENT_CANCELLED, stage)]
    assert (aborted, tokens) == (int(reached_the_engine), 0)


def test_a_client_that_leaves_takes_no_other_along() -> None:
    """Two clients stream side by side and one leaves; the other gets every token."""

    async def scenario() -> tuple[Answer, list[Account]]:
        async with engine_and_road() as (engine, road):
            leaver, stayer = [await Connection.open(road.port) for _ in range(2)]
            body = {"model": MODEL, "prompt": "abc", "max_tokens": 60, "stream": True}
            staying = asyncio.ensure_future(stayer.request(post("/v1/completions", body)))
            leaver.write(question())
            await until(lambda: len(engine.simulation.running) == 2)
            leaver.abort()
            answer = await staying
            await all_gone_but_idle(engine)
            return answer, road.accounts

    async def all_gone_but_idle(engine: SimulatedEngine) -> None:
        await until(lambda: not engine.simulation.running)

    answer, accounts = play(scenario(), patience_seconds=PATIENCE_SECONDS)

    assert answer.complete
    assert answer.body.count(b'"text":') == 60
    assert Counter(account.outcome for account in accounts) == {Outcome.CLIENT_CANCELLED: 1, Outcome.OK: 1}


# --- after any mixture of faults every request has one outcome -------------------------------------------------------------

JSON = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CLOSING = STREAM.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
ANSWERS = {
    "ok": CLOSING + chunked(TOKEN) + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n",
    "whole": JSON % 200,
    "wrong": JSON % 400,
    "full": JSON % 429,
    "broken": JSON % 500,
    "garbage": b"this is no HTTP\r\n\r\n",
    "closed": b"",
    "truncated": STREAM + chunked(TOKEN)[:-9],
    "failing": CLOSING
    + chunked(TOKEN)
    + chunked(b'data: {"error":{"message":"out of memory","code":500}}\n\n')
    + b"0\r\n\r\n",
    "silent": b"",
    "endless": STREAM + chunked(TOKEN),
    "uploading": b"",
}
"""Fault to the engine's answer. The engine then closes the connection, except for the two faults that only stop
sending."""
OUTCOMES = {
    "ok": Outcome.OK,
    "whole": Outcome.OK,
    "wrong": Outcome.CLIENT_ERROR,
    "full": Outcome.REJECTED,
    "broken": Outcome.ENGINE_ERROR,
    "garbage": Outcome.ENGINE_ERROR,
    "closed": Outcome.ENGINE_UNREACHABLE,
    "truncated": Outcome.ENGINE_TRUNCATED,
    "failing": Outcome.ENGINE_ERROR,
    "silent": Outcome.CLIENT_CANCELLED,
    "endless": Outcome.CLIENT_CANCELLED,
    "uploading": Outcome.CLIENT_CANCELLED,
}
STAYS_OPEN = ("silent", "endless")
EACH = 33


async def faulty_engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one request per connection; the request's prompt names the fault."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        fault = next(name for name in ANSWERS if b'"%b"' % name.encode() in body)
        writer.write(ANSWERS[fault])
        if fault in STAYS_OPEN:
            await reader.read()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def client(road: Road, fault: str) -> None:
    connection = await Connection.open(road.port)
    request = post("/v1/completions", {"model": MODEL, "prompt": fault, "stream": True})
    if fault == "uploading":
        connection.write(request[:-5])
    elif fault == "silent":
        connection.write(request)
    elif fault == "endless":
        connection.write(request)
        while b"text" not in (await connection.next_read() or (0.0, b"text"))[1]:
            pass
    else:
        await connection.request(request)
    connection.close()


def test_after_any_mixture_of_faults_no_request_is_in_flight_and_outcomes_add_up_to_requests() -> None:
    """Thirty-three requests of each fault, shuffled, sixteen at once: each has exactly one outcome, the right one."""
    faults = [name for name in ANSWERS for _ in range(EACH)]
    Random(2).shuffle(faults)

    async def scenario() -> tuple[dict[Outcome, float], float, list[Account], dict[str, float]]:
        server = await asyncio.start_server(faulty_engine, "127.0.0.1", 0)
        async with road_to(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", [MODEL]) as road:
            waiting = iter(faults)

            async def some_clients() -> None:
                for fault in waiting:
                    await client(road, fault)

            await asyncio.gather(*(some_clients() for _ in range(16)))
            await until(lambda: road.in_flight == 0)
            counted = {outcome: road.total("llm_requests_total", outcome=outcome.value) for outcome in Outcome}
            left = {
                "requests": road.total("llm_requests_in_flight"),
                "in_flight": float(road.in_flight),
                "observers": float(len(road.instruments.in_flight)),
                "errors": road.total("llm_sidecar_dropped_total", reason="observer_error"),
            }
            cancels = road.total("llm_client_cancels_total")
            server.close()
            return counted, cancels, road.accounts, left

    counted, cancels, accounts, left = play(scenario(), patience_seconds=PATIENCE_SECONDS)

    expected = Counter(OUTCOMES[fault] for fault in faults)
    assert counted == {outcome: expected[outcome] for outcome in Outcome}
    assert sum(counted.values()) == len(faults) == len(accounts)
    assert cancels == expected[Outcome.CLIENT_CANCELLED]
    assert left == dict.fromkeys(left, 0.0)
