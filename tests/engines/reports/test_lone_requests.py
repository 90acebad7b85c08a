"""LMDeploy's page, which tells a request's times only if that request alone finished, read over a real socket."""

import asyncio
import itertools
import math
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sidecar.engines.lmdeploy import LMDeploy
from sidecar.engines.probe.state import STEP_BYTES
from sidecar.engines.reports.fetcher import IDLE_SECONDS
from sidecar.engines.reports.lone_requests import SETTLE_SECONDS, UNSAFE_SECONDS, Histogram, SumsScan
from tests.support.examples import examples
from tests.support.fetching import BY_ENGINE, EXACT, NO_SPLIT, WORDS, Fetching


if TYPE_CHECKING:
    from collections.abc import AsyncIterator


PAGE = (WORDS / "lmdeploy-metrics.txt").read_text()
RANK = '{engine="0",model_name="tiny"}'
QUEUE, PREFILL, DECODE, WHOLE, PROMPT = Histogram
NAMES = LMDeploy.source.names
OURS = {QUEUE: 0.1, PREFILL: 0.3, DECODE: 0.2, WHOLE: 0.62, PROMPT: 5.0}
USAGE = {"prompt_tokens": 5, "completion_tokens": 3}
SETTLED = EXACT | BY_ENGINE


class Summing:
    """An LMDeploy: its page of metrics, on which requests finish."""

    def __init__(self) -> None:
        self.page = PAGE
        self.asked = 0

    def finish(self, said: dict[Histogram, float] | None = None, rank: str = RANK) -> None:
        """One request finishes, with these times in seconds."""
        for histogram, seconds in (OURS if said is None else said).items():
            name = re.escape(NAMES[histogram].decode())
            for what, grown in (("sum", seconds), ("count", 1.0)):
                series = re.compile(rf"^{name}_{what}{re.escape(rank)} (\S+)$", re.MULTILINE)
                for found in series.finditer(self.page):
                    start, end = found.span(1)
                    self.page = f"{self.page[:start]}{float(found[1]) + grown}{self.page[end:]}"

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(text=self.page)


@asynccontextmanager
async def reading(engine: Summing) -> "AsyncIterator[Fetching]":
    """A walk with this engine, after one reading of its page."""
    app = web.Application()
    app.router.add_get("/metrics", engine.answer)
    server = TestServer(app)
    await server.start_server()
    walk = Fetching("lmdeploy", str(server.make_url("")).rstrip("/"))
    try:
        await walk.fetch()
        walk.clock.later(1.0)
        yield walk
    finally:
        await walk.report_fetcher.close()
        await server.close()


async def settled_fetch(walk: Fetching) -> None:
    """The fetch that the fetcher makes once the page has settled."""
    walk.clock.later(0.5)
    await walk.fetch()


def told(scenario: Callable[[Summing, Fetching], object], engine: Summing | None = None) -> Fetching:
    """Run a scenario with this engine; a request that still waits at its end gets no report."""

    async def run() -> Fetching:
        summing = engine or Summing()
        async with reading(summing) as walk:
            waited = scenario(summing, walk)
            if asyncio.iscoroutine(waited):
                await waited
            await settled_fetch(walk)
            walk.settlement.expire(walk.clock.later(4.0))
        return walk

    return asyncio.run(run())


@pytest.mark.proves("lmdeploy", "page")
def test_one_request_alone_is_told_exactly() -> None:
    """The growth of the sums is its own: four phases by the engine, and the rest is the front end."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        walk.answer("1", USAGE)
        engine.finish()

    walk = told(scenario)

    assert walk.phases() == [SETTLED]
    assert walk.value("llm_phase_attribution_total", source="engine", reason="late_report") == 1


def test_request_after_request_is_told_each_by_the_reading_between() -> None:
    """Each reading is the start of the next comparison."""

    async def scenario(engine: Summing, walk: Fetching) -> None:
        for number in range(3):
            walk.answer(str(number), USAGE)
            engine.finish()
            await settled_fetch(walk)

    assert told(scenario).phases() == [SETTLED] * 3


def test_two_that_ended_between_two_readings_cannot_be_told_apart() -> None:
    """The mean of two requests is the time of neither."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        for number in range(2):
            walk.answer(str(number), USAGE)
            engine.finish()

    walk = told(scenario)

    assert walk.phases() == [NO_SPLIT] * 2
    assert walk.drops() == {"report_ambiguous": 1}


