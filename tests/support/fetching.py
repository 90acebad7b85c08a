"""A walk that fetches the engine's reports from a real folder or loopback server, with traffic and clock in memory.

`fetching.answer(id)` plays a stream with this id through the road: 0.45 s to the first token, 0.2 s to the last, 0.05 s
to the end. `await fetching.fetch()` fetches once, as the task would; `fetching.phases()` are the phases of the settled
requests.
"""

import json
import pathlib
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import Engine
from sidecar.engines.reports.fetcher import ReportFetcher, readers_of
from sidecar.engines.reports.sink import ReportSink
from tests.support.memory import Socket
from tests.support.scenario import phases
from tests.support.walk import Walk


WORDS = pathlib.Path(__file__).parent.parent / "words"
EXACT = {"queue": (100, "engine"), "prefill": (300, "engine"), "first_token": (50, "derived")}
BY_ENGINE = {"decode": (200, "engine"), "stream": (50, "derived")}
BY_WIRE = {"decode": (200, "wire"), "stream": (50, "wire")}
NO_SPLIT = {"unattributed": (450, "wire"), **BY_WIRE}

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Fetching(Walk):
    """A walk with fetched reports."""

    def __init__(self, kind: str, url: str = "http://127.0.0.1:1", **config: object) -> None:
        super().__init__(engine=Engine(kind, ["tiny"]), include_usage=False)
        self.settlement.engine.up = True
        dropped = self.instruments.recorder.dropped
        self.sink = ReportSink(
            reported=self.settlement.reported,
            dropped=dropped,
            waiting=lambda: len(self.settlement.pending),
            in_flight=lambda: len(self.instruments.in_flight),
            clock=self.clock,
        )
        settings = EngineConfig(url=url, kind=kind, **config)  # type: ignore[arg-type]  # each test's own keys
        self.report_fetcher = ReportFetcher(
            readers_of(settings, self.settlement.engine, self.sink), self.settlement.engine
        )
        self.settlement.listens = self.report_fetcher.listens
        self.settlement.on_ended = self.report_fetcher.ended

    async def fetch(self) -> float:
        """One fetch by the fetcher's task."""
        return await self.report_fetcher.fetch()

    def begin(self, path: str = "/v1/chat/completions") -> tuple[Socket, Socket]:
        """Start a request; returns its client and its engine connection."""
        client = self.client()
        body = json.dumps({"model": "tiny", "messages": [], "stream": True}).encode()
        client.send(b"POST %s HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body))
        return client, self.engine

    def say(self, engine: Socket, response_id: str, usage: Mapping[str, int] | None = None) -> None:
        """The engine answers with two tokens and the end."""
        engine.send(_HEAD)
        self.clock.later(0.45)
        engine.send(_chunk(response_id, content="a"))
        self.clock.later(0.2)
        engine.send(_chunk(response_id, content="b", usage=usage))
        self.clock.later(0.05)
        engine.send(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def answer(self, response_id: str, usage: Mapping[str, int] | None = None) -> None:
        """Play a whole request."""
        _, engine = self.begin()
        self.say(engine, response_id, usage)

    def phases(self) -> list[dict[str, tuple[float, str]]]:
        """Phase to (milliseconds rounded to 1 us, source), of each request with a closed ledger."""
        found = [phases(account.ledger) for account in self.accounts if account.ledger is not None]
        return [{phase: (round(ms, 3), source) for phase, (ms, source) in each.items()} for each in found]

    def drops(self) -> dict[str, float]:
        """Reason to number of drops, for reasons above 0."""
        lines = [line for line in self.page().splitlines() if line.startswith("llm_sidecar_dropped_total{")]
        return {
            sample.labels["reason"]: sample.value
            for family in text_string_to_metric_families("".join(f"{line}\n" for line in lines))
            for sample in family.samples
            if sample.value
        }


def _chunk(response_id: str, *, content: str, usage: Mapping[str, int] | None = None) -> bytes:
    said: dict[str, object] = {
        "id": response_id,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}],
    }
    if usage is not None:
        said["usage"] = dict(usage)
    event = b"data: " + json.dumps(said).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)
