"""SIGTERM and `/-/drain` on the real process: not ready at once, serving in the lame duck, finishing streams, cutting after the grace.

Order is proven by events, not by clocks: each step starts after the effect of the one before it was seen.
"""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.origin import Origin, Visit
from tests.support.proxy import RawClient
from tests.support.scenario_loop import play
from tests.support.sidecar_process import SidecarProcess, running_sidecar


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET /anything HTTP/1.1\r\nHost: pod\r\n\r\n"
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b"
CONFIG = """\
shutdown:
  lame_duck_seconds: %s
  grace_seconds: %s
"""


def ask(which: bytes) -> bytes:
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}' % which
    return ASK % (len(body), body)


class Engine:
    """Streams one event at once, and the rest when `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.left = 0

    async def __call__(self, visit: Visit) -> None:
        while True:
            head, _ = await visit.request()
            if not head.startswith(b"POST"):
                visit.send(OK)
                continue
            visit.send(STREAM + b"b\r\ndata: [1]\n\n\r\n")
            waiting = asyncio.create_task(self.go_on.wait())
            gone = asyncio.create_task(visit.reader.read(1))
            await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if gone.done():
                self.left += 1
                return
            gone.cancel()
            visit.send(b"b\r\ndata: [2]\n\n\r\n0\r\n\r\n")
            await visit.flush()
            return


async def page(sidecar: SidecarProcess, path: str) -> tuple[int, str]:
    def get() -> tuple[int, str]:
        try:
            return 200, sidecar.page(path)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


async def until_not_ready(sidecar: SidecarProcess) -> None:
    while (await page(sidecar, "/-/ready"))[0] == 200:  # noqa: ASYNC110  another process's state
        await asyncio.sleep(0.01)


def config(folder: Path, lame_duck_seconds: float, grace_seconds: float) -> str:
    file = folder / "sidecar.yml"
    file.write_text(CONFIG % (lame_duck_seconds, grace_seconds))
    return f"--config.file={file}"


@asynccontextmanager
async def under_a_stream(
    folder: Path, lame_duck_seconds: float, grace_seconds: float
) -> AsyncIterator[tuple[Engine, SidecarProcess, RawClient]]:
    """An engine, a sidecar process in front of it, and a client that has the first event of its stream."""
    engine = Engine()
    async with Origin(engine).listening() as origin:
        flags = [config(folder, lame_duck_seconds, grace_seconds)]
        manager = running_sidecar(f"http://127.0.0.1:{origin.port}", folder, flags=flags)
        sidecar = await asyncio.to_thread(manager.__enter__)
        try:
            streaming = await RawClient.connect(sidecar.port)
            streaming.send(ask(b"first"))
            await streaming.until(b"data: [1]\n\n\r\n")
            yield engine, sidecar, streaming
            await streaming.close()
        finally:
            await asyncio.to_thread(manager.__exit__, None, None, None)


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_stream_in_flight_is_finished_and_latecomers_are_served(tmp_path: Path) -> None:
    """The ordinary rollout: nothing is lost, /metrics answers to the end, and the exit is clean."""

    async def scenario() -> None:
        async with under_a_stream(tmp_path, 3, 30) as (engine, sidecar, streaming):
            kept = await RawClient.connect(sidecar.port)
            kept.send(GET)
            assert b"Connection: close" not in await kept.until(b"ok")

            sidecar.process.send_signal(signal.SIGTERM)
            await until_not_ready(sidecar)
            late = await RawClient.connect(sidecar.port)
            late.send(GET)
            answer, _ = await late.rest()
            assert answer == OK.replace(b"\r\n\r\nok", b"\r\nConnection: close\r\n\r\nok")
            assert await kept.rest() == (b"", False)

            while b"draining" not in await asyncio.to_thread(sidecar.log.read_bytes):  # noqa: ASYNC110  as above
                await asyncio.sleep(0.02)
            with pytest.raises(ConnectionRefusedError):
                await RawClient.connect(sidecar.port)
            status, metrics = await page(sidecar, "/metrics")
            assert status == 200
            assert "llm_sidecar_draining 1" in metrics

            engine.go_on.set()
            rest, reset = await streaming.rest()
            assert rest.endswith(b"data: [2]\n\n\r\n0\r\n\r\n")
            assert not reset
            assert await asyncio.to_thread(sidecar.process.wait, 20) == 0
            assert [line["outcome"] for line in sidecar.log_lines("request")] == ["ok"]
            for client in (kept, late):
                await client.close()

    play(scenario())


@pytest.mark.long
@pytest.mark.timeout(60)
def test_what_outlives_the_grace_is_cut_and_counted(tmp_path: Path) -> None:
    """A stream is cut in mid-message, the engine sees the close, the outcome is `sidecar_error`, the exit is clean."""

    async def scenario() -> None:
        async with under_a_stream(tmp_path, 0, 0.5) as (engine, sidecar, streaming):
            sidecar.process.send_signal(signal.SIGTERM)
            rest, _ = await streaming.rest()
            assert rest == b""
            status, metrics = await page(sidecar, "/metrics")
            assert status == 200
            assert 'outcome="sidecar_error"' in metrics
            assert await asyncio.to_thread(sidecar.process.wait, 20) == 0
            assert engine.left == 1
            assert [line["outcome"] for line in sidecar.log_lines("request")] == ["sidecar_error"]

    play(scenario())


def post_drain(sidecar: SidecarProcess) -> tuple[int, dict[str, object]]:
    """POST /-/drain, as a preStop does; returns its status and what it says at its end."""
    asked = urllib.request.Request(f"http://127.0.0.1:{sidecar.web_port}/-/drain", method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_drain_is_answered_when_the_last_stream_has_ended_and_sigterm_waits_no_second_time(tmp_path: Path) -> None:
    """The preStop of an engine waits on it: the stream ends whole, then the answer comes, then SIGTERM ends the process."""

    async def scenario() -> None:
        async with under_a_stream(tmp_path, 0, 3600) as (engine, sidecar, streaming):
            drains = [asyncio.create_task(asyncio.to_thread(post_drain, sidecar)) for _ in range(2)]
            while b"draining" not in await asyncio.to_thread(sidecar.log.read_bytes):  # noqa: ASYNC110  as above
                await asyncio.sleep(0.02)
            assert (await page(sidecar, "/-/ready"))[0] == 503
            assert not any(drain.done() for drain in drains)

            engine.go_on.set()
            rest, reset = await streaming.rest()
            assert rest.endswith(b"data: [2]\n\n\r\n0\r\n\r\n")
            assert not reset
            ends = [await drain for drain in drains]
            assert [(status, said["drained"], said["in_flight"]) for status, said in ends] == [(200, True, 0)] * 2
            assert sidecar.process.poll() is None

            sidecar.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(sidecar.process.wait, 20) == 0
            assert len(sidecar.log_lines("lame_duck")) == 1

    play(scenario(), patience_seconds=50.0)


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_drained_process_that_no_sigterm_ends_answers_its_hook_and_ends_at_the_deadline(tmp_path: Path) -> None:
    """The engine's container alone was restarted. 503 with the number still in flight, then the end in order: Kubernetes starts a new one."""

    async def scenario() -> None:
        async with under_a_stream(tmp_path, 0, 0.5) as (_, sidecar, streaming):
            status, said = await asyncio.to_thread(post_drain, sidecar)
            assert (status, said["drained"], said["in_flight"]) == (503, False, 1)

            assert await streaming.rest() == (b"", False)
            assert await asyncio.to_thread(sidecar.process.wait, 20) == 0
            assert [line["outcome"] for line in sidecar.log_lines("request")] == ["sidecar_error"]
            assert len(sidecar.log_lines("draining")) == 1
            (ended,) = sidecar.log_lines("drained_without_sigterm")
            assert "starts a new one" in str(ended["why"])

    play(scenario(), patience_seconds=50.0)
