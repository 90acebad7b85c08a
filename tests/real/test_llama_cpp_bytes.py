"""Through the sidecar a client gets the same bytes that the real llama.cpp sent. A tap on the engine's socket is the
reference.

Compared are status, reason, end-to-end header fields (order, case, duplicates) and the body without chunk framing. The
sidecar adds nothing to a request here (`timings` come without being asked for), so it may not remove anything either.
"""

from collections.abc import Iterator

import pytest

from tests.real.exchanges import ask, end_to_end
from tests.real.llama_cpp_record import PAGES, QUESTIONS
from tests.real.server import RunningEngine
from tests.support.client import get, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tap import Tap, tapping


@pytest.fixture(scope="module")
def tap(llama_cpp: RunningEngine) -> Iterator[Tap]:
    with tapping(llama_cpp.port) as tap:
        yield tap


@pytest.fixture(scope="module")
def sidecar(tap: Tap, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    with running_sidecar(f"http://127.0.0.1:{tap.port}", tmp_path_factory.mktemp("sidecar")) as sidecar:
        yield sidecar


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_and_its_answer_pass_as_they_are(name: str, sidecar: SidecarProcess, tap: Tap) -> None:
    """For all APIs, streamed and not, with usage asked for and not: the engine receives the client's body."""
    request = post(*QUESTIONS[name])

    got, asked, sent = ask(sidecar, tap, request)

    assert asked.partition(b"\r\n\r\n")[2] == request.partition(b"\r\n\r\n")[2]
    assert (got.status, got.reason) == (sent.status, sent.reason)
    assert end_to_end(got) == end_to_end(sent)
    assert got.body == sent.body
    assert got.complete


@pytest.mark.parametrize("path", [*PAGES.values(), "/v1/nowhere"])
def test_what_is_no_inference_passes_as_it_is(path: str, sidecar: SidecarProcess, tap: Tap) -> None:
    got, asked, sent = ask(sidecar, tap, get(path + "?from=test"))

    assert asked.startswith(b"GET " + path.encode() + b"?from=test HTTP/1.1\r\n")
    assert (got.status, got.reason) == (sent.status, sent.reason)
    assert end_to_end(got) == end_to_end(sent)
    assert got.body == sent.body
