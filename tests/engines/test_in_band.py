"""Every engine's own answer through the whole sidecar: the right phases or a counted refusal, never a wrong number."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.engines.kinds import KINDS
from sidecar.ledger.account import Ledger, Phase, Reason, Source
from sidecar.timeline.outcome import Outcome
from tests.support.answers import Case, damaged, play
from tests.support.examples import examples
from tests.support.proofs import proofs


EXACT = {"queue": (100, "engine"), "prefill": (300, "engine"), "first_token": (50, "derived")}
BY_ENGINE = {"decode": (200, "engine"), "stream": (50, "derived")}
BY_WIRE = {"decode": (200, "wire"), "stream": (50, "wire")}
NO_SPLIT = {"unattributed": (450, "wire"), **BY_WIRE}
WHOLE_UNSPLIT = {"unattributed": (700, "wire")}

TIMINGS = {"cache_n": 0, "prompt_n": 5, "prompt_ms": 300.0, "predicted_n": 3, "predicted_ms": 200.0}
META = {
    "id": "x",
    "finish_reason": {"type": "stop"},
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "queue_time": 0.1,
    "forward_entry_time": 1795146061.25,
    "prefill_finished_time": 1795146061.55,
}
DURATIONS = {
    "total_duration": 640_000_000,
    "load_duration": 40_000_000,
    "prompt_eval_count": 5,
    "prompt_eval_duration": 300_000_000,
    "eval_count": 3,
    "eval_duration": 200_000_000,
}
INSTANTS = {
    "arrival_time_ns": "5000000000000000",
    "first_scheduled_time_ns": "5000000100000000",
    "first_token_time_ns": "5000000400000001",
    "last_token_time_ns": "5000000600000001",
}
TGI_FIELDS = (b"x-queue-time: 100", b"x-validation-time: 3", b"x-inference-time: 500", b"X-Total-Time: 603")
STREAMED: dict[str, object] = {"stream": True}

CASES = [
    Case("sglang", "/generate", "composed-sglang-generate.sse", STREAMED, expected=EXACT | BY_WIRE),
    Case(
        "sglang",
        "/generate",
        "composed-sglang-generate-no-metrics.sse",
        STREAMED,
        expected=NO_SPLIT,
        reason="no_report",
    ),
    Case(
        *("sglang", "/generate", "composed-sglang-generate-two-samples.sse", STREAMED),
        expected=NO_SPLIT,
        reason="no_report",
    ),
    Case(
        *("sglang", "/generate", json.dumps({"text": "abc", "meta_info": META})),
        expected={"queue": (100, "engine"), "prefill": (300, "engine"), "unattributed": (300, "derived")},
    ),
    # Triton's own queue may be in what the backend's clock leaves out (tests/engines/reports/test_lone_requests_triton.py).
    Case(
        *("triton", "/v2/models/ensemble/generate_stream", "composed-triton-v2-trtllm.sse"),
        expected=NO_SPLIT,
        reason="report_incomplete",
    ),
    Case(
        *("triton", "/v2/models/m/versions/1/generate", json.dumps({"text_output": "abc", **INSTANTS})),
        expected=WHOLE_UNSPLIT,
        reason="report_incomplete",
    ),
    Case(
        *("ollama", "/api/chat", "composed-ollama-api-chat.ndjson"),
        expected={"queue": (110, "derived"), "prefill": (300, "engine"), "first_token": (40, "derived"), **BY_ENGINE},
    ),
    Case(
        *("ollama", "/api/generate", "composed-ollama-api-generate-odd-lines.ndjson"),
        expected={"queue": (110, "derived"), "prefill": (300, "engine"), "first_token": (40, "derived")} | BY_ENGINE,
        last=1,
    ),
    Case(
        *("ollama", "/api/chat", json.dumps({"message": {"content": "abc"}, "done": True, **DURATIONS})),
        request={"stream": False},
        expected={
            "queue": (100, "derived"),
            "prefill": (300, "engine"),
            "decode": (200, "engine"),
            "unattributed": (100, "derived"),
        },
    ),
    # The head comes when a slot starts on the prompt (b9417 and newer) ...
    Case(
        *("llama_cpp", "/completion", "composed-llamacpp-completion.sse", STREAMED, 0.14),
        expected={"queue": (140, "derived"), "prefill": (300, "engine"), "first_token": (10, "derived"), **BY_ENGINE},
    ),
    # ... or at once, or with the first token: then the TTFT less the prefill is the bound.
    *(
        Case(
            *("llama_cpp", "/v1/chat/completions", "composed-llamacpp-chat-timings-with-counts.sse", STREAMED, head),
            expected={
                "queue": (150, "derived"),
                "prefill": (300, "engine"),
                "first_token": (0, "derived"),
                **BY_ENGINE,
            },
            last=2,
        )
        for head in (0.0, 0.45)
    ),
    Case(
        *("llama_cpp", "/completions", json.dumps({"content": "abc", "stop": True, "timings": TIMINGS})),
        expected={
            "queue": (150, "derived"),
            "prefill": (300, "engine"),
            "decode": (200, "engine"),
            "unattributed": (50, "derived"),
        },
    ),
    Case(
        *("tgi", "/generate_stream", "composed-tgi-generate.sse"),
        expected={**NO_SPLIT, "stream": (0, "wire")},
        reason="no_report",
        last=-1,
    ),
    Case(
        *("tgi", "/generate", json.dumps({"generated_text": "abc"})),
        fields=TGI_FIELDS,
        expected={"queue": (100, "engine"), "unattributed": (600, "derived")},
    ),
    Case(
        *("tgi", "/", json.dumps([{"generated_text": "abc", "details": {"generated_tokens": 3, "prefill": []}}])),
        fields=TGI_FIELDS,
        expected={"queue": (100, "engine"), "unattributed": (600, "derived")},
    ),
    Case(
        *("dynamo", "/v1/chat/completions", "composed-dynamo-chat-timing.sse", STREAMED),
        expected=NO_SPLIT,
        reason="engine_merges_phases",
        last=1,
    ),
    Case(
        "lmdeploy",
        "/generate",
        "composed-lmdeploy-generate.sse",
        STREAMED,
        expected=NO_SPLIT,
        reason="no_report",
        last=1,
    ),
    Case(
        *("tensorrt_llm", "/v1/chat/completions", "composed-trtllm-chat-null-free.sse", STREAMED),
        expected=NO_SPLIT,
        reason="no_report",
        last=3,
    ),
    # The client asks by itself, so that it gets all that comes; test_tensorrt_llm_timing.py has the others.
    *(
        Case(
            *("tensorrt_llm", path, f"composed-trtllm-{api}-perf-metrics.sse", STREAMED),
            asks=(b"X-TRTLLM-return-metrics: 1",),
            expected=EXACT | BY_ENGINE | {"stream": (0, "derived")},  # behind the end mark nothing is the client's time
            last=last,
        )
        for api, path, last in (
            ("chat", "/v1/chat/completions", 3),
            ("responses", "/v1/responses", 2),
            ("messages", "/v1/messages", 3),
        )
    ),
    Case(
        *("tensorrt_llm", "/v1/chat/completions", json.dumps({"choices": [{"index": 0, "finish_reason": "stop"}]})),
        fields=(b"Server-Timing: server_queue;dur=100.000000, server_ttft;dur=400.000000, server_e2e;dur=600.000000",),
        expected={
            "queue": (100, "engine"),
            "prefill": (300, "engine"),
            "decode": (200, "engine"),
            "unattributed": (100, "derived"),
        },
    ),
]


def phases(ledger: Ledger) -> dict[str, tuple[int, str]]:
    """Phase to (milliseconds, source)."""
    return {share.phase.value: (round(share.seconds * 1000), share.source.value) for share in ledger.shares}


@pytest.mark.proves("dynamo", "timing")
@pytest.mark.proves("llama_cpp", "head")
@pytest.mark.proves("llama_cpp", "timings")
@pytest.mark.proves("lmdeploy", "answer")
@pytest.mark.proves("ollama", "durations")
@pytest.mark.proves("sglang", "meta_info")
@pytest.mark.proves("tensorrt_llm", "server_timing")
@pytest.mark.proves("tgi", "header")
@pytest.mark.proves("triton", "tensors")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_engines_answer_comes_out_as_its_phases(case: Case) -> None:
    """The client gets it byte for byte, and the page says how the split was obtained."""
    walk, intact = play(case, case.events())

    (account,) = walk.accounts
    assert (intact, account.outcome, account.streaming) == (True, Outcome.OK, case.streamed)
    assert account.ledger is not None
    assert phases(account.ledger) == case.expected
    assert account.ledger.reason == case.reason
    assert walk.value("llm_phase_attribution_total", reason=case.reason) == 1


def test_every_engine_has_a_case_here_but_the_one_that_is_tested_for_real() -> None:
    """A new engine needs a case with its wire format."""
    said = {proof.kind for proof in proofs() if proof.test.startswith("tests/engines/test_in_band.py")}

    assert {case.engine for case in CASES} == said == KINDS.keys() - {"vllm"}


def test_the_counts_of_native_answers_are_the_engines() -> None:
    """Prompt, cached and generated tokens are read where each engine states them."""
    tokens = {}
    for case in CASES:
        if case.streamed:
            walk, _ = play(case, case.events())
            usage = walk.accounts[0].marks.usage
            tokens[case.answer] = usage and (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)

    assert tokens == {
        "composed-sglang-generate.sse": (600, 64, 3),
        "composed-sglang-generate-no-metrics.sse": (3, 0, 2),
        "composed-sglang-generate-two-samples.sse": (3, None, 2),
        "composed-triton-v2-trtllm.sse": None,
        "composed-ollama-api-chat.ndjson": (600, None, 3),
        "composed-ollama-api-generate-odd-lines.ndjson": (600, None, 3),
        "composed-llamacpp-completion.sse": (600, 64, 3),
        "composed-llamacpp-chat-timings-with-counts.sse": (600, 64, 3),
        "composed-tgi-generate.sse": (600, None, 3),
        "composed-dynamo-chat-timing.sse": (600, None, 2),
        "composed-lmdeploy-generate.sse": (5, None, 2),
        "composed-trtllm-chat-null-free.sse": (5, 0, 3),
        "composed-trtllm-chat-perf-metrics.sse": (5, 0, 3),
        "composed-trtllm-responses-perf-metrics.sse": (5, 0, 3),
        "composed-trtllm-messages-perf-metrics.sse": (5, None, 3),
    }


@pytest.mark.parametrize(
    "answer",
    [
        "composed-sglang-generate-abort.sse",
        "composed-tgi-generate-error.sse",
        "composed-triton-v2-error.sse",
        "composed-ollama-api-chat-error.ndjson",
        "composed-llamacpp-completion-error.sse",
    ],
)
def test_a_failure_inside_a_stream_that_began_well_is_the_engines(answer: str) -> None:
    """It comes under status 200, in each engine's own format; the request has no phases."""
    paths = {"sglang": "/generate", "tgi": "/generate_stream", "ollama": "/api/chat", "llamacpp": "/completion"}
    engine = answer.split("-")[1]
    case = Case(engine, paths.get(engine, "/v2/models/m/generate_stream"), answer, {"stream": True})
    walk, _ = play(case, case.events())

    assert (walk.accounts[0].outcome, walk.accounts[0].ledger) == (Outcome.ENGINE_ERROR, None)


