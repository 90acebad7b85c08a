"""Pods whose lives are told in a line each, from the wire on and with a clock of their own, until someone asks what is wrong.

Each life begins with healthy minutes. Then the admin side listens, what is told happens, and its pages are read over a socket.
"""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from itertools import groupby
from typing import Any

from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.cli import main
from sidecar.metrics.catalogue import ENGINE_UP
from tests.histories.history import EVENT_STREAM, event
from tests.histories.inside import Inside
from tests.support.admin import Visit, visit
from tests.support.page_reader import Reader


WIDTH = 200
STEPS = 1
"""Steps of a diagnosis that are recorded whole; of the others, the name."""
BEGAN_UNIX = 1_795_171_000.0
PROMISES = {"ttft": (1.0, 0.95), "tpot": (0.08, 0.95), "e2e": (30.0, 0.95)}
USUAL: dict[str, Any] = {
    "lane": b"interactive", "prompt": 1500, "cached": 1350, "tokens": 8, "queue": 0.05, "prefill": 0.2, "gap": 0.02,
    "status": b"200 OK", "reports": True, "ends": True, "reads": True,
}  # fmt: skip
"""A request and what becomes of it: tokens, seconds, whether the engine reports times and answers it, and whether its client reads."""


class Pod(Inside):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), PROMISES, max_in_flight=48, look_in_bytes=1 << 20)
        self.each_five_seconds: Callable[[], object] = lambda: None
        self.asked, self.ticked_at = 0, self.clock.now

    def later(self, seconds: float) -> None:
        """Time passes, and the process does what it does each second."""
        ends_at = self.clock.now + seconds
        while self.ticked_at + 1.0 <= ends_at:
            self.ticked_at += 1.0
            self.clock.later(self.ticked_at - self.clock.now)
            self.tick()
            if self.ticked_at % 5.0 == 0.0:
                self.each_five_seconds()
        self.clock.later(ends_at - self.clock.now)

    def many(self, count: int, apart: float, **told: Any) -> None:
        """So many requests of this kind, one after the other, so many seconds apart."""
        for _ in range(count):
            self._one(**USUAL | told)
            self.later(apart)

    def _one(self, *, lane: bytes, prompt: int, reads: bool, ends: bool, **answer: Any) -> None:
        self.asked += 1
        client, messages = self.client(), [{"role": "user", "content": "a " * prompt}]
        body = json.dumps({"model": "tiny", "messages": messages, "stream": True}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nX-Lane: %b\r\nContent-Type: application/json\r\n"
        client.send(head % lane + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        client.room = None if reads else 0
        for piece in self._answer(prompt=prompt, **answer) if ends else ():
            while not self.engine.reading:
                self.later(0.5)
                client.take(300)
            self.engine.send(piece)
        if ends:
            client.take(None)
            client.lose()

    def _answer(
        self, *, status: bytes, prompt: int, cached: int, tokens: int, reports: bool, **seconds: float
    ) -> Iterator[bytes]:
        def chunk(**of: object) -> bytes:
            return event(json.dumps({"id": f"chatcmpl-{self.asked}", "choices": [], **of}).encode())

        def token(**of: object) -> bytes:
            return chunk(choices=[{"index": 0, "delta": {"content": "a"}, "finish_reason": None, **of}])

        queue, prefill, gap = seconds["queue"], seconds["prefill"], seconds["gap"]
        self.later(queue + prefill)
        if status != b"200 OK":
            yield b"HTTP/1.1 %b\r\ncontent-length: 2\r\n\r\n{}" % status
            return
        yield EVENT_STREAM + token(delta={"role": "assistant", "content": ""})
        for place in range(tokens):
            self.later(gap if place else 0.0)
            yield token()
        took = {"queue_time_ms": queue, "time_to_first_token_ms": prefill, "generation_time_ms": gap * (tokens - 1)}
        stated = {"metrics": {name: 1e3 * each for name, each in took.items()}} if reports else {}
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
        details = {"prompt_tokens_details": {"cached_tokens": cached}}
        yield token(delta={}, finish_reason="stop") + chunk(usage=usage | details, **stated)
        yield event(b"[DONE]") + b"0\r\n\r\n"


Step = Callable[[Pod], object]
VOICE = {
    "engine": {"url": "http://engine:8000", "models": ("tiny",)},
    "lanes": {"default": "interactive", "header": "x-lane", "names": ["batch", "voice"]},
}


def asks(count: int, apart: float, **told: Any) -> Step:
    return lambda pod: pod.many(count, apart, **told)


def engine(*, up: bool) -> Step:
    return lambda pod: pod.metrics.gauge(ENGINE_UP).child().set(up)


LIVES: dict[str, list[Step]] = {
    "no request": [asks(0, 60.0)],
    "all is well": [asks(60, 3.0)],
    "few answers": [asks(6, 9.0, queue=2.0)],
    "two wait": [asks(30, 2.0), asks(2, 4.0, ends=False)],
    "prompts wait": [asks(40, 1.0, queue=3.0)],
    "many come, and wait": [asks(120, 0.0, queue=1.4)],
    "prefill got dearer": [asks(40, 1.0, prefill=3.0)],
    "prompts got longer": [asks(40, 2.0, prompt=3500, prefill=2.9)],
    "less is cached": [asks(40, 2.0, cached=0, prefill=2.0)],
    "tokens got dearer": [asks(40, 1.0, gap=0.2)],
    "answers got longer": [asks(15, 0.0, tokens=40, queue=1.2)],
    "clients do not read": [asks(40, 1.0, reads=False, tokens=16)],
    "the engine fails": [asks(40, 1.0, status=b"500 Internal Server Error")],
    "the engine refuses": [asks(40, 1.0, status=b"429 Too Many Requests")],
    "the engine does not answer": [asks(20, 6.0, ends=False)],
    "the engine goes": [engine(up=True), asks(20, 3.0), engine(up=False), asks(20, 3.0, status=b"503 Gone", queue=0.0)],
    "the engine has not come up": [engine(up=False)],
    "no report comes": [asks(40, 1.0, prefill=2.0, reports=False)],
    "two lanes are broken": [
        lambda pod: pod.reloaded(VOICE, PROMISES),
        asks(30, 1.0, prefill=3.0),
        asks(30, 1.0, lane=b"voice", gap=0.2),
    ],
}
"""The steps of each life behind its healthy minutes."""


def pages(life: str) -> dict[str, str]:
    """`/diagnosis`, the status page and `sidecar diagnose`, as they are at the end of this life."""
    pod, found = Pod(), dict[str, str]()
    pod.many(60, 4.0)

    async def scenario(visit: Visit) -> None:
        pod.each_five_seconds = visit.tick
        visit.app.inside, visit.app.uptime_seconds = pod.instruments.in_flight, 7200.0
        visit.app.recent_failures = RecentFailures(pod.clock)
        pod.slo.on_blamed = visit.app.recent_failures.missed
        for step in LIVES[life]:
            step(pod)
        document = json.loads((await visit.ask("/diagnosis"))[2])
        for one in document["diagnoses"]:
            one["steps"][STEPS:] = [step["name"] for step in one["steps"][STEPS:]]
        found["diagnosis"] = laid(document)
        lines = groupby(Reader((await visit.ask("/"))[2].decode()).lines)
        found["page"] = "\n".join(f"{line} (x {n})" if (n := len([*same])) > 1 else line for line, same in lines)
        out = io.StringIO()
        with redirect_stdout(out):
            code = await asyncio.to_thread(main, ["diagnose", f"--sidecar.url=http://127.0.0.1:{visit.port}"])
        found["diagnose"] = f"{out.getvalue()}exit code {code}"

    visit(
        scenario,
        pod.metrics,
        clock=pod.clock,
        unix=lambda: BEGAN_UNIX + pod.clock.now,
        incidents=pod.slo.roots.incidents,
        accounts=pod.instruments.accounts,
    )
    return found


def laid(value: Any, indent: str = "") -> str:
    """JSON in few lines, its numbers to six places."""
    if isinstance(value, float):
        value = round(value, 6)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    items = (
        [f"{json.dumps(name)}: {laid(value[name], inner)}" for name in sorted(value)]
        if isinstance(value, dict)
        else [laid(each, inner) for each in value]
    )
    begin, end = "{}" if isinstance(value, dict) else "[]"
    short = f"{begin}{', '.join(items)}{end}"
    if len(indent) + len(short) <= WIDTH and "\n" not in short:
        return short
    return f",\n{inner}".join([f"{begin}\n{inner}{items[0]}", *items[1:]]) + f"\n{indent}{end}"
