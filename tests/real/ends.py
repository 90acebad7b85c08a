"""How the answers of a real engine end when nothing goes as asked: its context is full, it is shut down, it is killed.

The truth is in the bytes that the client got: an answer is whole if it ends with `[DONE]` behind a finish of its own, was given up by the
engine if it says so, and is cut if the connection ended before. The sidecar's log and page are compared with that, and its sums of tokens
with the engine's own counters.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.real.server import SLOTS, RunningEngine, endless
from tests.real.told import page_of, total_of
from tests.support.client import Answer, Connection, event_json, events, post
from tests.support.sidecar_process import SidecarProcess


CONTEXT_TOKENS = 320
"""Small, so that it is full within seconds; large enough that no stream ends by itself between its first tokens and a signal."""
TOKENS_BEFORE_A_SIGNAL = 5
GRACE_SECONDS = 5.0
"""The engine's share of a pod's grace period. At SIGTERM vLLM 0.32 stops its engine, and leaves its streams open without a token."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The names of an engine's own sums of tokens."""

    prompt: str
    output: str
    has_cached: bool
    """Tokens of a prompt that came from the prefix cache are in the first sum."""


def end_of(answer: Answer) -> str:
    """The outcome by the bytes of the answer alone."""
    said = [found for _, event in events(answer) if (found := event_json(event)) is not None]
    finishes = {choice.get("finish_reason") for one in said for choice in _choices(one)} - {None}
    if any("error" in one for one in said) or finishes & {"abort", "error"}:
        return "engine_error"
    if finishes and finishes <= {"stop", "length"} and b"data: [DONE]\n\n" in answer.body:
        return "ok"
    return "engine_truncated"


def _choices(said: dict[str, object]) -> Sequence[dict[str, object]]:
    choices = said.get("choices", ())
    assert isinstance(choices, list | tuple)
    return choices


def full_context_ends_well(engine: RunningEngine, sidecar: SidecarProcess, counters: Counters) -> None:
    """Every answer runs into the end of the context: it is whole, and its finish is `length`. All tokens are the engine's own."""
    before = engine.metrics()

    async def ask() -> Answer:
        client = await Connection.open(sidecar.port)
        answer = await client.request(endless(engine, stream_options={"include_usage": True}))
        client.close()
        return answer

    async def scenario() -> list[Answer]:
        return await asyncio.gather(*(ask() for _ in range(SLOTS + 1)))

    answers = asyncio.run(scenario())
    lines = sidecar.wait_for_log_lines("request", len(answers))
    after = engine.metrics()
    page = page_of(sidecar)

    assert [end_of(answer) for answer in answers] == ["ok"] * len(answers)
    assert [line["outcome"] for line in lines] == ["ok"] * len(answers)
    assert total_of(page, "llm_answers_total", finish_reason="length") == len(answers)
    assert total_of(page, "llm_output_tokens_sum") == after[counters.output] - before[counters.output]
    prompts = total_of(page, "llm_prompt_tokens_sum")
    if not counters.has_cached:
        prompts -= total_of(page, "llm_cached_prompt_tokens_total")
    assert prompts == after[counters.prompt] - before[counters.prompt]


def too_long_a_prompt_is_the_clients(engine: RunningEngine, sidecar: SidecarProcess) -> None:
    """It does not fit into the context: the engine refuses it, and that is no error of the engine."""
    known = len(sidecar.log_lines("request"))
    body = {"model": engine.model, "prompt": "la to mi re nu ka " * CONTEXT_TOKENS, "max_tokens": 4, "stream": True}

    async def scenario() -> Answer:
        client = await Connection.open(sidecar.port)
        answer = await client.request(post("/v1/completions", body))
        client.close()
        return answer

    answer = asyncio.run(scenario())
    line = sidecar.wait_for_log_lines("request", known + 1)[known]

    assert (answer.status, line["outcome"]) == (400, "client_error")


def a_signal_is_counted_as_it_was_seen(engine: RunningEngine, sidecar: SidecarProcess, number: signal.Signals) -> None:
    """In mid-stream the engine gets this signal, as from a pod that is deleted or a kernel without memory: the outcome of each answer is
    what its client saw.
    """
    group = engine.group
    assert group is not None
    known = len(sidecar.log_lines("request"))

    async def stream(began: asyncio.Semaphore) -> Answer:
        client = await Connection.open(sidecar.port)
        sent_at = client.write(endless(engine, stream_options={"include_usage": True}))
        taken: list[tuple[float, bytes]] = []
        while b"".join(data for _, data in taken).count(b"data: ") < TOKENS_BEFORE_A_SIGNAL:
            read = await client.next_read()
            assert read is not None, "the engine ended the stream before the signal"
            taken.append(read)
        client.reads[:0] = taken
        began.release()
        answer = await client.answer(sent_at)
        client.close()
        return answer

    async def scenario() -> list[Answer]:
        began = asyncio.Semaphore(0)
        streams = [asyncio.create_task(stream(began)) for _ in range(SLOTS)]
        for _ in streams:
            await began.acquire()
        if number is not signal.SIGKILL:
            os.kill(group, number)  # as the kubelet does it: the first process alone
            await asyncio.wait(streams, timeout=GRACE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        return await asyncio.gather(*streams)

    answers = asyncio.run(scenario())
    lines = sidecar.wait_for_log_lines("request", known + SLOTS)[known:]

    seen = sorted(end_of(answer) for answer in answers)
    counted = sorted(str(line["outcome"]) for line in lines)
    assert counted == seen, [answer.raw[-300:] for answer in answers]
    assert set(seen) != {"ok"}, "no stream was cut"
