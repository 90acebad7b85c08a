"""The shipped sidecar before a stand-in that mounts OpenAI's API as KServe does, below `/openai`: all is counted, under the model's name."""

import asyncio
import json
import time
import urllib.request
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.answers.spoken import CHAT
from tests.support.sidecar_process import SidecarProcess, running_sidecar


pytestmark = pytest.mark.long

MODEL, PATH = "llama2", "/openai/v1/chat/completions"
PATIENCE_SECONDS = 20.0


def kserve() -> web.Application:
    """The paths of KServe's `huggingfaceserver` that a client of OpenAI's API meets; it has no `/health` and no `/v1`."""

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": ""}]})

    async def chat(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        for event in (*CHAT.begin, CHAT.token, *CHAT.finish, *CHAT.end):
            await answer.write(event)
        return answer

    app = web.Application()
    app.router.add_get("/openai/v1/models", models)
    app.router.add_post(PATH, chat)
    return app


def ask(sidecar: SidecarProcess) -> bytes:
    body = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{sidecar.port}{PATH}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        whole: bytes = answer.read()
        return whole


def value(sidecar: SidecarProcess, name: str, *labels: str) -> float:
    """The sum of the samples of this name that have these labels, as they are written on the page."""
    lines = [line for line in sidecar.page("/metrics").splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))


def test_a_pod_of_kserve_is_counted_with_its_model(tmp_path: Path) -> None:
    """The first answer shows where the API is mounted; the models are listed beside it."""

    def play(url: str) -> None:
        with running_sidecar(url, tmp_path) as sidecar:
            assert ask(sidecar) == b"".join((*CHAT.begin, CHAT.token, *CHAT.finish, *CHAT.end))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not value(sidecar, "llm_requests_total", f'model="{MODEL}"', 'outcome="ok"'):
                assert time.monotonic() < deadline, sidecar.page("/metrics")
                time.sleep(0.5)
                ask(sidecar)
            assert value(sidecar, "llm_time_to_first_token_seconds_count") > 0
            assert value(sidecar, "llm_uncounted_inference_total") == 0
            assert value(sidecar, "llm_requests_total", 'outcome="ok"') == value(sidecar, "llm_requests_total")

    async def scenario() -> None:
        async with TestServer(kserve()) as server:
            await asyncio.to_thread(play, str(server.make_url("")).rstrip("/"))

    asyncio.run(scenario())
