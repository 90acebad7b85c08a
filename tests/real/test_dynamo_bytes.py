"""Through the sidecar a client gets the bytes that a real Dynamo sent. A tap on its frontend's socket is the reference.

Only the usage chunk that the client had not asked for may be missing.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.real.dynamo_record import ASKED, CHAT, UNASKED, Questions
from tests.real.dynamo_server import RunningDynamo
from tests.real.exchanges import ask, end_to_end, usage_chunks
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tap import Tap, tapping


NOT_STREAMED: Questions = {
    name: (path, {**body, "stream": False}) for name, (path, body) in UNASKED.items() if name in ("chat", "completions")
} | {"unknown-model": (CHAT, {"model": "another", "messages": [{"role": "user", "content": "la"}]})}
UNCHANGED: Questions = (
    ASKED
    | {"chat-two-choices": (CHAT, {**UNASKED["chat"][1], "n": 2})}
    | {f"{name}-whole": asked for name, asked in NOT_STREAMED.items()}
)


AFTER_EACH_OTHER = 15
"""Streams on one connection: the median of as many is compared."""
DELAYED_SECONDS = 0.02
"""Half of the 40 ms for which Linux keeps an acknowledgement back."""


@pytest.fixture(scope="module")
def tap(dynamo: RunningDynamo) -> Iterator[Tap]:
    with tapping(dynamo.port) as tap:
        yield tap


def known(sidecar: SidecarProcess) -> None:
    """Return once the sidecar has recognised Dynamo."""
    until = time.monotonic() + 20.0
    while 'engine="dynamo"' not in sidecar.page("/metrics"):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture(scope="module")
def sidecar(tap: Tap, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """It has seen one whole stream of each API, so that it knows that no usage is stated unasked."""
    with running_sidecar(f"http://127.0.0.1:{tap.port}", tmp_path_factory.mktemp("sidecar")) as sidecar:
        known(sidecar)
        for path, body in (UNASKED["chat"], UNASKED["completions"]):
            ask(sidecar, tap, post(path, body))
        yield sidecar


@pytest.mark.parametrize("name", sorted(UNASKED))
def test_the_usage_chunk_that_the_client_did_not_ask_for_is_all_that_is_missing(
    name: str, sidecar: SidecarProcess, tap: Tap
) -> None:
    path, body = UNASKED[name]

    got, asked, sent = ask(sidecar, tap, post(path, body))

    chunks = usage_chunks(sent)
    assert b"include_usage" in asked
    assert len(chunks) == 1
    assert got.body == sent.body.replace(chunks[0], b"", 1)
    assert (got.status, got.reason, end_to_end(got)) == (sent.status, sent.reason, end_to_end(sent))
    assert got.complete


@pytest.mark.parametrize("name", sorted(UNCHANGED))
def test_a_question_and_its_answer_pass_as_they_are(name: str, sidecar: SidecarProcess, tap: Tap) -> None:
    path, body = UNCHANGED[name]
    request = post(path, body)

    got, asked, sent = ask(sidecar, tap, request)

    assert asked.partition(b"\r\n\r\n")[2] == request.partition(b"\r\n\r\n")[2]
    assert (got.status, got.reason, end_to_end(got)) == (sent.status, sent.reason, end_to_end(sent))
    assert got.body == sent.body
    assert got.complete


@pytest.mark.parametrize("name", ["chat", "completions"])
def test_a_stream_with_usage_cut_out_has_the_shape_of_one_that_nothing_was_asked_of(
    name: str, sidecar: SidecarProcess, tap: Tap, tmp_path: Path
) -> None:
    """Ids, times and words apart, the client's bytes are those that it gets where the sidecar never asks."""
    path, body = UNASKED[name]
    config = tmp_path / "never.yml"
    config.write_text("proxy:\n  include_usage: never\n")
    asked, _, _ = ask(sidecar, tap, post(path, body))
    with running_sidecar(f"http://127.0.0.1:{tap.port}", tmp_path, flags=[f"--config.file={config}"]) as never:
        unasked, _, sent = ask(never, tap, post(path, body))

    assert unasked.body == sent.body
    assert _shape(asked.body) == _shape(unasked.body)


def test_a_kept_connection_to_dynamo_delays_no_first_token(dynamo: RunningDynamo, tmp_path: Path) -> None:
    """Dynamo sends its head at once, and has no TCP_NODELAY: its first token waits until the head is acknowledged. The reference: a new
    connection each time, whose first segments Linux acknowledges at once.
    """
    path, body = UNASKED["completions"]
    request = post(path, {**body, "max_tokens": 2})

    async def first_tokens(port: int, *, kept: bool) -> float:
        """The median of the seconds from the request to the first byte of the body."""
        found, connection = [], await Connection.open(port)
        for _ in range(AFTER_EACH_OTHER):
            answer = await connection.request(request)
            found.append(answer.pieces[0][0] - answer.sent_at)
            if not kept:
                connection.close()
                connection = await Connection.open(port)
        connection.close()
        return median(found)

    async def both(port: int) -> tuple[float, float]:
        return await first_tokens(dynamo.port, kept=False), await first_tokens(port, kept=True)

    with running_sidecar(dynamo.url, tmp_path) as sidecar:
        known(sidecar)
        new, through = asyncio.run(both(sidecar.port))

    assert through - new < DELAYED_SECONDS


def _shape(stream: bytes) -> list[bytes]:
    """The fields of each event, without the values that differ between two answers."""
    return [
        re.sub(rb'"(id|content|text)":"(?:[^"\\]|\\.)*"|"created":\d+', rb"\1", event)
        for event in stream.split(b"\n\n")
    ]
