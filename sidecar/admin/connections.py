"""Room for the admin listener's connections: a newcomer is always let in, and the oldest connection makes way for it.

The process keeps few files for what is no traffic (`budgets/budgets.py`), and a probe that finds no place would have the pod
restarted; so no newcomer is refused. Connections that wait for a request make way first, then those with an answer under way, and
never those of this pod that wait for an answer. This module knows aiohttp's server, and no route.
"""

from typing import Any

from aiohttp import web

from sidecar.admin.access import is_loopback
from sidecar.budgets.budgets import KEPT_FILES


MOST_CONNECTIONS = KEPT_FILES * 5 // 8
"""Files that the listener's connections may hold; the others are for the engine's probes, logs and span exports."""


class Runner(web.AppRunner):
    """Runs an application as aiohttp's runner does, with at most MOST_CONNECTIONS open connections."""

    @property
    def server(self) -> Any:
        """The factory of protocols that a site hands to the loop; None before `setup`."""
        return None if super().server is None else self._protocol

    def _protocol(self) -> Any:
        server = super().server
        assert server is not None
        still_open: list[Any] = [
            each for each in server.connections if each.transport and not each.transport.is_closing()
        ]
        excess = len(still_open) + 1 - MOST_CONNECTIONS
        if excess > 0:
            for each in sorted(filter(_may_go, still_open), key=_answers)[:excess]:
                each.transport.abort()
        return server()


def _answers(connection: Any) -> bool:
    """Whether an answer is under way. aiohttp says so nowhere else."""
    return bool(connection._request_in_progress)  # noqa: SLF001


def _may_go(connection: Any) -> bool:
    # A hook of this pod waits for /-/drain, and the engine stops when the hook ends.
    return not (_answers(connection) and is_loopback(connection.transport.get_extra_info("peername")[0]))
