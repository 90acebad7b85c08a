"""The simulated engine writes what vLLM writes, and reads what clients send."""

import json
from typing import Any

import pytest

from sidecar.commands.simulator.dialect import Answer, RefusedError, per_request_metrics, read_question
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation


def a_finished_request() -> SimulatedRequest:
    """A request with queue 0.2 s behind another in the only slot, prefill 0.11 s, decode 3 steps of 0.01 s."""
    limits = Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=1024, kv_blocks=64)
    simulation = Simulation(limits, Costs(step_seconds=0.01, per_prompt_token_seconds=1e-3))
    return simulation.run([(0.0, 190, 1), (0.0, 100, 4)])[1]


def decoded(event: bytes) -> dict[str, Any]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    chunk: dict[str, Any] = json.loads(event[6:])
    return chunk


def test_metrics_are_milliseconds_and_their_ttft_is_the_prefill() -> None:
    """vLLM's time_to_first_token_ms counts from first scheduled, whatever its name says, so queue is not in it."""
    metrics = per_request_metrics(a_finished_request())

    assert metrics == pytest.approx(
        {
            "time_to_first_token_ms": 110.0,
            "generation_time_ms": 30.0,
            "queue_time_ms": 200.0,
            "mean_itl_ms": 10.0,
            "tokens_per_second": 4 / 0.14,
        }
    )


def test_a_chat_streams_a_role_then_tokens_then_usage() -> None:
    answer = Answer("chatcmpl-1", 7, "m", "length", chat=True)

    role, token, last = (
        decoded(answer.opening),
        decoded(answer.token(0, last=False)),
        decoded(answer.token(3, last=True)),
    )
    usage = decoded(answer.usage(a_finished_request(), {"queue_time_ms": 1.0}))

    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert token["choices"][0]["delta"] == {"content": " the"}
    assert [token["choices"][0]["finish_reason"], last["choices"][0]["finish_reason"]] == [None, "length"]
    assert usage["choices"] == []
    assert usage["metrics"] == {"queue_time_ms": 1.0}
    assert usage["usage"]["prompt_tokens"] == 100
    assert usage["usage"]["completion_tokens"] == 4
    for chunk in (role, token, last, usage):
        assert (chunk["id"], chunk["object"], chunk["created"]) == ("chatcmpl-1", "chat.completion.chunk", 7)


def test_a_completion_streams_text_and_has_no_role() -> None:
    answer = Answer("cmpl-1", 7, "m", "stop", chat=False)

    assert answer.opening == b""
    assert decoded(answer.token(1, last=False))["choices"][0]["text"] == " queue"
    assert decoded(answer.token(1, last=True))["choices"][0]["finish_reason"] == "stop"


def test_an_engine_without_the_flag_reports_no_metrics() -> None:
    answer = Answer("cmpl-1", 7, "m", "stop", chat=False)

    assert "metrics" not in decoded(answer.usage(a_finished_request(), None))
    assert "metrics" not in json.loads(answer.whole(a_finished_request(), None))


def test_a_prompt_is_a_token_for_four_bytes() -> None:
    question = read_question(b'{"prompt":"12345678901"}', chat=False)

    assert question.prompt_tokens == 3


def test_equal_prefixes_have_equal_hashes_and_different_ones_share_none_behind_the_difference() -> None:
    def hashes(text: str) -> list[bytes]:
        return read_question(json.dumps({"prompt": text}).encode(), chat=False).block_hashes(4)

    one, other = hashes("a" * 32 + "b" * 40), hashes("a" * 32 + "c" * 40)

    assert (len(one), len(other)) == (4, 4)
    assert one[:2] == other[:2]
    assert not set(one[2:]) & set(other[2:])


def test_content_parts_and_token_ids_are_read() -> None:
    parts = read_question(b'{"messages":[{"role":"user","content":[{"type":"text","text":"abc"}]}]}', chat=True)
    tokens = read_question(b'{"prompt":[1,2,3,-4]}', chat=False)

    assert parts.prompt == b"user: abc\n"
    assert tokens.prompt_tokens == 4


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":"x"}',
        b'{"messages":[{}],"n":2}',
        b'{"messages":[{}],"max_tokens":0}',
    ],
)
def test_what_cannot_be_answered_is_refused_as_vllm_refuses(body: bytes) -> None:
    with pytest.raises(RefusedError) as refusal:
        read_question(body, chat=True)

    assert refusal.value.status == 400
    error = json.loads(refusal.value.body)["error"]
    assert (error["code"], error["type"]) == (400, "BadRequestError")
