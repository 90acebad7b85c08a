"""Every API has its operation in the words of OpenTelemetry, or a word of its own where there is none."""

import pytest
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GenAiOperationNameValues

from sidecar.timeline.apis import API_NAMES
from sidecar.timeline.operations import ENCODE, TRANSCRIBE, operation_of


@pytest.mark.parametrize(
    ("api", "target", "operation"),
    [
        ("openai_chat", b"/v1/chat/completions", "chat"),
        ("openai_responses", b"/v1/responses", "chat"),
        ("anthropic_messages", b"/v1/messages", "chat"),
        ("openai_completions", b"/v1/completions", "text_completion"),
        ("triton_generate", b"/v2/models/m/generate", "text_completion"),
        ("ollama", b"/api/chat", "chat"),
        ("ollama", b"/api/generate?x=1", "text_completion"),
        ("encode", b"/v1/embeddings", "embeddings"),
        ("encode", b"/embed", "embeddings"),
        ("encode", b"/rerank?like=embed", "encode"),
        ("transcription", b"/v1/audio/transcriptions", "transcribe"),
        ("invocations", b"/invocations", "generate_content"),
    ],
)
def test_an_operation_by_api_and_path(api: str, target: bytes, operation: str) -> None:
    assert operation_of(api, target) == operation


def test_all_operations_are_of_a_closed_set() -> None:
    words = {one.value for one in GenAiOperationNameValues} | {ENCODE, TRANSCRIBE}

    assert {operation_of(api, b"/") for api in API_NAMES} <= words
