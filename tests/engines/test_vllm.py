"""vLLM's own times of a request, as they stand in real answers, and the handling of values that are not times."""

import json
import pathlib
from collections.abc import Mapping

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.kind import Wire
from sidecar.engines.vllm import VLLM, report_of
from sidecar.ledger.report import EngineReport
from sidecar.timeline.marks import Marks
from sidecar.timeline.reader import EventReader
from tests.support.streams import STREAMS, dialect_of
from tests.support.vllm_stream import DONE, FINISH, ROLE, STREAM, TOKEN, USAGE, chunk, post
from tests.support.walk import Walk


def extras_of(recording: str) -> Mapping[str, object] | None:
    """The extras of the one event, or of the whole body, that has any."""
    path = pathlib.Path(STREAMS / recording)
    if path.suffix == ".http":
        return dialect_of(path).read_body(path.read_bytes().partition(b"\r\n\r\n")[2]).extras
    readings = EventReader(dialect_of(path)).feed(path.read_bytes())
    found = [reading.extras for reading in readings if reading.extras is not None]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    "recording",
    [
        "vllm-chat-usage.sse",
        "vllm-completions-usage.sse",
        "vllm-responses.sse",
        "vllm-chat-json.http",
        "vllm-completions-json.http",
        "vllm-responses-json.http",
    ],
)
def test_a_real_answer_reports_queue_prefill_and_decode(recording: str) -> None:
    """The recorded engine was idle and small: under 1 ms of queue, milliseconds of prefill, then twelve tokens."""
    report = report_of(extras_of(recording))

    assert report is not None
    assert report.queue_seconds is not None
    assert report.prefill_seconds is not None
    assert report.decode_seconds is not None
    assert 0 < report.queue_seconds < 0.001 < report.prefill_seconds < report.decode_seconds < 1


@pytest.mark.parametrize("recording", ["vllm-chat.sse", "vllm-chat-two-choices.sse", "vllm-messages.sse"])
def test_an_answer_without_metrics_reports_nothing(recording: str) -> None:
    """They were not asked for, there are several choices, or the API drops them."""
    assert report_of(extras_of(recording)) is None


def test_the_rust_front_end_is_advised_no_flag_with_which_it_does_not_start() -> None:
    """It ends at once where it is given a flag that it has not got; it is told by `/version`."""
    rust, python = (VLLM().advice_for(version) for version in ("0.33.0+rust", "0.33.0"))

    assert ("may end at once with --enable-per-request-metrics" in rust, "VLLM_USE_RUST_FRONTEND=0" in rust) == (
        True,
        True,
    )
    assert python.startswith("--enable-per-request-metrics makes vLLM state its times")
    assert VLLM().shows_forced_usage("0.33.0+rust")


PARTS = {
    "reasoning": {"token_count": 36, "time_to_first_token_ms": 108.0},
    "content": {"token_count": 20, "time_to_first_token_ms": 268.0},
    "unclassified_token_count": 2,
}


@pytest.mark.parametrize(
    ("first_answer_at", "parts", "unsent"),
    [
        (1.5, PARTS, 0.168),
        (1.7, PARTS, 0.0),  # reasoning was sent before it
        (1.5, {**PARTS, "reasoning": {"token_count": 0, "time_to_first_token_ms": None}}, 0.0),
        (1.5, {**PARTS, "content": {"token_count": 20, "time_to_first_token_ms": None}}, 0.0),
        (1.5, {"reasoning": 36, "content": []}, 0.0),
        (1.5, None, 0.0),
    ],
)
def test_reasoning_before_the_content_is_decode_that_was_not_sent(
    first_answer_at: float, parts: object, unsent: float
) -> None:
    """The stream has no reasoning in it (`include_reasoning: false`), and the engine states when its content began."""
    metrics = {
        "queue_time_ms": 90,
        "time_to_first_token_ms": 100,
        "generation_time_ms": 900,
        "output_token_metrics": parts,
    }
    wire = Wire(Marks(1.0, first_token_at=1.5, first_answer_at=first_answer_at), streaming=True, fields=())

    report = VLLM().in_band({"metrics": metrics}, wire)

    assert report is not None
    assert (report.queue_seconds, round(report.unsent_seconds, 9)) == (0.09, unsent)


