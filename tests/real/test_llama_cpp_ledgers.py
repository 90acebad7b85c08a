"""A hundred and twenty streams from twelve clients through the sidecar to a real llama.cpp with four slots: every
ledger holds the values that llama.cpp itself reported, and the queue, which it does not report.

Independent sources: the client's own clock, the `timings` that llama.cpp put into the streams, the growth of its
counters. The queue is computed in two ways that share no instant but the body's end: from the response head, which
llama.cpp sends when a slot takes the request up, and from the first token less `prompt_ms`.
"""

import asyncio
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import median

import pytest

from tests.real.environment import Say
from tests.real.server import RunningEngine
from tests.real.told import FIVE_PHASES, Line, Page, page_of, total_of, uptime
from tests.support.client import Answer, Connection, event_json, events, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


REQUESTS = 120
CLIENTS = 12


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """One client's record of one request."""

    answer: Answer

    def events(self) -> list[tuple[float, dict[str, object]]]:
        return [(at, said) for at, event in events(self.answer) if (said := event_json(event)) is not None]

    @property
    def ttft_seconds(self) -> float:
        return next(at for at, said in self.events() if carries_output(said)) - self.answer.sent_at

    @property
    def e2e_seconds(self) -> float:
        return self.answer.ended_at - self.answer.sent_at

    def timing_seconds(self, name: str) -> float:
        """Seconds of this name in the last `timings` of the stream."""
        timings = [said["timings"] for _, said in self.events() if "timings" in said][-1]
        assert isinstance(timings, dict)
        milliseconds: float = timings[name]
        return milliseconds / 1_000


def carries_output(said: dict[str, object]) -> bool:
    """True if the event has output. Chat: content. Completions: text, unless it finishes. llama.cpp's own: content,
    unless it stops. Empty text counts: a token."""
    choices = said.get("choices")
    if choices is None:
        return not said["stop"]
    assert isinstance(choices, list)
    return any(
        choice["finish_reason"] is None and ("text" in choice or choice["delta"].get("content") is not None)
        for choice in choices
    )


def question(engine: RunningEngine, number: int) -> bytes:
    """The bytes of request `number`: three APIs, with usage and without, prompts and answers of many lengths."""
    words = "la to mi re nu ka so ti be da vo an " * (1 + number * 7 % 20)
    # A few tokens at least: if the only token is half a character, the client gets nothing, and there is no first
    # token.
    tokens = 4 if number % 20 == 0 else 20 + number * 13 % 100
    body: dict[str, object] = {
        "model": engine.model,
        "ignore_eos": True,
        "stream": True,
        "temperature": 1,
        "seed": number,
        # Half of the prompts begin as others do: a slot that has their beginning in its cache does not compute it
        # again.
        "cache_prompt": number % 2 == 0,
    }
    prompt = f"{words} {number}" if number % 2 == 0 else f"{number} {words}"
    headers = [("X-Request-Id", f"request-{number}")]
    if number % 4 < 2:
        body["stream_options"] = {"include_usage": True}
    if number % 3 == 0:
        messages = [{"role": "user", "content": prompt}]
        return post("/v1/chat/completions", {**body, "messages": messages, "max_tokens": tokens}, headers)
    if number % 3 == 1:
        return post("/v1/completions", {**body, "prompt": prompt, "max_tokens": tokens}, headers)
    return post("/completion", {**body, "prompt": prompt, "n_predict": tokens}, headers)


async def clients(engine: RunningEngine, sidecar: SidecarProcess) -> dict[str, ClientRecord]:
    """Twelve clients, each on its own keep-alive connection, take request numbers until none is left."""
    numbers = iter(range(REQUESTS))
    found: dict[str, ClientRecord] = {}

    async def client() -> None:
        connection = await Connection.open(sidecar.port)
        for number in numbers:
            found[f"request-{number}"] = ClientRecord(await connection.request(question(engine, number)))
        connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return found


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request: its client's record, and its canonical log line."""

    client: ClientRecord
    line: Line

    @property
    def prefill_seconds(self) -> float:
        return self.client.timing_seconds("prompt_ms")

    @property
    def decode_seconds(self) -> float:
        return self.client.timing_seconds("predicted_ms")

    @property
    def delivery_seconds(self) -> float:
        return self.line.marks["flushed_at"] - self.line.marks["first_token_at"]

    @property
    def held_seconds(self) -> float:
        """Seconds between the first token's generation and its arrival. One cause: half a character waits for the other
        half."""
        return max(0.0, self.decode_seconds - self.delivery_seconds)

    @property
    def missed_seconds(self) -> float:
        """Seconds by which the observed first token, less the time held back, is later than head plus prefill."""
        marks = self.line.marks
        return marks["first_token_at"] - self.held_seconds - marks["headers_at"] - self.prefill_seconds


