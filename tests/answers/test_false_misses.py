"""A run in which a tenth of the bodies each is above 1 MiB, gzip, zstd, or has images: which misses are true is known, because the test
draws the true length and the true time of each prompt.

A prompt of unknown length must not miss the objective of a short one. Most of these lengths are known all the same: long bodies are read as
they pass, and packed ones are inflated. What stays unknown, an image, has a lower bound.
"""

import gzip
import json
from collections.abc import Callable
from random import Random

import pytest

from sidecar.classify.inflate import zstd_library
from sidecar.config.schema import ProxyConfig
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.answers.spoken import CHAT, event
from tests.support.vllm_stream import chunk
from tests.support.walk import Walk


REQUESTS = 400
LATE = 0.04
"""Share of requests that are late: true misses, beyond the objective of their own length or of any."""
STALL_SECONDS = 40.0
MOST_UNJUDGED = 0.01
BYTES_A_TOKEN = 4
TOKENS_A_SECOND = 20_000
TTFT_SECONDS = {"0-512": 1.0, "512-4k": 2.0, "4k+": 30.0}
OBJECTIVES = Objectives(
    {"interactive": {name: Aims(ttft=Aim(TTFT_SECONDS.get(name, 1.0), 0.9)) for name in (*TTFT_SECONDS, "unknown")}}
)
PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd_library().compress}
KINDS = ("long", "gzip", "zstd", "image", *("plain",) * 6)
PIECE_BYTES = 60_000
"""As they come from a socket."""
BEGINS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def body_of(kind: str, draw: Random) -> tuple[bytes, int]:
    """A body as it is sent, and the true number of its prompt's tokens."""
    tokens = draw.randint(280_000, 330_000) if kind == "long" else int(min(60_000, draw.lognormvariate(6.5, 1.6))) + 8
    text = "".join(draw.choices(("la ", "to, ", "mi\n", 're "', "nu"), k=64)) * (tokens * BYTES_A_TOKEN // 160 + 1)
    text = text[: tokens * BYTES_A_TOKEN]
    content: object = text
    if kind == "image":
        size = draw.randint(3_000, 400_000)
        url = "data:image/png;base64," + draw.randbytes(8).hex() * (size // 16)
        content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
        tokens += draw.randint(85, 3_000)
    body = json.dumps({"model": "tiny", "stream": True, "messages": [{"role": "user", "content": content}]}).encode()
    return (PACKED[kind](body) if kind in PACKED else body), tokens


def bucket_of(tokens: int) -> str:
    return "0-512" if tokens < 512 else "512-4k" if tokens < 4096 else "4k+"


def play(walk: Walk, body: bytes, kind: str, ttft_seconds: float, tokens: int, *, usage: bool) -> None:
    """One request and its answer: the first token after so many seconds."""
    client = walk.client()
    coding = f"Content-Encoding: {kind}\r\n" if kind in PACKED else ""
    client.send(
        f"POST {CHAT.path} HTTP/1.1\r\nHost: pod\r\nContent-Type: application/json\r\n{coding}Content-Length: {len(body)}\r\n\r\n".encode()
    )
    for at in range(0, len(body), PIECE_BYTES):
        client.send(body[at : at + PIECE_BYTES])
        while walk.turn():
            pass
    walk.engine.send(BEGINS)
    until = walk.clock.now + ttft_seconds
    while walk.clock.now < until:
        walk.clock.later(min(1.0, until - walk.clock.now))
        walk.slo.tick(walk.clock.now)
    said = event({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}})
    for each in (CHAT.token, CHAT.finish[0], *((said,) if usage else ()), *CHAT.end):
        walk.engine.send(chunk(each))
    walk.engine.send(b"0\r\n\r\n")
    client.end()


@pytest.mark.parametrize(
    ("seed", "usage"), [(1, 0.0), (2, 0.3), (3, 1.0)], ids=["no usage", "usage of some", "usage of each"]
)
@pytest.mark.long
def test_no_prompt_misses_because_its_length_was_not_read(seed: int, usage: float) -> None:
    """No miss is false; each true one is counted or, where the length is not known, not judged; and of the others at most one request in a
    hundred is not judged, with its reason.

    `usage`: the share of answers that state it. Without any, no text can be turned into tokens, and what its bytes allow decides.
    """
    draw = Random(seed)
    walk = Walk(objectives=OBJECTIVES, limits=ProxyConfig(), include_usage=False)
    late = missed = unjudged = unjudged_in_time = 0.0
    for number in range(1, REQUESTS + 1):
        kind = draw.choice(KINDS)
        body, tokens = body_of(kind, draw)
        allowed = TTFT_SECONDS[bucket_of(tokens)]
        seconds = min(draw.expovariate(8.0), 0.4) + tokens / TOKENS_A_SECOND
        if draw.random() < LATE:
            seconds = draw.choice((STALL_SECONDS, 1.2 * allowed))
        play(walk, body, kind, seconds, tokens, usage=draw.random() < usage)
        late += seconds > allowed
        before, unjudged = unjudged, unjudged_of(walk)
        unjudged_in_time += unjudged > before and seconds <= allowed
        now = walk.value("llm_slo_misses_total", objective="ttft")
        assert now == missed or seconds > allowed, f"a false miss: {kind}, {tokens} tokens, {seconds:.2f} s"
        assert walk.value("llm_slo_requests_total", objective="ttft") + unjudged == number
        missed = now

    assert late - unjudged <= missed <= late
    assert missed >= LATE * REQUESTS / 4
    assert walk.value("llm_requests_total", outcome="ok") == REQUESTS
    assert unjudged_in_time <= MOST_UNJUDGED * REQUESTS


def unjudged_of(walk: Walk) -> float:
    """The series of each reason begins with its first request."""
    told = "\nllm_slo_unjudged_requests_total{" in walk.page()
    return walk.value("llm_slo_unjudged_requests_total", objective="ttft") if told else 0.0
