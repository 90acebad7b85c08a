"""Each span that is put in gets exactly one fate, whatever the collector answers, and no caller waits for that."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog.testing

from sidecar.metrics.vocabulary import SPAN_FATES
from sidecar.otlp import outbox as module
from sidecar.otlp.outbox import BATCH_SPANS, WAITS_SECONDS, Bounds, Outbox
from tests.support.collector import Collector, Said, partly, until
from tests.support.otlp import request_of


BUSY = Said(503)
ROOM = Bounds(spans=10_000, bytes=1 << 20)


class Sending:
    """An outbox of single spans, its task, and what was counted."""

    def __init__(self, collector: Collector, bounds: Bounds) -> None:
        self.collector = collector
        self.made = 0
        self.ended = dict.fromkeys(SPAN_FATES, 0)
        self.pauses: list[float] = []
        """Seconds that the outbox wanted to wait before each attempt. None of them is waited for."""
        self.outbox: Outbox[str] = Outbox("spans.export_url", collector.url, bounds, self._body_of, self._end)
        self.task = asyncio.create_task(self.outbox.run())

    async def _body_of(self, items: list[str]) -> bytes:
        if "bad" in items:
            raise ZeroDivisionError
        body: bytes = request_of(*({"name": name} for name in items)).SerializeToString()
        return body

    def _end(self, fate: str, spans: int) -> None:
        assert spans > 0
        self.ended[fate] += spans

    def put(self, *names: str) -> None:
        for name in names:
            self.made += 1
            self.outbox.put(name, size_bytes=10)

    @property
    def fates(self) -> dict[str, int]:
        """Those that a span has had."""
        return {fate: spans for fate, spans in self.ended.items() if spans}

    def adds_up(self) -> bool:
        return self.made == sum(self.ended.values()) + self.outbox.in_flight

    async def settled(self) -> dict[str, int]:
        """The fates, once no span is in flight. At each turn of the loop until then, the numbers add up."""
        async with asyncio.timeout(10):
            while self.outbox.in_flight:
                assert self.adds_up()
                await asyncio.sleep(0)
        assert self.adds_up()
        return self.fates


@asynccontextmanager
async def sending(
    monkeypatch: pytest.MonkeyPatch, *answers: Said, bounds: Bounds = ROOM, pauses: bool = False
) -> AsyncIterator[Sending]:
    """`pauses`: those between attempts are waited for."""
    collector = Collector()
    collector.answers = list(answers)
    async with collector.listening():
        one = Sending(collector, bounds)
        if not pauses:

            async def noted(seconds: float) -> None:
                one.pauses.append(seconds)

            monkeypatch.setattr(one.outbox, "_pause", noted)
        try:
            yield one
        finally:
            one.outbox.finish()
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _gathers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.01)


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


GIVEN_UP = [*WAITS_SECONDS]


@pytest.mark.parametrize(
    ("answers", "fates", "pauses"),
    [
        pytest.param([], {"acknowledged": 3}, [0.0], id="taken"),
        pytest.param([Said(202)], {"acknowledged": 3}, [0.0], id="taken with another 2xx"),
        pytest.param([BUSY, Said(429)], {"acknowledged": 3}, [0.0, 1.0, 4.0], id="busy twice"),
        pytest.param([Said(502), Said(504)], {"acknowledged": 3}, [0.0, 1.0, 4.0], id="a gateway without a collector"),
        pytest.param([BUSY] * 3, {"unavailable": 3}, GIVEN_UP, id="busy for too long"),
        pytest.param([Said(0)], {"acknowledged": 3}, [0.0, 1.0], id="the connection broke"),
        pytest.param([Said(0)] * 3, {"unavailable": 3}, GIVEN_UP, id="it breaks each time"),
        pytest.param([Said(429, {"Retry-After": "7"})], {"acknowledged": 3}, [0.0, 7.0], id="asked to wait"),
        pytest.param(
            [Said(503, {"Retry-After": "9"}), BUSY], {"acknowledged": 3}, [0.0, 9.0, 4.0], id="asked once, then not"
        ),
        pytest.param(
            [Said(503, {"Retry-After": "0"})], {"acknowledged": 3}, [0.0, 1.0], id="never sooner than by itself"
        ),
        pytest.param([Said(503, {"Retry-After": "86400"})], {"acknowledged": 3}, [0.0, 300.0], id="asked for a day"),
        pytest.param(
            [Said(503, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})], {"acknowledged": 3}, [0.0, 1.0], id="a date"
        ),
        pytest.param([Said(400)], {"refused": 3}, [0.0], id="malformed to it"),
        pytest.param([Said(401)], {"refused": 3}, [0.0], id="wants a key"),
        pytest.param([Said(404)], {"refused": 3}, [0.0], id="another path"),
        pytest.param([Said(413)], {"refused": 3}, [0.0], id="too large for it"),
        pytest.param([Said(500)], {"refused": 3}, [0.0], id="not among the retryable ones"),
        pytest.param([Said(302, {"Location": "/"})], {"refused": 3}, [0.0], id="sent elsewhere"),
        pytest.param([BUSY, Said(400)], {"refused": 3}, [0.0, 1.0], id="busy, then refused"),
        pytest.param([partly(2, "no ids")], {"acknowledged": 1, "rejected": 2}, [0.0], id="two rejected"),
        pytest.param([partly(9, "all")], {"rejected": 3}, [0.0], id="more rejected than were sent"),
        pytest.param([partly(-1, "odd")], {"acknowledged": 3}, [0.0], id="fewer than none"),
        pytest.param([partly(0, "a warning")], {"acknowledged": 3}, [0.0], id="a warning alone"),
        pytest.param(
            [Said(200, {"Content-Encoding": "gzip"}, gzip.compress(partly(2, "no ids").body))],
            {"acknowledged": 3},
            [0.0],
            id="compressed unasked: never decompressed, as it may be a bomb",
        ),
        pytest.param([Said(200, body=b"<html>")], {"acknowledged": 3}, [0.0], id="taken, with another body"),
        pytest.param([Said(200, body=b"\x08\x01" * 30_000)], {"acknowledged": 3}, [0.0], id="taken, with many fields"),
        pytest.param(
            [BUSY, partly(1, "late")], {"acknowledged": 2, "rejected": 1}, [0.0, 1.0], id="busy, then in part"
        ),
    ],
)
def test_a_batch_has_one_fate_by_what_the_collector_answers(
    monkeypatch: pytest.MonkeyPatch, answers: list[Said], fates: dict[str, int], pauses: list[float]
) -> None:
    """It is sent again only where OTLP allows it, and after no less than the collector asked for."""

    async def story() -> None:
        async with sending(monkeypatch, *answers) as one:
            one.put("a", "b", "c")

            assert await one.settled() == fates
            assert one.pauses == pauses
            assert len(one.collector.requests) == len(pauses)

    play(story)


def test_a_late_answer_is_none_and_the_span_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector had taken the batch when the sidecar gave the attempt up; it gets it again, and one fate is counted."""
    monkeypatch.setattr(module, "COLLECTOR_TIMEOUT_SECONDS", 0.05)

    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.collector.open.clear()
            one.put("a")
            await one.collector.asked.wait()
            await until(lambda: len(one.pauses) == 2)
            one.collector.open.set()

            assert await one.settled() == {"acknowledged": 1}
            assert len(one.collector.spans) >= 2

    play(story)


