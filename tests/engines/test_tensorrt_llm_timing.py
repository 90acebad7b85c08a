"""TensorRT-LLM is asked for the times of each request; what that adds to an answer is read, and does not reach a client that did not ask."""

import json
from collections.abc import Callable, Sequence

import pytest

from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.engines.tensorrt_llm import TensorRTLLM
from sidecar.ledger.account import Reason
from sidecar.proxy.headers import ANSWER_HEADS_BYTES
from tests.support.configs import section_of
from tests.support.fetching import EXACT
from tests.support.messages import read
from tests.support.scenario import phases
from tests.support.streams import STREAMS
from tests.support.walk import Walk


ASKED = b"X-TRTLLM-return-metrics: 1"
LIST = b"server_queue;dur=100.000000, server_ttft;dur=400.000000, server_e2e;dur=600.000000"
CAUSED = (
    b"Server-Timing: " + LIST,
    b"X-TRTLLM-Start-End-Time: server-start;ts=5000.020000000, server-end;ts=5000.620000000",
    b"X-TRTLLM-Step-Metrics: server-step-8-forward;dur=70.000000, server-step-8-sample;dur=10.000000",
    b"X-TRTLLM-Ctx-Chunk-Metrics: server-ctx-chunk-0-forward;dur=290.000000",
)
"""The fields of `build_metrics_headers` (`serve/perf_metrics.py`, PR 16668)."""
CLOCKS = b"X-TRTLLM-Clock-Sync: receive;ts=10.000000000, transmit;ts=10.250000000"
"""`CLOCK_SYNC_HEADER` of later sources: the form of its value was read (`test_openai_client.py`), its name is made up here."""
NOT_CAUSED = (
    b"server-timing: db;dur=53.2, app;dur=47",
    b"Server-Timing: cache;desc=hit",
    b"x-trtllm-server-state: READY",
    b"X-Trtllm-Note: a;dur=1 and more",
    b"X-Request-Id: 7",
)
APIS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SPLIT = EXACT | {"decode": (200, "engine"), "stream": (0, "derived")}
WHOLE = b'{"id":"chatcmpl-1","choices":[{"index":0,"message":{"content":"ab"},"finish_reason":"stop"}]}'
WHOLE_SPLIT = {
    "queue": (100, "engine"),
    "prefill": (300, "engine"),
    "decode": (200, "engine"),
    "unattributed": (100, "derived"),
}


def walk_of(kind: str = "tensorrt_llm", **config: object) -> Walk:
    """A walk whose config has these keys, `section__key`."""
    walk = Walk(engine=Engine(kind, ["tiny"]), include_usage=False)
    told: dict[str, dict[str, object]] = {"engine": {"url": "http://engine:8000"}, "lanes": {"default": "interactive"}}
    told["proxy"] = {"include_usage": "never"}
    for name, value in config.items():
        section, _, key = name.partition("__")
        told.setdefault(section, {})[key] = value
    walk.observers.apply(section_of(Config, told))
    return walk


class Played:
    """One request, and what both ends have of it."""

    def __init__(self, walk: Walk, path: str, *lines: bytes) -> None:
        self.walk = walk
        self.client = walk.client()
        self.body = json.dumps({"model": "tiny", "stream": True}).encode()
        self.sent = b"POST %s HTTP/1.1\r\nHost: pod\r\n" % path.encode()
        self.sent += b"".join(line + b"\r\n" for line in lines) + b"Content-Length: %d\r\n\r\n" % len(self.body)
        self.client.send(self.sent + self.body)

    @property
    def engine_got(self) -> bytes:
        """The head that the engine has; its body is the client's, byte for byte."""
        taken = bytes(self.walk.engine.taken)
        assert taken.endswith(self.body)
        return taken[: -len(self.body)]

    def stream(self, stream: bytes, size: int, *fields: bytes) -> tuple[bytes, bytes]:
        """The answer, in reads of this size: the first token after 0.45 s, the last 0.2 s later."""
        lines = b"".join(line + b"\r\n" for line in (b"content-type: text/event-stream", *fields))
        self.walk.engine.send(b"HTTP/1.1 200 OK\r\n" + lines + b"transfer-encoding: chunked\r\n\r\n")
        waits = {stream.find(b'"a"'): 0.45, stream.rfind(b'"b"'): 0.2}
        for at in range(0, len(stream), size):
            self.walk.clock.later(sum(seconds for place, seconds in waits.items() if at <= place < at + size))
            piece = stream[at : at + size]
            self.walk.engine.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.walk.engine.send(b"0\r\n\r\n")
        return self.client_got

    def whole(self, *fields: bytes) -> tuple[bytes, bytes]:
        """A whole answer, 0.65 s after the request and 0.05 s long."""
        lines = b"".join(line + b"\r\n" for line in fields)
        self.walk.clock.later(0.65)
        self.walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + lines)
        self.walk.engine.send(b"Content-Length: %d\r\n\r\n" % len(WHOLE))
        self.walk.clock.later(0.05)
        self.walk.engine.send(WHOLE)
        return self.client_got

    @property
    def client_got(self) -> tuple[bytes, bytes]:
        """The head and the body that the client has."""
        taken = bytes(self.client.taken)
        _, _, body, rest = read(taken)
        assert rest == b""
        return taken.partition(b"\r\n\r\n")[0], body

    @property
    def split(self) -> dict[str, tuple[float, str]]:
        """Phase to milliseconds and source."""
        (account,) = self.walk.accounts
        assert account.ledger is not None
        return {phase: (round(ms), source) for phase, (ms, source) in phases(account.ledger).items()}


