"""Room for the admin listener's connections: a newcomer is always let in, and the oldest connection makes way for it.

The process keeps few files for what is no traffic (`budgets/budgets.py`), and a probe that finds no place would have the pod
restarted; so no newcomer is refused. Connections that wait for a request make way first, then those with an answer under way. This
module knows aiohttp's server, and no route.
"""

from typing import Any

from aiohttp import web

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
        connections = server.connections
        # aiohttp says nowhere else whether an answer is under way. The sort is stable: the oldest come first.
        connections.sort(key=lambda each: each._request_in_progress)  # noqa: SLF001
        for each in connections[: max(0, len(connections) + 1 - MOST_CONNECTIONS)]:
            if each.transport is not None:
                each.transport.abort()
        return server()
