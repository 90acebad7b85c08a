"""The response id is found where each API writes it, and refused where no server would have made it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.timeline.response_id import MAX_ID_CHARACTERS, response_id_of


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"id": "chatcmpl-7", "choices": []}, "chatcmpl-7"),
        ({"type": "message_start", "message": {"id": "msg_1"}}, "msg_1"),
        ({"type": "response.created", "response": {"id": "resp_1"}}, "resp_1"),
        ({"text": "", "meta_info": {"id": "9b1c"}}, "9b1c"),
        ({"id": "event_3", "response": {"id": "resp_1"}}, "resp_1"),
        ({"choices": []}, None),
        ({"id": 7}, None),
        ({"id": ""}, None),
        ({"id": "x" * MAX_ID_CHARACTERS}, "x" * MAX_ID_CHARACTERS),
        ({"id": "x" * (MAX_ID_CHARACTERS + 1)}, None),
    ],
    ids=["chat", "Anthropic", "Responses", "SGLang", "inner first", "none", "a number", "empty", "longest", "too long"],
)
def test_the_id_is_read_where_the_api_writes_it(data: dict[str, object], found: str | None) -> None:
    """An event of Responses has an id of its own too: the response's comes first."""
    assert response_id_of(json.dumps(data).encode()) == found


@given(st.binary(max_size=64))
def test_no_bytes_raise(data: bytes) -> None:
    """The bytes are an engine's, and may be anything."""
    found = response_id_of(data)

    assert found is None or 0 < len(found) <= MAX_ID_CHARACTERS
