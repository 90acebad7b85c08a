"""An observer that raises is counted, and engine and client get the same bytes as without it."""

import pytest

from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Mark, Observer
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import OK, POST, STREAM
from tests.proxy.throwing import Broken, Throwing
from tests.support.memory import Road
from tests.support.messages import read
from tests.support.origin import Origin, Visit
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


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