def recorded(api: str) -> tuple[bytes, bytes]:
    """A stream as the engine sends it, and as it is without the event that was asked for."""
    whole = (STREAMS / f"composed-trtllm-{api}-perf-metrics.sse").read_bytes()
    return whole, whole.partition(TensorRTLLM.asked_report.event)[0]


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_is_split_and_its_client_gets_no_more_than_it_asked_for(api: str, size: int) -> None:
    """The engine's own times to the last digit; the body of the request stays as it was, and two fields of its head are ours."""
    whole, without = recorded(api)
    played = Played(walk_of(), APIS[api])

    _, body = played.stream(whole, size)

    assert body == without
    assert played.engine_got == played.sent[:-2] + ASKED + b"\r\nAccept-Encoding: identity\r\n\r\n"
    assert (played.split, played.walk.dropped) == (SPLIT, [])


def test_a_whole_answer_is_split_and_its_client_gets_no_more_than_it_asked_for() -> None:
    """The fields that the engine adds are read and left out; all others stay, in their order, and so does the body."""
    played = Played(walk_of(), APIS["chat"])

    mixed = [field for pair in zip(NOT_CAUSED, (*CAUSED, CLOCKS), strict=True) for field in pair]
    head, body = played.whole(*mixed)

    assert body == WHOLE
    assert head.split(b"\r\n")[2:-1] == list(NOT_CAUSED)
    assert played.split == WHOLE_SPLIT | {"unattributed": (700 - 600, "derived")}


@pytest.mark.parametrize("field", [ASKED, b"x-trtllm-RETURN-metrics: 1"])
def test_a_client_that_asks_by_itself_gets_all_that_comes(field: bytes) -> None:
    """Nothing is asked for, and nothing is cut or left out; the times are read all the same."""
    whole, _ = recorded("chat")
    streamed, unstreamed = (Played(walk_of(), APIS["chat"], field, b"Accept-Encoding: gzip") for _ in range(2))

    assert (streamed.stream(whole, 60)[1], streamed.engine_got) == (whole, streamed.sent)
    head, _ = unstreamed.whole(*CAUSED, CLOCKS)
    assert head.split(b"\r\n")[2:-1] == [*CAUSED, CLOCKS]
    assert (streamed.split, unstreamed.split) == (SPLIT, WHOLE_SPLIT)


@pytest.mark.parametrize(
    ("walk", "path", "lines"),
    [
        (lambda: walk_of(proxy__ask_timing="never"), "/v1/chat/completions", ()),
        (lambda: walk_of("vllm"), "/v1/chat/completions", ()),
        (lambda: walk_of("none"), "/v1/chat/completions", ()),
        (walk_of, "/v1/embeddings", ()),
        (walk_of, "/other", ()),
        (walk_of, "/v1/chat/completions", (b"X-TRTLLM-return-metrics: 0",)),
    ],
)
def test_else_nothing_is_asked_for_and_all_passes(walk: Callable[[], Walk], path: str, lines: Sequence[bytes]) -> None:
    """The config forbids it, the engine is another one, the request generates nothing, or the client has declined."""
    whole, _ = recorded("chat")
    played = Played(walk(), path, *lines)

    head, body = played.stream(whole, 60, *CAUSED)

    assert played.engine_got == played.sent
    assert (head.split(b"\r\n")[2:-1], body) == (list(CAUSED), whole)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (b"server_queue;dur=100", Reason.NO_REPORT),
        (b"server_ttft;dur=400, server_e2e;dur=600", Reason.NO_REPORT),
        (LIST + b", " + LIST, Reason.NO_REPORT),
        (b"disagg_queue;dur=100, disagg_ttft;dur=400", Reason.NO_REPORT),
        (b"server_queue;dur=1000, server_ttft;dur=4000, server_e2e;dur=6000", Reason.REPORT_EXCEEDS_WIRE),
        (b"server_queue;dur=100, server_ttft;dur=4000", Reason.REPORT_EXCEEDS_WIRE),
    ],
)
def test_times_that_are_not_whole_or_do_not_fit_the_wire_are_not_taken(stated: bytes, reason: Reason) -> None:
    """Without a queue or a prefill, of two calls of the engine, of a disaggregated front end, or longer than the request was here."""
    played = Played(walk_of(), APIS["chat"])
    head, _ = played.whole(b"Server-Timing: " + stated)

    (account,) = played.walk.accounts
    assert account.ledger is not None
    assert (b"Server-Timing" in head, account.ledger.reason, played.split) == (
        False,
        reason,
        {"unattributed": (700, "wire")},
    )


