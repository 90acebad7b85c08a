"""Engine and load of `make bench`, against each other: what one counts as sent, the other counts as read."""

import asyncio
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from bench.peers.build import COMPILER, MissingError, environment, generator, wheel
from bench.peers.measure import FailedError, Generator
from bench.peers.proxies import Running
from tests.support.background import background
from tests.support.tools import missing


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    if shutil.which(COMPILER) is None:
        missing(f"{COMPILER} is not installed (Debian: apt-get install g++)")
    started = Generator(generator(tmp_path_factory.mktemp("peers")))
    yield started
    started.close()


def sent(load: Generator) -> int:
    """Tokens that the engine has handed to the kernel, by its own page of metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{load.port}/metrics", timeout=10) as page:
        found = re.search(r"^vllm:generation_tokens_total\{.*\} (\d+)$", page.read().decode(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_every_token_that_the_engine_sends_is_read_and_later_than_it_was_sent(load: Generator) -> None:
    before = sent(load)
    window = load.play("streams", Running(load.port), {"n": 20, "settle_ms": 50, "window_ms": 400})
    added = window.said["added_ns"]
    assert isinstance(added, dict)
    assert (window.said["errors"], window.number("tokens_total")) == (0, sent(load) - before)
    assert window.number("tokens_total") == window.number("expected_total")
    assert 0 < added["p50"] <= added["p99"] <= added["max"]
    assert 0 < window.busy_share <= 1


async def cut_chunks(client: asyncio.StreamReader, back: asyncio.StreamWriter, *, port: int, seen: list[bytes]) -> None:
    """A proxy that gives each chunk on as chunks of seven bytes, and these in segments of nine. `seen`: the requests."""
    engine, to_engine = await asyncio.open_connection("127.0.0.1", port)
    try:
        while request := await client.read(65_536):
            seen.append(request)
            to_engine.write(request)
            answer = await engine.readuntil(b"\r\n\r\n")
            size = 1
            while size:
                size = int(await engine.readline(), 16)
                data = (await engine.readexactly(size + 2))[:size]
                pieces = [data[at : at + 7] for at in range(0, size, 7)]
                answer += b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            answer += b"0\r\n\r\n"
            for at in range(0, len(answer), 9):
                back.write(answer[at : at + 9])
                await back.drain()
    finally:
        to_engine.close()
        back.close()


@asynccontextmanager
async def chunk_cutter(port: int, seen: list[bytes]) -> AsyncIterator[int]:
    """Yields the port of that proxy."""
    visits: list[asyncio.Task[None]] = []

    def visited(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        visits.append(asyncio.create_task(cut_chunks(client, back, port=port, seen=seen)))

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for visit in visits:
        visit.cancel()
    await asyncio.gather(*visits, return_exceptions=True)


def test_a_token_that_a_proxy_cuts_into_chunks_is_a_token(load: Generator) -> None:
    with background() as thread, thread.entered(partial(chunk_cutter, load.port, [])) as port:
        window = load.play("requests", Running(port), {"k": 2, "settle_ms": 20, "window_ms": 300, "most_bytes": 600})
    assert window.said["errors"] == 0
    assert window.number("requests") > 5


@pytest.mark.parametrize(
    ("mode", "count"), [("requests", {"k": 2, "most_bytes": 600}), ("streams", {"n": 12, "bytes": 9})]
)
def test_each_lane_asks_for_each_model_where_the_bench_says_how_many(
    load: Generator, mode: str, count: dict[str, int]
) -> None:
    seen: list[bytes] = []
    with background() as thread, thread.entered(partial(chunk_cutter, load.port, seen)) as port:
        options = {**count, "settle_ms": 20, "window_ms": 200, "lanes": 3, "models": 2}
        window = load.play(mode, Running(port), options)
    found = set(re.findall(rb'x-lane: (\S+)\r\n.*?"model":"([^"]+)"', b"".join(seen), re.DOTALL))
    assert window.said["errors"] == 0
    assert found == {(b"lane-%d" % lane, b"bench/model-%d" % model) for lane in range(3) for model in range(2)}


@pytest.mark.parametrize("one_id", [0, 1])
def test_answers_have_ids_of_their_own_or_all_of_them_one(load: Generator, one_id: int) -> None:
    seen: list[bytes] = []
    with background() as thread, thread.entered(partial(chunk_cutter, load.port, seen)) as port:
        options = {"k": 2, "settle_ms": 20, "window_ms": 200, "most_bytes": 600, "one_id": one_id}
        window = load.play("requests", Running(port), options)
    assert len(seen) > 5
    ids = [answered(load.port, request) for request in seen[:5]]
    assert (window.said["errors"], len({*ids})) == (0, 1 if one_id else 5)


def answered(port: int, request: bytes) -> str:
    """The id of the engine's answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += client.recv(1 << 16)
    found = {*re.findall(rb'"id":"([^"]+)"', answer)}
    assert len(found) == 1
    return str(found.pop(), "ascii")