def test_a_collector_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLLECTOR_TIMEOUT_SECONDS", 0.02)

    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.collector.open.clear()
            one.put("a", "b")

            assert await one.settled() == {"unavailable": 2}
            assert one.pauses == GIVEN_UP

    play(story)


def test_what_finds_no_room_is_dropped_at_once_and_what_waits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """By spans and by bytes. What is being sent has left the queue and is still in flight."""

    async def story() -> None:
        async with sending(monkeypatch, bounds=Bounds(spans=5, bytes=1000)) as one:
            one.collector.open.clear()
            one.put(*"abcdefg")
            assert (one.fates, one.outbox.in_flight) == ({"queue_full": 2}, 5)
            one.outbox.put("too large", 1, 2000)
            one.made += 1
            assert one.fates == {"queue_full": 3}
            await one.collector.asked.wait()
            one.put(*"hijklm")
            assert (one.fates, one.outbox.in_flight) == ({"queue_full": 4}, 10)
            one.collector.open.set()

            assert await one.settled() == {"acknowledged": 10, "queue_full": 4}
            assert [span.name for span in one.collector.spans] == [*"abcde", *"hijkl"]

    play(story)


def test_a_whole_batch_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 60.0)

    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.put(*["x"] * (2 * BATCH_SPANS + 1))
            await until(lambda: one.outbox.in_flight == 1)

            assert (one.fates, len(one.collector.requests)) == ({"acknowledged": 2 * BATCH_SPANS}, 2)

    play(story)


