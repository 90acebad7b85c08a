"""The answers of a fleet's Prometheus or of a sidecar become diagnoses; any other answer becomes one sentence."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from sidecar.commands.diagnose.sources import AskingError, fleet, one_sidecar
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.tree import diagnose


class Stub:
    """Answers queries by a text that they contain; other queries get an empty answer. `past`: of range queries, alike at each of ten steps."""

    def __init__(self, answers: "Answers", past: "Answers | None" = None) -> None:
        self.answers = answers
        self.past = past or {}
        self.asked: list[str] = []
        self.ranges: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        asked = {name: str(value) for name, value in (await request.post()).items()}
        query = asked["query"]
        if request.path.endswith("/query_range"):
            self.ranges.append(asked)
            found = next((samples for part, samples in self.past.items() if part in query), [])
            ends = [float(asked["end"]) - float(asked["step"]) * back for back in range(9, -1, -1)]
            matrix = [{"metric": of, "values": [(at, str(value)) for at in ends]} for of, value in found]
            return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": matrix}})
        self.asked.append(query)
        found = next((samples for part, samples in self.answers.items() if part in query), [])
        result = [{"metric": labels, "value": [1.0, str(value)]} for labels, value in found]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def play(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], scenario: Callable[[str], Awaitable[Any]]
) -> Any:
    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            return await scenario(f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def ask(url: str, **told: Any) -> Any:
    wanted = {"namespace": "llm", "model": None, "lane": None, "window_seconds": 300.0} | told
    return fleet(url, **wanted)


Answers = Mapping[str, list[tuple[dict[str, str], float]]]

WHO = {"model": "llama", "lane": "chat", "objective": "ttft"}
PAGE: Answers = {
    "(increase(llm_requests_received_total{": [({"model": "llama", "lane": "chat"}, 1200.0)],
    "pod) (increase(llm_slo_misses_total{": [({**WHO, "pod": "a"}, 30.0), ({**WHO, "pod": "b"}, 270.0)],
    "pod) (increase(llm_slo_requests_total{": [({**WHO, "pod": "a"}, 600.0), ({**WHO, "pod": "b"}, 600.0)],
    "pod:llm_slo:odd{": [({"model": "llama", "pod": "b"}, 1.0)],
    "llm_slo_misses_total{": [(WHO, 300.0)],
    "llm_slo_allowed_misses_total{": [(WHO, 60.0)],
    "llm_slo_root_misses_total{": [({**WHO, "phase": "prefill"}, 200.0), ({**WHO, "phase": "queue"}, 50.0)],
    "llm_slo_root_cause_misses_total{": [
        ({"model": "llama", "phase": "prefill", "cause": "prefill_cost"}, 190.0),
        ({"model": "llama", "phase": "prefill", "cause": "uncached"}, 10.0),
        ({"model": "llama", "phase": "queue", "cause": "load"}, 50.0),
    ],
    "llm_slo_blamed_misses_total{": [({**WHO, "phase": "queue"}, 200.0), ({**WHO, "phase": "prefill"}, 50.0)],
    "llm_evidence_ratio{": [({"cause": "prefill_cost"}, 1.09)],
    "llm_incident_size_ratio{": [({"phase": "prefill", "cause": "prefill_cost", "per": "token"}, 2.2)],
    "llm_incident_size_ratio_low{": [({"phase": "prefill", "cause": "prefill_cost", "per": "token"}, 2.0)],
    "llm_incident_size_ratio_high{": [({"phase": "prefill", "cause": "prefill_cost", "per": "token"}, 2.4)],
    "llm_incident_confidence_ratio{": [({"phase": "prefill", "cause": "prefill_cost"}, 0.9)],
    "timestamp(llm_incident_shown_age_seconds{": [({"phase": "prefill", "cause": "prefill_cost"}, 1_790_000_120.0)],
    "timestamp(llm_incident_age_seconds{": [({"phase": "prefill", "cause": "prefill_cost"}, 1_790_000_000.0)],
    "max_over_time((sum(llm_engine_requests_running": [({}, 9.0)],
    "llm_engine_requests_running{": [({}, 3.0)],
    "llm_engine_info": [({"engine": "sglang", "version": "0.5.6"}, 1.0)],
}


NEWER: Answers = {
    "llm_slo_root_misses_total{": [({**WHO, "phase": "elsewhere"}, 200.0)],
    "llm_slo_root_cause_misses_total{": [({"model": "llama", "phase": "queue", "cause": "luck"}, 200.0)],
}


@pytest.mark.parametrize("series", NEWER)
def test_sidecars_of_another_version_are_named(series: str) -> None:
    """A later one may know a phase or a cause that this command does not; without its misses the shares would be wrong."""
    stub = Stub({**PAGE, series: NEWER[series]})

    with pytest.raises(AskingError, match="has sidecars of another version: use the command of theirs"):
        play(stub.handle, ask)


def test_one_lane_whose_diagnosis_fails_takes_no_other_lanes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_for_batch(told: Measured) -> Diagnosis:
        if told.lane == "batch":
            raise ValueError("the mistake under test")
        return diagnose(told)

    monkeypatch.setattr("sidecar.diagnosis.tree.diagnose", fails_for_batch)
    lanes = [({"model": "llama", "lane": lane}, 1200.0) for lane in ("batch", "chat")]

    answer = play(Stub({**PAGE, "(increase(llm_requests_received_total{": lanes}).handle, ask)

    assert [(one["lane"], one["outcome"]) for one in answer["diagnoses"]] == [("chat", "verdict"), ("batch", "refused")]
    assert answer["diagnoses"][1]["missing"][0]["what"].startswith("The diagnosis of this lane failed: ValueError in")


def test_a_lane_that_promises_whole_answers_alone_needs_no_decided_miss() -> None:
    who = {"model": "llama", "lane": "batch", "objective": "e2e"}
    answers: Answers = {
        "(increase(llm_requests_received_total{": [({"model": "llama", "lane": "batch"}, 300.0)],
        "llm_slo_misses_total{": [(who, 30.0)],
        "llm_slo_allowed_misses_total{": [(who, 10.0)],
    }

    (found,) = play(Stub(answers).handle, ask)["diagnoses"]

    assert (found["outcome"], found["first"], found["phase"]) == ("verdict", "e2e", "unattributed")
    assert found["evidence"][0].startswith("The whole answer is missed 3 x as often as is allowed")


def test_the_roots_of_a_fleet_are_added_up_and_its_worst_pod_is_named() -> None:
    stub = Stub(PAGE)

    answer = play(stub.handle, ask)

    (found,) = answer["diagnoses"]
    assert (found["source"], found["namespace"], found["engine"]) == ("prometheus", "llm", "sglang")
    assert (found["phase"], found["cause"], found["confidence"]) == ("prefill", "prefill_cost", 0.9)
    assert found["since_timestamp_seconds"] == 1_790_000_000.0
    assert found["shown_timestamp_seconds"] == 1_790_000_120.0
    assert found["size"] == {"ratio": 2.2, "low": 2.0, "high": 2.4, "per": "token"}
    assert found["measured"]["verdicts"]["ttft"] == {
        "window_seconds": 120.0,
        "misses": 300.0,
        "roots": {"prefill": 200.0, "queue": 50.0},
        "undecided": 0.0,
        "phase": "prefill",
        "cause": "prefill_cost",
        "confidence": 0.8,
        "waited_in": {"queue": 0.8, "prefill": 0.2},
    }
    assert found["measured"]["pods"]["ttft"][0] == {
        "pod": "b",
        "misses": 270.0,
        "share": 0.9,
        "of_requests": 0.5,
        "odd": True,
    }
    assert [sentence for sentence in found["evidence"] if sentence.startswith("The worst of 2 pods is b, with 90 %")]
    assert found["changes"] == [
        "Running stands at 3, and was up to 9 in the last half hour.",
    ]


def test_a_server_without_functions_for_native_histograms_is_asked_again_without_them() -> None:
    """VictoriaMetrics refuses the whole question; what both questions have in common is answered."""
    stub = Stub(PAGE)

    async def refuse(request: web.Request) -> web.StreamResponse:
        query = str((await request.post())["query"])
        if "histogram_sum(" in query or "histogram_count(" in query:
            return web.json_response({"status": "error", "error": "unknown func"}, status=422)
        return await stub.handle(request)

    assert play(refuse, ask) == play(Stub(PAGE).handle, ask)
    assert [query for query in stub.asked if "llm_time_to_first_token_seconds_count{" in query] != []


def test_a_fleet_without_namespaces_is_asked_as_one() -> None:
    stub = Stub({"group by (namespace, job)": [({}, 1.0)], **PAGE})

    async def scenario(url: str) -> Any:
        return await ask(url, namespace=None)

    (found,) = play(stub.handle, scenario)["diagnoses"]

    assert (found["namespace"], found["job"], found["phase"]) == (None, None, "prefill")


def test_each_job_of_a_namespace_is_answered_by_itself() -> None:
    """Two engines behind one namespace have pages, incidents and worst pods of their own."""
    jobs = [({"namespace": "llm", "job": job}, 1.0) for job in ("small", "large")]

    found = play(Stub({"group by (namespace, job)": jobs, **PAGE}).handle, ask)["diagnoses"]

    assert [one["job"] for one in found] == ["large", "small"]


def test_one_job_can_be_asked_for() -> None:
    stub = Stub(PAGE)

    async def scenario(url: str) -> Any:
        return await ask(url, job="small")

    (found,) = play(stub.handle, scenario)["diagnoses"]

    assert found["job"] == "small"
    assert 'job="small"' in stub.asked[0]


def test_a_fleet_with_engines_that_are_down_and_no_traffic_has_an_answer() -> None:
    up = [({"pod": "a"}, 1.0), ({"pod": "b"}, 0.0)]

    answer = play(Stub({"min by (pod) (llm_engine_up": up}).handle, ask)

    assert answer["diagnoses"] == []
    assert answer["engines_down"] == [
        {
            "namespace": "llm",
            "job": None,
            "pods": ["b"],
            "of_pods": 2,
            "seconds": None,
            "coming_up": False,
            "stalled": False,
            "never_up": None,
            "why": None,
            "runbook": "LLMEngineDown",
        }
    ]


def test_misses_of_the_long_window_are_called_by_its_length() -> None:
    """Asked for an hour, the long window is six hours."""
    said = []
    for window in (300.0, 3600.0):

        async def scenario(url: str, window: float = window) -> Any:
            return await ask(url, window_seconds=window)

        page = {name: answer for name, answer in PAGE.items() if "_root_" not in name}
        (found,) = play(Stub(page).handle, scenario)["diagnoses"]
        said.append(found["evidence"][0])

    assert [sentence.rpartition(", ")[2] for sentence in said] == [
        "300 in the last half hour.",
        "300 in the last 360 min.",
    ]


@pytest.mark.parametrize(("models", "told"), [(("llama",), True), (("llama", "qwen"), False)])
def test_a_queue_of_several_models_has_no_waiting_time(models: tuple[str, ...], told: bool) -> None:
    """Each has pods of its own, and the sum of both queues says nothing about either."""
    arrived = [({"model": model, "lane": "chat"}, 1200.0) for model in models]
    page: Answers = {
        **PAGE,
        "(increase(llm_requests_received_total{": arrived,
        "llm_engine_requests_waiting": [({}, 12.0)],
    }

    found = next(one for one in play(Stub(page).handle, ask)["diagnoses"] if one["model"] == "llama")

    (sentence,) = [sentence for sentence in found["evidence"] if "in the queues of all pods" in sentence]
    assert ("each waits about" in sentence) is told


@pytest.mark.parametrize(("lane", "count"), [("chat", 1), ("batch", 0)])
def test_one_lane_can_be_asked_for(lane: str, count: int) -> None:
    async def scenario(url: str) -> Any:
        return await ask(url, lane=lane)

    assert len(play(Stub(PAGE).handle, scenario)["diagnoses"]) == count


def answering(status: int, body: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body)

    return handle


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, "starting", "answers 503: starting"),
        (200, "<html>", "no JSON"),
        (200, '{"status":"success"}', "does not answer as a Prometheus does"),
        (
            200,
            '{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "does not answer as a Prometheus does",
        ),
        (200, '["no object"]', "does not answer as a Prometheus does"),
    ],
)
def test_any_other_answer_becomes_one_sentence(status: int, body: str, said: str) -> None:
    async def scenario(url: str) -> str:
        with pytest.raises(AskingError) as error:
            await ask(url)
        return str(error.value)

    assert said in play(answering(status, body), scenario)


@pytest.mark.parametrize("body", ['{"schema_version": 99, "diagnoses": []}', "[]", "{}"])
def test_a_sidecar_of_another_schema_is_refused(body: str) -> None:
    async def scenario(url: str) -> str:
        with pytest.raises(AskingError) as error:
            await one_sidecar(url)
        return str(error.value)

    assert "another schema" in play(answering(200, body), scenario)


async def in_pieces(request: web.Request) -> web.StreamResponse:
    """A sidecar's answer in two writes, as a long one comes."""
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in (b'{"schema_version": 3, ', b'"diagnoses": []}'):
        await response.write(piece)
        await asyncio.sleep(0.05)
    await response.write_eof()
    return response


