"""A real vLLM that reports in its answers and in its spans: both agree, and the spans alone are enough.

Both ways: a thousand requests go through two sidecars in a row. The back one asks for the usage chunk, reads the report
in it and removes it again; the front one never sees it, and has only the spans, which come up to 5 s later. Their log
lines are compared request by request. Spans alone: another vLLM, without --enable-per-request-metrics. The spans pass
an endpoint (`crossroads.py`) that keeps vLLM's own values of each generation.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.engines.probe.state_names import request_times
from tests.real.crossroads import Crossroads
from tests.real.environment import Environment, Say
from tests.real.server import RunningEngine
from tests.real.told import FIVE_PHASES, Line, Page, page_of, total_of, uptime
from tests.real.traced_vllm import BATCH_SECONDS, Traced, traced_vllm
from tests.support.client import Answer, Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


REQUESTS = 1_000
CLIENTS = 12
AGREE_SECONDS = 0.001
AGREE_SHARE = 0.999
ENGINE_PHASES = ("queue", "prefill", "decode")
TRACE = "0af7651916cd43dd8448eb211c80319c"


# --- engines and sidecars ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def telling(vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """A vLLM that reports both in its answers and in its spans."""
    with traced_vllm(vllm_built, tmp_path_factory.mktemp("vllm-telling"), say) as traced:
        yield traced


@pytest.fixture(scope="module")
def spans_only(vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """A vLLM that reports in its spans only."""
    folder = tmp_path_factory.mktemp("vllm-spans-only")
    with traced_vllm(vllm_built, folder, say, "--no-enable-per-request-metrics") as traced:
        yield traced


@contextmanager
def front_sidecar(url: str, spans: Crossroads, folder: Path) -> Iterator[SidecarProcess]:
    """A sidecar that has only the spans: it asks for no usage chunk, and estimates nothing."""
    config = folder / "front.yml"
    config.write_text(
        "log:\n  headers: [x-request-id, x-who]\nproxy:\n  include_usage: never\nengine:\n  kind: vllm\n  estimate: never\n"
    )
    with running_sidecar(url, folder, flags=[f"--config.file={config}"]) as sidecar:
        spans.target = f"http://127.0.0.1:{sidecar.web_port}/v1/traces"
        try:
            yield sidecar
        finally:
            spans.target = None


@contextmanager
def back_sidecar(url: str, folder: Path) -> Iterator[SidecarProcess]:
    """A sidecar that has only the answers: it takes no spans, and forwards the front one's trace context unchanged."""
    config = folder / "back.yml"
    config.write_text("log:\n  headers: [x-request-id]\nspans:\n  receive: false\nengine:\n  kind: vllm\n")
    with running_sidecar(url, folder, flags=[f"--config.file={config}"]) as sidecar:
        yield sidecar


# --- requests --------------------------------------------------------------------------------------------------------------------


def question(engine: RunningEngine, number: int, name: str, *headers: tuple[str, str]) -> bytes:
    """Chat and completions in turn, with prompts and answers of many lengths."""
    words = "la to mi re nu ka so ti be da vo an " * (1 + number * 7 % 20)
    body: dict[str, object] = {
        "model": engine.model,
        "max_tokens": 1 if number % 20 == 0 else 4 + number * 13 % 40,
        "ignore_eos": True,
        "stream": True,
        "temperature": 1,
    }
    fields = [("X-Request-Id", name), *headers]
    if number % 2:
        return post("/v1/completions", {**body, "prompt": f"{number} {words}"}, fields)
    return post(
        "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": f"{number} {words}"}]}, fields
    )


async def answers(port: int, requests: dict[str, bytes]) -> dict[str, Answer]:
    """Send all requests with a fixed number of clients, each on its own connection."""
    left, found = iter(requests.items()), dict[str, Answer]()

    async def client() -> None:
        connection = await Connection.open(port)
        for name, request in left:
            found[name] = await connection.request(request)
        connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return found


def lines_of(sidecar: SidecarProcess, count: int, patience_seconds: float = 30.0) -> dict[str, Line]:
    """The canonical lines by the client's request id, once there are `count`."""
    lines = [Line(line) for line in sidecar.wait_for_log_lines("request", count, patience_seconds=patience_seconds)]
    return {line.request_id: line for line in lines}


