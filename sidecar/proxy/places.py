"""The places of whole requests and of websockets, and what finds none.

A request takes its place before its last byte goes to the engine, so that the engine never has all of a request that is
refused. Where all places of websockets are taken, one that has long been silent makes room. Knows the two budgets, and when
each websocket last carried a byte. Refuses to know how a request ends: the `Exchange` (`relay.py`) answers its client.
"""

from collections.abc import Callable
from typing import Protocol

from sidecar.budgets.budgets import KEEPS_PLACE_SECONDS, Budget, Budgets
from sidecar.proxy.errors import Failure
from sidecar.proxy.gate import Members
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.standstill import Now


class Placed(Protocol):
    """An exchange that may take a place."""

    head: RequestHead
    place: Budget | None
    """The budget out of which its place is; None as long as it has none."""
    tunnel: bool
    """The engine has switched protocols."""
    moved_at: float
    """When the last byte came from its client."""
    engine_read_at: float
    """When the last byte came from the engine."""

    def fail(self, failure: Failure, at: float) -> None:
        """End it because of `failure`."""
        ...


class Places:
    """All places of one process."""

    def __init__(self, budgets: Budgets, now: Callable[[], Now]) -> None:
        self._budgets = budgets
        self._now = now
        self._tunnels = Members[Placed]()

    def refusal(self, exchange: Placed, *, takes: bool, answered: bool) -> Failure | None:
        """The failure of a request for which no place is free; None if one is, or has been made. Then it `takes` that place,
        or not yet.

        `answered`: it is counted, and never refused.
        """
        websocket = exchange.head.websocket
        budget = self._budgets.tunnels if websocket else self._budgets.requests
        if budget.used >= budget.limit and not answered:
            budget.exceeded += 1
            if not websocket:
                return Failure.TOO_MANY_IN_FLIGHT
            if not self._make_room(self._now()) or budget.used >= budget.limit:
                return Failure.TOO_MANY_TUNNELS
        if takes:
            budget.used += 1
            exchange.place = budget
            if websocket:
                self._tunnels.add(exchange)
        return None

    def give_back(self, exchange: Placed, budget: Budget) -> None:
        """The exchange that took a place out of this budget is over."""
        budget.used -= 1
        if exchange.head.websocket:
            self._tunnels.discard(exchange)

    def _make_room(self, now: Now) -> bool:
        """End the websocket that has been silent for longest, if it may be ended."""
        silent = self._tunnels.lowest(_switches_and_carried_at)
        if silent is None or not silent.tunnel or now.since(_carried_at(silent)) <= KEEPS_PLACE_SECONDS:
            return False
        silent.fail(Failure.TUNNEL_IDLE, now.at)
        return True


def _carried_at(tunnel: Placed) -> float:
    return max(tunnel.moved_at, tunnel.engine_read_at)


def _switches_and_carried_at(tunnel: Placed) -> tuple[bool, float]:
    return not tunnel.tunnel, _carried_at(tunnel)
