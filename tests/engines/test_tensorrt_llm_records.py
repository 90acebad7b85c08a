"""TensorRT-LLM's records, of its files and of /perf_metrics over a real socket, joined to requests through the whole sidecar."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sidecar.engines.probe.advice import ENOUGH, Advisor
from sidecar.engines.reports import sink
from sidecar.engines.reports.export_files import ExportDirectory
from sidecar.engines.reports.export_lines import ExportLines
from sidecar.engines.reports.fetcher import IDLE_SECONDS, MAX_RECORDS_BYTES, ExportTail, RecordsPoll
from sidecar.engines.reports.sink import FAILED_SECONDS
from sidecar.engines.tensorrt_llm import TensorRTLLM, reports_in_records
from tests.support.answers import damaged
from tests.support.examples import examples
from tests.support.fetching import BY_ENGINE, EXACT, NO_SPLIT, WORDS, Fetching


if TYPE_CHECKING:
    from collections.abc import AsyncIterator


VINTAGES = ("numeric-ids", "text-ids")
SETTLED = EXACT | BY_ENGINE


def fixture(vintage: str) -> bytes:
    return (WORDS / f"tensorrt-llm-perf-metrics-{vintage}.json").read_bytes()


def record(request_id: object, vintage: str = "numeric-ids") -> dict[str, object]:
    (found,) = json.loads(fixture(vintage))
    return {**found, "request_id": request_id}


class Draining:
    """A trtllm-serve: its records, which each poll empties."""

    def __init__(self) -> None:
        self.records: list[object] = []
        self.asked = 0

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked += 1
        drained, self.records = self.records, []
        return web.json_response(drained)


@asynccontextmanager
async def polling(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> "AsyncIterator[Fetching]":
    """A walk that may poll an engine with this one page."""
    app = web.Application()
    app.router.add_get("/perf_metrics", handler)
    server = TestServer(app)
    await server.start_server()
    walk = Fetching("tensorrt_llm", str(server.make_url("")).rstrip("/"), poll_perf_metrics=True)
    try:
        yield walk
    finally:
        await walk.report_fetcher.close()
        await server.close()


@pytest.mark.proves("tensorrt_llm", "perf_metrics")
@pytest.mark.parametrize("api", ["chatcmpl", "cmpl"])
@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_record_of_any_vintage_gives_its_request_all_phases(vintage: str, api: str) -> None:
    """The answer's id is the API's prefix and the number of the record."""

    async def scenario() -> None:
        engine = Draining()
        async with polling(engine.answer) as walk:
            walk.answer(f"{api}-2048")
            engine.records = json.loads(fixture(vintage))

            await walk.fetch()

            assert walk.phases() == [SETTLED]
            assert walk.drops() == {}

    asyncio.run(scenario())


def test_the_transfer_of_the_cache_is_told_apart() -> None:
    """A generation worker's transfer: 50 ms, which are part of its queue."""
    (keyed,) = reports_in_records(fixture("text-ids"))

    assert keyed is not None
    assert keyed.report.kv_transfer_seconds == pytest.approx(0.05)


def test_a_record_that_is_appended_late_is_asked_for_again_and_less_and_less_often() -> None:
    """The stream's last byte goes out before the record is stored: some fetches are too early."""

    async def scenario() -> None:
        engine = Draining()
        async with polling(engine.answer) as walk:
            walk.answer("chatcmpl-2048")
            pauses = []
            for _ in range(5):
                pauses.append(await walk.fetch())
                walk.clock.later(pauses[-1])
            engine.records = [record(2048)]

            assert await walk.fetch() == IDLE_SECONDS

            assert pauses == [0.2, 0.4, 0.8, 1.6, 2.0]
            assert walk.phases() == [SETTLED]

    asyncio.run(scenario())


def test_records_are_left_to_other_readers_while_no_request_waits() -> None:
    """A poll empties the records: without a waiting request there is no poll, and for a burst of ends there is one."""

    async def scenario() -> None:
        engine = Draining()
        async with polling(engine.answer) as walk:
            await walk.fetch()
            assert engine.asked == 0
            for number in range(4):
                walk.answer(f"chatcmpl-{number}")
            engine.records = [record(number) for number in range(4)]

            await walk.fetch()
            assert (engine.asked, walk.phases()) == (1, [SETTLED] * 4)
            walk.answer("chatcmpl-9")
            walk.clock.later(-0.65)
            assert await walk.fetch() == pytest.approx(RecordsPoll.FIRST_SECONDS - 0.05)

            assert engine.asked == 1

    asyncio.run(scenario())


