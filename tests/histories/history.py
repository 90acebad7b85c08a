"""One long history of a process, drawn from a seed, as text: every log line, the page of metrics at each scrape, diagnoses.

It is played in memory, with a clock of its own, and states nothing itself: `test_history.py` plays it twice. Two trees that should
behave the same are compared by the texts of the same seeds. In it, requests of several lanes run beside each other, clients leave
or stop reading, the engine answers in pieces, refuses, breaks off, restarts and gives reports that are late, double or contradict the
wire; objectives are missed and get their roots; configs are reloaded. Run: `python -m tests.histories.history SEED REQUESTS`.
"""

import io
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import sidecar
from tests.histories.inside import Inside
from tests.support.memory import Socket


ROOMY = {"max_in_flight": 48, "look_in_bytes": 1 << 20, "max_head_bytes": 16_384}
AT_ONCE = 24
"""Most requests beside each other."""
SCRAPE_EVERY = 250
"""Requests between two scrapes; the whole page is written."""
TICK_EVERY_SECONDS = 5.0
"""A diagnosis is drawn at a second of the clock so often on average."""
PROMISES: tuple[dict[str, tuple[float, float]], ...] = (
    {"ttft": (0.2, 0.9), "tpot": (0.05, 0.9), "e2e": (2.0, 0.9)},
    {"ttft": (1.0, 0.9), "tpot": (0.1, 0.9), "e2e": (8.0, 0.9), "stall": (0.5, 0.9)},
    {"ttft": (5.0, 0.95), "stall": (0.05, 0.99)},
)
"""Objective to its threshold in seconds and the share of requests that meets it."""
LANES = (
    {"default": "interactive", "header": "x-lane", "names": ["batch"]},
    {"default": "interactive", "header": "x-lane", "names": ["batch", "voice"]},
    {"default": "batch", "names": ["interactive"], "rules": [{"lane": "interactive", "max_tokens_at_most": 8}]},
)
REFUSALS = (b"429 Too Many Requests", b"503 Service Unavailable", b"400 Bad Request", b"500 Internal Server Error")
WORDS = ("the", "queue", "prefill", "naïve", 'said "so"', "line\n", "\U0001f600", "a" * 40, "b" * 1500)
EVENT_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Running:
    """One request that the engine has, and what it still sends."""

    client: Socket
    engine: Socket
    rest: Iterator[bytes]
    response_id: str
    ended: bool = False
    reads: bool = True
    steps: int = 0
    left: bytes = b""
    """Bytes that the engine could not send yet."""


