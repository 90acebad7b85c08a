"""A process that stood still names neither its engine nor its clients: no limit counts that time, and afterwards each one holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sidecar.budgets.budgets import Kind
from sidecar.proxy.accept import LINGER_SECONDS
from sidecar.proxy.errors import Failure
from sidecar.proxy.pace import UPLOAD_GRACE_SECONDS, UploadPace
from sidecar.proxy.pool import LAST_BYTES_SECONDS
from sidecar.proxy.standstill import KEPT_STANDSTILLS, LATE_SWEEP_SECONDS, Standstills
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET, OK, POST, STREAM
from tests.support.memory import ENGINE_LIMITS, LIMITS, WEBSOCKET, Road, Socket, limits_with


UPLOAD = b"POST /upload HTTP/1.1\r\nHost: pod\r\nContent-Length: 100000\r\n\r\nx"
ANY_RATE: dict[str, float] = {"upload_min_bytes_per_second": 0}


def in_a_stream(road: Road) -> Socket:
    client = road.client()
    client.send(POST)
    road.engine.send(STREAM + b"5\r\nhello\r\n")
    return client


def before_the_first_byte(road: Road) -> Socket:
    client = road.client()
    client.send(POST)
    return client


def into_an_engine_that_takes_nothing(road: Road) -> Socket:
    client = road.client()
    client.send(UPLOAD)
    road.engine.room = 0
    client.send(b"x" * 100)
    return client


def in_an_upload(road: Road) -> Socket:
    client = road.client()
    client.send(UPLOAD)
    return client


def to_a_client_that_takes_nothing(road: Road) -> Socket:
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.send(STREAM + b"7d0\r\n" + b"x" * 2000 + b"\r\n")
    return client


def before_an_error_that_is_not_taken(road: Road) -> Socket:
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.lose()
    return client


def in_a_head(road: Road) -> Socket:
    client = road.client()
    client.send(GET[:10])
    return client


def without_a_request(road: Road) -> Socket:
    client = road.client()
    client.send(GET)
    road.engine.send(OK)
    return client


def behind_a_refusal(road: Road) -> Socket:
    client = road.client()
    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 1000000000\r\n\r\n")
    return client


def with_a_tunnels_last_bytes(road: Road) -> Socket:
    client = road.tunnel()
    road.engine.room = 0
    client.send(b"the last words")
    client.lose()
    return road.engine


@dataclass(frozen=True)
class Story:
    """A place where the standstill comes, and the limit that runs there."""

    begin: Callable[[Road], Socket]
    """Returns the socket that the sidecar closes after the limit."""
    limit_seconds: float
    failure: Failure | None = None
    """None: the limit ends no request."""
    limits: dict[str, float] = field(default_factory=dict)

    def over(self, road: Road, socket: Socket) -> bool:
        """Whether the limit has ended what it is for."""
        if self.failure is None:
            return socket.lost
        failures = [failure for recording in road.recordings for _, failure, _ in recording.closed] + road.refused
        assert failures in ([], [self.failure])
        return failures != []


STORIES = {
    "gap": Story(in_a_stream, ENGINE_LIMITS.gap_timeout_seconds, Failure.ENGINE_GAP_TIMEOUT),
    "first byte": Story(
        before_the_first_byte, ENGINE_LIMITS.first_byte_timeout_seconds, Failure.ENGINE_FIRST_BYTE_TIMEOUT
    ),
    "blocked engine": Story(
        into_an_engine_that_takes_nothing, ENGINE_LIMITS.first_byte_timeout_seconds, Failure.ENGINE_FIRST_BYTE_TIMEOUT
    ),
    "slow upload": Story(in_an_upload, UPLOAD_GRACE_SECONDS, Failure.UPLOAD_TOO_SLOW),
    "body gap": Story(in_an_upload, LIMITS.body_gap_timeout_seconds, Failure.UPLOAD_STALLED, ANY_RATE),
    "whole upload": Story(in_an_upload, 30.0, Failure.UPLOAD_TIMEOUT, {"upload_timeout_seconds": 30.0, **ANY_RATE}),
    "client takes nothing": Story(
        to_a_client_that_takes_nothing, LIMITS.client_write_timeout_seconds, Failure.CLIENT_WRITE_STALLED
    ),
    "client takes no error": Story(before_an_error_that_is_not_taken, LIMITS.client_write_timeout_seconds),
    "head": Story(in_a_head, LIMITS.head_timeout_seconds, Failure.HEAD_TIMEOUT),
    "keep-alive": Story(without_a_request, LIMITS.keep_alive_seconds),
    "lingering": Story(behind_a_refusal, LINGER_SECONDS),
    "idle tunnel": Story(Road.tunnel, 30.0, Failure.TUNNEL_IDLE, {"tunnel_idle_timeout_seconds": 30.0}),
    "old tunnel": Story(Road.tunnel, 30.0, Failure.TUNNEL_TOO_OLD, {"tunnel_total_timeout_seconds": 30.0}),
    "last bytes of a tunnel": Story(with_a_tunnels_last_bytes, LAST_BYTES_SECONDS),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_standstill_ends_nothing_and_afterwards_the_limit_holds(story: Story) -> None:
    """It comes shortly before the limit and lasts a day; half a second later there is still time, and a second later none."""
    road = Road(limits_with(**story.limits))
    socket = story.begin(road)

    road.runs(story.limit_seconds - LATE_SWEEP_SECONDS - 0.75)
    road.stands_still(86_400)
    road.runs(0.5)
    assert not story.over(road, socket)
    road.runs(1.0)

    assert story.over(road, socket)


def test_a_client_that_takes_at_the_floor_is_not_too_slow_because_the_process_stood_still() -> None:
    """Nothing was written for it meanwhile, so it could take nothing; one that goes on below the floor is."""
    road = Road(limits_with(client_buffer_bytes=65_536))
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.send(STREAM + b"186a0\r\n" + b"x" * 100_000 + b"\r\n")

    def takes(seconds: int, size: int) -> None:
        for _ in range(seconds):
            client.take(size)
            road.runs(1)

    takes(50, 300)
    road.stands_still(1000)
    takes(50, 300)
    assert road.outcomes == []
    takes(50, 1)

    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.CLIENT_TAKES_TOO_SLOWLY, 200)]


def test_time_in_which_a_client_was_not_read_is_forgiven_once() -> None:
    """The process stood still while the engine did not take the upload: that is no credit for a slow client."""
    standstills, pace = Standstills(0.0), UploadPace(0.0)
    for at in (0.5, 1000.5):
        assert pace.failure(standstills.look(at), 0.0, 1, LIMITS, excused=True) is None

    after = [1000.5 + second for second in range(1, 22)]
    ends = [pace.failure(standstills.look(at), at, 1, LIMITS, excused=False) for at in after]

    assert ends == [None] * 20 + [Failure.UPLOAD_TOO_SLOW]


def test_a_websocket_does_not_lose_its_place_by_a_standstill() -> None:
    """It was silent because this process was; after a minute of its own silence it makes room."""
    road = Road(budgets={Kind.TUNNELS: 1})
    silent = road.tunnel()
    road.runs(30)
    road.stands_still(100)

    refused = road.client()
    refused.send(WEBSOCKET)
    assert (b"too_many_tunnels" in refused.taken, silent.lost) == (True, False)
    road.runs(30)
    road.tunnel()

    assert silent.lost


def test_what_came_before_the_sweep_is_read_before_a_limit_is_enforced() -> None:
    """The sweep's timer fires before the sockets are polled: the engine's token is there, and only this process is late."""
    road = Road()
    in_a_stream(road)
    road.clock.later(ENGINE_LIMITS.gap_timeout_seconds + 1)

    sweep = road.traffic.sweep_in_turns(road.now)
    next(sweep)
    road.engine.send(b"5\r\nhello\r\n")
    assert list(sweep) == [None]

    assert road.outcomes == []


def test_a_limit_is_enforced_as_of_the_instant_before_the_sockets_were_polled() -> None:
    """The turn of the loop took a second after its poll: what came in it is not read, and half of it was the engine's."""
    road = Road()
    in_a_stream(road)
    road.clock.later(ENGINE_LIMITS.gap_timeout_seconds - 0.5)

    sweep = road.traffic.sweep_in_turns(road.now)
    next(sweep)
    road.clock.later(1)
    assert list(sweep) == [None]

    assert road.outcomes == []


