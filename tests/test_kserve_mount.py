"""The sample of KServe with its sidecar as it is rendered, played: its sidecar, with its config and its flags, before a stand-in of the predictor that is
started with its own arguments and mounts OpenAI's API as KServe does, below `/openai`. All is counted, under the model's name.

Only the ports differ, because this machine has no pod to itself, and the folder for the usual values.
"""

import asyncio
import json
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.answers.spoken import CHAT
from tests.support.kustomize import documented
from tests.support.manifests import config_file, pod_of
from tests.support.sidecar_process import SidecarProcess, running_sidecar


pytestmark = pytest.mark.long

PATH = "/openai/v1/chat/completions"
PATIENCE_SECONDS = 20.0
STATE = "/var/lib/sidecar"


@dataclass(frozen=True)
class Rendered:
    """The facts of the two processes, as the objects state them."""

    model: str
    """The name that the predictor is told to serve."""
    predictor_port: int
    engine_url: str
    flags: list[str]
    """Those of the sidecar, without its two addresses and the engine's."""


def rendered(folder: Path) -> Rendered:
    """The objects, by kustomize. The config goes into `folder`."""
    objects = documented("kserve")
    pod, config = pod_of(objects), config_file(objects, folder)
    config.write_text(config.read_text().replace(STATE, str(folder)))
    told = dict(arg.split("=", 1) for arg in pod.engine["args"])
    replaced = {"--config.file": str(config)}
    moved = ("--engine.url", "--proxy.listen-address")
    flags = [f"{flag}={replaced.get(flag, value)}" for flag, value in pod.flags.items() if flag not in moved]
    return Rendered(told["--model_name"], int(told["--http_port"]), pod.flags["--engine.url"], flags)


def kserve(model: str) -> web.Application:
    """The paths of KServe's `huggingfaceserver` that a client of OpenAI's API meets; it has no `/health` and no `/v1`."""

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": model, "object": "model", "owned_by": ""}]})

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


def ask(sidecar: SidecarProcess, model: str) -> bytes:
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
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
    said = rendered(tmp_path)
    assert said.engine_url == f"http://127.0.0.1:{said.predictor_port}"

    def play(url: str) -> None:
        with running_sidecar(url, tmp_path, flags=said.flags) as sidecar:
            assert ask(sidecar, said.model) == b"".join((*CHAT.begin, CHAT.token, *CHAT.finish, *CHAT.end))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not value(sidecar, "llm_requests_total", f'model="{said.model}"', 'outcome="ok"'):
                assert time.monotonic() < deadline, sidecar.page("/metrics")
                time.sleep(0.5)
                ask(sidecar, said.model)
            assert value(sidecar, "llm_time_to_first_token_seconds_count") > 0
            assert value(sidecar, "llm_uncounted_inference_total") == 0
            assert value(sidecar, "llm_requests_total", 'outcome="ok"') == value(sidecar, "llm_requests_total")

    async def scenario() -> None:
        async with TestServer(kserve(said.model)) as server:
            await asyncio.to_thread(play, str(server.make_url("")).rstrip("/"))

    asyncio.run(scenario())
