"""The recordings in tests/streams have the same shape as the real vLLM's answers: a changed version fails here."""

import asyncio
from pathlib import Path

import pytest

from tests.real.exchanges import keys
from tests.real.record import QUESTIONS, STREAMS, record
from tests.real.server import RunningEngine
from tests.support.client import Answer, event_json, events, parse_answer


@pytest.fixture(scope="module")
def fresh(vllm: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    asyncio.run(record(vllm, folder))
    return folder


def shapes(answer: Answer) -> set[object]:
    """The events that occur, by type and shape. Not their number: under load an event holds more than one token."""
    if not (answer.header("content-type") or b"").startswith(b"text/event-stream"):
        return {keys(answer.json())}
    return {
        (event.split(b"\n")[0] if event.startswith(b"event:") else b"", keys(event_json(event)))
        for _, event in events(answer)
    }


@pytest.mark.parametrize("name", QUESTIONS)
def test_vllm_speaks_as_it_did_when_it_was_recorded(name: str, fresh: Path) -> None:
    then = parse_answer((STREAMS / f"vllm-{name}.http").read_bytes())
    now = parse_answer((fresh / f"vllm-{name}.http").read_bytes())

    assert [header for header, _ in now.headers] == [header for header, _ in then.headers]
    assert now.status == then.status
    assert shapes(now) == shapes(then)
