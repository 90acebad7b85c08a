"""The process's view of its engine: labels, a name for people, and advice that is logged once."""

import asyncio
from collections.abc import Callable, Iterator

import aiohttp
import msgspec
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client.parser import text_string_to_metric_families

from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import Engine
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Account, Ledger, Phase, Reason, Share, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.lifecycle import Readiness
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices
from sidecar.observe.engine_side import EngineSide
from sidecar.observe.record import Recorder
from sidecar.timeline.belief import LEARNED_FROM
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


UNTOLD = Account(
    labels=RequestLabels("m", "chat", "0-512"),
    streaming=True,
    outcome=Outcome.OK,
    marks=Marks(0.0, choices=1, usage=Usage(prompt_tokens=9, cached_tokens=0)),
    ledger=Ledger((Share(Phase.UNATTRIBUTED, 1.0, Source.WIRE),), 1.0, 1.0, 0.0, Reason.NO_REPORT),
)


class EngineSideHarness:
    """An engine side that reads the engine at `url`."""

    def __init__(self, url: str) -> None:
        self.metrics = Metrics(
            lanes=["chat"], prompt_buckets=["0-512"], constants={"quantization": "unknown", "gpu_type": "unknown"}
        )
        self.known = 0
        recorder = Recorder(self.metrics)
        self.side = EngineSide(
            EngineConfig(url=url),
            Engine("auto", (), recorder.admit_models),
            self.metrics,
            recorder,
            Readiness(),
            clock=lambda: 100.0,
            heard_at=lambda: 0.0,
            in_flight=lambda: 0,
            known=self._known,
        )

    def _known(self) -> None:
        self.known += 1

    def lines(self, name: str) -> list[str]:
        page = b"".join(slices(self.metrics, openmetrics=False, at=0.0)).decode()
        return [line for line in page.splitlines() if line.startswith(f"{name}{{")]


def asked(pages: dict[str, bytes]) -> EngineSideHarness:
    """A harness that has probed an engine with these pages."""

    async def answer(request: web.Request) -> web.Response:
        body = pages.get(request.path)
        return web.Response(status=404) if body is None else web.Response(body=body)

    async def scenario() -> EngineSideHarness:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        server = TestServer(app)
        await server.start_server()
        try:
            harness = EngineSideHarness(str(server.make_url("")).rstrip("/"))
            async with aiohttp.ClientSession() as session:
                await harness.side.prober.ask(session)
            return harness
        finally:
            await server.close()

    return asyncio.run(scenario())


TRTLLM = {
    "/health": b"",
    "/v1/models": b'{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}',
    "/version": b'{"version":"1.2.1"}',
    "/prometheus/metrics": b'trtllm_model_config_info{model="m",quantization="FP8",gpu_type="NVIDIA H100"} 1.0\n',
}
VLLM = {"/health": b"", "/v1/models": b'{"data":[{"id":"m","owned_by":"vllm"}]}', "/version": b'{"version":"0.33.0"}'}


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines  # type: ignore[misc]  # structlog's own name for such a dict


def test_an_engine_that_says_everything_fills_the_labels_and_one_line_of_the_log(
    logged: list[dict[str, object]],
) -> None:
    harness = asked(TRTLLM)

    constants = 'quantization="FP8",gpu_type="NVIDIA H100"'
    assert harness.lines("llm_engine_info") == [
        f'llm_engine_info{{{constants},engine="tensorrt_llm",version="1.2.1"}} 1'
    ]
    assert harness.lines("llm_engine_up") == [f"llm_engine_up{{{constants}}} 1"]
    assert harness.side.name.endswith(" (TensorRT-LLM 1.2.1)")
    line = [line for line in logged if line["event"] == "engine"][-1]
    assert (line["kind"], line["quantization"], line["gpu_type"]) == ("tensorrt_llm", "FP8", "NVIDIA H100")
    assert line["source"] == harness.side.source


def test_an_engine_that_goes_down_is_logged_as_a_warning(logged: list[dict[str, object]]) -> None:
    harness = asked(VLLM)  # its server is closed by now

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            await harness.side.prober.ask(session)

    asyncio.run(scenario())

    lines = [(line["up"], line["log_level"]) for line in logged if line["event"] == "engine"]
    assert (lines[0], lines[-1]) == ((True, "info"), (False, "warning"))


