"""The printed way out, while streams run: a Service is played by a forwarder that goes where the manifest says, as kube-proxy does.

A connection keeps its pod and its port for as long as it stands; a new one goes where the Service leads then.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.bypassing import commands
from sidecar.commands.inject.manifest_text import Document, read, written
from tests.support.client import Answer, Connection
from tests.support.origin import Origin, Visit
from tests.support.proxy import running
from tests.support.scenario_loop import play


MANIFEST = Path(__file__).parent / "manifests" / "deployment.yaml"
ASKS = b"GET /v1/models HTTP/1.1\r\nHost: llm\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST, LAST, END = b"data: first\n\n", b"data: [DONE]\n\n", b"0\r\n\r\n"


class Service:
    """One Service of the cluster, with the pod behind it."""

    def __init__(self, documents: list[Document], ports: dict[int, int]) -> None:
        self.documents = documents
        self._ports = ports
        self.went_to: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def one(self) -> Any:
        return next(one for document in self.documents for one in document.objects if one["kind"] == "Service")

    def kubectl(self, command: str) -> None:
        """`kubectl patch service NAME --type=json -p PATCH`: the steps of RFC 6902 that the command may use."""
        words = shlex.split(command)
        assert words[:4] == ["kubectl", "patch", "service", self.one["metadata"]["name"]]
        for step in json.loads(words[-1]):
            assert step["op"] == "add"
            *path, last = step["path"].split("/")[1:]
            node = self.one
            for name in path:
                node = node[int(name) if isinstance(node, list) else name]
            node[last] = step["value"]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._tasks.add(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self.one["spec"]["ports"][0]["targetPort"]
        self.went_to.append(target)
        back, out = await asyncio.open_connection("127.0.0.1", self._ports[target])
        try:
            await asyncio.gather(_pumped(reader, out), _pumped(back, writer))
        finally:
            out.close()
            writer.close()


async def _pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
        writer.write_eof()


def test_new_requests_pass_the_engine_at_once_and_running_streams_end_whole() -> None:
    documents = read(MANIFEST.read_text(), "deployment.yaml")
    attach_all(documents, Settings(every=True))
    injected = read(written(documents), "injected")
    workload = _workload(injected)
    (out,), (back,) = (commands(injected, back=way)[0] for way in (False, True))

    async def scenario() -> tuple[list[Answer], list[int], int]:
        goes_on = asyncio.Event()

        async def script(visit: Visit) -> None:
            while True:
                await visit.request()
                visit.send(HEAD + b"%x\r\n%b\r\n" % (len(FIRST), FIRST))
                await goes_on.wait()
                visit.send(b"%x\r\n%b\r\n" % (len(LAST), LAST) + END)

        async with Origin(script).listening() as engine, running(engine.port) as sidecar:
            service = Service(injected, {8000: sidecar.port, 18000: engine.port})
            async with service.listening() as port:
                streams = [asyncio.create_task((await Connection.open(port)).request(ASKS)) for _ in range(3)]
                while engine.visits < 3:  # noqa: ASYNC110  a test may look often
                    await asyncio.sleep(0.005)
                service.kubectl(out)
                later = [asyncio.create_task((await Connection.open(port)).request(ASKS)) for _ in range(2)]
                while engine.visits < 5:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                seen = sidecar.in_flight
                goes_on.set()
                answers = await asyncio.gather(*streams, *later)
                service.kubectl(back)
                answers.append(await (await Connection.open(port)).request(ASKS))
                return answers, service.went_to, seen

    answers, went_to, seen_by_the_sidecar = play(scenario())

    assert [(each.status, each.complete, each.body) for each in answers] == [(200, True, FIRST + LAST)] * 6
    assert went_to == [8000, 8000, 8000, 18000, 18000, 8000]
    assert seen_by_the_sidecar == 3
    assert _workload(injected) == workload


def _workload(documents: list[Document]) -> str:
    """The Deployment, whose pods Kubernetes would make anew if it changed."""
    return json.dumps(next(one for document in documents for one in document.objects if one["kind"] == "Deployment"))


def test_the_host_of_another_container_bars_no_way() -> None:
    """Only the engine's own 127.0.0.1 does."""
    for beside, engine, is_barred in (("127.0.0.1", "0.0.0.0", False), ("0.0.0.0", "127.0.0.1", True)):
        documents = read(MANIFEST.read_text(), "x")
        for one in (one for document in documents for one in document.objects if one["kind"] == "Deployment"):
            containers = one["spec"]["template"]["spec"]["containers"]
            first = containers[0]
            first["args"] = [*(first.get("args") or ()), f"--host={engine}"]
            containers.append({"name": "dcgm", "image": "nvidia/dcgm-exporter", "args": ["--host", beside]})
        attach_all(documents, Settings(every=True))
        told, cannot = commands(documents, back=False)

        assert (told == [], "listens on 127.0.0.1 alone" in "".join(cannot)) == (is_barred, is_barred)
