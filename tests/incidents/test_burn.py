"""The tiers of one lane follow from windows over its verdicts: what must page, what burns, and what may page."""

from collections.abc import Callable

from bench.incidents.burn import Tiers, Verdict, Window, Windows, tiers_of


FAULT_AT, ENDS_AT = 600.0, 1500.0


def told(missed: Callable[[int], bool], every: int = 1) -> list[Verdict]:
    """A verdict every so many seconds, from the first to the last second of the run."""
    return [Verdict(float(at), missed(at)) for at in range(0, int(ENDS_AT), every)]


def tiers(verdicts: list[Verdict], *, sparse: bool = False, others: list[Verdict] | None = None) -> Tiers:
    """A target of 95 %: it pages at a share of misses of one half."""
    return tiers_of(verdicts, 0.05, FAULT_AT, ENDS_AT, sparse=sparse, others=others)


def test_a_window_counts_what_lies_between_its_two_ends() -> None:
    windows = Windows([Verdict(1.0, True), Verdict(2.0, False), Verdict(3.0, True), Verdict(4.0, True)])

    assert windows.at(3.0, 2.0) == Window(misses=2, decided=3)
    assert windows.at(3.0, 2.0).ratio == 2 / 3
    assert windows.at(0.5, 0.4).ratio == 0.0


def test_half_of_all_missed_for_minutes_must_page_and_burns() -> None:
    found = tiers(told(lambda at: 700 <= at < 1000 and at % 3 > 0))

    assert (found.must_page, found.burns, found.may_page) == (True, True, True)
    assert found.burns_at is not None
    assert 700 < found.burns_at < 850
    assert found.quiet_at > 1000


def test_seven_tenths_of_what_must_page_burns_and_is_owed_no_page() -> None:
    """Two of five requests miss, where half of them must page."""
    found = tiers(told(lambda at: 700 <= at < 1200 and at % 5 < 2))

    assert (found.must_page, found.burns, found.may_page, found.burns_at) == (False, True, True, None)


def test_a_burn_of_three_quarters_of_a_minute_may_page_and_no_more() -> None:
    """Forty-five misses in two minutes are 37 %, for less than a minute."""
    found = tiers(told(lambda at: 700 <= at < 745))

    assert (found.must_page, found.burns, found.may_page) == (False, False, True)


def test_nothing_missed_is_no_tier() -> None:
    assert tiers(told(lambda at: at < 0)) == Tiers()


def test_one_request_a_minute_must_page_when_six_minutes_of_them_missed() -> None:
    """Six misses are fewer than the ten that other lanes need."""
    one_a_minute = told(lambda at: at >= 700, every=60)
    found = tiers(one_a_minute, sparse=True)

    assert (found.must_page, found.may_page, found.burns) == (True, True, True)
    assert found.burns_at is not None
    assert 900 <= found.burns_at <= 1080
    assert not tiers(told(lambda at: at >= 700 and at % 120 > 0, every=60), sparse=True).must_page


def test_a_lane_with_more_traffic_than_that_needs_ten_misses() -> None:
    assert not tiers(told(lambda at: 700 <= at < 1000, every=60)).must_page


def test_a_pod_alone_must_page_only_if_it_misses_three_times_as_often_as_the_others() -> None:
    bad, well = told(lambda at: at >= 700 and at % 5 < 4), told(lambda _: False)
    as_bad = told(lambda at: at >= 700 and at % 5 < 2)

    assert tiers(bad, others=well).must_page
    assert not tiers(bad, others=as_bad).must_page


def test_a_pod_alone_must_page_only_if_enough_of_its_requests_are_decided() -> None:
    """With a request every twenty seconds, five minutes hold 15 or 16 of the twenty that must be decided."""
    rare, well = told(lambda at: at >= 700, every=20), told(lambda _: False)

    assert tiers(rare).must_page
    assert not tiers(rare, others=well).must_page


def test_what_one_pod_must_page_for_the_lane_must_page_for() -> None:
    lane = Tiers(may_page=True, burns_at=None, quiet_at=700.0)
    lane.join(Tiers(must_page=True, may_page=True, burns_at=760.0, quiet_at=900.0))

    assert (lane.must_page, lane.burns, lane.burns_at, lane.quiet_at) == (True, True, 760.0, 900.0)
    assert (lane.must_ticket, lane.may_ticket) == (False, False)