def test_an_answer_that_comes_in_pieces_is_read_whole() -> None:
    assert play(in_pieces, one_sidecar) == {"schema_version": 3, "diagnoses": []}


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names would look for the sidecar on its own host."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert play(in_pieces, one_sidecar) == {"schema_version": 3, "diagnoses": []}


async def closes(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def no_http(_url: str) -> Any:
    """A server that greets as SSH does."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        return await one_sidecar(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


@pytest.mark.parametrize(
    ("ask_it", "said"),
    [
        (lambda _url: one_sidecar("http://127.0.0.1:1"), "nothing listens there; does it run, and is the port right?"),
        (lambda _url: one_sidecar("http://nowhere.invalid"), "no address is known for that host name"),
        (lambda url: one_sidecar(url.replace("http:", "https:")), "TLS failed; does it speak https"),
        (one_sidecar, "closed the connection before its answer was whole"),
        (no_http, "does not answer as an HTTP server does; is the port right?"),
    ],
    ids=["refused", "no such host", "no TLS", "closes", "no HTTP"],
)
def test_a_failure_is_described_in_plain_words(
    ask_it: Callable[[str], Awaitable[Any]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has none of the library's own words: no `ssl:default`, no `Connect call failed`, no class name."""
    really = socket.getaddrinfo

    def without_a_network(host: str, *told: Any, **named: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return really(host, *told, **named)

    monkeypatch.setattr(socket, "getaddrinfo", without_a_network)

    async def scenario(url: str) -> str:
        with pytest.raises(AskingError) as error:
            await ask_it(url)
        return str(error.value)

    sentence = play(closes, scenario)

    assert said in sentence
    assert [word for word in ("ssl:", "Connect call", "Error", "[", "aiohttp") if word in sentence] == []


ENGINE = {"namespace": "llm", "job": "llama"}
OWN: Answers = {
    "increase(vllm:time_to_first_token_seconds_count": [(ENGINE, 600.0)],
    "vllm:time_to_first_token_seconds_bucket": [(ENGINE, 5.0)],
    "vllm:inter_token_latency_seconds_bucket": [(ENGINE, 0.04)],
    "vllm:request_queue_time_seconds_bucket": [(ENGINE, 4.4)],
    "vllm:num_requests_waiting": [(ENGINE, 20.0)],
    "vllm:num_requests_running": [(ENGINE, 64.0)],
    "vllm:kv_cache_usage_perc": [(ENGINE, 0.5)],
}


def test_where_no_sidecar_runs_the_engines_own_series_answer_and_say_what_they_cannot() -> None:
    """Its page knows that requests wait in its queue, with half of its cache free; not whose, since when, nor what is promised."""
    answer = play(Stub(OWN).handle, ask)
    (one,) = answer["diagnoses"]

    assert (one["source"], one["job"], one["engine"], one["outcome"]) == ("engine", "llama", "vllm", "verdict")
    assert (one["first"], one["phase"], one["cause"]) == ("ttft", "queue", "slots")
    assert (one["lane"], one["since_timestamp_seconds"], one["confidence"]) == (None, None, None)
    assert one["time_to_first_token"]["threshold_assumed"]
    assert one["evidence"][0].startswith("No sidecar's series are here")
    assert "`sidecar serve --no-proxy`" in one["hints"][0]


def test_the_past_of_the_page_is_asked_slice_by_slice_and_what_it_cannot_tell_has_no_cause() -> None:
    """Ten slices of the window and no more: nothing is known of how it usually is, and its queue may have any cause."""
    target = {**ENGINE, "instance": "a"}
    stub = Stub(
        OWN,
        past={
            "increase(vllm:time_to_first_token_seconds_count{": [(target, 30.0)],
            "increase(vllm:time_to_first_token_seconds_sum{": [(target, 90.0)],
            "increase(vllm:time_to_first_token_seconds_bucket{": [
                ({**target, "le": "1.5"}, 0.0),
                ({**target, "le": "+Inf"}, 30.0),
            ],
        },
    )

    (one,) = play(stub.handle, ask)["diagnoses"]

    (step,) = {query["step"] for query in stub.ranges}
    assert (step, len({query["query"] for query in stub.ranges}) > 15) == ("30", True)
    assert (one["outcome"], one["phase"], one["reason"]) == ("verdict", "unattributed", "young")
    assert any("usual values are learned" in sentence for sentence in one["because"])


def test_a_sidecars_series_come_first() -> None:
    both = play(Stub({**PAGE, **OWN}).handle, ask)
    idle = play(Stub({"llm_engine_up{": [(ENGINE, 1.0)], **OWN}).handle, ask)

    assert ([one["source"] for one in both["diagnoses"]], idle["diagnoses"]) == (["prometheus"], [])


@pytest.mark.parametrize(
    ("answers", "told", "said"),
    [
        (OWN, {"lane": "chat"}, "engines know no lanes: ask without --lane"),
        (
            {},
            {},
            "has no series of a sidecar (llm_requests_received_total) and none of an engine (sglang:time_to_first",
        ),
        ({}, {"job": "llm"}, " with --namespace=llm, --job=llm: is it the one that scrapes them?"),
    ],
)
def test_where_nothing_can_answer_it_says_what_was_looked_for(
    answers: Answers, told: dict[str, str], said: str
) -> None:
    """That there is nothing to diagnose would be wrong: an engine may be there, and is not scraped, or has other labels."""

    async def scenario(url: str) -> str:
        with pytest.raises(AskingError) as error:
            await ask(url, **told)
        return str(error.value)

    assert said in play(Stub(answers).handle, scenario)


def test_an_engine_without_traffic_is_no_error() -> None:
    assert play(Stub({"count_over_time(vllm:": [(ENGINE, 20.0)]}).handle, ask)["diagnoses"] == []