# --- damage --------------------------------------------------------------------------------------------------------------


def judge(case: Case, events: list[bytes]) -> None:
    """The client got what was sent, nothing was raised, and a phase with source engine has the engine's value."""
    walk, intact = play(case, events)

    assert (intact, walk.dropped) == (True, [])
    (account,) = walk.accounts
    ledger = account.ledger
    if ledger is None:
        assert account.outcome is Outcome.ENGINE_ERROR
        return
    seconds = [share.seconds for share in ledger.shares]
    assert all(math.isfinite(value) and value >= -1e-9 for value in seconds)
    assert math.isclose(math.fsum(seconds), ledger.e2e_seconds, abs_tol=1e-6)
    stated = {
        share.phase.value: round(share.seconds * 1000) for share in ledger.shares if share.source is Source.ENGINE
    }
    # The decode that an engine states is capped by what passed here after the first token, whichever event that was.
    stated.pop("decode", None)
    meant = {phase: milliseconds for phase, (milliseconds, source) in case.expected.items() if source == "engine"}
    assert stated.items() <= meant.items()
    split = Phase.QUEUE in {share.phase for share in ledger.shares}
    assert split == (ledger.reason is Reason.IN_BAND)
    assert "queue" in case.expected or not split


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_damage_leads_to_the_right_phases_or_to_a_refusal(case: Case, data: st.DataObject) -> None:
    """Up to three values at once are missing, null, negative, a string, huge, of another type or renamed."""
    judge(case, data.draw(damaged(case.events())))


