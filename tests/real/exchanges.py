"""One request through the sidecar, as its client and as a tap on the engine's socket saw it, and what of the two can be compared."""

import asyncio

from tests.support.client import Answer, Connection, event_json, events, parse_answer
from tests.support.sidecar_process import SidecarProcess
from tests.support.tap import Tap


HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"proxy-connection"}


def ask(sidecar: SidecarProcess, tap: Tap, request: bytes) -> tuple[Answer, bytes, Answer]:
    """The client's answer, and the tap's record of the engine's request and answer."""

    async def scenario() -> Answer:
        client = await Connection.open(sidecar.port)
        answer = await client.request(request)
        client.close()
        return answer

    beginning = request.split(b" HTTP/1.1", 1)[0]
    tap.take(beginning)
    got = asyncio.run(scenario())
    (exchange,) = tap.take(beginning)
    return got, bytes(exchange.to_engine), parse_answer(bytes(exchange.from_engine))


def end_to_end(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in answer.headers if name.lower() not in HOP_BY_HOP]


def usage_chunks(answer: Answer) -> list[bytes]:
    """A stream's events that hold usage and no choice, each with its blank line."""
    chunks = []
    for _, event in events(answer):
        said = event_json(event)
        if said is not None and said.get("choices") == [] and said.get("usage"):
            chunks.append(event + b"\n\n")
    return chunks


def keys(value: object) -> object:
    """The shape of JSON: names of fields without values; for a list, the set of its items' shapes."""
    if isinstance(value, dict):
        return frozenset((name, keys(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return frozenset(keys(inner) for inner in value)
    return None
