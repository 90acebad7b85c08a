"""A request that arrives behind a backlog has waited since the backlog began."""

from sidecar.pod.backlog import LONGEST_SECONDS, Backlog


def after(*waiting: int, calm: bool = True, backlog: Backlog | None = None, at: float = 0.0) -> Backlog:
    """One tick a second with so many waiting requests, from this instant on."""
    found = Backlog() if backlog is None else backlog
    for second, number in enumerate(waiting):
        found.tick(at + second, number, calm=calm)
    return found


def test_without_a_backlog_a_life_begins_with_its_arrival() -> None:
    assert after(*[1] * 100).since(50.0) == 50.0


def test_a_request_that_came_into_a_backlog_waits_since_that_began() -> None:
    backlog = after(*[9] * 20, calm=False, backlog=after(*[1] * 100), at=100.0)

    assert backlog.since(115.0) == 100.0
    assert backlog.since(99.0) == 99.0


def test_a_backlog_that_is_over_still_counts_for_those_who_came_into_it() -> None:
    backlog = after(*[9] * 20, calm=False, backlog=after(*[1] * 100), at=100.0)
    after(*[1] * 30, calm=False, backlog=backlog, at=120.0)

    assert backlog.since(110.0) == 100.0
    assert backlog.since(125.0) == 125.0


def test_no_life_is_traced_back_for_longer_than_its_limit() -> None:
    """On an engine near saturation some request always waits."""
    backlog = after(*[9] * 500, calm=False, backlog=after(*[1] * 100), at=100.0)

    assert backlog.since(590.0) == 590.0 - LONGEST_SECONDS
    assert backlog.began(590.0) == 100.0
    assert backlog.began(99.0) is None


def test_as_many_waiting_requests_as_usually_are_no_backlog() -> None:
    busy = after(*[8, 10] * 100)

    assert busy.since(150.0) == 150.0
    assert after(*[20] * 10, calm=False, backlog=busy, at=200.0).since(205.0) == 200.0


def test_a_backlog_does_not_become_usual_while_an_objective_burns() -> None:
    backlog = after(*[1] * 100)
    for minute in range(60):
        after(*[9] * 60, calm=False, backlog=backlog, at=100.0 + 61 * minute)
        backlog.tick(160.0 + 61 * minute, 0, calm=False)
    last = 100.0 + 61 * 59

    assert backlog.since(last + 30.0) == last


def test_the_oldest_backlog_of_a_stretch_of_time_is_told_while_it_stands_and_after_it() -> None:
    """One from 100 to 110, and one that stands since 130."""
    backlog = after(*[9] * 10, calm=False, backlog=after(*[1] * 100), at=100.0)
    assert backlog.stood_since(105.0) == 100.0

    after(*[0] * 20, calm=False, backlog=backlog, at=110.0)
    after(*[9] * 5, calm=False, backlog=backlog, at=130.0)

    assert [backlog.stood_since(at) for at in (90.0, 110.0, 111.0, 134.0)] == [100.0, 100.0, 130.0, 130.0]
    assert after(*[1] * 100).stood_since(0.0) is None