def decode_of(line: Line) -> float:
    """The engine's own decode: the ledger's decode, which is limited to the time seen here, plus the time held back."""
    held = line.fields.get("held_seconds", 0.0)
    assert isinstance(held, int | float)
    return line.phases["decode"] + held


def split_of(line: Line) -> dict[str, float]:
    return {"queue": line.phases["queue"], "prefill": line.phases["prefill"], "decode": decode_of(line)}


def reasons(page: Page) -> Counter[str]:
    """How splits were obtained: the count of each reason that occurred."""
    found: Counter[str] = Counter()
    for labels, value in page["llm_phase_attribution_total"]:
        if value:
            found[labels["reason"]] += round(value)
    return found


# --- both ways -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BothWays:
    in_band: dict[str, Line]
    spans: dict[str, Line]
    page: Page
    batches: int


@pytest.fixture(scope="module")
def both_ways(telling: Traced, say: Say, tmp_path_factory: pytest.TempPathFactory) -> BothWays:
    folder = tmp_path_factory.mktemp("both-ways")
    requests = {f"both-{number}": question(telling.engine, number, f"both-{number}") for number in range(REQUESTS)}
    with (
        back_sidecar(telling.engine.url, folder) as back,
        front_sidecar(f"http://127.0.0.1:{back.port}", telling.spans, folder) as front,
    ):
        began = time.monotonic()
        found = asyncio.run(answers(front.port, requests))
        say(f"  {REQUESTS} requests through two sidecars in {time.monotonic() - began:.0f} s; {uptime()}")
        assert Counter(answer.status for answer in found.values()) == {200: REQUESTS}
        lines = lines_of(front, REQUESTS)
        return BothWays(lines_of(back, REQUESTS), lines, page_of(front), telling.spans.batches)


def test_every_ledger_is_resolved_by_a_span_that_came_seconds_later(both_ways: BothWays) -> None:
    """Spans come in batches of a few hundred: no report is missing, none is without a request, none comes twice."""
    assert both_ways.spans.keys() == both_ways.in_band.keys()
    assert reasons(both_ways.page) == {"late_report": REQUESTS}
    assert {frozenset(line.phases) for line in both_ways.spans.values()} == {frozenset(FIVE_PHASES)}
    assert {line.sources[phase] for line in both_ways.spans.values() for phase in ENGINE_PHASES} == {"engine"}
    assert total_of(both_ways.page, "llm_sidecar_dropped_total", reason="report_unmatched") == 0
    assert total_of(both_ways.page, "llm_sidecar_dropped_total", reason="report_twice") == 0
    assert both_ways.batches < REQUESTS / 10


def test_there_were_queues_to_agree_on(both_ways: BothWays) -> None:
    """Twelve clients on four slots cause real queues; without queues agreement would be trivial."""
    waited = [line for line in both_ways.in_band.values() if line.phases["queue"] > 0.005]

    assert len(waited) > REQUESTS / 2


@pytest.mark.parametrize("phase", ENGINE_PHASES)
def test_the_answer_and_the_span_agree(both_ways: BothWays, say: Say, phase: str) -> None:
    """The answer's report and the span's differ by at most a millisecond, for 99.9 % of a thousand requests."""
    apart = sorted(
        abs(split_of(both_ways.spans[name])[phase] - split_of(line)[phase]) for name, line in both_ways.in_band.items()
    )
    say(
        f"  {phase}: in-band and OTLP at most {apart[-1] * 1e6:.0f} us apart, median {apart[len(apart) // 2] * 1e6:.0f} us"
    )

    assert apart[int(AGREE_SHARE * REQUESTS) - 1] <= AGREE_SECONDS


