"""A config becomes a running process, what it says of itself, and a reload that replaces the config."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.beside_traffic import BesideTraffic
from sidecar.budgets.machine import Machine
from sidecar.config.file import load
from sidecar.config.schema import Config
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices
from sidecar.observe.request_record import RequestRecord
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import End
from sidecar.serving import Serving
from sidecar.shutdown import Shutdown
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Clock


FIRST = """
engine: {url: "http://127.0.0.1:8000"}
lanes: {default: chat}
"""
SECOND = """
engine: {url: "http://127.0.0.1:8000"}
lanes: {default: chat, rules: [{lane: batch, headers: {x-lane: batch}}]}
proxy: {max_in_flight: 7, via: "on"}
"""
BAD = """
engine: {url: "http://127.0.0.1:8000"}
proxy: {max_in_flight: 0, colour: red}
"""
ELSEWHERE = """
engine: {url: "http://127.0.0.1:9000"}
"""


def value(metrics: Metrics, name: str, **labels: str) -> float:
    page = b"".join(slices(metrics, openmetrics=False, at=0.0)).decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def page_of(process: "Process", path: str) -> str:
    """A page of the admin listener, which is started for it."""
    ((host, port),) = await process.beside.admin.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
            assert answer.status == 200
            return await answer.text()
    finally:
        await process.beside.admin.stop()


EXPORTS = """
engine: {url: "http://127.0.0.1:8000"}
spans: {export_url: "http://127.0.0.1:9/v1/traces", export_untraced_ratio: 1}
"""


class Process:
    """Both halves of a process that was never started, and its config file, which can be rewritten."""

    def __init__(self, folder: Path, text: str = FIRST) -> None:
        self.file = folder / "sidecar.yml"
        self.file.write_text(text)
        self.clock = Clock()
        self.serving = Serving(self.load(), self.clock, Machine(1 << 30, 4096))
        shutdown = Shutdown(
            lambda: self.serving.config.shutdown,
            self.serving.readiness,
            self.serving.traffic,
            lambda: 0,
            self.clock,
            on_deadline=lambda: None,
        )
        self.beside = BesideTraffic(self.serving, shutdown, self.load)

    def load(self) -> Config:
        return load(str(self.file))

    async def reload(self, text: str) -> list[str]:
        self.file.write_text(text)
        return await self.beside.reload()

    def value(self, name: str, **labels: str) -> float:
        return value(self.serving.metrics, name, **labels)

    def close(self) -> None:
        self.beside.admin.access.close()
        self.serving.logs.close()


def test_a_reload_takes_new_lanes_and_limits_into_force_and_their_series_begin_at_zero(tmp_path: Path) -> None:
    """Later requests follow the new rules; the new lane's counters start at 0, so that rate() sees their increase."""

    async def scenario() -> None:
        process = Process(tmp_path)
        serving = process.serving

        assert await process.reload(SECOND) == []

        assert serving.budgets.requests.limit == 7
        assert serving.road.via == b"1.1 llm-phase-sidecar"
        assert serving.observers.rules.lanes == ("batch", "chat", "other")
        assert 'lane="batch"' in b"".join(slices(serving.metrics, openmetrics=False, at=0.0)).decode()
        assert process.value("llm_requests_total", lane="batch") == 0
        assert process.value("llm_sidecar_config_last_reload_successful") == 1
        process.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(BAD, ["proxy.max_in_flight", "proxy.colour"], id="bad"),
        pytest.param(ELSEWHERE, ["engine.url: cannot change while the process runs"], id="needs a restart"),
    ],
)
def test_a_config_that_is_refused_changes_nothing_and_a_gauge_says_so(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    """All errors of the refused config are returned at once; the old config stays in force until a valid one comes."""

    async def scenario() -> None:
        process = Process(tmp_path)
        serving, before = process.serving, process.serving.config

        errors = await process.reload(text)

        assert all(any(words in error for error in errors) for words in said)
        assert serving.config is before
        assert process.value("llm_sidecar_config_last_reload_successful") == 0
        assert any("refused" in note for note in process.beside.facts().notes)
        assert await process.reload(SECOND) == []
        assert process.value("llm_sidecar_config_last_reload_successful") == 1
        assert process.beside.facts().notes == ()
        process.close()

    asyncio.run(scenario())


def test_a_reload_reads_the_web_config_again_and_a_bad_one_is_told_in_the_same_places(tmp_path: Path) -> None:
    """The errors, the gauge and the status page are those of the config; a good one takes the words back."""

    async def scenario() -> None:
        web = tmp_path / "web.yml"
        web.write_text("")
        process = Process(tmp_path, f"{FIRST}web: {{config_file: {web}}}\n")
        seen = []
        for written in ("", "wrong: 1", ""):
            web.write_text(written)
            errors = await process.beside.reload()
            told = process.value("llm_sidecar_config_last_reload_successful")
            seen.append((len(errors), told, [note.partition(": ")[0] for note in process.beside.facts().notes]))

        assert seen == [(0, 1, []), (1, 0, ["The last reload was refused"]), (0, 1, [])]
        process.close()

    asyncio.run(scenario())


def test_a_probe_that_ended_well_is_told_to_those_who_compare_with_the_engine(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = Process(tmp_path)
        settlement = process.serving.settlement

        assert settlement.on_probe_done == process.beside.engine_side.probe_done
        assert settlement.on_ended == process.beside.report_fetcher.ended
        process.close()

    asyncio.run(scenario())


def test_not_ready_until_the_engine_has_answered(tmp_path: Path) -> None:
    """The gauge `llm_sidecar_ready` agrees with the answer of `/-/ready`."""

    async def scenario() -> None:
        process = Process(tmp_path)
        assert process.beside.ready() == (False, "the engine has not answered yet")
        assert process.value("llm_sidecar_ready") == 0

        process.serving.readiness.answered(0.0)

        assert process.beside.ready() == (True, "ready")
        assert process.value("llm_sidecar_ready") == 1
        process.close()

    asyncio.run(scenario())


def test_an_engine_that_stops_in_the_middle_of_its_work_is_told_by_every_probe_of_its_own(tmp_path: Path) -> None:
    """It is told at once; a lone pod leaves its Service a minute after the last output; the sidecar's own probe is well throughout."""

    async def scenario() -> list[tuple[bool, bool, bool, float]]:
        process = Process(tmp_path)
        serving, beside, clock = process.serving, process.beside, process.clock
        serving.readiness.answered(clock())
        serving.engine.up = True
        serving.engine.is_kind("vllm")
        beside.engine_side.state.read(EngineState(), Growth({Count.OUTPUT_TOKENS: 0.0}))
        found = []
        for seconds in (60, 15, 30, 15):
            for _ in range(seconds):
                clock.later(1.0)
                beside.progress.look()
            up = process.value("llm_engine_up")
            found.append((beside.ready()[0], not beside.engine_progress().proven, beside.healthy()[0], up))
            if seconds == 60:
                labels = RequestLabels("other", "chat", "unknown")
                request = RequestRecord()
                serving.slo.received(request, clock(), labels, streaming=True, prompt_tokens=None)
                serving.slo.output(request, 1, clock())
        beside.engine_side.state.on_restart()
        found.append(
            (
                beside.ready()[0],
                not beside.engine_progress().proven,
                beside.healthy()[0],
                process.value("llm_engine_up"),
            )
        )
        process.close()
        return found

    assert asyncio.run(scenario()) == [
        (True, True, True, 1),
        (True, True, True, 0),
        (True, False, True, 0),
        (False, False, True, 0),
        (True, True, True, 1),
    ]


def test_the_status_page_says_where_the_usual_values_came_from(tmp_path: Path) -> None:
    process = Process(tmp_path)

    assert process.beside.facts().usual == "usual values not known yet"


def test_a_scrape_and_a_reload_see_each_request_that_is_over(tmp_path: Path) -> None:
    """Also those that wait for a quiet turn of the loop to be closed: they are closed first."""

    async def scenario() -> list[float]:
        process = Process(tmp_path)
        road, metrics = process.serving.road, process.serving.metrics
        endings, turns = road.endings, road.pool.turns
        head = RequestHead(b"GET", b"/health", "1.1", [(b"Host", b"pod")], True, 0.0)

        turns.busy = True
        endings.close(road.observe(head), 0.0, End(Outcome.OK))
        found = [len(endings), value(metrics, "llm_passthrough_requests_total")]
        endings.close(road.observe(head), 0.0, End(Outcome.OK))
        found.append(len(endings))
        assert await process.reload(SECOND) == []
        found += [len(endings), value(metrics, "llm_passthrough_requests_total")]
        process.serving.logs.close()
        return found

    assert asyncio.run(scenario()) == [1, 1, 1, 0, 2]


def test_the_page_of_the_config_follows_a_reload_and_no_refused_one(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        process = Process(tmp_path)
        pages = [await page_of(process, "/config")]
        for text in (SECOND, BAD):
            await process.reload(text)
            pages.append(await page_of(process, "/config"))
        return [line for page in pages for line in page.splitlines() if line.startswith("  max_in_flight")]

    assert asyncio.run(scenario()) == [
        "  max_in_flight: 1024  # default",
        *[f"  max_in_flight: 7  # {tmp_path / 'sidecar.yml'}:4"] * 2,
    ]


def test_the_status_page_says_that_no_prometheus_scrapes(tmp_path: Path) -> None:
    """After a minute without a scrape, and until the next one."""
    process = Process(tmp_path)
    found = [process.beside.facts().notes]
    process.clock.now += 61.0
    found.append(process.beside.facts().notes)
    process.beside.admin.scrapes.answered("Prometheus/3.5.0")
    found.append(process.beside.facts().notes)

    assert [[note.partition(" since")[0] for note in notes] for notes in found] == [
        [],
        ["/metrics was not scraped for 61 s"],
        [],
    ]


def test_the_config_adds_host_names_of_the_admin_side_and_a_reload_changes_them(tmp_path: Path) -> None:
    """The machine's own name passes without being named."""

    async def scenario() -> None:
        process = Process(tmp_path)
        ((_, port),) = await process.beside.admin.start("127.0.0.1", 0)
        found = []
        async with aiohttp.ClientSession() as session:
            for allowed in ("[]", "[llm.example.com]"):
                assert await process.reload(f"{FIRST}web: {{allowed_hosts: {allowed}}}\n") == []
                for host in ("llm.example.com", socket.gethostname()):
                    async with session.get(f"http://127.0.0.1:{port}/config", headers={"Host": host}) as answer:
                        found.append(answer.status)
        await process.beside.admin.stop()
        process.close()

        assert found == [421, 200, 200, 200]

    asyncio.run(scenario())


def test_spans_are_exported_only_where_the_config_wants_it(tmp_path: Path) -> None:
    """Off, nothing is asked at a request's end and no number of it is on the page; on, the numbers begin at 0."""

    async def scenario(text: str) -> tuple[bool, bool, set[float]]:
        process = Process(tmp_path, text)
        serving, beside = process.serving, process.beside
        page = b"".join(slices(serving.metrics, openmetrics=False, at=0.0)).decode()
        found = {float(line.split()[-1]) for line in page.splitlines() if line.startswith("llm_sidecar_exported_spans")}
        process.close()
        asks = serving.settlement.sampling is not None
        return asks, serving.on_closed == beside.engine_side.closed, found

    assert [asyncio.run(scenario(text)) for text in (FIRST, EXPORTS)] == [(False, True, set()), (True, False, {0.0})]
