"""The places of whole requests and of websockets, and what finds none.

A request takes its place before its last byte goes to the engine, so that the engine never has all of a request that is
refused. Knows the two budgets. Refuses to know how a request ends: the `Exchange` (`relay.py`) answers its client.
"""

from sidecar.budgets.budgets import Budget, Budgets
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import RequestHead


class Places:
    """All places of one process."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets

    def of(self, head: RequestHead) -> Budget:
        """The budget out of which this request takes its place."""
        return self._budgets.tunnels if head.websocket else self._budgets.requests

    def refusal(self, head: RequestHead) -> Failure | None:
        """The failure of a request for which no place is free; None if one is."""
        budget = self.of(head)
        if budget.used < budget.limit:
            return None
        budget.exceeded += 1
        return Failure.TOO_MANY_TUNNELS if head.websocket else Failure.TOO_MANY_IN_FLIGHT
