"""The real process is stopped for longer than its time limits, while its engine and its clients go on: none of them is blamed.

All that they send is in the kernel before the process goes on, so that only its own order of work decides.
"""

import asyncio
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from tests.proxy.sample_messages import OK, POST, STREAM
from tests.real.told import page_of, total_of
from tests.support.origin import Origin, Visit
from tests.support.proxy import RawClient
from tests.support.scenario_loop import play
from tests.support.sidecar_process import SidecarProcess, running_sidecar


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(120)]

LIMIT_SECONDS = 3.0
BEAT_SECONDS = 0.25
BEATS = round(2 * LIMIT_SECONDS / BEAT_SECONDS)
CONFIG = f"""
engine: {{gap_timeout_seconds: {LIMIT_SECONDS}, first_byte_timeout_seconds: {LIMIT_SECONDS}}}
proxy: {{body_gap_timeout_seconds: {LIMIT_SECONDS}}}
"""
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
TOKEN = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
WAITS = b"GET /waits HTTP/1.1\r\nHost: pod\r\n\r\n"
UPLOAD = b"POST /upload HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % BEATS


class Engine:
    """Streams a token a beat, lets another request wait for its first byte, and answers an upload when it is whole."""

    def __init__(self) -> None:
        self.asked = {path: asyncio.Event() for path in (b"/waits", b"/upload")}
        self.finish = asyncio.Event()
        self.finished = asyncio.Barrier(3)
        """The stream and the answer that was waited for have been sent."""

    async def serve(self, visit: Visit) -> None:
        """The script of an `Origin`."""
        while True:
            path = (await visit.head()).split(b" ", 2)[1]
            if path in self.asked:
                self.asked[path].set()
            if path == b"/v1/chat/completions":
                visit.send(STREAM)
                while not self.finish.is_set():
                    visit.send(TOKEN)
                    await asyncio.sleep(BEAT_SECONDS)
                visit.send(END)
                await self.finished.wait()
            elif path == b"/waits":
                await self.finish.wait()
                visit.send(OK)
                await self.finished.wait()
            else:
                await visit.reader.readexactly(BEATS if path == b"/upload" else 0)
                visit.send(OK)


async def stopped_in_the_middle(sidecar: SidecarProcess, engine: Engine) -> list[bytes]:
    """The ends of the three answers."""
    stream, waits, upload = [await RawClient.connect(sidecar.port) for _ in range(3)]
    stream.send(POST)
    await stream.until(EVENT)
    waits.send(WAITS)
    upload.send(UPLOAD)
    for asked in engine.asked.values():
        await asked.wait()
    for _ in range(4):
        await stream.until(EVENT)
    # Between two beats the process waits for its sockets. Woken there, it has timers that are due before it reads.
    await asyncio.sleep(BEAT_SECONDS / 2)
    sidecar.process.send_signal(SIGSTOP)
    for _ in range(BEATS):
        await asyncio.sleep(BEAT_SECONDS)
        upload.send(b"x")
    engine.finish.set()
    await engine.finished.wait()
    sidecar.process.send_signal(SIGCONT)

    ends = [(stream, END), (waits, b"ok"), (upload, b"ok")]
    found = [(await client.until(end))[-len(end) :] for client, end in ends]
    for client, _ in ends:
        await client.close()
    return found


async def outcomes(sidecar: SidecarProcess) -> tuple[float, float]:
    """Requests with outcome ok, and all: once all three are counted, which is after the client has its last byte."""
    names = ("llm_requests_total", "llm_passthrough_requests_total")
    while True:
        page = await asyncio.to_thread(page_of, sidecar)
        ended = sum(total_of(page, name) for name in names)
        if ended >= 3:
            return sum(total_of(page, name, outcome="ok") for name in names), ended
        await asyncio.sleep(0.05)


def test_a_stopped_process_blames_neither_its_engine_nor_a_client(tmp_path: Path) -> None:
    """It is stopped for twice its limits: a stream, a first byte and an upload go on meanwhile, and all end as ok."""
    config = tmp_path / "sidecar.yml"
    config.write_text(CONFIG)

    async def scenario() -> tuple[list[bytes], tuple[float, float]]:
        engine = Engine()
        async with Origin(engine.serve).listening() as origin:
            running = running_sidecar(f"http://127.0.0.1:{origin.port}", tmp_path, flags=[f"--config.file={config}"])
            sidecar = await asyncio.to_thread(running.__enter__)
            try:
                return await stopped_in_the_middle(sidecar, engine), await outcomes(sidecar)
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)

    assert play(scenario(), patience_seconds=100) == ([END, b"ok", b"ok"], (3, 3))
