"""The number of replicas is the smallest that keeps the target, and never falls with load."""

from math import factorial, inf

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.replicas import Fleet, Slots, line_of
from sidecar.commands.capacity.service import Service


SERVICE = Service(alone_seconds=3.0, each_seconds=0.1, known=64, error=0.0)
LINE = line_of([(0.9, 0.2), (0.1, 0.9)])


def test_a_line_of_equal_prompts_is_m_d_1_and_of_unequal_ones_pollaczeks() -> None:
    """M/D/1 at half load waits half a service time; one long prompt in ten makes the wait longer by E[S^2] / E[S]^2."""
    assert line_of([(1.0, 0.2)]).wait_seconds(2.5) == pytest.approx(0.5 * 0.2 / (2 * 0.5))
    assert (LINE.seconds, LINE.residual_seconds) == pytest.approx((0.27, (0.9 * 0.04 + 0.1 * 0.81) / (2 * 0.27)))
    assert LINE.wait_seconds(1 / 0.27) == inf


def erlang_c_wait(busy: float, servers: int) -> float:
    """Mean wait of M/M/c by the textbook's formula, in service times."""
    offered = busy * servers
    full = offered**servers / factorial(servers) / (1 - busy)
    return full / (sum(offered**n / factorial(n) for n in range(servers)) + full) / (servers - offered)


@pytest.mark.parametrize("servers", [1, 2, 8, 64])
@pytest.mark.parametrize("busy", [0.1, 0.5, 0.9, 0.99])
def test_slots_of_equal_speed_are_erlang_c_within_a_few_per_cent_of_a_service(servers: int, busy: float) -> None:
    """M/M/1 is exact: at 90 % a request waits nine services."""
    wait = Slots(Service(1.0, 0.0, servers, 0.0), servers).wait_seconds(busy * servers)

    assert -0.01 < wait - erlang_c_wait(busy, servers) < (0.035 if servers > 1 else 1e-9)


def by_brute_force(service: Service, slots: int, rate: float) -> float:
    """Mean wait where n of n inside leave at R(n), from the balance of 20,000 states, one by one."""
    weights = [1.0]
    for n in range(1, 20_000):
        weights.append(weights[-1] * rate / service.leaving(min(n, slots)))
    return sum((n - slots) * weight for n, weight in enumerate(weights) if n > slots) / sum(weights) / rate


@pytest.mark.parametrize("busy", [0.5, 0.8, 0.9, 0.95])
def test_a_slot_is_waited_for_no_shorter_than_where_few_requests_run_faster(busy: float) -> None:
    """S(n) = 0.5 + 0.3 n, eight slots: the wait is at most a quarter of the time among eight too long."""
    service = Service(0.5, 0.3, 8, 0.0)
    slots = Slots(service, 8)
    rate = busy * service.leaving(8)

    assert 0 <= slots.wait_seconds(rate) - by_brute_force(service, 8, rate) < 2.9 / 4
    assert [slots.busy(rate), slots.wait_seconds(service.leaving(8))] == pytest.approx([busy, inf])


def test_the_fewest_keep_the_target_and_one_fewer_does_not() -> None:
    fleet = Fleet(12.0, LINE, Slots(SERVICE, 64))

    found = fleet.fewest(0.2)

    assert (found.wait_seconds <= 0.2 < fleet.row(found.replicas - 1).wait_seconds, found.replicas) == (True, 7)


def test_more_load_never_needs_fewer_and_a_looser_target_never_more() -> None:
    by_load = [Fleet(rate, LINE, Slots(SERVICE, 64)).fewest(0.2).replicas for rate in (1, 2, 4, 8, 16, 32, 64)]
    by_target = [Fleet(12.0, LINE, None).fewest(target).replicas for target in (0.01, 0.05, 0.2, 1.0, 10.0)]

    assert by_load == sorted(by_load)
    assert by_target == sorted(by_target, reverse=True)


def test_a_wait_of_nearly_nothing_is_refused() -> None:
    with pytest.raises(RefusedError, match="too near 0"):
        Fleet(1000.0, LINE, None).fewest(1e-9)
