"""The number of replicas is the smallest that keeps the target; it never falls with load; unobserved loads are
refused."""

from math import inf

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.replicas import Fleet, Line, Slots, line_of
from sidecar.commands.capacity.service import Service


SERVICE = Service(alone_seconds=3.0, each_seconds=0.1, known=64, error=0.0)
LINE = line_of([(0.9, 0.2), (0.1, 0.9)])


def test_a_line_of_equal_prompts_is_m_d_1_and_of_unequal_ones_pollaczeks() -> None:
    """M/D/1 at half load waits half a service time; one long prompt in ten makes the wait longer by E[S^2] / E[S]^2."""
    assert line_of([(1.0, 0.2)]).wait_seconds(2.5) == pytest.approx(0.5 * 0.2 / (2 * 0.5))
    assert (LINE.seconds, LINE.residual_seconds) == pytest.approx((0.27, (0.9 * 0.04 + 0.1 * 0.81) / (2 * 0.27)))
    assert LINE.wait_seconds(1 / 0.27) == inf


def test_the_fewest_keep_the_target_and_one_fewer_does_not() -> None:
    fleet = Fleet(12.0, LINE, Slots(SERVICE, 64))

    found = fleet.fewest(0.2)

    assert (found.random_seconds <= 0.2 < fleet.row(found.replicas - 1).random_seconds, found.replicas) == (True, 7)


def test_more_load_never_needs_fewer_and_a_looser_target_never_more() -> None:
    by_load = [Fleet(rate, LINE, Slots(SERVICE, 64)).fewest(0.2).replicas for rate in (1, 2, 4, 8, 16, 32, 64)]
    by_target = [Fleet(12.0, LINE, None).fewest(target).replicas for target in (0.01, 0.05, 0.2, 1.0, 10.0)]

    assert by_load == sorted(by_load)
    assert by_target == sorted(by_target, reverse=True)


def test_one_common_queue_never_waits_longer_than_a_random_router() -> None:
    fleet = Fleet(12.0, LINE, Slots(SERVICE, 64))

    assert all(fleet.row(replicas).shared_seconds <= fleet.row(replicas).random_seconds for replicas in range(1, 12))
    assert fleet.fewest(0.2, shared=True).replicas < fleet.fewest(0.2).replicas


def test_a_single_replica_is_its_own_common_queue() -> None:
    row = Fleet(1.0, LINE, Slots(SERVICE, 4)).row(1)

    assert row.shared_seconds == pytest.approx(row.random_seconds)


def test_states_that_were_never_seen_do_not_carry_an_answer() -> None:
    """Tested with at most four requests inside, the replica's speed with twenty is not known."""
    seen_little = Service(3.0, 0.1, known=4, error=0.0)

    with pytest.raises(RefusedError, match="more than 4 requests inside, a load at which"):
        Fleet(8.0, None, Slots(seen_little, 64)).fewest(5.0)


def test_a_wait_of_nearly_nothing_is_refused() -> None:
    with pytest.raises(RefusedError, match="too near 0"):
        Fleet(1000.0, LINE, None).fewest(1e-9)


def test_a_fleet_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(RefusedError, match="is not known"):
        Fleet(1.0, None, None).fewest(1.0)


def test_service_without_variation_waits_half_as_long() -> None:
    """Lee and Longton: the wait is (1 + cv^2) / 2 of the exponential one."""
    exponential, constant = (Fleet(12.0, None, Slots(SERVICE, 64, scale)).row(1) for scale in (1.0, 0.5))

    assert constant.random_seconds == pytest.approx(exponential.random_seconds / 2)


def test_prompts_that_take_no_time_have_no_line() -> None:
    assert Line(0.0, 0.0).shared_wait_seconds(5.0, 3) == 0.0
