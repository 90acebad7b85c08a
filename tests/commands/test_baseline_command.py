"""`sidecar baseline export` writes a healthy pod's usual values to a file, and says why where it does not."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.admin.listener import AdminListener
from sidecar.cli import main
from sidecar.history.slices import Sliced
from sidecar.pod.usual.baseline import Key, RefusedError, head
from tests.support.admin import Double, Visit, metrics, visit


KEY = Key("vllm", "0.9.1", ("llama",), None, None)


def document(*, burning: bool = False, provisional: bool = False) -> Sliced[bytearray]:
    yield
    text = json.dumps({**head(KEY, 1.8e9, burning=burning, provisional=provisional), "learners": {}})
    return bytearray(text.encode())


def young() -> Sliced[bytearray]:
    yield
    raise RefusedError("no usual values are known yet")


@contextmanager
def served(made: Sliced[bytearray] | None) -> Iterator[str]:
    """The URL of an admin listener in a thread of its own, whose next baseline is this one."""
    ready, urls, loop = threading.Event(), list[str](), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        registry = metrics()
        listener = AdminListener(Double(registry), registry, loop.time, baseline=None if made is None else lambda: made)
        (address,) = await listener.start("127.0.0.1", 0)
        urls.append(f"http://127.0.0.1:{address[1]}")
        ready.set()
        await stop.wait()
        await listener.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10.0)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10.0)
        loop.close()


def test_a_healthy_pod_is_written_to_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "baseline.json"
    with served(document()) as url:
        code = main(["baseline", "export", f"--sidecar.url={url}", f"--out={file}"])

    assert code == 0
    assert json.loads(file.read_text())["key"] == {**KEY.as_json(), "models": ["llama"]}
    assert capsys.readouterr().out.startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (document(burning=True), "its objectives burn now"),
        (document(provisional=True), "provisional"),
        (young(), "no usual values are known yet"),
        (None, "no usual values are kept"),
    ],
)
def test_a_pod_that_is_no_example_is_refused_and_nothing_is_written(
    made: Sliced[bytearray] | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    with served(made) as url:
        code = main(["baseline", "export", f"--sidecar.url={url}", f"--out={file}"])

    assert (code, file.exists()) == (1, False)
    assert why in " ".join(capsys.readouterr().err.split())


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(document()) as url:
        code = main(["baseline", "export", f"--sidecar.url={url}", f"--out={tmp_path / 'none' / 'baseline.json'}"])

    assert code == 1
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "the following arguments are required: export, --out"),
        (["import", "--out=x"], "invalid choice: 'import'"),
        (["export", "--out=x", "--sidecar.url=llm-0:9901"], "is no http:// or https:// address"),
    ],
)
def test_wrong_flags_are_told(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", *arguments]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_an_address_without_a_sidecar_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["baseline", "export", "--sidecar.url=http://127.0.0.1:9", f"--out={tmp_path / 'x'}"])

    said = capsys.readouterr().err
    assert code == 1
    assert "127.0.0.1:9" in said
    assert "--sidecar.url" in said


def test_the_help_teaches_the_whole_way(capsys: pytest.CaptureFixture[str]) -> None:
    """From a pod to a file to the config of other pods, and what refuses it."""
    assert main(["baseline", "--help"]) == 0

    shown = capsys.readouterr().out
    for word in ("--sidecar.url", "--out", "baseline.file", "state.directory", "configmap", "exit codes"):
        assert word in shown


def test_the_page_is_json_that_no_cache_keeps() -> None:
    """Without usual values it is 503, with the reason as text."""

    async def asked(admin: Visit) -> None:
        status, headers, body = await admin.ask("/baseline.json")
        assert (status, body) == (503, b"no usual values are kept\n")
        assert headers["Cache-Control"] == "no-store"

    visit(asked)