def test_an_engine_whose_bytes_wait_for_their_turn_is_not_late() -> None:
    """They have come; other connections are parsed before them."""
    road = Road(turns_by_itself=False)
    in_a_stream(road)
    road.clock.later(ENGINE_LIMITS.gap_timeout_seconds + 1)
    road.pool.turns.busy = True
    road.engine.send(b"7d0\r\n" + b"x" * 2000 + b"\r\n")
    road.traffic.sweep(road.clock.now)
    assert road.outcomes == []

    assert road.turn()
    road.traffic.sweep(road.clock.later(ENGINE_LIMITS.gap_timeout_seconds + 1))

    assert road.outcomes == [Outcome.ENGINE_TIMEOUT]


# --- the sums ------------------------------------------------------------------------------------------------------------


def looking(*instants: float) -> Standstills:
    """A process that looked at these instants."""
    standstills = Standstills(0.0)
    for at in instants:
        standstills.look(at)
    return standstills


def test_time_counts_while_the_process_runs_and_for_a_second_of_each_standstill() -> None:
    """Two standstills: of 10 s until 11.5, and of 20 s until 33. Each is asked about before, in its middle and after."""
    standstills = looking(0.5, 11.5, 12.0, 33.0, 33.5)

    counted = [
        standstills.look(34.0).since(began_at) for began_at in (0.0, 1.5, 6.5, 11.5, 12.0, 13.0, 23.0, 33.0, 34.0)
    ]

    assert counted == [4.0, 2.5, 2.5, 2.5, 2.0, 1.0, 1.0, 1.0, 0.0]


def test_a_second_late_is_no_standstill() -> None:
    """A busy loop sweeps later than it should, and its limits count all of that."""
    assert looking(*(float(at) for at in range(1, 101))).look(101.0).since(0.0) == 101.0


def test_a_loop_that_is_always_late_still_ends_what_is_overdue() -> None:
    """One of two seconds counts, at each look."""
    assert looking(*(2.0 * at for at in range(1, 101))).look(202.0).since(0.0) == 101.0


def test_old_standstills_are_forgotten_and_their_time_counts() -> None:
    """Else a process that is late for weeks would remember all of them."""
    standstills = looking(*(2.0 * at for at in range(1, KEPT_STANDSTILLS + 11)))
    at = 2.0 * (KEPT_STANDSTILLS + 10)

    assert (at - standstills.seconds_after(0.0), len(standstills._ends)) == (KEPT_STANDSTILLS + 20.0, KEPT_STANDSTILLS)
