"""Memory is given back when a burst is over, once, and never in the middle of one."""

from sidecar.budgets.burst import LEAST_BYTES, LONGEST_TRIM_WAIT_SECONDS, Burst


REMEMBERED_SECONDS = 30.0


def test_a_burst_is_over_when_half_of_it_has_been_gone_for_a_while() -> None:
    burst = Burst(REMEMBERED_SECONDS)

    assert not burst.over(0.0, 4 * LEAST_BYTES, busy=False)
    assert not burst.over(1.0, LEAST_BYTES, busy=False)
    assert not burst.over(2.0, 3 * LEAST_BYTES, busy=False)
    assert not burst.over(3.0, LEAST_BYTES, busy=False)
    assert burst.over(5.0, LEAST_BYTES, busy=False)
    assert not burst.over(9.0, LEAST_BYTES, busy=False)


def test_it_waits_for_an_instant_without_requests_but_not_for_ever() -> None:
    burst = Burst(REMEMBERED_SECONDS)
    burst.over(0.0, 4 * LEAST_BYTES, busy=True)

    verdicts = [burst.over(1.0 + second, 0, busy=True) for second in range(int(LONGEST_TRIM_WAIT_SECONDS) + 2)]

    assert verdicts == [False] * int(LONGEST_TRIM_WAIT_SECONDS) + [True, False]


def test_a_small_burst_leaves_little_behind() -> None:
    burst = Burst(REMEMBERED_SECONDS)
    burst.over(0.0, LEAST_BYTES - 1, busy=False)

    assert not any(burst.over(float(at), 0, busy=False) for at in range(1, 60))


def test_memory_goes_back_again_once_the_last_of_the_burst_is_forgotten() -> None:
    """Spans are remembered for a while, and lie between the pages of the burst until then."""
    burst = Burst(REMEMBERED_SECONDS)
    burst.over(0.0, 4 * LEAST_BYTES, busy=True)

    given_back_at = [at for at in range(1, 120) if burst.over(float(at), 1000, busy=False)]

    assert given_back_at == [3, 33]


def test_the_next_burst_puts_it_off_to_its_own_end() -> None:
    """Never in the middle of a burst."""
    burst = Burst(REMEMBERED_SECONDS)
    loads = [4 * LEAST_BYTES] + 9 * [0] + 50 * [4 * LEAST_BYTES] + 60 * [0]

    given_back_at = [at for at, load in enumerate(loads) if burst.over(float(at), load, busy=load > 0)]

    assert given_back_at == [3, 62, 92]