def test_before_detection_and_after_it_failed_a_person_is_told_which_of_both() -> None:
    harness = EngineSideHarness("http://127.0.0.1:1")

    assert harness.side.name == "http://127.0.0.1:1 (kind not known yet)"
    assert asked({"/health": b""}).side.name.endswith(" (not recognised)")


def test_advice_is_logged_once_and_again_only_when_it_is_another(logged: list[dict[str, object]]) -> None:
    """The advice counts requests, and the count grows with each; only another flag is logged again."""
    harness = asked(VLLM)
    for _ in range(3):
        for _ in range(20):
            harness.side.closed(UNTOLD)
        harness.side.advise()

    warnings = [line for line in logged if line["event"] == "engine_could_tell_more"]
    assert len(warnings) == 1
    assert warnings[0]["log_level"] == "warning"
    assert harness.side.hints[0].startswith(
        "60 of the last 60 answers came without the engine's own times: --enable-per"
    )


@pytest.mark.parametrize("outcome", Outcome)
def test_a_request_that_found_no_engine_makes_a_check_due_and_no_other_does(outcome: Outcome) -> None:
    """Clients and `llm_engine_up` say one thing at one time, so that Alertmanager sends it in one message."""
    side = EngineSideHarness("http://127.0.0.1:1").side
    asked_for = []
    side.prober.not_reached = lambda: asked_for.append(outcome)  # type: ignore[method-assign]

    side.closed(msgspec.structs.replace(UNTOLD, outcome=outcome, ledger=None))

    assert asked_for == ([outcome] if outcome is Outcome.ENGINE_UNREACHABLE else [])


def test_a_mistake_in_watching_is_counted_and_reaches_no_client() -> None:
    harness = asked(VLLM)

    harness.side.closed(None)  # type: ignore[arg-type]

    assert 'llm_sidecar_dropped_total{reason="observer_error"} 1' in harness.lines("llm_sidecar_dropped_total")


def test_only_an_engine_of_a_kind_that_counts_its_output_has_it_counted() -> None:
    """A page of an earlier engine proves nothing for one of another kind."""
    side = EngineSideHarness("http://127.0.0.1:1").side
    side.engine.is_kind("vllm")
    before = side.counts_output
    side.state.read(EngineState(), Growth({Count.OUTPUT_TOKENS: 0.0}))
    found = {}
    for kind in ("vllm", "sglang", "ollama", "tgi"):
        side.engine.is_kind(kind)
        found[kind] = side.counts_output

    assert before is False
    assert found == {"vllm": True, "sglang": True, "ollama": False, "tgi": False}


def test_each_stop_and_each_start_of_the_asking_is_one_line_and_one_number() -> None:
    """The reason makes no difference, nor does how often it is seen."""
    harness = EngineSideHarness("http://engine:8000")
    asking, told, stopped = harness.side.engine.asking, [], []
    asking.is_of_release(shows_at_once=True)
    changes: list[tuple[int, Callable[[], object]]] = [
        (1, lambda: asking.compressed(0.0)),
        (1, lambda: asking.compressed(1.0)),
        (LEARNED_FROM, lambda: asking.came_plain(2000.0)),
        (2 * LEARNED_FROM, lambda: asking.ended("openai_chat", 2000.0, shows=True)),
        (1, asking.forget),
    ]
    for times, change in changes:
        with structlog.testing.capture_logs() as lines:
            for _ in range(times):
                change()
        told.append([line["event"] for line in lines])
        stopped.append({labels["reason"]: value for labels, value in samples_of(harness, "llm_sidecar_usage_stopped")})

    assert told == [["usage_not_asked"], [], ["usage_asked"], ["usage_not_asked"], ["usage_not_asked"]]
    compressed, nothing, shows = ({"compressed_answers": a, "usage_shows": b} for a, b in ((1, 0), (0, 0), (0, 1)))
    assert stopped == [compressed, compressed, nothing, shows, nothing]


def samples_of(harness: EngineSideHarness, name: str) -> list[tuple[dict[str, str], float]]:
    page = b"".join(slices(harness.metrics, openmetrics=False, at=0.0)).decode()
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    ]
