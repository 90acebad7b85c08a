"""Memory is given back when a burst is over, once, and never in the middle of one."""

from sidecar.budgets.burst import LEAST_BYTES, LONGEST_TRIM_WAIT_SECONDS, Burst


def test_a_burst_is_over_when_half_of_it_has_been_gone_for_a_while() -> None:
    burst = Burst()

    assert not burst.over(0.0, 4 * LEAST_BYTES, busy=False)
    assert not burst.over(1.0, LEAST_BYTES, busy=False)
    assert not burst.over(2.0, 3 * LEAST_BYTES, busy=False)
    assert not burst.over(3.0, LEAST_BYTES, busy=False)
    assert burst.over(5.0, LEAST_BYTES, busy=False)
    assert not burst.over(9.0, LEAST_BYTES, busy=False)


def test_it_waits_for_an_instant_without_requests_but_not_for_ever() -> None:
    burst = Burst()
    burst.over(0.0, 4 * LEAST_BYTES, busy=True)

    verdicts = [burst.over(1.0 + second, 0, busy=True) for second in range(int(LONGEST_TRIM_WAIT_SECONDS) + 2)]

    assert verdicts == [False] * int(LONGEST_TRIM_WAIT_SECONDS) + [True, False]


def test_a_small_burst_leaves_little_behind() -> None:
    burst = Burst()
    burst.over(0.0, LEAST_BYTES - 1, busy=False)

    assert not any(burst.over(float(at), 0, busy=False) for at in range(1, 60))