@pytest.mark.parametrize(
    ("answers", "fates"),
    [
        pytest.param([], {"acknowledged": 3}, id="taken"),
        pytest.param([BUSY], {"unavailable": 3}, id="busy: there is no time for another attempt"),
        pytest.param([partly(1, "no")], {"acknowledged": 2, "rejected": 1}, id="in part"),
    ],
)
def test_at_the_end_what_waits_is_sent_once_without_gathering(
    monkeypatch: pytest.MonkeyPatch, answers: list[Said], fates: dict[str, int]
) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 60.0)

    async def story() -> None:
        async with sending(monkeypatch, *answers) as one:
            one.put("a", "b", "c")
            one.outbox.finish()
            await one.task

            assert (one.fates, one.outbox.in_flight) == (fates, 0)
            one.put("late")
            assert one.fates == fates | {"shutdown": 1}
            assert one.adds_up()

    play(story)


def test_a_batch_on_its_way_at_the_end_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.collector.open.clear()
            one.put("a")
            await one.collector.asked.wait()
            one.put("b")
            one.outbox.finish()
            one.collector.open.set()
            await one.task

            assert (one.fates, len(one.collector.spans)) == ({"acknowledged": 2}, 2)

    play(story)


def test_a_batch_that_was_asked_to_wait_is_tried_once_more_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with sending(monkeypatch, Said(429, {"Retry-After": "60"}), pauses=True) as one:
            one.put("a")
            await until(lambda: not one.collector.answers)
            one.outbox.finish()
            await one.task

            assert (one.fates, len(one.collector.requests)) == ({"acknowledged": 1}, 2)

    play(story)


def test_what_is_cut_off_at_the_end_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector holds its answer: the batch on its way and what waits behind it have the fate `shutdown`, once each."""

    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.collector.open.clear()
            one.put("a", "b")
            await one.collector.asked.wait()
            one.put("c")
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)

            assert (one.fates, one.outbox.in_flight) == ({"shutdown": 3}, 0)

    play(story)


def test_a_batch_that_cannot_be_written_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with sending(monkeypatch) as one:
            one.put("a", "bad")
            assert await one.settled() == {"unwritten": 2}
            one.put("c")
            assert await one.settled() == {"unwritten": 2, "acknowledged": 1}

    play(story)


def test_the_log_tells_that_a_collector_begins_to_fail_and_that_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each batch between; and its address, in which a key may stand, is not told."""

    async def story() -> list[dict[str, Any]]:
        async with sending(monkeypatch, Said(401), Said(401), Said(), partly(1, "no ids"), Said()) as one:
            with structlog.testing.capture_logs() as logs:
                for name in "abcde":
                    one.put(name)
                    await one.settled()
            return [dict(line) for line in logs]

    logs = asyncio.run(story())

    key = {"key": "spans.export_url"}
    assert logs == [
        key | {"event": "collector_fails", "log_level": "warning", "fate": "refused", "status": 401, "why": ""},
        key | {"event": "collector_takes_spans", "log_level": "info"},
        key | {"event": "collector_fails", "log_level": "warning", "fate": "rejected", "status": 200, "why": "no ids"},
        key | {"event": "collector_takes_spans", "log_level": "info"},
    ]