@pytest.mark.parametrize(
    ("parts", "reasoning"),
    [
        (PARTS, 0.16),
        ({**PARTS, "content": {"token_count": 0, "time_to_first_token_ms": None}}, None),
        ({**PARTS, "reasoning": {"token_count": 0, "time_to_first_token_ms": None}}, None),
        ({**PARTS, "content": {"token_count": 20, "time_to_first_token_ms": 104.0}}, None),  # the content came first
        ({**PARTS, "content": None}, None),
        ({**PARTS, "content": "268.22"}, None),
        ({**PARTS, "content": {"token_count": 20}}, None),
        ([36, 20], None),
        ("reasoning", None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
def test_reasoning_is_timed_where_both_parts_have_a_first_token(
    parts: object, reasoning: float | None, *, streaming: bool
) -> None:
    """As docs/features/per_request_metrics.md at e4deb7cd has it; an answer that is not streamed states it too."""
    metrics = {"queue_time_ms": 90, "time_to_first_token_ms": 100, "output_token_metrics": parts}
    marks = Marks(1.0, first_token_at=1.5, first_answer_at=1.7) if streaming else Marks(1.0)

    report = VLLM().in_band({"metrics": metrics}, Wire(marks, streaming=streaming, fields=()))

    assert report is not None
    assert (report.prefill_seconds, report.unsent_seconds) == (0.1, 0.0)
    assert report.reasoning_seconds == (None if reasoning is None else pytest.approx(reasoning))


def test_milliseconds_become_seconds() -> None:
    metrics = {"queue_time_ms": 90, "time_to_first_token_ms": 220.5, "generation_time_ms": 900.0, "mean_itl_ms": 6.0}

    assert report_of({"metrics": metrics}) == EngineReport(0.09, 0.2205, 0.9)


@pytest.mark.parametrize("value", [None, -1, -0.001, float("nan"), float("inf"), "90", True, [], {}, 10**400])
def test_what_is_no_duration_is_not_stated(value: object) -> None:
    metrics = {"queue_time_ms": value, "time_to_first_token_ms": 1000.0}

    assert report_of({"metrics": metrics}) == EngineReport(None, 1.0, None)


@pytest.mark.parametrize("extras", [None, {}, {"metrics": None}, {"metrics": []}, {"metrics": {}}, {"timings": {}}])
def test_nothing_usable_is_no_report(extras: Mapping[str, object] | None) -> None:
    assert report_of(extras) is None


REASONED = {
    "choices": [],
    "usage": {
        "prompt_tokens": 600,
        "completion_tokens": 58,
        "completion_tokens_details": {"reasoning_tokens": 36},
    },
    "metrics": {
        "queue_time_ms": 100,
        "time_to_first_token_ms": 300,
        "generation_time_ms": 200,
        "output_token_metrics": {
            "reasoning": {"token_count": 36, "time_to_first_token_ms": 300.0},
            "content": {"token_count": 20, "time_to_first_token_ms": 450.0},
            "unclassified_token_count": 2,
        },
    },
}


@pytest.mark.parametrize("sent", [True, False], ids=["reasoning is sent", "reasoning is not sent"])
def test_the_page_tells_reasoning_from_the_answer(*, sent: bool) -> None:
    """Tokens and seconds of both, in the whole sidecar; an answer that states no count adds nothing."""
    walk = Walk(engine=Engine("vllm", ["tiny"]), include_usage=False)
    thought = TOKEN.replace(b'"content"', b'"reasoning_content"') if sent else ROLE
    for usage in (b"data: %b\n\n" % json.dumps(REASONED).encode(), USAGE):
        walk.client().send(post({"stream": True}))
        walk.engine.send(STREAM)
        walk.clock.later(0.45)
        walk.engine.send(chunk(thought))
        walk.clock.later(0.2)
        walk.engine.send(chunk(TOKEN) + chunk(FINISH) + chunk(usage) + chunk(DONE) + b"0\r\n\r\n")

    assert (walk.value("llm_reasoning_tokens_sum"), walk.value("llm_answer_tokens_sum")) == (36, 22)
    assert walk.value("llm_reasoning_tokens_count") == 1
    assert walk.value("llm_reasoning_seconds_sum") == pytest.approx(0.15)
    assert [account.reasoning_seconds for account in walk.accounts] == [pytest.approx(0.15), None]
    unsent = walk.accounts[0].ledger.shares  # type: ignore[union-attr]
    assert ("unattributed" in {share.phase.value for share in unsent}) is not sent