def test_where_the_answer_tells_its_span_is_not_waited_for(telling: Traced, tmp_path: Path) -> None:
    """With both ways on, the ledger is closed by the answer's report before the next batch, and the later span counts
    as a second report."""
    names = [f"first-{number}" for number in range(24)]
    requests = {name: question(telling.engine, number, name) for number, name in enumerate(names)}
    config = tmp_path / "sidecar.yml"
    config.write_text("log:\n  headers: [x-request-id]\nengine:\n  kind: vllm\n")
    with running_sidecar(telling.engine.url, tmp_path, flags=[f"--config.file={config}"]) as sidecar:
        telling.spans.target = f"http://127.0.0.1:{sidecar.web_port}/v1/traces"
        asyncio.run(answers(sidecar.port, requests))
        before = reasons(page_of(sidecar))
        deadline = time.monotonic() + 3 * BATCH_SECONDS
        while total_of(page_of(sidecar), "llm_sidecar_dropped_total", reason="report_twice") < len(names):
            assert time.monotonic() < deadline, page_of(sidecar)["llm_sidecar_dropped_total"]
            time.sleep(0.25)
        after = reasons(page_of(sidecar))
        telling.spans.target = None

    assert before == after == {"in_band": len(names)}


# --- spans alone -----------------------------------------------------------------------------------------------------------------


SHORT = {"max_tokens": 12, "ignore_eos": True, "temperature": 1}
CHAT = [{"role": "user", "content": "la to mi re nu ka"}]
QUESTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {**SHORT, "messages": CHAT, "stream": True}),
    "chat-whole": ("/v1/chat/completions", {**SHORT, "messages": CHAT}),
    "chat-two-choices": ("/v1/chat/completions", {**SHORT, "messages": CHAT, "stream": True, "n": 2}),
    "completions": ("/v1/completions", {**SHORT, "prompt": "la to mi", "stream": True}),
    "completions-whole": ("/v1/completions", {**SHORT, "prompt": "la to mi"}),
    "completions-two-prompts": ("/v1/completions", {**SHORT, "prompt": ["la to mi", "re nu"], "stream": True}),
    "messages": ("/v1/messages", {"messages": CHAT, "max_tokens": 12, "stream": True}),
    "messages-whole": ("/v1/messages", {"messages": CHAT, "max_tokens": 12}),
    "responses": ("/v1/responses", {"input": "la to mi", "max_output_tokens": 12, "ignore_eos": True, "stream": True}),
    "responses-whole": ("/v1/responses", {"input": "la to mi", "max_output_tokens": 12, "ignore_eos": True}),
}
SEVERAL = {"chat-two-choices", "completions-two-prompts"}
EACH = 4


@pytest.mark.proves("vllm", "spans")
def test_spans_alone_cover_every_api(spans_only: Traced, tmp_path: Path) -> None:
    """Streams and whole answers, with several choices and prompts, each get vLLM's own queue and prefill; the counts
    equal vLLM's."""
    requests = {
        f"{name}-{number}": post(
            path, {"model": spans_only.engine.model, **body}, [("X-Request-Id", f"{name}-{number}")]
        )
        for name, (path, body) in QUESTIONS.items()
        for number in range(EACH)
    }
    with front_sidecar(spans_only.engine.url, spans_only.spans, tmp_path) as sidecar:
        before = spans_only.engine.metrics()
        found = asyncio.run(answers(sidecar.port, requests))
        lines = lines_of(sidecar, len(requests))
        page, after = page_of(sidecar), spans_only.engine.metrics()

    assert {name: answer.status for name, answer in found.items() if answer.status != 200} == {}
    assert lines.keys() == requests.keys()
    assert reasons(page) == {"late_report": len(requests)}
    told = {name: {line.sources.get(phase) for phase in ("queue", "prefill")} for name, line in lines.items()}
    assert {name: sources for name, sources in told.items() if sources != {"engine"}} == {}
    decode = {line.sources.get("decode") for name, line in lines.items() if name.rpartition("-")[0] not in SEVERAL}
    assert decode == {"engine"}
    # vLLM counts each generation of a request with several; the ledger counts only the first to have a token.
    generations = len(requests) + EACH * len(SEVERAL)
    assert (
        after["vllm:request_queue_time_seconds_count"] - before["vllm:request_queue_time_seconds_count"] == generations
    )
    # No client asked for usage: what the answers leave out, the spans state.
    uncounted = {name.rpartition("-")[0] for name, line in lines.items() if "prompt_tokens" not in line.fields}
    assert uncounted == {"completions-two-prompts"}
    made = after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"]
    assert sum(line.number("completion_tokens") for line in lines.values()) == made


