"""The recordings in tests/streams have the same shape as the real Dynamo's answers: a changed version fails here."""

import asyncio

import pytest

from tests.real.dynamo_record import RECORDED, answer_to
from tests.real.dynamo_server import RunningDynamo
from tests.real.exchanges import keys
from tests.real.record import STREAMS
from tests.support.client import Answer, event_json, events


def shapes(answer: Answer) -> set[object]:
    return {(event.startswith(b"event:"), keys(event_json(event))) for _, event in events(answer)}


@pytest.mark.parametrize("name", RECORDED)
def test_dynamo_speaks_as_it_did_when_it_was_recorded(name: str, dynamo: RunningDynamo) -> None:
    now = asyncio.run(answer_to(dynamo, name))
    recorded = (STREAMS / f"dynamo-{name}.sse").read_bytes()

    assert now.status == 200
    assert shapes(now) == {
        (event.startswith(b"event:"), keys(event_json(event))) for event in recorded.split(b"\n\n")[:-1]
    }
