"""The chain is solved exactly: by Erlang's formula where service is linear, by its own balance equations elsewhere."""

from collections.abc import Callable
from math import factorial, inf

import pytest

from sidecar.commands.capacity.chain import solve


def erlang_c_wait(rate: float, service: float, servers: int) -> float:
    """Mean wait of M/M/c by the textbook's formula."""
    offered = rate / service
    busy = offered / servers
    full = offered**servers / factorial(servers) / (1 - busy)
    waits = full / (sum(offered**n / factorial(n) for n in range(servers)) + full)
    return waits / (servers * service - rate)


@pytest.mark.parametrize("servers", [1, 2, 8, 64])
@pytest.mark.parametrize("busy", [0.1, 0.5, 0.9, 0.99])
def test_service_that_grows_by_one_server_each_is_erlang_c(servers: int, busy: float) -> None:
    rate = busy * servers * 0.25

    found = solve(rate, lambda n: n * 0.25, servers)

    assert found.wait_seconds == pytest.approx(erlang_c_wait(rate, 0.25, servers), rel=1e-9)
    assert found.utilisation == pytest.approx(busy)


def test_one_server_is_m_m_1() -> None:
    found = solve(0.8, lambda _: 1.0, 1)

    assert (found.wait_seconds, found.inside) == pytest.approx((4.0, 4.0))


def by_brute_force(rate: float, leaving: Callable[[int], float], slots: int) -> tuple[float, float]:
    """Mean wait and mean number inside, from the balance of 20,000 states, one by one."""
    weights = [1.0]
    for n in range(1, 20_000):
        weights.append(weights[-1] * rate / leaving(min(n, slots)))
    total = sum(weights)
    waiting = sum((n - slots) * weight for n, weight in enumerate(weights) if n > slots) / total
    return waiting / rate, sum(n * weight for n, weight in enumerate(weights)) / total


def test_service_that_saturates_fulfils_the_balance_of_every_state() -> None:
    """S(n) = 0.5 + 0.3 n, eight slots, at 90 % of their capacity."""

    def leaving(n: int) -> float:
        return n / (0.5 + 0.3 * n)

    rate = 0.9 * leaving(8)
    found = solve(rate, leaving, 8)

    assert (found.wait_seconds, found.inside) == pytest.approx(by_brute_force(rate, leaving, 8), rel=1e-9)


def test_littles_law_holds_for_all_that_are_inside() -> None:
    """Inside = rate x (wait + run). The run time follows from the chain and is no input."""
    found = solve(1.5, lambda n: n / (0.5 + 0.3 * n), 200)

    assert found.wait_seconds == pytest.approx(0.0, abs=1e-12)
    assert found.inside == pytest.approx(by_brute_force(1.5, lambda n: n / (0.5 + 0.3 * n), 200)[1])


def test_more_than_can_leave_waits_for_ever() -> None:
    found = solve(2.0, lambda n: n / 4, 8)

    assert (found.wait_seconds, found.utilisation) == (inf, 1.0)


def test_thousands_of_slots_stay_within_a_float() -> None:
    """The products of 5,000 ratios reach 10^2000 on the way; the wait of so large a system is 0."""
    found = solve(4000.0, float, 5000)

    assert [found.wait_seconds, found.inside] == pytest.approx([0.0, 4000.0], abs=1e-6)


def test_time_beyond_what_was_observed_is_known() -> None:
    """The share of time above the observed states. M/M/1 with known = 1 of 1: none. Four slots of which two were seen:
    the states above two."""
    assert solve(0.5, lambda _: 1.0, 1, known=1).beyond == 0.0
    weights = [1.0, 2.0, 2.0, 4 / 3, 2 / 3]
    tail = weights[4] / (1 - 0.5)
    expected = (weights[3] + tail) / (sum(weights[:4]) + tail)

    assert solve(2.0, float, 4, known=2).beyond == pytest.approx(expected)
