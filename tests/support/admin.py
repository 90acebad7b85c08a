"""The admin listener on loopback, in the test's own event loop, with a double of the app, and a client.

It knows the listener and an empty registry, and neither traffic nor an engine.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from sidecar.accounts.account_ring import AccountRing
from sidecar.admin.listener import AdminListener
from sidecar.admin.page.page import Facts
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Budgets, limits_of
from sidecar.config.schema import ProxyConfig
from sidecar.history.incident_log import IncidentLog
from sidecar.history.slices import run_now
from sidecar.metrics.declaration import Profile
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.pod.liveness.progress import Progress, State
from sidecar.shutdown import Drained


class Double:
    """A double of the app that answers as the scenario needs."""

    def __init__(self, registry: Metrics) -> None:
        self.inside = InFlight(registry)
        self.recent_failures = RecentFailures(lambda: 0.0)
        self.budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))
        self.is_ready = (True, "ready")
        self.is_healthy = (True, "healthy")
        self.progress = Progress(State.FINE, "idle")
        self.end_of_drain = Drained(drained=True, in_flight=0, waited_seconds=1.5)
        self.errors: list[str] = []
        self.reloads = 0
        self.settled = 0
        self.reloading_at_once = 0
        self.uptime_seconds = 1.0

    def ready(self) -> tuple[bool, str]:
        return self.is_ready

    def healthy(self) -> tuple[bool, str]:
        return self.is_healthy

    def engine_progress(self) -> Progress:
        return self.progress

    async def settle(self) -> None:
        self.settled += 1

    async def drain(self) -> Drained:
        return self.end_of_drain

    async def reload(self) -> list[str]:
        self.reloads += 1
        self.reloading_at_once += 1
        await asyncio.sleep(0.01)
        assert self.reloading_at_once == 1
        self.reloading_at_once -= 1
        return self.errors

    def facts(self) -> Facts:
        if self.is_healthy[1] == "broken":
            raise RuntimeError("sk-CANARY")
        return Facts("0.1", "127.0.0.1:8000", self.uptime_seconds, "defaults")


def metrics() -> Metrics:
    registry = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
    Recorder(registry)
    return registry


class Visit:
    """A started listener, its double, and a client. `routes`: its paths, without those that have a name within; `tick`: what it does each five seconds."""

    def __init__(
        self,
        app: Double,
        registry: Metrics,
        session: aiohttp.ClientSession,
        port: int,
        routes: frozenset[str],
        *,
        tick: Callable[[], None],
    ) -> None:
        self.app, self.metrics, self.session, self.port, self.routes = app, registry, session, port, routes
        self.tick = tick

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, headers=named, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.read()


def visit(
    scenario: Callable[[Visit], Awaitable[None]],
    registry: Metrics | None = None,
    *,
    incidents: IncidentLog | None = None,
    accounts: AccountRing | None = None,
    profile: Profile = "full",
    clock: Callable[[], float] | None = None,
    unix: Callable[[], float] = time.time,  # noqa: TID251  as the listener's own
) -> None:
    """Play the scenario on a started listener. `clock`: monotonic seconds; None: the loop's."""

    async def play() -> None:
        of = registry or metrics()
        app = Double(of)
        loop = asyncio.get_running_loop()
        admin = AdminListener(
            app, of, clock or loop.time, incidents=incidents, accounts=accounts, profile=profile, unix=unix
        )
        ((_, port),) = await admin.start("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as session:
                assert admin._runner is not None
                found = frozenset(each.canonical for each in admin._runner.app.router.resources())
                routes = frozenset(path for path in found if "{" not in path)

                def tick() -> None:
                    admin._diagnoses.learn(run_now(admin._history.tick(admin._clock())))

                await scenario(Visit(app, of, session, port, routes, tick=tick))
        finally:
            await admin.stop()

    asyncio.run(play())
