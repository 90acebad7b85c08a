"""`Retry-After` by Little's law: the requests ahead, divided by the completions per second of the last half minute."""

import pytest

from sidecar.proxy.drain import DRAIN_SECONDS, Drain
from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET
from tests.support.memory import Road, limits_with


def drained(per_second: float, seconds: float) -> Drain:
    """A drain that has counted this rate for so long, sampled four times a second."""
    drain = Drain(0.0)
    for quarter in range(1, round(seconds * 4) + 1):
        drain.count = int(quarter / 4 * per_second)
        drain.sample(quarter / 4)
    return drain


@pytest.mark.parametrize(
    ("ahead", "per_second", "seconds"),
    [(1024, 100, 11), (10, 2, 5), (10, 100, 1), (1024, 2, 60)],
    ids=["rounded up", "exact", "never below one", "never above sixty"],
)
def test_the_time_is_the_queue_divided_by_its_drain(ahead: int, per_second: float, seconds: int) -> None:
    assert drained(per_second, 20).retry_after_seconds(ahead, 20.0) == seconds


def test_only_the_last_half_minute_is_the_rate() -> None:
    """An engine that was fast and is slow now is slow."""
    drain = drained(100, 60)
    for quarter in range(1, int(DRAIN_SECONDS * 4) + 1):
        drain.count = 6000 + quarter // 4
        drain.sample(60 + quarter / 4)

    assert drain.retry_after_seconds(30, 60 + DRAIN_SECONDS) == 30


@pytest.mark.parametrize(("per_second", "seconds"), [(0, 20), (100, 0.5)], ids=["none ended", "too young"])
def test_an_unknown_drain_says_nothing(per_second: float, seconds: float) -> None:
    assert drained(per_second, seconds).retry_after_seconds(10, seconds) is None


def test_a_full_gate_tells_the_time_of_its_drain_once_it_is_known() -> None:
    """At first 1 s, because nothing has ended. Then three of four are in flight and one ends in four seconds: 12 s."""
    road = Road(limits_with(max_in_flight=3))
    stuck = [road.client() for _ in range(3)]
    for client in stuck:
        client.send(GET)
    early, late = road.client(), road.client()
    early.send(GET)

    road.clock.later(4.0)
    stuck[0].end()
    road.client().send(GET)
    road.traffic.sweep(road.clock.now)
    late.send(GET)

    first = Failure.TOO_MANY_IN_FLIGHT.value.retry_after_seconds
    told = [socket.taken.partition(b"retry-after: ")[2].partition(b"\r\n")[0] for socket in (early, late)]
    assert told == [b"%d" % (first or 0), b"12"]


def test_a_tunnel_that_ends_is_no_sign_of_the_queues_drain() -> None:
    """It has a place of its own and may have stood for hours."""
    road = Road()
    client = road.client()
    client.send(b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    road.engine.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")

    client.lose()

    assert road.outcomes == [Outcome.OK]
    assert road.shared.drain.count == 0
