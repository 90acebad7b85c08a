"""A front end whose pool is gone, from the wire to readiness, roots and votes: it answers its health checks, and refuses every request.

The road, the observers and the checks of the engine are the product's, by a fake clock; the front end's own pages stand on a real socket.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from bench.incidents.prometheus import hear, names_in
from bench.incidents.samples import Samples
from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.lifecycle import Readiness
from sidecar.metrics import catalogue as c
from sidecar.objectives.objective import Objectives
from sidecar.observe.engine_progress import EngineProgress
from sidecar.observe.engine_side import EngineSide
from tests.engines.probe.prober import engine_answering
from tests.support.slo_walk import BUCKETS, GENEROUS, WHOLE, answer, ask
from tests.support.tools import need_tool
from tests.support.walk import Walk


Page = tuple[int, bytes]
MODELS: Page = (200, b'{"object":"list","data":[{"id":"tiny","object":"model"}]}')
NO_MODELS: Page = (200, b'{"object":"list","data":[]}')
HEALTHY: Page = (200, b"")
NOTHING_BEHIND: Page = (200, b'{"status":"healthy","endpoints":[],"instances":[]}')
NOT_FOUND: Page = (404, b"")
NO_WORKER: Page = (503, b'{"error":{"message":"no workers","code":503}}')


@dataclass
class FrontEnd:
    """An engine's own pages, and its answer to requests; None: a good one."""

    models: Page = MODELS
    health: Page = HEALTHY
    refusal: Page | None = None
    asked: list[str] = field(default_factory=list)

    async def page(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        status, body = {"/v1/models": self.models, "/health": self.health}.get(request.path, NOT_FOUND)
        return web.Response(status=status, body=body)


SCRAPE_SECONDS, CALM_SCRAPES, BROKEN_SCRAPES = 14, 80, 18


class Pod:
    """A sidecar beside a front end."""

    def __init__(self, url: str, front_end: FrontEnd) -> None:
        self.front_end = front_end
        self.engine = Engine("dynamo")
        self.walk = Walk(engine=self.engine, objectives=Objectives({"interactive": dict.fromkeys(BUCKETS, GENEROUS)}))
        self.readiness = Readiness()
        metrics, clock = self.walk.metrics, self.walk.clock
        self.side = EngineSide(
            EngineConfig(url=url),
            self.engine,
            metrics,
            self.walk.instruments.recorder,
            self.readiness,
            clock=clock,
            heard_at=clock,
            in_flight=lambda: 0,
            known=lambda: None,
        )
        self.samples = Samples(metrics, names_in(), SCRAPE_SECONDS)
        self.walk.settlement.log = self._closed
        self.progress = EngineProgress(
            metrics,
            self.engine,
            self.readiness,
            clock=clock,
            flow=self.walk.slo.flow,
            grew_at=lambda: 0.0,
            counted=lambda: False,
            running=lambda: None,
        )

    def _closed(self, account: Account) -> None:
        self.walk.accounts.append(account)
        self.side.closed(account)

    async def passes(self, checks: int, *, requests: int = 1) -> None:
        """So many checks, 2 s each, with so many requests before each."""
        async with aiohttp.ClientSession() as session:
            for _ in range(checks):
                for _ in range(requests):
                    self.request()
                await self.side.prober.ask(session)
                for _ in range(2):
                    self.walk.settlement.expire(self.walk.clock.later(1.0))
                    self.progress.look()

    def request(self) -> None:
        ask(self.walk)
        refusal = self.front_end.refusal
        if refusal is None:
            answer(self.walk, WHOLE)
        else:
            answer(self.walk, refusal[1], b"%d Refused" % refusal[0])

    async def is_scraped(self, times: int) -> None:
        """So many scrapes, with checks and two requests a second between them."""
        for _ in range(times):
            self.walk.metrics.refresh(self.walk.clock())
            self.samples.take()
            await self.passes(SCRAPE_SECONDS // 2, requests=4)

    def is_down(self) -> bool:
        """Whether the page of metrics, readiness and the log line say that it is down; they agree."""
        up, ready = self.walk.value("llm_engine_up"), self.readiness.ready(self.walk.clock())[0]
        assert (self.engine.up, bool(up)) == (ready, ready)
        assert not self.progress.look().proven
        return not ready

    def roots(self) -> set[tuple[str, ...]]:
        causes = self.walk.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).children
        return {key[-2:] for key, child in causes.items() if child.value}

    def votes(self) -> set[str]:
        blamed = self.walk.metrics.counter(c.SLO_BLAMED_MISSES_TOTAL).children
        return {key[-1] for key, child in blamed.items() if child.value}


@asynccontextmanager
async def beside(front_end: FrontEnd) -> AsyncIterator[Pod]:
    async with engine_answering(front_end.page) as url:
        yield Pod(url, front_end)


def gone_after_it_served(front_end: FrontEnd, seconds: int, then: Callable[[FrontEnd], None] | None = None) -> Pod:
    """A pod whose front end served and listed for a minute, and then has had these pages for some seconds."""

    async def scenario() -> Pod:
        async with beside(FrontEnd()) as pod:
            await pod.passes(30)
            assert not pod.is_down()
            pod.front_end.models, pod.front_end.health = front_end.models, front_end.health
            pod.front_end.refusal = front_end.refusal
            await pod.passes(seconds // 2)
            if then is not None:
                then(pod.front_end)
                await pod.passes(10)
            return pod

    return asyncio.run(scenario())


GONE = {
    "dynamo, at first": FrontEnd(NO_MODELS, NOTHING_BEHIND, NO_WORKER),
    "dynamo, for good": FrontEnd(NO_MODELS, NOTHING_BEHIND, NOT_FOUND),
    "a router with an empty list": FrontEnd(NO_MODELS, HEALTHY, NO_WORKER),
    "a router that has no list then": FrontEnd(NO_WORKER, HEALTHY, NO_WORKER),
    "a gateway that knows no model": FrontEnd(NOT_FOUND, HEALTHY, (404, b'{"error":{"message":"no such model"}}')),
    "a gateway without an upstream": FrontEnd((502, b""), HEALTHY, (502, b"<html>bad gateway</html>")),
    "a list that is null": FrontEnd((200, b'{"object":"list","data":null}'), HEALTHY, NO_WORKER),
    "a list under another name": FrontEnd((200, b'{"models":[]}'), HEALTHY, NO_WORKER),
    "a list that is nothing else": FrontEnd((200, b"[]"), HEALTHY, NO_WORKER),
    "a front end that says itself that it cannot work": FrontEnd(NO_MODELS, NO_WORKER, NO_WORKER),
}


@pytest.mark.parametrize("front_end", GONE.values(), ids=GONE)
def test_a_pool_that_is_gone_is_an_engine_that_is_down(front_end: FrontEnd) -> None:
    """Within ten seconds. No refusal is one for lack of room, also of those that came before it was known."""
    pod = gone_after_it_served(front_end, 40)

    assert pod.is_down()
    # A gateway's 502 is an error of the engine as long as it is not known that there is none.
    assert pod.roots() - {("engine", "errors")} == {("engine", "down")}
    assert (pod.votes(), pod.walk.accounts[-1].outcome) == ({"engine"}, "engine_unreachable")


def test_it_is_told_within_three_checks() -> None:
    told = [gone_after_it_served(GONE["dynamo, at first"], seconds).is_down() for seconds in (4, 6)]

    assert told == [False, True]


def test_a_pool_without_traffic_is_down_by_its_own_word() -> None:
    """Its list is asked for once a minute then."""

    async def scenario(health: Page) -> bool:
        async with beside(FrontEnd()) as pod:
            await pod.passes(10)
            pod.front_end.models, pod.front_end.health = NO_MODELS, health
            await pod.passes(40, requests=0)
            return pod.is_down()

    assert [asyncio.run(scenario(health)) for health in (NOTHING_BEHIND, HEALTHY)] == [True, False]


@pytest.mark.long
def test_the_page_names_the_engine_and_not_its_queue() -> None:
    """Dynamo's 503 for seven seconds, then its 404: the shipped rules page the phase engine alone, and not clients that should back off."""
    need_tool("promtool")

    async def scenario() -> Pod:
        async with beside(FrontEnd()) as pod:
            await pod.is_scraped(CALM_SCRAPES)
            pages = pod.front_end
            pages.models, pages.health, pages.refusal = NO_MODELS, NOTHING_BEHIND, NO_WORKER
            await pod.passes(4, requests=4)
            pages.refusal = NOT_FOUND
            await pod.is_scraped(BROKEN_SCRAPES)
            return pod

    samples = asyncio.run(scenario()).samples
    samples.add_target()
    samples.without_idle()
    fault_at, ends_at = (SCRAPE_SECONDS * scrapes for scrapes in (CALM_SCRAPES, CALM_SCRAPES + BROKEN_SCRAPES - 1))
    heard = hear([samples], fault_at, ends_at, ends_at)

    assert [each.alert for each in heard.before] == ["Watchdog"]
    pages = {(each.alert, each.labels["phase"]) for each in heard.during if each.labels["severity"] == "page"}
    assert {phase for _, phase in pages} == {"engine"}
    assert "LLMEngineDown" in {alert for alert, _ in pages}


LIVES: dict[str, tuple[FrontEnd, set[str]]] = {
    "its gateway loses single requests": (FrontEnd(MODELS, HEALTHY, (502, b"")), {"engine"}),
    "it refuses for lack of room": (FrontEnd(MODELS, HEALTHY, NO_WORKER), {"queue"}),
    "it has no such path": (FrontEnd(MODELS, HEALTHY, NOT_FOUND), set()),
    "it lists none, and serves": (FrontEnd(NO_MODELS, NOTHING_BEHIND, None), set()),
}


@pytest.mark.parametrize(("front_end", "votes"), LIVES.values(), ids=LIVES)
def test_one_sign_alone_is_none(front_end: FrontEnd, votes: set[str]) -> None:
    pod = gone_after_it_served(front_end, 120)

    assert not pod.is_down()
    assert pod.votes() == votes


NEVER = {
    "no list": FrontEnd(NOT_FOUND, HEALTHY),
    "an empty list": FrontEnd(NO_MODELS, NOTHING_BEHIND),
}


@pytest.mark.parametrize("front_end", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("serves", [True, False])
def test_an_engine_that_never_had_a_list_is_judged_as_ever(front_end: FrontEnd, *, serves: bool) -> None:
    """Triton, an old TGI, an Ollama that still has to pull."""

    async def scenario() -> bool:
        pages = FrontEnd(front_end.models, front_end.health, None if serves else NO_WORKER)
        async with beside(pages) as pod:
            await pod.passes(20)
            pages.refusal = NO_WORKER
            await pod.passes(20)
            return pod.is_down()

    assert asyncio.run(scenario()) is False


def lists_again(front_end: FrontEnd) -> None:
    front_end.models, front_end.health = MODELS, HEALTHY


def answers_well(front_end: FrontEnd) -> None:
    front_end.refusal = None


@pytest.mark.parametrize("comes_back", [lists_again, answers_well])
def test_a_pool_comes_back_by_listing_or_by_answering(comes_back: Callable[[FrontEnd], None]) -> None:
    assert not gone_after_it_served(GONE["dynamo, for good"], 40, comes_back).is_down()