def test_without_a_proxy_phases_equal_the_engines_own_sums(spans_only: Traced, tmp_path: Path, say: Say) -> None:
    """No request passes the sidecar: clients ask the engine itself, and the phases of all of them add up to the engine's own sums."""
    requests = {f"alone-{number}": question(spans_only.engine, number, f"alone-{number}") for number in range(60)}
    flags = ["--no-proxy", "--log.level=info"]
    with running_sidecar(spans_only.engine.url, tmp_path, flags=flags) as sidecar:
        spans_only.spans.target = f"http://127.0.0.1:{sidecar.web_port}/v1/traces"
        try:
            before = spans_only.engine.metrics()
            asyncio.run(answers(spans_only.engine.port, requests))
            sidecar.wait_for_log_lines("request", len(requests), patience_seconds=3 * BATCH_SECONDS)
            page, after = page_of(sidecar), spans_only.engine.metrics()
        finally:
            spans_only.spans.target = None
    ours = {phase: total_of(page, "llm_request_phase_seconds_sum", phase=phase) for phase in ENGINE_PHASES}
    ours |= {
        "first_token": total_of(page, "llm_time_to_first_token_seconds_sum"),
        "whole": total_of(page, "llm_request_seconds_sum"),
    }
    names = request_times("vllm:")
    theirs = {time.value: after[f"{name}_sum"] - before[f"{name}_sum"] for time, name in names.items()}
    say(f"  60 requests past a sidecar without a proxy: its sums {ours}, vLLM's {theirs}")

    assert reasons(page) == {"span_alone": len(requests)}
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert [labels for labels, value in page["llm_request_phase_seconds_count"] if labels["phase"] == "stream"] == []


LANES = {"lane=batch": "batch", "vendor=1,lane=batch": "batch", "lane=unlisted": "other", "vendor=1": "default"}
"""The `tracestate` of a client, and the lane that it names."""


def test_the_clients_tracestate_passes_a_hop_and_names_the_lane_behind_it(spans_only: Traced, tmp_path: Path) -> None:
    """The hop makes a span of its own in the client's trace; vLLM's span below it still has what the client said."""
    states = list(LANES) * 6
    requests = {
        f"state-{number}": question(
            spans_only.engine,
            number,
            f"state-{number}",
            ("traceparent", f"00-{number:04x}{TRACE[4:]}-b7ad6b7169203331-01"),
            ("tracestate", state),
        )
        for number, state in enumerate(states)
    }
    config = tmp_path / "alone.yml"
    config.write_text("lanes:\n  span_attribute: tracestate.lane\n  names: [batch]\n")
    flags = ["--no-proxy", f"--config.file={config}"]
    with (
        front_sidecar(spans_only.engine.url, spans_only.spans, tmp_path) as hop,
        running_sidecar(spans_only.engine.url, tmp_path, flags=flags) as sidecar,
    ):
        spans_only.spans.target = f"http://127.0.0.1:{sidecar.web_port}/v1/traces"
        asyncio.run(answers(hop.port, requests))
        sidecar.wait_for_log_lines("request", len(requests), patience_seconds=3 * BATCH_SECONDS)
        page = page_of(sidecar)

    lanes = Counter({labels["lane"]: round(value) for labels, value in page["llm_requests_total"] if value})
    assert lanes == Counter(LANES[state] for state in states)


@pytest.mark.parametrize("traces", [1, 40], ids=["one trace", "a trace each"])
def test_forty_requests_are_each_joined_with_their_own_span(spans_only: Traced, tmp_path: Path, traces: int) -> None:
    """An agent's forty requests in one trace: each ledger has vLLM's values of the generation with that request's
    id."""
    names = [f"forty-{traces}-{number}" for number in range(40)]
    requests = {
        name: question(
            spans_only.engine,
            number,
            name,
            ("traceparent", f"00-{number % traces:04x}{TRACE[4:]}-b7ad6b7169203331-0{number % 2}"),
        )
        for number, name in enumerate(names)
    }
    with front_sidecar(spans_only.engine.url, spans_only.spans, tmp_path) as sidecar:
        asyncio.run(answers(sidecar.port, requests))
        lines = lines_of(sidecar, len(requests))
        page = page_of(sidecar)

    assert reasons(page) == {"late_report": 40}
    own = {f"chatcmpl-{name}": name for name in names} | {f"cmpl-{name}-0": name for name in names}
    said = {own[generation]: split for generation, split in spans_only.spans.said.items() if generation in own}
    assert said.keys() == lines.keys()
    apart = {
        (name, phase): abs(split_of(line)[phase] - said[name][phase])
        for name, line in lines.items()
        for phase in ENGINE_PHASES
    }
    assert {where: seconds for where, seconds in apart.items() if seconds > 2e-6} == {}
    assert len({round(split["queue"] + split["prefill"], 9) for split in said.values()}) == 40


