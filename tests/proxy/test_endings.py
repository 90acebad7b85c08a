"""Closing in quiet turns: what has time is closed at once, the rest a few in each turn, and nothing is lost."""

from itertools import pairwise

from sidecar.proxy.endings import CLOSED_IN_A_TURN, MOST_WAITING
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import End, Observer
from sidecar.proxy.read_limit import LOOP_SECONDS
from sidecar.proxy.unobserved import Unobserved
from tests.support.memory import Road, Socket


GET = b"GET /%d HTTP/1.1\r\nHost: pod\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"
COST_SECONDS = 0.0001


class Costly(Unobserved):
    """Takes time for its end, and notes its request."""

    def __init__(self, head: RequestHead, closed: list[int], road: list[Road]) -> None:
        self._number = int(head.target[1:])
        self._closed = closed
        self._road = road

    def close(self, at: float, end: End) -> None:
        del at, end
        self._closed.append(self._number)
        self._road[0].clock.later(COST_SECONDS)


def streams(count: int) -> tuple[Road, list[int], list[Socket]]:
    """(a road whose loop turns only when told, the requests closed, the engine's ends of so many streams that are nearly over)."""
    closed: list[int] = []
    roads: list[Road] = []

    def observe(head: RequestHead) -> Observer:
        return Costly(head, closed, roads)

    road = Road(observe=observe, turns_by_itself=False)
    roads.append(road)
    road.budgets.requests.limit = count
    ends = []
    for number in range(count):
        road.client().send(GET % number)
        while road.turn():
            pass
        ends.append(road.engine)
        road.engine.send(HEAD)
        while road.turn():
            pass
    return road, closed, ends


def end_together(ends: list[Socket]) -> None:
    for engine in ends:
        engine.send(b"k")


def test_a_request_that_ends_alone_is_closed_at_once() -> None:
    road, closed, ends = streams(3)

    for number, engine in enumerate(ends):
        engine.send(b"k")
        assert closed == list(range(number + 1))
        road.turn()

    assert len(road.shared.endings) == 0


def test_of_many_that_end_in_one_turn_the_first_are_closed_at_once_and_the_rest_a_few_a_turn() -> None:
    """In their order. Meanwhile all of them have left: no place and no request in flight waits for its closing."""
    road, closed, ends = streams(60)

    end_together(ends)
    seen = [len(closed)]
    assert (road.in_flight, road.budgets.requests.used) == (0, 0)
    while road.turn():
        seen.append(len(closed))

    first = round(LOOP_SECONDS / COST_SECONDS)
    assert first <= seen[0] <= first + 1
    assert seen[-1] == 60
    steps = [later - before for before, later in pairwise(seen)]
    assert max(steps) <= min(CLOSED_IN_A_TURN, first)
    assert closed == list(range(60))


def test_a_new_request_is_sent_before_the_closings_of_others_that_wait() -> None:
    """It is not held up by them: its bytes are with the engine while most of them are still to come."""
    road, closed, ends = streams(60)
    end_together(ends)
    client = road.client()

    road.turn()
    client.send(GET % 60)

    assert ends[-1].taken.endswith(GET % 60)
    assert len(closed) < 40


def test_a_scrape_waits_for_what_has_ended_before_it_and_each_turn_closes_a_few() -> None:
    """Requests that end while it waits do not hold it up."""
    road, closed, ends = streams(400)
    end_together(ends[:60])
    waiting, seen, ended = road.shared.endings.closed(), [len(closed)], 60

    while next(waiting.__await__(), waiting) is not waiting:
        road.turn()
        seen.append(len(closed))
        end_together(ends[ended : ended + 20])
        ended += 20

    assert closed[:60] == list(range(60))
    assert len(closed) < ended < 400
    assert max(after - before for before, after in pairwise(seen)) <= CLOSED_IN_A_TURN


def test_a_scrape_and_a_reload_find_all_closed() -> None:
    """Both flush first (`app.py`, `wiring.py`)."""
    road, closed, ends = streams(60)
    end_together(ends)

    road.shared.endings.flush()

    assert closed == list(range(60))


def test_nothing_waits_once_the_process_accepts_no_more() -> None:
    """Neither what waited then nor what ends later: no log line is lost at a shutdown."""
    road, closed, ends = streams(60)
    end_together(ends[:40])
    road.traffic.stop_accepting()
    before = list(closed)

    end_together(ends[40:])

    assert before == list(range(40))
    assert closed == list(range(60))


def test_no_more_than_some_hundreds_wait() -> None:
    """Each further one closes the oldest."""
    count = MOST_WAITING + 40
    road, closed, ends = streams(count)

    end_together(ends)

    assert len(road.shared.endings) == MOST_WAITING
    assert closed == list(range(40))
