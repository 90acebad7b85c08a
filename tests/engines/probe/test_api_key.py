"""The engine's key: where it comes from, what is asked with it, and that it is told to nothing but the engine."""

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import web

from sidecar.engines.engine import Engine
from sidecar.engines.probe.advice import Advisor
from sidecar.engines.probe.api_key import NO_KEY, EngineApiKey
from tests.engines.probe.prober import VLLM_MODELS, Handler, ProberHarness, engine_answering


KEY = "sk-very-secret"


def guarded(asked: list[tuple[str, str | None]]) -> Handler:
    """vLLM with --api-key: it guards what stands below /v1, and nothing else."""

    async def answer(request: web.Request) -> web.Response:
        said = request.headers.get("Authorization")
        asked.append((request.path, said))
        if request.path == "/v1/models":
            return web.Response(body=VLLM_MODELS) if said == f"Bearer {KEY}" else web.Response(status=401)
        return web.Response(body=b"") if request.path == "/health" else web.Response(status=404)

    return answer


def test_an_engine_with_a_key_lists_its_models_to_the_sidecar(tmp_path: Path) -> None:
    """The key may come after the start, and it may be rotated: the file is read at each question."""
    asked: list[tuple[str, str | None]] = []
    file = tmp_path / "key"
    file.write_text("another\n")

    async def scenario() -> tuple[ProberHarness, list[object]]:
        async with engine_answering(guarded(asked)) as url:
            harness = ProberHarness(url, key=EngineApiKey("", str(file), list[str]().append).read)
            await harness.ask()
            seen: list[object] = [(harness.engine.refuses_models, harness.engine.models)]
            file.write_text(f"{KEY}\n")
            harness.now += 6.0
            await harness.ask()
            return harness, [*seen, (harness.engine.refuses_models, harness.engine.models)]

    harness, seen = asyncio.run(scenario())

    assert seen == [(401, ()), (None, ("tiny",))]
    assert harness.engine.kind == "vllm"
    assert {said for path, said in asked if path == "/health"} == {None}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_is_told_apart_from_no_list(status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.path == "/health" else status)

    async def scenario() -> Engine:
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            return harness.engine

    engine = asyncio.run(scenario())
    engine.pool.served(0.0)
    hints = Advisor(engine).hints(page_missing=False)

    assert engine.refuses_models == (status if status in (401, 403) else None)
    assert [hint for hint in hints if "engine.api_key_file" in hint and str(status) in hint] == [*hints]
    assert bool(hints) == (status in (401, 403))


@pytest.mark.parametrize("text", [b"", b"  \n", b"two words", b"\xff", b"a\nb"])
def test_a_file_without_a_key_is_told_once_and_never_shown(tmp_path: Path, text: bytes) -> None:
    file, told = tmp_path / "key", list[str]()
    file.write_bytes(text)
    key = EngineApiKey("", str(file), told.append)

    assert [key.read(), key.read()] == ["", ""]
    assert told == [NO_KEY]


def test_a_file_that_is_missing_is_told_and_read_once_it_is_there(tmp_path: Path) -> None:
    file, told = tmp_path / "key", list[str]()
    key = EngineApiKey("", str(file), told.append)

    assert key.read() == ""
    file.write_text(KEY)
    assert key.read() == KEY
    assert told == ["No such file or directory"]


def test_a_key_of_the_config_is_the_key() -> None:
    assert EngineApiKey(KEY, "", list[str]().append).read() == KEY


def test_a_pipe_in_the_place_of_the_file_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    told = list[str]()

    assert EngineApiKey("", str(tmp_path / "key"), told.append).read() == ""
    assert told == ["it is no regular file"]