def test_a_request_may_be_told_while_others_still_run() -> None:
    """It began after the last reading, and it alone ended: the growth is its own."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        walk.begin()
        walk.answer("2", USAGE)
        engine.finish()

    assert told(scenario).phases() == [SETTLED]


def test_one_that_was_inside_at_the_last_reading_is_not_told_while_others_run() -> None:
    """The engine may have counted it before that reading, and now another one that has not ended here yet."""

    async def scenario(engine: Summing, walk: Fetching) -> None:
        _, slow = walk.begin()
        walk.answer("2", USAGE)
        engine.finish()
        await settled_fetch(walk)
        _, _other = walk.begin()
        walk.say(slow, "1", USAGE)
        engine.finish()

    walk = told(scenario)

    assert [set(found) & {"queue", "unattributed"} for found in walk.phases()] == [{"queue"}, {"unattributed"}]


def test_a_cancelled_request_beside_it_makes_it_untold() -> None:
    """It is not known whether the engine counted the cancelled request."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        client, _ = walk.begin()
        client.end()
        walk.answer("2", USAGE)
        engine.finish()

    assert told(scenario).phases() == [NO_SPLIT]


def test_clients_that_bypass_us_end_all_belief_for_ten_minutes() -> None:
    """More requests finished than came through here: from then on a finished one may be any client's."""

    async def scenario(engine: Summing, walk: Fetching) -> None:
        engine.finish()
        walk.answer("1", USAGE)
        engine.finish()
        await settled_fetch(walk)
        walk.answer("2", USAGE)
        engine.finish()
        await settled_fetch(walk)
        walk.settlement.expire(walk.clock.later(UNSAFE_SECONDS))
        walk.answer("3", USAGE)  # the reading before it was made within UNSAFE_SECONDS
        engine.finish()
        await settled_fetch(walk)
        walk.settlement.expire(walk.clock.later(4.0))
        walk.answer("4", USAGE)
        engine.finish()

    with capture_logs() as lines:
        walk = told(scenario)

    assert walk.phases() == [NO_SPLIT] * 3 + [SETTLED]
    assert walk.drops() == {"report_ambiguous": 3}
    assert [line["event"] for line in lines].count("engine_bypassed") == 1


