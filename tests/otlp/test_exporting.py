"""Closed accounts reach a real collector as spans, the numbers on the page add up, and no stream waits for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from sidecar.ledger.account import Account
from sidecar.observe.span_sampling import SpanSampling
from sidecar.otlp import exporting, outbox
from sidecar.otlp.exporting import MOST_EXPORTED, WRITTEN_AT_ONCE, Closed, Export
from tests.support.collector import Collector, Said, partly, until
from tests.support.vllm_stream import play as answer
from tests.support.vllm_stream import post
from tests.support.walk import Walk


TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NOW_NANOS = 1_800_000_000_000_000_000


class Exported:
    """A walk whose closed accounts are exported to a collector."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.walk = Walk()
        self.lost: list[str] = []
        settlement = self.walk.settlement
        settlement.sampling = SpanSampling(0.0, settlement.random_hex)
        self.export = Export(
            collector.url,
            self.walk.metrics,
            version="1.2",
            placement={"pod": "llama-0"},
            environment={},
            provider=lambda: "vllm",
            random_hex=settlement.random_hex,
            clock=self.walk.clock,
            unix_nanos=lambda: NOW_NANOS,
            dropped=self.lost.append,
        )
        settlement.log = self.export.offer
        self.task = asyncio.create_task(self.export.outbox.run())

    def ask(self, *, sampled: bool = True) -> None:
        """One request that is answered well: six spans."""
        self.walk.client().send(post({"stream": True}, f"Traceparent: 00-{TRACE}-{CLIENT}-0{int(sampled)}"))
        answer(self.walk)

    @property
    def numbers(self) -> tuple[float, dict[str, float], float]:
        """On the page of metrics: made, with a fate, in flight."""
        ended = {
            fate: self.walk.value("llm_sidecar_exported_spans_ended_total", result=fate) for fate in self.export.ended
        }
        made, in_flight = (self.walk.value(f"llm_sidecar_exported_spans_{each}") for each in ("total", "in_flight"))
        assert made == sum(ended.values()) + in_flight
        return made, {fate: spans for fate, spans in ended.items() if spans}, in_flight

    async def settled(self) -> dict[str, float]:
        await until(lambda: not self.export.outbox.in_flight)
        return self.numbers[1]


@asynccontextmanager
async def exported(*answers: Said) -> AsyncIterator[Exported]:
    collector = Collector()
    collector.answers = [*answers]
    async with collector.listening():
        one = Exported(collector)
        try:
            yield one
        finally:
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(outbox, "WAITS_SECONDS", (0.0, 0.0, 0.0))


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


def test_a_sampled_request_arrives_with_its_phases_and_an_unsampled_one_never() -> None:
    """One resource and one scope hold all spans of a batch; their instants are wall-clock time, and end where the clock is now."""

    async def story() -> None:
        async with exported() as one:
            one.ask(sampled=False)
            one.ask()
            assert one.numbers == (6, {}, 6)

            assert await one.settled() == {"acknowledged": 6}
            ((resource,),) = [request.resource_spans for request in one.collector.requests]
            (scope,) = resource.scope_spans
            attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert attributes == {
                "service.name": "llm-phase-sidecar",
                "service.version": "1.2",
                "k8s.pod.name": "llama-0",
            }
            assert [span.name for span in scope.spans] == [
                *("chat tiny", "queue", "prefill", "first_token", "decode", "stream")
            ]
            assert (scope.scope.name, scope.spans[0].parent_span_id.hex()) == ("llm-phase-sidecar", CLIENT)
            assert scope.spans[-1].end_time_unix_nano == scope.spans[0].end_time_unix_nano == NOW_NANOS

    play(story)


@pytest.mark.parametrize(
    ("answers", "fates"),
    [
        pytest.param([partly(2, "no")], {"acknowledged": 10, "rejected": 2}, id="in part"),
        pytest.param([Said(503), Said(503), Said(503)], {"unavailable": 12}, id="busy"),
        pytest.param([Said(403)], {"refused": 12}, id="refused"),
    ],
)
def test_on_every_page_the_numbers_add_up(answers: list[Said], fates: dict[str, int]) -> None:
    """While spans wait, while they are on their way, and after."""

    async def story() -> None:
        async with exported(*answers) as one:
            one.collector.open.clear()
            one.ask()
            one.ask()
            assert one.numbers == (12, {}, 12)
            await one.collector.asked.wait()
            assert one.numbers == (12, {}, 12)
            one.collector.open.set()

            assert await one.settled() == fates
            assert one.numbers == (12, fates, 0)

    play(story)


def test_a_collector_that_is_away_fills_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request finds room with all its spans or with none."""
    monkeypatch.setattr(exporting, "MOST_EXPORTED", MOST_EXPORTED._replace(spans=13))

    async def story() -> None:
        async with exported() as one:
            for _ in range(4):
                one.ask()

            assert one.numbers == (24, {"queue_full": 12}, 12)

    play(story)


def test_writing_lets_the_streams_go_on_between() -> None:
    """A batch of many requests is written a few in each turn of the loop."""

    async def story() -> None:
        async with exported() as one:
            accounts: list[Account] = []
            one.walk.settlement.log = accounts.append
            for _ in range(5 * WRITTEN_AT_ONCE):
                one.ask()
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            await asyncio.sleep(0)
            before = turns
            batch: list[Closed] = [(each, each.own_span, ()) for each in accounts if each.own_span is not None]
            await one.export._body_of(batch)
            counting.cancel()

            assert turns - before == 4

    play(story)


def test_an_account_that_cannot_become_spans_is_counted_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(exporting, "phases_of", broken)

    async def story() -> None:
        async with exported() as one:
            one.ask()

            assert (one.lost, one.numbers) == (["observer_error"], (0, {}, 0))

    play(story)
