"""Through the sidecar a client gets the bytes that the real vLLM sent. A tap on the engine's socket is the reference.

Compared are status, reason, end-to-end header fields (order, case, duplicates) and the body without chunk framing. Only
the usage chunk that the client had not asked for may be missing.
"""

from collections.abc import Iterator

import pytest

from tests.real.exchanges import ask, end_to_end, usage_chunks
from tests.real.record import QUESTIONS
from tests.real.server import RunningEngine
from tests.support.client import get, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tap import Tap, tapping


SEVERAL = ("chat-two-choices", "completions-two-choices", "completions-two-prompts")
UNASKED = {
    name: (path, body)
    for name, (path, body) in QUESTIONS.items()
    if "completions" in path and body.get("stream") and "stream_options" not in body
} | {
    f"{name}-unasked": (path, {key: value for key, value in body.items() if key != "stream_options"})
    for name, (path, body) in QUESTIONS.items()
    if name in SEVERAL
}
"""Streams whose client did not ask for usage, of several choices or prompts too: the sidecar asks for it on the client's behalf and removes
the chunk again."""


@pytest.fixture(scope="module")
def tap(vllm: RunningEngine) -> Iterator[Tap]:
    with tapping(vllm.port) as tap:
        yield tap


@pytest.fixture(scope="module")
def sidecar(tap: Tap, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    with running_sidecar(f"http://127.0.0.1:{tap.port}", tmp_path_factory.mktemp("sidecar")) as sidecar:
        yield sidecar


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - UNASKED.keys()))
def test_a_question_and_its_answer_pass_as_they_are(name: str, sidecar: SidecarProcess, tap: Tap) -> None:
    """For all four APIs, streamed and not: the engine receives the client's body, and the client receives the engine's
    answer."""
    path, body = QUESTIONS[name]
    request = post(path, body)

    got, asked, sent = ask(sidecar, tap, request)

    assert asked.partition(b"\r\n\r\n")[2] == request.partition(b"\r\n\r\n")[2]
    assert (got.status, got.reason) == (sent.status, sent.reason)
    assert end_to_end(got) == end_to_end(sent)
    assert got.body == sent.body
    assert got.complete


@pytest.mark.parametrize("name", sorted(UNASKED))
def test_the_usage_chunk_that_the_client_did_not_ask_for_is_all_that_is_missing(
    name: str, sidecar: SidecarProcess, tap: Tap
) -> None:
    """Only the usage chunk is missing. An error answer has no usage chunk, and nothing is missing from it."""
    path, body = UNASKED[name]

    got, asked, sent = ask(sidecar, tap, post(path, body))

    chunks = usage_chunks(sent)
    assert b"include_usage" in asked
    assert len(chunks) == (1 if sent.status == 200 else 0)
    assert got.body == sent.body.replace(b"".join(chunks), b"", 1)
    assert (got.status, got.reason) == (sent.status, sent.reason)
    assert end_to_end(got) == end_to_end(sent)
    assert got.complete


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/version", "/v1/nowhere"])
def test_what_is_no_inference_passes_as_it_is(path: str, sidecar: SidecarProcess, tap: Tap) -> None:
    got, asked, sent = ask(sidecar, tap, get(path + "?from=test"))

    assert asked.startswith(b"GET " + path.encode() + b"?from=test HTTP/1.1\r\n")
    assert (got.status, got.reason) == (sent.status, sent.reason)
    assert end_to_end(got) == end_to_end(sent)
    assert got.body == sent.body