class Told(Inside):
    """A pod whose life is drawn by chance."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.text = io.BytesIO()
        super().__init__(self.text, self.draw.choice(PROMISES), **ROOMY)
        self.running: list[Running] = []
        self.ended_ids: list[str] = []
        self.asked = 0
        self.ticked_at = self.clock.now
        self.scrape_at = SCRAPE_EVERY

    # --- by chance -------------------------------------------------------------------------------------------------------

    def play(self, requests: int) -> None:
        """Play until so many requests were asked and all of them have ended."""
        while self.asked < requests or self.running:
            self._pass_time()
            chance = self.draw.random()
            if self.asked < requests and (not self.running or (chance < 0.2 and len(self.running) < AT_ONCE)):
                self._ask()
            elif chance < 0.97 and self.running:
                self._go_on(self.draw.choice(self.running))
            elif chance < 0.985:
                self._report()
            elif chance < 0.99:
                self._reload()
            elif chance < 0.9915:
                self._restart()
            if self.asked >= self.scrape_at:
                self.scrape_at += SCRAPE_EVERY
                self._scrape()
        self.stands_still(60.0)
        self.clock.later(60.0)
        self.tick()
        self._scrape()

    def _pass_time(self) -> None:
        self.clock.later(self.draw.choice((0.0, 0.0001, 0.002, 0.01, 0.01, 0.03, 0.2)))
        if self.draw.random() < 0.002:
            self.stands_still(self.draw.choice((0.5, 4.0, 40.0)))
        if self.clock.now - self.ticked_at >= 1.0:
            self.ticked_at = self.clock.now
            self.tick()
            self.stands_still(0.0)
            if self.draw.random() < 1.0 / TICK_EVERY_SECONDS:
                self.diagnosed(told=False)
        self.running = [each for each in self.running if not (each.ended or each.client.lost)]

    def _ask(self) -> None:
        draw, self.asked = self.draw, self.asked + 1
        streams = draw.random() < 0.85
        body: dict[str, object] = {
            "model": draw.choice(("tiny", "tiny", "tiny", "gpt-5")),
            "messages": [{"role": "user", "content": " ".join(draw.choices(WORDS, k=int(3 * 400 ** draw.random())))}],
            "stream": streams,
            "max_tokens": draw.choice((1, 4, 32)),
        }
        if draw.random() < 0.1:
            body["n"] = 2
        if draw.random() < 0.2:
            body["stream_options"] = draw.choice(({"include_usage": True}, None, {}))
        said = json.dumps(body).encode()
        if draw.random() < 0.02:
            said = said[:-2]
        fields = [b"Host: pod", b"Content-Type: application/json", b"Content-Length: %d" % len(said)]
        if draw.random() < 0.6:
            fields.append(b"X-Lane: " + draw.choice((b"batch", b"interactive", b"voice", b"nolane")))
        if draw.random() < 0.3:
            fields.append(b"traceparent: 00-%032x-%016x-0%d" % (self.asked % 700 + 1, self.asked, self.asked % 2))
        if draw.random() < 0.2:
            fields.append(b"X-Team: sk-abcdefgh" + b"%d" % self.asked)
        path = draw.choice((b"/v1/chat/completions",) * 9 + (b"/v1/embeddings",))
        client = self.client()
        before = [len(socket.taken) for socket in self.pool.sockets]
        wire = b"POST %b HTTP/1.1\r\n%b\r\n\r\n%b" % (path, b"\r\n".join(fields), said)
        client.send(wire, draw.choice((None, None, None, 700)))
        grown = [
            socket
            for at, socket in enumerate(self.pool.sockets)
            if not socket.lost and (at >= len(before) or len(socket.taken) > before[at])
        ]
        if grown and not client.lost:
            response_id = f"chatcmpl-{self.asked}"
            usage = b"include_usage" in grown[-1].taken[-len(said) - 400 :]
            rest = self._answer(response_id, streams=streams, usage=usage, choices=2 if "n" in body else 1)
            self.running.append(Running(client, grown[-1], rest, response_id))

    def _go_on(self, one: Running) -> None:
        """The next thing happens to this request."""
        chance = self.draw.random()
        one.steps += 1
        if chance < 0.01:
            one.client.lose(ConnectionResetError("by chance"))
        elif chance < 0.02:
            one.engine.lose(ConnectionResetError("by chance") if chance < 0.015 else None)
        elif chance < 0.04:
            one.client.room, one.reads = 0, False
        elif not one.reads and chance < 0.4:
            one.client.take(None)
            one.reads = True
        elif one.engine.reading and not one.engine.lost:
            self._send(one, self.draw.choice((65_536, 65_536, 65_536, 1, 90)))
        if one.client.lost or one.engine.lost or one.steps > 400:
            self._over(one)

    def _send(self, one: Running, size: int) -> None:
        """The engine sends its next piece in so many bytes at a time, as far as the relay reads."""
        left = one.left or next(one.rest, b"")
        if not left:
            self._over(one)
        while left and one.engine.reading:
            one.engine.send(left[:size])
            left = left[size:]
        one.left = left

    def _over(self, one: Running) -> None:
        one.ended = True
        self.ended_ids.append(one.response_id)
        if not one.client.lost:
            one.client.take(None)
            one.client.lose()

    def _answer(self, response_id: str, *, streams: bool, usage: bool, choices: int) -> Iterator[bytes]:
        """The pieces in which the engine sends its answer."""
        draw, tokens = self.draw, self.draw.choice((1, 1, 2, 5, 30))
        if draw.random() < 0.04:
            said = b'{"error":{"message":"no"}}'
            yield b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
                draw.choice(REFUSALS),
                len(said),
                said,
            )
            return
        counted = self._usage(tokens)
        if not streams:
            whole = json.dumps({"id": response_id, "choices": [{"index": 0, "message": {"content": "a b"}}], **counted})
            yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(whole)
            yield whole.encode()
            return
        yield EVENT_STREAM
        yield event(_chunk(response_id, {"role": "assistant", "content": ""}))
        for token in range(tokens):
            parts = [
                event(_chunk(response_id, {"content": draw.choice(WORDS)}, index=index)) for index in range(choices)
            ]
            if draw.random() < 0.05:
                parts.append(draw.choice((b"7\r\n: ping\n\r\n", event(b"{odd"), event(b'{"choices":[]}'))))
            if token % 3 or draw.random() < 0.5:
                yield b"".join(parts)
            else:
                yield from parts
        if draw.random() < 0.03:
            return
        last = b"".join(event(_chunk(response_id, {}, index=index, finish="stop")) for index in range(choices))
        end = event(b"[DONE]") + b"0\r\n\r\n"
        told = event(json.dumps({"id": response_id, "choices": [], **counted}).encode()) if usage else b""
        yield from draw.choice(((last + told + end,), (last, told + end), (last, told, end) if told else (last, end)))

    def _usage(self, tokens: int) -> dict[str, object]:
        draw = self.draw
        counted: dict[str, object] = {"prompt_tokens": int(3 * 3000 ** draw.random()), "completion_tokens": tokens}
        if draw.random() < 0.5:
            counted["prompt_tokens_details"] = {"cached_tokens": draw.choice((0, 2))}
        times = dict.fromkeys(("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"))
        stated = {name: draw.choice((0.0, 1.0, 40.0, 9e4)) for name in times}
        return {"usage": counted, **({"metrics": stated} if draw.random() < 0.4 else {})}

    # --- beside the requests ---------------------------------------------------------------------------------------------

    def _report(self) -> None:
        """A report of the engine comes by another way: late, double, of an unknown request, or against the wire."""
        draw = self.draw
        times = (draw.choice((0.0, 0.01, 5.0)), draw.choice((0.001, 0.2, None)), draw.choice((0.0, 1.0)))
        ids = [*self.ended_ids[-40:], *(one.response_id for one in self.running), "chatcmpl-0"]
        if draw.random() < 0.5 or not (awaited := self.spans_awaited()):
            self.reported(draw.choice(ids), *times)
            return
        trace, parent = draw.choice(awaited[-40:])
        told = {"gen_ai.latency.time_in_queue": 0.01, "gen_ai.latency.time_in_model_prefill": draw.choice((0.01, 9.0))}
        self.span(trace, draw.choice((parent, "00000000000000aa")), told)

    def _reload(self) -> None:
        lanes, draw = self.draw.choice(LANES), self.draw
        asks = {"max_event_bytes": draw.choice((4096, 1024)), "include_usage": draw.choice(("auto", "never"))}
        engine = {"url": "http://engine:8000", "models": ("tiny",)}
        buckets = {"edges": (512, 4096)}
        said = {"engine": engine, "lanes": lanes, "prompt_buckets": buckets, "proxy": asks, "spans": {"receive": True}}
        self.reloaded(said, draw.choice(PROMISES))

    def _restart(self) -> None:
        """The engine's process ends, and another one begins."""
        for socket in self.pool.sockets:
            socket.lose(ConnectionResetError("the engine is gone"))
        self.engine_restarted()

    def _scrape(self) -> None:
        document = json.dumps(self.diagnosed(told=True), sort_keys=True, indent=1, default=str).encode()
        self.logs.flush()
        self.text.write(b"%b\n%b\n" % (self.page().encode(), document))


def event(data: bytes) -> bytes:
    """One chunk with one event."""
    framed = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(framed), framed)


def _chunk(response_id: str, delta: dict[str, str], *, index: int = 0, finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return json.dumps({"id": response_id, "object": "chat.completion.chunk", "choices": [choice]}).encode()


WALL_CLOCK = re.compile(rb'"timestamp":"[^"]*",')


def main() -> int:
    told = Told(int(sys.argv[1]))
    told.play(int(sys.argv[2]))
    told.logs.close()
    sys.stdout.buffer.write(WALL_CLOCK.sub(b"", told.text.getvalue()))
    sys.stderr.write(f"{sidecar.__file__}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