def test_one_id_twice_a_batch_twice_and_a_stranger_with_the_same_id(spans_only: Traced, tmp_path: Path) -> None:
    """A client's retry and another client's request past the sidecar have the same id: each ledger gets the report of
    its own generation, once."""
    tokens = {"first": 40, "second": 15, "stranger": 4}
    body = {"model": spans_only.engine.model, "messages": CHAT, "stream": True, "ignore_eos": True}
    requests = {
        who: post("/v1/chat/completions", {**body, "max_tokens": count}, [("X-Request-Id", "the-same"), ("X-Who", who)])
        for who, count in tokens.items()
    }

    async def scenario(port: int) -> None:
        past = {"stranger": requests.pop("stranger")}
        await asyncio.gather(answers(port, requests), answers(spans_only.engine.port, past))

    with front_sidecar(spans_only.engine.url, spans_only.spans, tmp_path) as sidecar:
        spans_only.spans.twice = True
        asyncio.run(scenario(sidecar.port))
        lines = [Line(line) for line in sidecar.wait_for_log_lines("request", 2, patience_seconds=20)]
        deadline = time.monotonic() + 4 * BATCH_SECONDS
        while not total_of(page := page_of(sidecar), "llm_sidecar_dropped_total", reason="report_unmatched"):
            assert time.monotonic() < deadline
            time.sleep(0.25)
        spans_only.spans.twice = False

    for line in lines:
        notes = line.fields["notes"]
        assert isinstance(notes, dict)
        said = spans_only.spans.by_tokens["chatcmpl-the-same", tokens[notes["header.x-who"]]]
        assert split_of(line) == pytest.approx(said, abs=2e-6)
    assert reasons(page) == {"late_report": 2}
    assert total_of(page, "llm_sidecar_dropped_total", reason="report_twice") == 3
    assert total_of(page, "llm_sidecar_dropped_total", reason="report_unmatched") == 1


def test_when_the_exporter_dies_the_rest_is_missing_and_traffic_is_not_touched(
    spans_only: Traced, tmp_path: Path
) -> None:
    """The exporter reports half of the requests and then dies. Every answer is whole, and every request is counted
    once."""
    first, second = [
        {f"{half}-{number}": question(spans_only.engine, number, f"{half}-{number}") for number in range(60)}
        for half in ("told", "untold")
    ]
    with front_sidecar(spans_only.engine.url, spans_only.spans, tmp_path) as sidecar:
        found = asyncio.run(answers(sidecar.port, first))
        lines_of(sidecar, len(first))
        spans_only.spans.gone = True
        found |= asyncio.run(answers(sidecar.port, second))
        lines = lines_of(sidecar, len(first) + len(second), patience_seconds=40)
        died = reasons(page_of(sidecar))
        page = page_of(sidecar)
        spans_only.spans.gone = False
        third = {f"again-{number}": question(spans_only.engine, number, f"again-{number}") for number in range(30)}
        # The sidecar waits for one report at a time, until the exporter answers again.
        for _ in range(4):
            asyncio.run(answers(sidecar.port, third))
            time.sleep(BATCH_SECONDS)
            if reasons(page_of(sidecar))["late_report"] > len(first) + len(third):
                break
        again = reasons(page_of(sidecar))

    assert spans_only.spans.refused > 0
    assert Counter((answer.status, answer.complete) for answer in found.values()) == {(200, True): len(found)}
    assert all(answer.body.rstrip().endswith(b"data: [DONE]") for answer in found.values())
    assert died == {"late_report": len(first), "no_report": len(second)}
    assert all("unattributed" in line.phases for name, line in lines.items() if name in second)
    assert total_of(page, "llm_requests_total", outcome="ok") == len(found)
    assert again["late_report"] > len(first)
