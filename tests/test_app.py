"""The app wires a config into a running sidecar, and a reload replaces the config."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.app import App
from sidecar.config.file import load
from sidecar.config.schema import Config
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.exposition import slices
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


def value(app: App, name: str, **labels: str) -> float:
    page = b"".join(slices(app.metrics, openmetrics=False, at=0.0)).decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


class Reloading:
    """An app whose config file can be rewritten."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "sidecar.yml"
        self.app = App(self.load(FIRST), lambda: load(str(self.file)))

    def load(self, text: str) -> Config:
        self.file.write_text(text)
        return load(str(self.file))

    async def reload(self, text: str) -> list[str]:
        self.file.write_text(text)
        return await self.app.reload()


def test_a_reload_takes_new_lanes_and_limits_into_force_and_their_series_begin_at_zero(tmp_path: Path) -> None:
    """Later requests follow the new rules; the new lane's counters start at 0, so that rate() sees their increase."""

    async def scenario() -> None:
        reloading = Reloading(tmp_path)
        app = reloading.app

        assert await reloading.reload(SECOND) == []

        assert app.budgets.requests.limit == 7
        assert app.road.via == b"1.1 llm-phase-sidecar"
        assert app.observers.rules.lanes == ("batch", "chat", "other")
        assert 'lane="batch"' in b"".join(slices(app.metrics, openmetrics=False, at=0.0)).decode()
        assert value(app, "llm_requests_total", lane="batch") == 0
        assert value(app, "llm_sidecar_config_last_reload_successful") == 1
        app.logs.close()

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
        reloading = Reloading(tmp_path)
        app, before = reloading.app, reloading.app.config

        errors = await reloading.reload(text)

        assert all(any(words in error for error in errors) for words in said)
        assert app.config is before
        assert value(app, "llm_sidecar_config_last_reload_successful") == 0
        assert any("refused" in note for note in app.facts().notes)
        assert await reloading.reload(SECOND) == []
        assert value(app, "llm_sidecar_config_last_reload_successful") == 1
        assert app.facts().notes == ()
        app.logs.close()

    asyncio.run(scenario())


def test_a_reload_reads_the_web_config_again_and_a_bad_one_is_told_in_the_same_places(tmp_path: Path) -> None:
    """The errors, the gauge and the status page are those of the config; a good one takes the words back."""

    async def scenario() -> None:
        web = tmp_path / "web.yml"
        web.write_text("")
        text = f"{FIRST}web: {{config_file: {web}}}\n"
        file = tmp_path / "sidecar.yml"
        file.write_text(text)
        app = App(load(str(file)), lambda: load(str(file)))
        seen = []
        for written in ("", "wrong: 1", ""):
            web.write_text(written)
            errors = await app.reload()
            told = value(app, "llm_sidecar_config_last_reload_successful")
            seen.append((len(errors), told, [note.partition(": ")[0] for note in app.facts().notes]))

        assert seen == [(0, 1, []), (1, 0, ["The last reload was refused"]), (0, 1, [])]
        app.admin.access.close()
        app.logs.close()

    asyncio.run(scenario())


def test_not_ready_until_the_engine_has_answered(tmp_path: Path) -> None:
    """The gauge `llm_sidecar_ready` agrees with the answer of `/-/ready`."""

    async def scenario() -> None:
        app = Reloading(tmp_path).app
        assert app.ready() == (False, "the engine has not answered yet")
        assert value(app, "llm_sidecar_ready") == 0

        app.readiness.answered(0.0)

        assert app.ready() == (True, "ready")
        assert value(app, "llm_sidecar_ready") == 1
        app.logs.close()

    asyncio.run(scenario())


def test_an_engine_that_stops_in_the_middle_of_its_work_is_told_by_every_probe_of_its_own(tmp_path: Path) -> None:
    """Its pod is not ready, its container's probe fails half a minute later, and the sidecar's own is well throughout."""

    async def scenario() -> list[tuple[bool, bool, bool, float]]:
        file, clock = tmp_path / "sidecar.yml", Clock()
        file.write_text(FIRST)
        app = App(load(str(file)), lambda: load(str(file)), clock)
        app.readiness.answered(clock())
        app.engine.up = True
        app.engine.is_kind("vllm")
        app.engine_side.state.read(EngineState(), Growth({Count.OUTPUT_TOKENS: 0.0}))
        found = []
        for seconds in (60, 15, 30):
            for _ in range(seconds):
                clock.later(1.0)
                app.progress.look()
            up = value(app, "llm_engine_up")
            found.append((app.ready()[0], not app.engine_progress().proven, app.healthy()[0], up))
            if seconds == 60:
                labels = RequestLabels("other", "chat", "unknown")
                app.slo.received("a", clock(), labels, streaming=True, prompt_tokens=None)
                app.slo.output("a", 1, clock())
        app.engine_side.state.on_restart()
        found.append((app.ready()[0], not app.engine_progress().proven, app.healthy()[0], value(app, "llm_engine_up")))
        app.logs.close()
        return found

    assert asyncio.run(scenario()) == [
        (True, True, True, 1),
        (False, True, True, 0),
        (False, False, True, 0),
        (True, True, True, 1),
    ]


def test_the_status_page_says_where_the_usual_values_came_from(tmp_path: Path) -> None:
    app = Reloading(tmp_path).app

    assert app.facts().usual == "usual values not known yet"
