"""One chat request and vLLM's streamed answer to it, as bytes and as a sequence of events with a fake clock."""

import json

from tests.support.walk import Walk


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"length"}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":64}},'
    b'"metrics":{"queue_time_ms":100,"time_to_first_token_ms":300,"generation_time_ms":200}}\n\n'
)
DONE = b"data: [DONE]\n\n"


def post(body: dict[str, object], *fields: str, path: str = "/v1/chat/completions") -> bytes:
    data = json.dumps({"model": "tiny", "messages": [], **body}).encode()
    head = "".join(
        f"{field}\r\n" for field in (f"POST {path} HTTP/1.1", "Host: pod", *fields, f"Content-Length: {len(data)}")
    )
    return head.encode("latin-1") + b"\r\n" + data


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def play(walk: Walk, *, usage: bool = True) -> None:
    """The engine answers: head at once, the first token after 0.45 s, the last 0.2 s later."""
    walk.engine.send(STREAM)
    walk.clock.later(0.45)
    walk.engine.send(chunk(ROLE) + chunk(TOKEN))
    walk.clock.later(0.2)
    walk.engine.send(chunk(FINISH))
    walk.clock.later(0.05)
    walk.engine.send((chunk(USAGE) if usage else b"") + chunk(DONE) + b"0\r\n\r\n")