def test_several_choices_have_no_one_list() -> None:
    """The engine states the first one's times alone; the first token here may be another's."""
    whole = b"".join(
        b"data: %s\n\n" % json.dumps({"choices": [{"index": index, "delta": {"content": text}}]}).encode()
        for text in "ab"
        for index in (0, 1)
    )
    event = recorded("chat")[0].removeprefix(recorded("chat")[1])
    played = Played(walk_of(), APIS["chat"])
    played.stream(whole + b"data: [DONE]\n\n" + event, 40)

    assert set(played.split) == {"unattributed", "decode", "stream"}


@pytest.mark.parametrize("bytes_of_steps", [3_000, 70_000, 81_000])
def test_times_of_each_step_pass_by_however_many_there_are(bytes_of_steps: int) -> None:
    """Up to 80 KiB of them (`_METRICS_PAYLOAD_BUDGET_BYTES`), in the head or in the event: no answer fails because we asked, and no split."""
    steps = b", ".join(b"server-step-%d-forward;dur=2.000000" % number for number in range(bytes_of_steps // 36))
    event = json.dumps({"Server-Timing": LIST.decode(), "X-TRTLLM-Step-Metrics": steps.decode()}, separators=(",", ":"))
    before = recorded("chat")[1]
    streamed, unstreamed = (Played(walk_of(), APIS["chat"]) for _ in range(2))

    stream = before + TensorRTLLM.asked_report.event + b"\ndata: " + event.encode() + b"\n\n"
    _, body = streamed.stream(stream, 500)
    head, whole = unstreamed.whole(CAUSED[0], b"X-TRTLLM-Step-Metrics: " + steps)

    assert (body, whole) == (before, WHOLE)
    assert head.startswith(b"HTTP/1.1 200")
    assert b"X-TRTLLM" not in head
    assert (streamed.split, unstreamed.split, streamed.walk.dropped) == (SPLIT, WHOLE_SPLIT, [])


def test_a_head_without_end_is_still_refused() -> None:
    played = Played(walk_of(), APIS["chat"])

    played.walk.engine.send(b"HTTP/1.1 200 OK\r\nX: " + b"y" * (ANSWER_HEADS_BYTES + 1))

    assert bytes(played.client.taken).startswith(b"HTTP/1.1 502")


def test_with_a_stated_length_the_event_stays() -> None:
    """A length that the client was told cannot be made shorter."""
    whole, _ = recorded("chat")
    played = Played(walk_of(), APIS["chat"])

    played.walk.engine.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(whole)
    )
    played.walk.engine.send(whole)

    assert played.client_got[1] == whole


def test_measuring_code_that_fails_leaves_the_stream_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes go on, uncut."""
    whole, _ = recorded("chat")

    def fails(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr("sidecar.observe.report_cut.ReportCut.kept", fails)
    played = Played(walk_of(), APIS["chat"])

    assert played.stream(whole, 60)[1] == whole


@pytest.mark.parametrize(
    ("field", "taken"),
    [
        (b"X-Times: queue;dur=100, prefill;dur=300", True),
        (b"X-Times: queue;dur=100, ttft;dur=400, db;dur=3", True),
        (b"X-Times: queue;dur=100, total;dur=400", False),
        (b"Server-Timing: queue;dur=100, prefill;dur=300", False),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_of_an_engine_that_is_not_known_only_a_header_that_the_config_names_is_read(
    field: bytes, taken: bool, named: bool
) -> None:
    """And the client gets it: it was not asked for."""
    played = Played(walk_of("none", **({"engine__timing_header": "x-times"} if named else {})), APIS["chat"])

    head, _ = played.whole(field)

    assert field in head
    assert ("queue" in played.split) == (taken and named)