def test_repeated_unmatched_and_unreadable_records_are_counted() -> None:
    """Another client's record, the same one again, one of a disaggregated front end, and one that is no record."""

    async def scenario() -> None:
        engine = Draining()
        async with polling(engine.answer) as walk:
            walk.answer("chatcmpl-2048")
            engine.records = [record(2048), record(2048), record(7), *json.loads(fixture("disaggregated")), "no", 3]

            await walk.fetch()
            walk.settlement.expire(walk.clock.later(11.0))

            assert walk.phases() == [SETTLED]
            assert walk.drops() == {"report_twice": 1, "report_unmatched": 1, "report_unreadable": 3}

    asyncio.run(scenario())


async def _not_found(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


async def _elsewhere(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/perf_metrics")


async def _huge(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"[" + b" " * MAX_RECORDS_BYTES + b"]")


async def _hanging(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(0.5)
    return web.Response()


async def _compressed(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize("handler", [_not_found, _elsewhere, _huge, _hanging, _compressed])
def test_an_engine_that_does_not_answer_costs_the_split_and_nothing_else(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure is counted each time, logged once, and tried again later; the request is settled without a report."""
    monkeypatch.setattr(sink, "POLL_TIMEOUT_SECONDS", 0.1)

    async def scenario() -> None:
        async with polling(handler) as walk:
            walk.answer("chatcmpl-2048")
            with capture_logs() as lines:
                for _ in range(2):
                    assert await walk.fetch() == FAILED_SECONDS
                    walk.clock.later(FAILED_SECONDS)
            walk.settlement.expire(walk.clock.later(1.0))

            assert walk.phases() == [NO_SPLIT]
            assert walk.drops() == {"report_source_failed": 2}
            assert [line["event"] for line in lines].count("report_source_unreadable") == 1

    asyncio.run(scenario())


def test_a_release_without_the_page_is_told_apart_and_the_advice_is_for_it() -> None:
    """The page was removed in 2026: what was advised is already set, and does nothing there."""

    async def scenario() -> None:
        async with polling(_not_found) as walk:
            advisor = Advisor(walk.settlement.engine)
            for number in range(ENOUGH):
                walk.answer(f"chatcmpl-{number}")
            with capture_logs() as lines:
                await walk.fetch()
            while len(walk.accounts) < ENOUGH:
                walk.settlement.expire(walk.clock.later(20.0))
            for account in walk.accounts:
                advisor.closed(account)

            (told,) = [line for line in lines if line["event"] == "report_source_unreadable"]
            assert "has no /perf_metrics" in told["hint"]
            assert ["set engine.poll_perf_metrics to false" in hint for hint in advisor.hints(page_missing=False)] == [
                True
            ]

    asyncio.run(scenario())


def test_an_engine_that_is_not_there_is_no_error_of_ours() -> None:
    """The connection is refused."""

    async def scenario() -> None:
        walk = Fetching("tensorrt_llm", poll_perf_metrics=True)
        walk.answer("chatcmpl-2048")
        await walk.fetch()
        await walk.report_fetcher.close()

        assert walk.drops() == {"report_source_failed": 1}

    asyncio.run(scenario())


def test_unasked_the_poll_is_off() -> None:
    """Other readers of the records must keep getting them; no request waits then."""
    walk = Fetching("tensorrt_llm")

    walk.answer("chatcmpl-2048")

    assert walk.phases() == [NO_SPLIT]


@given(st.sampled_from(VINTAGES).flatmap(lambda vintage: damaged([b"{" + b'"a":' + fixture(vintage).strip() + b"}"])))
@settings(max_examples=examples(150))
def test_a_damaged_record_gives_the_right_split_or_none(damage: list[bytes]) -> None:
    """Values null, negative, text, huge, renamed or missing: the numbers are right or absent, and nothing is raised."""
    walk = Fetching("tensorrt_llm", poll_perf_metrics=True)
    walk.answer("chatcmpl-2048")

    for keyed in reports_in_records(damage[0].strip().removeprefix(b'{"a":').removesuffix(b"}")):
        if keyed is not None:
            walk.settlement.reported(keyed)
    walk.settlement.expire(walk.clock.later(11.0))

    (found,) = walk.phases()
    # Without its last instant the decode is measured on the wire, with the same value here.
    assert found in (SETTLED, EXACT | {"decode": (200, "wire"), "stream": (50, "wire")}, NO_SPLIT)


@given(st.binary(max_size=300) | st.builds(lambda depth: b"[" * depth, st.integers(0, 5000)))
def test_no_body_makes_the_reader_raise(body: bytes) -> None:
    """Tried with random bytes, and with brackets without end."""
    assert list(reports_in_records(body)) == ([] if body.strip() == b"[]" else [None])


# --- lines of its files --------------------------------------------------------------------------------------------------

LINES = (WORDS / "tensorrt-llm-perf-metrics.jsonl").read_bytes()
OURS = LINES.splitlines(keepends=True)[1]
EARLIER, NEWEST = (
    "perf_metrics-server-pod-0-9-20261119T235959Z.jsonl",
    "perf_metrics-server-pod-0-10-20261120T000001Z.jsonl",
)


@pytest.mark.proves("tensorrt_llm", "files")
@pytest.mark.parametrize("api", ["chatcmpl", "cmpl"])
def test_a_line_gives_its_request_all_phases(tmp_path: Path, api: str) -> None:
    """The warm-up's line finds no request; a disaggregated front end's file in the same folder is not read."""

    async def scenario() -> None:
        walk = Fetching("tensorrt_llm", perf_metrics_dir=str(tmp_path))
        await walk.fetch()
        walk.answer(f"{api}-2048")
        (tmp_path / NEWEST).write_bytes(LINES)
        (tmp_path / NEWEST.replace("server", "disagg")).write_bytes(fixture("disaggregated").strip(b"[]\n") + b"\n")
        await walk.fetch()
        walk.settlement.expire(walk.clock.later(11.0))
        await walk.report_fetcher.close()

        assert walk.phases() == [SETTLED]
        assert walk.drops() == {"report_unmatched": 1}

    asyncio.run(scenario())


def test_the_newest_files_are_those_of_the_latest_times(tmp_path: Path) -> None:
    """The name has the host's and the process's number before the time: after a restart the lower number may be the newer file."""
    directory = ExportDirectory(str(tmp_path), TensorRTLLM.source.name)
    oldest = "perf_metrics-server-zz-99-20260101T000000Z.jsonl"
    others = ("perf_metrics-server-x.jsonl", "perf_metrics-disagg-pod-0-1-20261121T000000Z.jsonl")
    for name in (oldest, EARLIER, NEWEST, *others):
        (tmp_path / name).touch()
    directory.read(now_unix=0.0)
    for name in (oldest, EARLIER, NEWEST, *others):
        (tmp_path / name).write_text(f"{name}\n")

    pieces = directory.read(now_unix=0.0).pieces
    directory.close()

    assert sorted(piece.data.decode().strip() for piece in pieces) == sorted([EARLIER, NEWEST])


def test_lines_are_read_wherever_they_are_cut() -> None:
    """Whole, byte by byte and at every split."""
    splits = [[LINES[:at], LINES[at:]] for at in range(1, len(LINES))]

    def read(pieces: list[bytes]) -> tuple[list[object], int]:
        lines = ExportLines(TensorRTLLM.source)
        return [report for piece in pieces for report in lines.feed(piece)], lines.unreadable

    whole = read([LINES])
    assert (len(whole[0]), whole[1]) == (2, 0)
    assert [read(pieces) == whole for pieces in ([LINES[at : at + 1] for at in range(len(LINES))], *splits)] == [
        True
    ] * len(LINES)


def test_where_files_and_polls_are_allowed_only_the_files_are_read(tmp_path: Path) -> None:
    """The same report twice would count as a loss; and a poll empties the records for others."""
    walk = Fetching("tensorrt_llm", perf_metrics_dir=str(tmp_path), poll_perf_metrics=True)

    assert type(walk.report_fetcher._readers["tensorrt_llm"]) is ExportTail