@pytest.mark.parametrize(
    "value", [b"", b"-1", b"1e3", b"12.5", b"abc", b"\xff", b"9" * 30, b"0x10", "٣".encode(), None]
)
def test_a_header_that_is_no_whole_number_says_nothing(value: bytes | None) -> None:
    """TGI's field is absent, stated twice, or malformed."""
    fields = (b"x-queue-time: 1", b"x-queue-time: 2") if value is None else (b"x-queue-time: " + value,)
    case = Case("tgi", "/generate", '{"generated_text":"abc"}', fields=fields)
    walk, _ = play(case, case.events())

    ledger = walk.accounts[0].ledger
    assert ledger is not None
    assert (phases(ledger), ledger.reason) == (WHOLE_UNSPLIT, Reason.NO_REPORT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@settings(max_examples=examples(30))
@given(at=st.integers(0, 5000), junk=st.binary(min_size=1, max_size=6))
def test_bytes_that_are_damaged_pass_and_break_nothing(case: Case, at: int, junk: bytes) -> None:
    """The damaged bytes may mean anything, but they arrive as sent, and the phases add up."""
    events = case.events()
    whole = b"".join(events)
    place = at % len(whole)
    walk, intact = play(case, [whole[:place] + junk + whole[place + len(junk) :]])

    assert (intact, walk.dropped) == (True, [])
    ledger = walk.accounts[0].ledger
    if ledger is not None:
        assert math.isclose(math.fsum(share.seconds for share in ledger.shares), ledger.e2e_seconds, abs_tol=1e-6)