@pytest.mark.parametrize(
    "another",
    [
        pytest.param({PROMPT: 6.0}, id="another prompt"),
        pytest.param({WHOLE: 0.8}, id="longer than ours took"),
        pytest.param({WHOLE: 0.1}, id="shorter than ours streamed"),
        pytest.param({PREFILL: 0.6}, id="parts above the whole"),
        pytest.param({QUEUE: -0.1}, id="a time below zero"),
        pytest.param({QUEUE: float("nan")}, id="no number"),
    ],
)
def test_one_that_finished_in_its_place_is_not_taken_for_it(another: dict[Histogram, float]) -> None:
    """The engine counted another client's request, not this one: the growth does not fit what was seen here."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        walk.answer("1", USAGE)
        engine.finish(OURS | another)

    assert told(scenario).phases() == [NO_SPLIT]


def test_a_restart_begins_anew() -> None:
    """Counts that fell belong to another process; the request at that reading gets no report."""

    async def scenario(engine: Summing, walk: Fetching) -> None:
        walk.answer("1", USAGE)
        engine.page = re.sub(r" 41\.0$", " 1.0", PAGE, flags=re.MULTILINE)
        await settled_fetch(walk)
        walk.answer("2", USAGE)
        engine.finish()

    assert told(scenario).phases() == [SETTLED, NO_SPLIT]


def test_ranks_count_by_themselves() -> None:
    """One request finished in one rank: only its sums have grown."""
    engine = Summing()
    engine.page = PAGE + PAGE.replace('engine="0"', 'engine="1"')

    def scenario(engine: Summing, walk: Fetching) -> None:
        walk.answer("1", USAGE)
        engine.finish(rank='{engine="1",model_name="tiny"}')

    assert told(scenario, engine).phases() == [SETTLED]


def test_while_requests_end_in_rows_the_page_is_left_alone() -> None:
    """It is read only after some request has ended and no other has ended for `SETTLE_SECONDS`."""

    async def scenario(engine: Summing, walk: Fetching) -> None:
        assert await walk.fetch() == IDLE_SECONDS
        assert engine.asked == 1
        for number in range(20):
            walk.answer(str(number))
            assert await walk.fetch() == pytest.approx(SETTLE_SECONDS)
        assert engine.asked == 1

    told(scenario)


@pytest.mark.parametrize("page", ["", "nothing\n", PAGE[:-30], PAGE.replace("_sum", "_summe"), "x" * 100_000])
def test_a_page_that_says_nothing_settles_nothing(page: str) -> None:
    """Empty, cut off or renamed: the request gets no report, and the failure is counted."""

    def scenario(engine: Summing, walk: Fetching) -> None:
        walk.answer("1", USAGE)
        engine.page = page

    walk = told(scenario)

    assert walk.phases() == [NO_SPLIT]
    assert walk.drops() == {"report_source_failed": 1}


@given(st.lists(st.integers(0, len(PAGE)), max_size=6))
def test_a_page_says_the_same_however_it_is_cut(cuts: list[int]) -> None:
    """Pages arrive in pieces."""
    data, at = PAGE.encode(), [0, *sorted(cuts), len(PAGE)]
    scan = SumsScan(NAMES)
    for start, end in itertools.pairwise(at):
        scan.feed(data[start:end])

    ranks = scan.finish()

    assert ranks == {
        RANK.encode(): dict(
            zip(
                (QUEUE, PREFILL, DECODE, WHOLE, PROMPT),
                [(4.25, 41.0), (12.5, 41.0), (44.5, 41.0), (61.5, 41.0), (9000.0, 41.0)],
                strict=True,
            )
        )
    }


_DAMAGE = ("NaN", "+Inf", "-1", "1e400", "", "abc", "1e-5", "42.0 1700000000", "9" * 60)


@given(st.data())
@settings(max_examples=examples(300))
def test_no_page_makes_the_scan_raise_or_say_what_is_no_number(data: st.DataObject) -> None:
    """Tried with values of any kind, labels without end, and any bytes in between."""
    lines = PAGE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        name, _, _ = lines[at].rpartition(" ")
        lines[at] = data.draw(st.sampled_from([f"{name} {wrong}" for wrong in _DAMAGE] + ["", name, lines[at] * 2]))
    scan = SumsScan(NAMES)
    body = "\n".join(lines).encode() + data.draw(st.binary(max_size=20)) + b"\n"
    for start in range(0, len(body), STEP_BYTES):
        scan.feed(body[start : start + STEP_BYTES])

    ranks = scan.finish() or {}

    assert all(math.isfinite(total) for sums in ranks.values() for pair in sums.values() for total in pair)
    assert set(Histogram) >= {name for sums in ranks.values() for name in sums}


def test_a_line_that_is_too_long_gives_no_sum() -> None:
    """Its beginning is a sum's name; its end, which comes in a later piece, looks like a value."""
    scan = SumsScan(NAMES)
    name, _, _ = next(line for line in PAGE.splitlines() if "_sum" in line).rpartition(" ")
    body = PAGE.encode() + name.encode() + b" " * (2 * STEP_BYTES) + b"77\n"
    for start in range(0, len(body), STEP_BYTES):
        scan.feed(body[start : start + STEP_BYTES])

    ranks = scan.finish() or {}

    assert ranks
    assert not any(total == 77 for sums in ranks.values() for total, _ in sums.values())
