"""The response id and the model are found where each API writes them, and an id is refused where no server would have made it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.timeline.response_id import MAX_ID_CHARACTERS, stated_in


@pytest.mark.parametrize(
    ("data", "found", "model"),
    [
        pytest.param({"id": "chatcmpl-7", "model": "m", "choices": []}, "chatcmpl-7", "m", id="chat"),
        pytest.param({"type": "message_start", "message": {"id": "msg_1", "model": "m"}}, "msg_1", "m", id="Anthropic"),
        pytest.param({"response": {"id": "resp_1", "model": "m"}}, "resp_1", "m", id="Responses"),
        pytest.param({"text": "", "meta_info": {"id": "9b1c"}}, "9b1c", None, id="SGLang"),
        pytest.param({"model": "m", "message": {"content": "a"}, "done": False}, None, "m", id="Ollama"),
        pytest.param({"model": "m", "response": "The", "done": False}, None, "m", id="Ollama's generate"),
        pytest.param({"model_name": "ensemble", "text_output": "a"}, None, "ensemble", id="Triton"),
        pytest.param({"id": "event_3", "response": {"id": "resp_1"}}, "resp_1", None, id="inner first"),
        pytest.param({"choices": []}, None, None, id="none"),
        pytest.param({"id": 7, "model": 7, "model_name": ["m"]}, None, None, id="numbers"),
        pytest.param({"id": "", "model": ""}, None, None, id="empty"),
        pytest.param({"id": "x" * MAX_ID_CHARACTERS}, "x" * MAX_ID_CHARACTERS, None, id="longest"),
        pytest.param({"id": "x" * (MAX_ID_CHARACTERS + 1)}, None, None, id="too long"),
    ],
)
def test_both_are_read_where_the_api_writes_them(data: dict[str, object], found: str | None, model: str | None) -> None:
    """An event of Responses has an id of its own too: the response's comes first."""
    assert stated_in(json.dumps(data).encode()) == (found, model)


@given(st.binary(max_size=64))
def test_no_bytes_raise(data: bytes) -> None:
    """The bytes are an engine's, and may be anything."""
    found, model = stated_in(data)

    assert found is None or 0 < len(found) <= MAX_ID_CHARACTERS
    assert model is None or len(model) > 0