@pytest.mark.parametrize("whole", [0, 1])
def test_requests_of_all_lengths_are_answered_streamed_or_not(load: Generator, whole: int) -> None:
    before = sent(load)
    options = {"k": 4, "settle_ms": 20, "window_ms": 200, "most_bytes": 60_000, "whole": whole}
    window = load.play("requests", Running(load.port), options)
    assert (window.said["errors"], window.number("requests_total")) == (0, sent(load) - before)
    assert window.number("requests") > 50
    assert window.quantile_us("first_token_ns", "p50") > 0


def test_a_long_prompt_is_timed_to_the_engines_first_and_last_byte(load: Generator) -> None:
    window = load.play("prompt", Running(load.port), {"bytes": 2_000_000, "count": 3, "pause_ms": 1})
    first, last, whole = (
        window.quantile_us(name, "p50") for name in ("to_first_byte_ns", "to_last_byte_ns", "whole_ns")
    )
    assert 0 < first < last < whole


def test_streams_that_end_in_one_step_are_followed_by_a_request_each(load: Generator) -> None:
    window = load.play("ends", Running(load.port), {"n": 30, "gap_us": 10_000, "window_ms": 100})
    assert (window.said["errors"], window.number("requests")) == (0, 30)


def test_a_window_with_an_error_fails_with_the_first_one(load: Generator) -> None:
    with pytest.raises(FailedError, match="errors, the first: connect: Connection refused"):
        load.play("streams", Running(1), {"n": 2, "settle_ms": 0, "window_ms": 20})


def test_a_compiler_or_an_environment_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"no g\+\+.*apt-get install g\+\+"):
        generator(tmp_path)


def test_an_environment_that_stands_is_not_installed_again(tmp_path: Path) -> None:
    wanted = (Path(__file__).parents[2] / "bench/peers/requirements.txt").read_text()
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/wanted").write_text(wanted)
    assert environment("requirements.txt", "venv", tmp_path) == tmp_path / "venv/bin"


def test_the_sidecar_is_installed_again_when_a_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the packages of its lock, and as `pip install` builds it, told to compile: a machine without a compiler has a reason in the table, and no slower figure."""
    tree, cache = tmp_path / "tree", tmp_path / "cache"
    (tree / "sidecar").mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "requirements.lock", "sidecar/app.py"):
        (tree / name).write_text("1")
    run: list[tuple[str, str]] = []

    def ran(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        run.append((command[-1], env.get("SIDECAR_BUILD", "")))
        (cache / "sidecar/bin").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("bench.peers.build.subprocess.run", ran)
    assert wheel(tree, "sidecar", cache) == wheel(tree, "sidecar", cache) == cache / "sidecar/bin"
    made = [str(cache / "sidecar"), str(tree / "requirements.lock"), str(tree)]
    assert run == [(each, "compiled") for each in made]
    (tree / "sidecar/app.py").write_text("2")
    wheel(tree, "sidecar", cache)
    assert len(run) == 6
