"""The traffic listener at its end: draining, closing idle connections, and cutting requests after the grace period."""

import asyncio
import os
import socket
from typing import Any

import pytest

from sidecar.budgets.budgets import Kind
from sidecar.proxy.relay import Exchange
from sidecar.proxy.server import SWEPT_AT_ONCE
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET, POST, STREAM, STREAM_OUT
from tests.support.files import no_file_left
from tests.support.memory import LIMITS, Road
from tests.support.scenario_loop import play


def test_while_draining_requests_are_served_and_answers_say_close() -> None:
    """A client that has not noticed must not be refused; idle connections are closed once no more may come."""
    road = Road()
    idle, busy, late = road.client(), road.client(), road.client()
    busy.send(GET)

    road.traffic.drain()
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    road.traffic.sweep(road.clock.later(1))
    late.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    assert busy.taken == late.taken == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nok"
    assert busy.lost
    assert late.lost
    assert not idle.lost
    road.traffic.stop_accepting()
    road.traffic.sweep(road.clock.later(1))
    assert idle.lost


def test_thousands_of_idle_connections_are_closed_a_few_in_a_turn() -> None:
    """Each close costs some 20 us, in which no token passes."""
    road = Road(budgets={Kind.CONNECTIONS: 1000})
    clients = [road.client() for _ in range(1000)]
    road.clock.later(LIMITS.keep_alive_seconds + 1)

    lost = [sum(client.lost for client in clients) for _ in road.traffic.sweep_in_turns(road.now)]

    assert lost == [*range(0, 1000, SWEPT_AT_ONCE), 1000]


@pytest.mark.reaches_in
def test_a_connection_whose_sweep_fails_is_closed_and_the_others_keep_their_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A defect of the sidecar must not leave every later request without a time limit."""
    told: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        road.traffic.sweep(road.clock.later(LIMITS.keep_alive_seconds + 1))

    def overdue(*_: object) -> None:
        raise RuntimeError("a defect")

    road = Road()
    ill, well = road.client(), road.client()
    ill.send(GET)
    monkeypatch.setattr(Exchange, "overdue", overdue)
    play(scenario())

    assert ill.lost
    assert well.lost
    assert road.outcomes == [Outcome.SIDECAR_ERROR]
    assert [str(context["exception"]) for context in told] == ["a defect"]


def test_when_the_grace_is_over_what_is_left_is_cut_and_counted() -> None:
    """A stream is cut, a waiting request is answered 503, each once."""
    road = Road()
    streaming, waiting = road.client(), road.client()
    streaming.send(POST)
    road.engine.send(STREAM + b"5\r\nhello\r\n")
    waiting.send(POST)

    road.traffic.abandon()

    assert streaming.taken == STREAM_OUT + b"5\r\nhello\r\n"
    assert streaming.lost
    assert waiting.taken.startswith(b"HTTP/1.1 503 ")
    assert road.outcomes == [Outcome.SIDECAR_ERROR, Outcome.SIDECAR_ERROR]
    assert road.in_flight == 0


def test_a_listening_socket_that_is_gone_is_noticed_and_one_that_was_closed_in_order_is_not_missed() -> None:
    async def scenario() -> list[bool]:
        traffic = Road().traffic
        found = [traffic.lost]
        await traffic.listen("127.0.0.1", 0)
        found.append(traffic.lost)
        assert traffic._server is not None
        # Another socket, which does not listen, takes the listener's number, as a bug could cause it.
        number = traffic._server.sockets[0].fileno()
        with socket.socket() as other:
            os.dup2(other.fileno(), number)
            found.append(traffic.lost)
        await traffic.close()
        return [*found, traffic.lost]

    assert play(scenario()) == [False, False, True, False]


def test_a_listening_socket_is_not_taken_for_lost_because_no_file_is_left() -> None:
    """Or a client that takes all files could have the pod restarted by its liveness probe."""

    async def scenario() -> bool:
        traffic = Road().traffic
        await traffic.listen("127.0.0.1", 0)
        with no_file_left():
            lost = traffic.lost
        await traffic.close()
        return lost

    assert not play(scenario())