@dataclass(frozen=True, slots=True)
class Run:
    records: dict[str, RequestRecord]
    """Keyed by the client's request id."""
    page: Page
    growth: dict[str, float]
    """Growth of llama.cpp's own counters."""

    def misses(self) -> list[float]:
        return sorted(abs(record.missed_seconds) for record in self.records.values())

    @property
    def starved(self) -> bool:
        """True if llama.cpp's HTTP threads wait for a processor: they send a head or a token long after the slot
        reported it."""
        return self.misses()[int(0.95 * REQUESTS)] > SAME_INSTANT_SECONDS


SAME_INSTANT_SECONDS = 0.02
"""The sidecar's own tolerance. Measured while others used the machine's two cores: at a load of 5, half of 120 requests
missed by under 0.5 ms and all by under 9 ms; at a load of 12, half missed by under 1 ms and 5 % by more than 17 ms."""
RUNS = 3
"""Maximum number of runs. A run in which other processes took the processor proves less, and is repeated."""


@pytest.fixture(scope="module")
def run(llama_cpp: RunningEngine, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Run:
    for _ in range(RUNS):
        found = one_run(llama_cpp, tmp_path_factory.mktemp("sidecar"))
        misses = found.misses()
        say(
            f"  head + prompt_ms misses the first token by {median(misses) * 1e3:.2f} ms (median),"
            f" {misses[int(0.95 * REQUESTS)] * 1e3:.1f} ms (95 %), {misses[-1] * 1e3:.1f} ms (worst); {uptime()}"
        )
        if not found.starved:
            break
    return found


def one_run(llama_cpp: RunningEngine, folder: Path) -> Run:
    config = folder / "sidecar.yml"
    # The header connects a log line with its client.
    config.write_text("engine:\n  kind: llama_cpp\nlog:\n  headers: [x-request-id]\n")
    with running_sidecar(llama_cpp.url, folder, flags=[f"--config.file={config}"]) as sidecar:
        before = llama_cpp.metrics()
        client_records = asyncio.run(clients(llama_cpp, sidecar))
        lines = [Line(line) for line in sidecar.wait_for_log_lines("request", REQUESTS)]
        after = llama_cpp.metrics()
        growth = {name: value - before[name] for name, value in after.items()}
        records = {line.request_id: RequestRecord(client_records[line.request_id], line) for line in lines}
        return Run(records, page_of(sidecar), growth)


def total(run: Run, name: str, **labels: str) -> float:
    return total_of(run.page, name, **labels)


def test_every_request_has_five_phases_and_where_each_comes_from(run: Run) -> None:
    """Every ledger has five phases: prefill and decode with source `engine`, the queue with source `derived`."""
    assert len(run.records) == REQUESTS
    lines = [record.line for record in run.records.values()]
    assert {line.fields["outcome"] for line in lines} == {"ok"}
    assert {frozenset(line.phases) for line in lines} == {frozenset(FIVE_PHASES)}
    sources = {tuple(line.sources[phase] for phase in ("queue", "prefill", "decode")) for line in lines}
    assert sources == {("derived", "engine", "engine")}


def test_there_were_real_queues(run: Run) -> None:
    """Twelve clients on four slots cause real queues; without queues the other tests would pass trivially."""
    waited = [record for record in run.records.values() if record.line.phases["queue"] > 0.05]

    assert len(waited) > REQUESTS / 2


@pytest.mark.proves("llama_cpp", "timings")
def test_prefill_and_decode_are_what_llama_cpp_put_into_the_stream(run: Run) -> None:
    """Prefill and decode of every request equal its `timings`, on all three APIs, with usage asked for or not. The log
    line has microseconds."""
    for name, record in run.records.items():
        phases, ttft = record.line.phases, record.line.number("ttft_seconds")
        # A rounding excess over the wire is taken off prefill, and decode is bounded by the time in which it could be
        # seen (design section 3).
        assert phases["prefill"] == pytest.approx(min(record.prefill_seconds, ttft - phases["queue"]), abs=2e-6), name
        assert phases["prefill"] == pytest.approx(record.prefill_seconds, abs=0.002), name
        assert phases["decode"] == pytest.approx(min(record.decode_seconds, record.delivery_seconds), abs=2e-6), name


@pytest.mark.proves("llama_cpp", "head")
def test_the_queue_from_the_head_is_the_queue_that_the_prefill_leaves(run: Run) -> None:
    """Two independent values of the queue agree: until the response head, and until `prompt_ms` before the first token
    was made.

    Half agree within 2 ms, nine of ten within the sidecar's own tolerance for the same instant. The sidecar's queue is
    never above either.
    """
    misses = run.misses()

    assert median(misses) < 0.002
    assert misses[int(0.9 * REQUESTS)] < SAME_INSTANT_SECONDS
    for name, record in run.records.items():
        queue, marks = record.line.phases["queue"], record.line.marks
        from_head = marks["headers_at"] - marks["sent_at"]
        left_over = max(0.0, record.line.number("ttft_seconds") - record.prefill_seconds - record.held_seconds)
        by_head = record.missed_seconds <= max(SAME_INSTANT_SECONDS, 0.02 * record.prefill_seconds)
        assert queue == pytest.approx(min(from_head, left_over) if by_head else left_over, abs=5e-6), name


def test_who_waits_gets_its_head_when_another_ends(run: Run) -> None:
    """A third source for the queue, on the client's clock alone: a queued request gets its head when another request's
    stream ends and frees its slot."""
    ends = sorted(record.client.answer.ended_at for record in run.records.values())
    waited = [record.client.answer.headers_at for record in run.records.values() if record.line.phases["queue"] > 0.05]
    gaps = sorted(min(abs(head - end) for end in ends) for head in waited)

    assert median(gaps) < 0.01
    assert gaps[int(0.8 * len(gaps))] < 0.05


def test_the_tokens_are_what_llama_cpp_counted(run: Run) -> None:
    """Token counts equal llama.cpp's own counters. The sidecar asks for no usage, because `timings` have the counts."""
    assert total(run, "llm_output_tokens_sum") == run.growth["llamacpp:tokens_predicted_total"]
    cached = run.growth["llamacpp:prompt_tokens_cached_total"]
    assert total(run, "llm_cached_prompt_tokens_total") == cached
    assert cached > 0
    assert total(run, "llm_prompt_tokens_sum") == cached + run.growth["llamacpp:prompt_tokens_total"]


def test_the_scraped_decode_is_llama_cpps_own(run: Run) -> None:
    """Scraped decode, plus the output held back before the sidecar, equals llama.cpp's own sum within 1 %. The held
    time is in the stream phase."""
    ours = total(run, "llm_request_phase_seconds_sum", phase="decode", source="engine")
    held = fsum(min(record.held_seconds, record.line.phases["stream"]) for record in run.records.values())

    assert ours + held == pytest.approx(run.growth["llamacpp:tokens_predicted_seconds_total"], rel=0.01)


def test_the_phases_of_the_page_add_up_to_its_end_to_end_times(run: Run) -> None:
    phases = total(run, "llm_request_phase_seconds_sum")

    assert phases == pytest.approx(total(run, "llm_request_seconds_sum"), rel=1e-9)
    assert total(run, "llm_request_seconds_count") == REQUESTS
    assert total(run, "llm_request_phase_seconds_count") == REQUESTS * len(FIVE_PHASES)
    assert total(run, "llm_requests_total", outcome="ok") == REQUESTS
    assert total(run, "llm_requests_total") == REQUESTS
    assert total(run, "llm_requests_in_flight") == 0


def test_the_phases_of_each_line_add_up_to_its_end_to_end_time(run: Run) -> None:
    for name, record in run.records.items():
        assert fsum(record.line.phases.values()) == pytest.approx(record.line.number("e2e_seconds"), abs=5e-6), name


def test_the_clients_own_clock_agrees(run: Run) -> None:
    """TTFT and end-to-end time of the sidecar against the client's: half of the differences are under 5 ms."""
    ttft = [abs(record.client.ttft_seconds - record.line.number("ttft_seconds")) for record in run.records.values()]
    e2e = [abs(record.client.e2e_seconds - record.line.number("e2e_seconds")) for record in run.records.values()]

    assert median(ttft) < 0.005
    assert median(e2e) < 0.005
