"""The simulated engine's HTTP server: vLLM's endpoints over a simulated replica, in real time, in this event loop.

It sends the parts of a response when vLLM does: headers at once, the role chunk when the first token exists, one chunk
per token, the usage chunk with the per-request metrics last. If a client disconnects, its slot is free at once.
Durations are in `physics.py`, formats in `dialect.py`. Only the demo, the benches and the tests use it; the forwarding
code never imports it.
"""

import asyncio
import time
from functools import partial
from random import Random
from typing import Self
from uuid import uuid4

from aiohttp import web

from sidecar.commands.simulator.dialect import (
    END_MARK,
    Answer,
    Question,
    RefusedError,
    models,
    per_request_metrics,
    read_question,
)
from sidecar.commands.simulator.player import Player, Reception
from sidecar.commands.simulator.replica_presets import Preset
from sidecar.commands.simulator.simulation import Simulation
from sidecar.commands.simulator.vllm_metrics import VllmMetrics


VLLM_VERSION = "0.33.0"
"""The simulated version of vLLM."""


class SimulatedEngine:
    """`async with SimulatedEngine(preset, port=0) as engine:` then `engine.url`, `engine.simulation`, `engine.adjust(...)`."""

    def __init__(
        self,
        preset: Preset,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        model: str | None = None,
        per_request_metrics: bool = True,
        seed: int = 0,
    ) -> None:
        self.simulation = Simulation(preset.limits, preset.costs)
        self.model = model or preset.model
        self.report_factor = 1.0
        """Multiplies the durations reported in `metrics`: other than 1.0, the engine's reports are wrong."""
        self._metrics = VllmMetrics(self.simulation, self.model)
        self._preset = preset
        self._host = host
        self._port = port
        self._reports = per_request_metrics
        self._rng = Random(seed)
        self._created = int(time.time())  # noqa: TID251  the API's `created` is a wall-clock second
        self._player: Player | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Base URL without a path; valid only while the engine runs."""
        return f"http://{self._host}:{self._port}"

    @property
    def player(self) -> Player:
        """The player of the simulation; available only while the engine runs."""
        assert self._player is not None
        return self._player

    def adjust(self, **knobs: object) -> None:
        """Change knobs (fields of `physics.Knobs`) now."""
        self.player.adjust(**knobs)

    async def crash(self) -> None:
        """Simulate a crashed process: streams are cut off, the port refuses. Only `restart` may be called after it."""
        await self._stop()

    async def restart(self) -> None:
        """Simulate a new process on the same port: no requests, empty cache, counters at 0, knobs at their defaults."""
        self.simulation = Simulation(self._preset.limits, self._preset.costs)
        self._metrics = VllmMetrics(self.simulation, self.model)
        await self._start()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stop()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._player = Player(self.simulation, time.monotonic, loop.call_later, on_tokens=self._metrics.on_tokens)
        app = web.Application(client_max_size=64 << 20)
        app.add_routes(
            [
                web.post("/v1/chat/completions", partial(self._generate, chat=True)),
                web.post("/v1/completions", partial(self._generate, chat=False)),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._page),
            ]
        )
        # Without cancellation a handler would notice a disconnected client only at its next write.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        self.player.stop()

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        body = await request.read()
        try:
            question = read_question(body, chat=chat)
            reception, finish_reason = self._submit(question)
        except RefusedError as refusal:
            return web.Response(status=refusal.status, body=refusal.body, content_type="application/json")
        identity = ("chatcmpl-" if chat else "cmpl-") + (request.headers.get("X-Request-Id") or uuid4().hex)
        answer = Answer(identity, self._created, self.model, finish_reason, chat=chat)
        try:
            if question.stream:
                response = await self._stream(request, answer, reception, question.include_usage)
            else:
                while not reception.complete:
                    await reception.take()
                report = self._report(reception)
                response = web.Response(body=answer.whole(reception.request, report), content_type="application/json")
            self._metrics.on_finish_reason(finish_reason)
        except ConnectionResetError:
            # The client disconnected between two writes, before this handler was cancelled: the response is not read.
            return web.Response()
        finally:
            self.player.abort(reception)
        return response

    def _submit(self, question: Question) -> tuple[Reception, str]:
        """Submit the request; returns its reception and its future finish reason. Raises RefusedError."""
        if question.model not in (None, self.model):
            raise RefusedError(404, "NotFoundError", f"The model `{question.model}` does not exist.")
        limits = self._preset.limits
        room = limits.max_model_len - question.prompt_tokens
        if question.max_tokens is not None:
            tokens, reason = question.max_tokens, "length"
        elif question.ignore_eos:
            tokens, reason = room, "length"
        else:
            # Lengths of chat answers vary by about half, with a long tail; the median is the reference load's length.
            median = self._preset.reference_load.shapes[0].output_tokens
            tokens, reason = min(max(1, round(self._rng.lognormvariate(0, 0.5) * median)), room), "stop"
        try:
            return self.player.submit(question.prompt_tokens, tokens, question.block_hashes(limits.block_size)), reason
        except ValueError:
            asked = f"{question.prompt_tokens} in the messages and {tokens} in the completion"
            message = f"This model's maximum context length is {limits.max_model_len} tokens, you requested {asked}."
            raise RefusedError(400, "BadRequestError", message) from None

    async def _stream(
        self, request: web.Request, answer: Answer, reception: Reception, include_usage: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        written = 0
        total = reception.request.output_tokens
        while not reception.complete:
            tokens = await reception.take()
            if not written and answer.opening:
                await response.write(answer.opening)
            numbers = range(written, written + tokens)
            await response.write(b"".join(answer.token(number, last=number == total - 1) for number in numbers))
            written += tokens
        if include_usage:
            await response.write(answer.usage(reception.request, self._report(reception)))
        await response.write(END_MARK)
        await response.write_eof()
        return response

    def _report(self, reception: Reception) -> dict[str, float | None] | None:
        return per_request_metrics(reception.request, self.report_factor) if self._reports else None

    async def _models(self, _request: web.Request) -> web.Response:
        cards = models([self.model], self._created, self._preset.limits.max_model_len)
        return web.Response(body=cards, content_type="application/json")

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": VLLM_VERSION})

    async def _page(self, _request: web.Request) -> web.Response:
        self.player.catch_up()
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._metrics.page(), headers=headers)
