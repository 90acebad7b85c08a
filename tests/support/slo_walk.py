"""Requests with objectives from the wire to the metrics page, in memory, step by step: helpers to ask, answer and count.

It knows one lane with objectives, and one without. It refuses to know what the tests expect of them.
"""

import json

from sidecar.metrics.catalogue import SLO_BLAMED_MISSES_TOTAL
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.support.memory import LIMITS, Socket
from tests.support.walk import Walk


AIMS = Aims(ttft=Aim(0.25, 0.9), tpot=Aim(0.1, 0.9), e2e=Aim(2.0, 0.9))
"""For a stream with its first token after 0.45 s and its second and last 0.2 s later, these give two misses."""
GENEROUS = Aims(ttft=Aim(5.0, 0.9), tpot=Aim(1.0, 0.9), e2e=Aim(60.0, 0.9))
BUCKETS = ("0-512", "512-4k", "4k+", "unknown")
EVENT_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n%stransfer-encoding: chunked\r\n\r\n"
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
TOKEN = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
LAST = b'{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2}}'
REPORT = USAGE[:-1] + b',"metrics":{"queue_time_ms":350,"time_to_first_token_ms":50,"generation_time_ms":200}}'
"""A report with most of the wait in the queue."""
WHOLE = b'{"choices":[{"index":0,"message":{"content":"ab"}}],"usage":{"prompt_tokens":600,"completion_tokens":2}}'


def promising(aims: Aims = AIMS, *, mints: bool = False) -> Walk:
    """A walk on which interactive has these objectives for every bucket, and batch none."""
    return Walk(objectives=Objectives({"interactive": dict.fromkeys(BUCKETS, aims)}), mints=mints)


def ask(walk: Walk, *fields: str, **body: object) -> Socket:
    """Send a request from a new client, in pieces if it is longer than the look-in bound, and return the client."""
    client = walk.client()
    data = json.dumps({"model": "tiny", "messages": [], **body}).encode()
    head = "".join(f"{line}\r\n" for line in ("POST /v1/chat/completions HTTP/1.1", "Host: pod", *fields))
    client.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(data) + data, LIMITS.look_in_bytes)
    return client


def event(data: bytes) -> bytes:
    """One chunk with one event."""
    framed = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(framed), framed)


def stream(walk: Walk, *fields: bytes) -> None:
    """Send the engine's response head of a stream."""
    walk.engine.send(EVENT_STREAM % b"".join(field + b"\r\n" for field in fields))


def play(walk: Walk, last: bytes = REPORT) -> None:
    """Send a whole stream: the head at once, the first token after 0.45 s, the second 0.2 s later."""
    stream(walk)
    walk.clock.later(0.45)
    walk.engine.send(event(ROLE) + event(TOKEN))
    walk.clock.later(0.2)
    walk.engine.send(event(LAST) + event(last) + event(b"[DONE]") + b"0\r\n\r\n")


def answer(walk: Walk, body: bytes = WHOLE, status: bytes = b"200 OK") -> None:
    """Send the engine's whole answer."""
    walk.engine.send(
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
    )


def tick(walk: Walk, seconds: float) -> None:
    """Let time pass, and run the sidecar's periodic tick."""
    walk.settlement.expire(walk.clock.later(seconds))


def verdicts(walk: Walk, objective: str) -> tuple[float, float]:
    """(requests, misses), summed over all buckets."""
    requests = walk.value("llm_slo_requests_total", objective=objective)
    return requests, walk.value("llm_slo_misses_total", objective=objective)


def votes(walk: Walk) -> dict[str, str]:
    """Objective to the phase that has the votes."""
    children = walk.metrics.counter(SLO_BLAMED_MISSES_TOTAL).children
    return {key[2]: key[3] for key, child in children.items() if child.value}
