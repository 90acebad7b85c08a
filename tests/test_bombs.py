"""Compressed bodies of a few bytes with megabytes inside, two hundred at once, at the process that users run and in its container's memory."""

import asyncio
import gzip
import json
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import brotli
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.bounds.bound import longest_step
from sidecar.classify.inflate import MOST_INFLATED_BYTES, zstd_library
from sidecar.config.schema import ProxyConfig
from sidecar.metrics.vocabulary import BodyUnread
from sidecar.proxy.read_limit import PARSE_SECONDS
from sidecar.proxy.upload import Upload
from tests.support.memory_limit import Limited, entering, group_of, limited_sidecar, remove
from tests.support.plain_engine import plain_engine
from tests.support.threads import HeldThreads
from tests.support.walk import Walk


pytestmark = pytest.mark.long

BOMBS = 200
MOST_RESIDENT_BYTES = 150_000_000
MOST_SLICE_SECONDS = 0.002
ZSTD = zstd_library()
_WIDE = {ZSTD.CompressionParameter.window_log: 23}


def members(whole: bytes) -> bytes:
    """As many members of gzip as a body of the look-in bound holds."""
    return whole * ((1 << 20) // len(whole))


def brotli_of(body: bytes) -> bytes:
    return brotli.compress(body, lgwin=24)  # type: ignore[no-any-return]


def zstd_of(body: bytes) -> bytes:
    return ZSTD.compress(body, options=_WIDE)  # type: ignore[no-any-return]


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli_of,
    "zstd": zstd_of,
}
PROMPT = b'{"model":"plain","prompt":"%b"}'
MADE: dict[str, Callable[[str], bytes]] = {
    "4 MB": lambda coding: PACK[coding](PROMPT % (b"a " * (MOST_INFLATED_BYTES // 2 - 50_000))),
    "endless": lambda coding: PACK[coding](PROMPT % bytes(16 * MOST_INFLATED_BYTES)),
    "many members": lambda coding: members(PACK[coding](b"")),
}
CODINGS = {"4 MB": tuple(PACK), "endless": ("gzip", "deflate", "br", "zstd"), "many members": ("gzip", "zstd")}


@cache
def bomb(kind: str, coding: str) -> bytes:
    """Made when a test asks for it: a second of packing is not for those who collect."""
    return MADE[kind](coding)


def asking(coding: str, body: bytes) -> bytes:
    head = "POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def thrown(port: int, requests: list[bytes]) -> list[bytes]:
    """Send each on a connection of its own, all at once; returns the status of each answer."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in requests]
    try:
        for (_, writer), request in zip(opened, requests, strict=True):
            writer.write(request)
        async with asyncio.timeout(60):
            heads = [await reader.readuntil(b"\r\n\r\n") for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()
    return [head[9:12] for head in heads]


def value(page: str, name: str, **labels: str) -> float:
    """The sum of all samples of this name that have these labels."""
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items())


def unread(page: str) -> dict[str, float]:
    found = {reason.value: value(page, "llm_sidecar_dropped_total", reason=reason) for reason in BodyUnread}
    return {reason: count for reason, count in found.items() if count}


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(params=[256, 1024], ids=["256 MiB", "1 GiB"])
def limit_bytes(request: pytest.FixtureRequest) -> int:
    return int(request.param) << 20


def test_the_kernel_ends_what_exceeds_the_limit() -> None:
    """So that a process that lives has kept to it. Where no control group can be made, the tests below judge by resident memory alone."""
    group, how = group_of(64 << 20)
    if group is None:
        pytest.skip(f"no control group for memory can be made here, and no kernel ends what takes too much: {how}")
    try:
        takes = entering(group, sys.executable, "-c", "len(b'x' * (96 << 20))")
        assert subprocess.run(takes, check=False).returncode == -signal.SIGKILL
    finally:
        remove(group)


async def played(sidecar: Limited, rounds: dict[str, list[bytes]]) -> None:
    """Throw each round, and check what holds after it."""
    asked = 0
    for name, requests in rounds.items():
        statuses = Counter(await thrown(sidecar.port, requests))
        asked += statuses[b"200"]
        # Beyond the budget `requests`, which is 256 in the small container, a request is refused whatever is in it.
        assert len(requests) > BOMBS or statuses == {b"200": len(requests)}, name
        page = await asyncio.to_thread(sidecar.page, "/metrics")
        assert sidecar.alive, name
        assert sidecar.peak_bytes < MOST_RESIDENT_BYTES, f"{name}: {sidecar.peak_bytes:,}"
        assert value(page, "llm_sidecar_budget_used", budget="held_bytes") == 0, name
        assert value(page, "llm_requests_total", outcome="ok") == asked, name


def test_bombs_of_each_coding_leave_the_process_its_memory(limit_bytes: int, tmp_path: Path) -> None:
    """Each of them is answered by the engine, what was read of none is counted with its reason, and all memory goes back to the budget.

    Then a prompt that a client has compressed is read as before.
    """
    times = {"4 MB": BOMBS, "endless": 20, "many members": 20}
    rounds = {
        f"{times[kind]} of {coding}, {kind}": [asking(coding, bomb(kind, coding))] * times[kind]
        for kind, codings in CODINGS.items()
        for coding in codings
    }
    rounds["all at once"] = [asking(coding, bomb("4 MB", coding)) for coding in PACK for _ in range(BOMBS)]

    async def scenario() -> None:
        async with plain_engine() as url:
            entered = limited_sidecar(url, tmp_path, limit_bytes)
            sidecar = await asyncio.to_thread(entered.__enter__)
            try:
                await played(sidecar, rounds)
                before = unread(await asyncio.to_thread(sidecar.page, "/metrics"))
                honest = [asking(coding, pack(PROMPT % b"some words")) for coding, pack in PACK.items()]
                for request in honest:
                    assert await thrown(sidecar.port, [request]) == [b"200"]
                page = await asyncio.to_thread(sidecar.page, "/metrics")
            finally:
                await asyncio.to_thread(entered.__exit__, None, None, None)
        assert before[BodyUnread.NO_PLACE] > BOMBS
        assert unread(page) == before

    asyncio.run(scenario())


def steps(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of this thread in each step in which this request is read, and in what its decoding takes of the loop."""
    walk, found, look_on = Walk(limits=ProxyConfig()), list[float](), Upload.look_on
    threads = walk.observers.beside.threads = HeldThreads()

    def timed(upload: Upload, woken: Callable[[], None]) -> bool:
        began_at = time.thread_time()
        try:
            return look_on(upload, woken)
        finally:
            found.append(time.thread_time() - began_at)

    monkeypatch.setattr(Upload, "look_on", timed)
    walk.client().send(sent)
    walk.turns()
    threads.work()
    walk.turns()
    monkeypatch.undo()
    assert walk.engine.taken.endswith(sent[-64:])
    return found


@pytest.mark.parametrize(("kind", "coding"), [(kind, coding) for kind in CODINGS for coding in CODINGS[kind]])
@pytest.mark.reaches_in
def test_no_step_of_a_bomb_holds_the_loop_for_long(kind: str, coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each at its quickest of five: another machine on this processor delays one now and then. A slice ends with a step."""
    sent = asking(coding, bomb(kind, coding))

    assert longest_step([steps(sent, monkeypatch) for _ in range(5)]) + PARSE_SECONDS < MOST_SLICE_SECONDS


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_of_clients_that_send_and_leave_each_is_in_one_count(tmp_path: Path, *, reset: bool) -> None:
    """Two hundred at once: what was parsed has an outcome, and the other connections are counted as unread."""
    body = json.dumps({"model": "plain", "prompt": "some words"}).encode()
    request = f"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def leave_all(port: int) -> None:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(BOMBS)]
        for client in clients:
            with closing(client):
                client.sendall(request)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def counted() -> tuple[float, float, float]:
        async with plain_engine() as url:
            entered = limited_sidecar(url, tmp_path, 1 << 30)
            sidecar = await asyncio.to_thread(entered.__enter__)
            try:
                await asyncio.to_thread(leave_all, sidecar.port)
                for _ in range(100):
                    page = await asyncio.to_thread(sidecar.page, "/metrics")
                    began = value(page, "llm_requests_total")
                    left = value(page, "llm_sidecar_dropped_total", reason="request_unread")
                    if began + left >= BOMBS:
                        break
                    await asyncio.sleep(0.1)
                return began, left, value(page, "llm_sidecar_failures_total")
            finally:
                await asyncio.to_thread(entered.__exit__, None, None, None)

    began, left, failed = asyncio.run(counted())
    assert (began + left, failed) == (BOMBS, 0)
