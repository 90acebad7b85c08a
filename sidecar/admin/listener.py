"""The admin listener: every endpoint that is not proxied traffic, on a port of its own.

| path | methods | answers |
|---|---|---|
| `/` | GET | the status page (`status.py`) |
| `/metrics` | GET | the page of metrics: text 0.0.4, OpenMetrics 1.0 or protobuf, gzipped where accepted; `?profile=full` is the whole page of a lean pod; 400 for any other profile |
| `/-/healthy` | GET | 200 while the process can work, else 503 and why |
| `/-/ready` | GET | 200 while traffic may come, else 503 and why |
| `/-/engine` | GET | for a probe of the engine's container: 503 once its stall is proven, else 200: JSON (`pod/liveness/progress.py`) |
| `/-/reload` | POST, PUT | loopback only: 200, or 500 and the config's errors |
| `/-/drain` | POST, PUT | loopback only: drains, and answers when nothing is in flight, or at the deadline with 503: JSON (`shutdown.py`) |
| `/runbooks/`, `/runbooks/NAME` | GET | the runbooks (`runbooks.py`) |
| `/config` | GET | the config in force, with the source of each value and secrets masked: YAML (`config/in_force.py`) |
| `/diagnosis` | GET | what is wrong, lane by lane, and what to do: JSON (`diagnosis.py`) |
| `/baseline.json` | GET | the usual values of this pod, for other pods: JSON (`pod/usual/baseline.py`); 503 while there are none |
| `/workload.jsonl` | GET | the closed requests, a line each, without text: JSON, or `?format=mooncake` (`workload_download.py`); 400 for any other format |
| `/incident.json` | GET | the last incidents of this process, to be attached to a bug: JSON (`history/incident_log.py`) |
| `/v1/traces` | POST | loopback only, unless the config says otherwise: the engine's spans (`otlp/receiver.py`) |
| `/v1/logs`, `/v1/metrics` | POST | as `/v1/traces`: an empty success, unread |

`access.py` says who may ask, and under which host name: with a web config, all but the probes and the loopback paths need what that file asks for. No
traffic limit applies to it, and it answers while the process drains. It knows the rest of the process only through
`App`. A slow scraper holds one of 8 places for at most 30 s, and delays no other request.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from aiohttp import hdrs, web

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.slowest import SlowestQuestion
from sidecar.admin.access import Access, Handler, is_from_this_pod
from sidecar.admin.connections import Runner
from sidecar.admin.diagnosis import JSON_HEADERS, Diagnoses
from sidecar.admin.page.status import StatusPage, StatusSource
from sidecar.admin.runbooks import Runbooks
from sidecar.admin.scrapes import Scrapes
from sidecar.admin.workload_download import WorkloadDownload
from sidecar.history.incident_log import IncidentLog
from sidecar.history.ring import PERIOD_SECONDS, History
from sidecar.history.slices import Sliced, run_sliced
from sidecar.logs.placement import placement_of
from sidecar.metrics.catalogue import DROPPED_TOTAL, SCRAPE_AGE_SECONDS, SCRAPES_TOTAL, SIDECAR_TIME_SECONDS
from sidecar.metrics.declaration import Profile
from sidecar.metrics.exposition import Pages
from sidecar.metrics.negotiation import accepts_gzip
from sidecar.metrics.registry import Metrics
from sidecar.pod.liveness.progress import Progress
from sidecar.pod.usual.baseline import RefusedError
from sidecar.shutdown import Drained


SERVER = "llm-phase-sidecar"
SCRAPES_AT_ONCE = 8
"""Enough for two Prometheus replicas, a human or two, and some scrapes that hang; further scrapes get 503."""
SCRAPE_TIMEOUT_SECONDS = 30.0
"""Prometheus gives up after 10 s by default: a client that takes longer than 30 s does not read."""
KEEP_ALIVE_SECONDS = 75.0
"""Longer than a scrape interval of 60 s, so that Prometheus keeps its connection."""
INCIDENT_VERSION = 1
"""Version of the schema of `/incident.json`, which is raised as that of `/diagnosis` (docs/diagnosis.md)."""

_log = logging.getLogger(__name__)


class App(StatusSource, Protocol):
    """The rest of the process, as far as the listener needs it."""

    def engine_progress(self) -> Progress:
        """Whether the engine makes progress, and why (or why not)."""

    async def settle(self) -> None:
        """Returns once the requests that have ended are on the page, a few in each turn of the loop."""

    async def drain(self) -> Drained:
        """Begin the drain or join it; returns at its end."""

    async def reload(self) -> list[str]:
        """Load the config again; returns its errors, none when the new one is in force."""


class AdminListener:
    """The listener of one process. `clock`: monotonic seconds; `otlp`: by path, the handlers of what exporters send.

    `otlp_from_anywhere`: other hosts than this one may send spans too. `incidents`: the log that the judge of roots writes.
    `accounts`: the closed requests; None: none are kept.
    `access`: the gate, which is closed with the listener; None: plain HTTP, open to all.
    `baseline`: makes the document of usual values, or raises RefusedError with the reason why there is none.
    `in_force`: makes the text of `/config`; a thread calls it. `unix`: Unix seconds. `profile`: that of `/metrics`.
    """

    def __init__(
        self,
        app: App,
        metrics: Metrics,
        clock: Callable[[], float],
        *,
        otlp: Mapping[str, Handler] = MappingProxyType({}),
        otlp_from_anywhere: bool = False,
        incidents: IncidentLog | None = None,
        accounts: AccountRing | None = None,
        baseline: Callable[[], Sliced[bytearray]] | None = None,
        in_force: Callable[[], str] = lambda: "",
        access: Access | None = None,
        unix: Callable[[], float] = time.time,  # noqa: TID251  pages name instants that people compare
        profile: Profile = "full",
    ) -> None:
        self.access = access or Access("", metrics, clock)
        self._app = app
        self._otlp = otlp
        self._otlp_from_anywhere = otlp_from_anywhere
        self._incidents = incidents or IncidentLog()
        self._usual = baseline or nothing_usual
        self._in_force = in_force
        self._metrics = metrics
        self._clock = clock
        self._pages = Pages(metrics, profile)
        metrics.before_scrape(lambda _at: metrics.gauge(SIDECAR_TIME_SECONDS).child().set(unix()))
        self._history = History(metrics, at=clock())
        ring = AccountRing(0) if accounts is None else accounts
        slowest = SlowestQuestion(ring)
        self._workload = WorkloadDownload(ring)
        self._diagnoses = Diagnoses(self._history, clock, app.facts, slowest)
        self._runbooks = Runbooks(self._history, clock, self._diagnoses, unix=unix, placement=placement_of(os.environ))
        self._status = StatusPage(
            app, self._history, clock, self._diagnoses.of, self._diagnoses.engine_down, unix=unix, slowest=slowest
        )
        self.scrapes = Scrapes(clock)
        metrics.before_scrape(self._age_of_scrape)
        self._scraping = 0
        self._scrapes = metrics.counter(SCRAPES_TOTAL)
        self._scrapes.begin()
        self._reloading = asyncio.Lock()
        self._runner: Runner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int) -> list[tuple[str, int]]:
        """Listen; returns the addresses. Port 0 takes any free one; an empty host every interface. Raises OSError."""
        return await self._start(lambda runner: [web.TCPSite(runner, host or None, port)])

    async def start_on(self, sockets: Sequence[Any]) -> list[tuple[str, int]]:
        """Answer on sockets that listen already (`proxy/doorstep.py`), also those who wait there; returns the addresses."""
        return await self._start(lambda runner: [web.SockSite(runner, each) for each in sockets])

    async def _start(self, sites: Callable[[Runner], Sequence[web.BaseSite]]) -> list[tuple[str, int]]:
        application = web.Application(middlewares=[_contained, self._guarded], client_max_size=4096)
        application.router.add_get("/metrics", self._page)
        application.router.add_get("/config", self._config)
        application.router.add_get("/incident.json", self._incident)
        application.router.add_get("/baseline.json", self._baseline)
        application.router.add_get("/-/healthy", self._healthy)
        application.router.add_get("/-/ready", self._ready)
        application.router.add_get("/-/engine", self._engine)
        application.router.add_route(hdrs.METH_POST, "/-/reload", self._reload)
        application.router.add_route(hdrs.METH_PUT, "/-/reload", self._reload)
        application.router.add_route(hdrs.METH_POST, "/-/drain", self._drain)
        application.router.add_route(hdrs.METH_PUT, "/-/drain", self._drain)
        pages = (self._status, self._runbooks, self._diagnoses, self._workload)
        application.router.add_routes([route for page in pages for route in page.routes()])
        if self._otlp:
            application.router.add_post("/v1/traces", self._export)
            application.router.add_post("/v1/logs", self._export)
            application.router.add_post("/v1/metrics", self._export)
        application.on_response_prepare.extend([_own_headers, self.access.add_headers])
        self._runner = Runner(
            application,
            lambda: self.access.tls,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            auto_decompress=False,
            shutdown_timeout=1.0,
            logger=_log,
        )
        await self._runner.setup()
        try:
            for site in sites(self._runner):
                await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._tasks = [
            asyncio.create_task(self._tick(), name="admin.history"),
            asyncio.create_task(self.access.watch(), name="admin.web_config"),
        ]
        return [(address[0], address[1]) for address in self._runner.addresses]

    async def stop(self) -> None:
        """Stop listening; answers under way get 1 s."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        self.access.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self.scrapes.look()
            try:
                await self._app.settle()
                now = await run_sliced(self._history.tick(self._clock()))
                self._diagnoses.learn(now)
            except Exception:  # noqa: BLE001  the ticks must go on, or every window would grow without end
                self._metrics.counter(DROPPED_TOTAL).child("observer_error").inc()
                _log.exception("admin.tick_failed")

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = await self.access.refusal(request)
        return await handler(request) if refused is None else refused

    # --- handlers ----------------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if self._scraping >= SCRAPES_AT_ONCE:
            self._scrapes.child("refused").inc()
            return web.Response(status=503, text="Too many scrapes at once.\n", headers={"Retry-After": "5"})
        asked = request.query.get("profile")
        if asked not in (None, "full"):
            return web.Response(
                status=400, text="profile: full, or none for what metrics.profile of the config says.\n"
            )
        form = self._pages.preferred(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        gzip = accepts_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, [])))
        response = web.StreamResponse(headers={"Content-Type": form.value, "Vary": "Accept, Accept-Encoding"})
        if gzip:
            response.headers["Content-Encoding"] = "gzip"
        self._scraping += 1
        result = "abandoned"
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_SECONDS):
                await response.prepare(request)
                if request.method != hdrs.METH_HEAD:
                    await self._app.settle()
                    await self._pages.write(response.write, form, gzip=gzip, at=self._clock(), whole=asked is not None)
                await response.write_eof()
            result = "ok"
            if request.method != hdrs.METH_HEAD:
                self.scrapes.answered(request.headers.get(hdrs.USER_AGENT, ""))
        except (TimeoutError, ConnectionError):
            # A truncated page must not look complete: the connection is aborted, so the chunked body has no end.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._scraping -= 1
            self._scrapes.child(result).inc()
        return response

    def _age_of_scrape(self, _at: float) -> None:
        age = self.scrapes.age_seconds
        if age is not None:
            self._metrics.gauge(SCRAPE_AGE_SECONDS).child().set(age)

    async def _healthy(self, _request: web.Request) -> web.Response:
        return _verdict(self._app.healthy())

    async def _ready(self, _request: web.Request) -> web.Response:
        return _verdict(self._app.ready())

    async def _engine(self, _request: web.Request) -> web.Response:
        progress = self._app.engine_progress()
        return web.json_response(progress.as_json(), status=503 if progress.proven else 200, headers=JSON_HEADERS)

    async def _config(self, _request: web.Request) -> web.Response:
        return web.Response(text=await asyncio.to_thread(self._in_force), headers={"Cache-Control": "no-store"})

    async def _incident(self, _request: web.Request) -> web.Response:
        document = {"schema_version": INCIDENT_VERSION, "incidents": self._incidents.as_json()}
        return web.json_response(document, headers=JSON_HEADERS)

    async def _baseline(self, _request: web.Request) -> web.Response:
        try:
            text = await run_sliced(self._usual())
        except RefusedError as refused:
            return web.Response(status=503, text=f"{refused}\n", headers=JSON_HEADERS)
        return web.Response(body=text, content_type="application/json", headers=JSON_HEADERS)

    async def _reload(self, request: web.Request) -> web.Response:
        if not is_from_this_pod(request) or _from_browser(request):
            return web.Response(status=403, text="Only a process on this host may reload, not a browser or a proxy.\n")
        async with self._reloading:
            errors = await self._app.reload()
        if errors:
            return web.Response(status=500, text="".join(f"{error}\n" for error in errors))
        return web.Response(text="Reloaded.\n")

    async def _drain(self, request: web.Request) -> web.Response:
        if not is_from_this_pod(request) or _from_browser(request):
            return web.Response(status=403, text="Only a process on this host may drain, not a browser or a proxy.\n")
        end = await self._app.drain()
        return web.json_response(end._asdict(), status=200 if end.drained else 503, headers=JSON_HEADERS)

    async def _export(self, request: web.Request) -> web.StreamResponse:
        if _from_browser(request) or not (self._otlp_from_anywhere or is_from_this_pod(request)):
            return web.Response(
                status=403,
                text="Only a process on this host may send spans (spans.receive_from), not a browser or a proxy.\n",
            )
        return await self._otlp[request.path](request)


def nothing_usual() -> Sliced[bytearray]:
    """For a process that keeps no usual values."""
    yield
    raise RefusedError("no usual values are kept")


def _verdict(verdict: tuple[bool, str]) -> web.Response:
    good, why = verdict
    return web.Response(status=200 if good else 503, text=f"{why}\n", headers={"Cache-Control": "no-store"})


def _from_browser(request: web.Request) -> bool:
    """Whether a browser sent it: any web page could make a browser do so. It then sets `Origin` or `Sec-Fetch-Site`."""
    return hdrs.ORIGIN in request.headers or "Sec-Fetch-Site" in request.headers


async def _own_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = SERVER
    response.headers["X-Content-Type-Options"] = "nosniff"  # no browser may take a page of text for a script


@web.middleware
async def _contained(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception:  # noqa: BLE001  a page that fails must not stop the listener
        _log.exception("admin.failed")
        return web.Response(status=500, text="The sidecar failed to answer; its log says why.\n")
