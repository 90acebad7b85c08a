"""Each kind of request is counted as what it is, wherever its API is mounted and whatever its purpose is."""

import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import structlog

from sidecar.classify.inflate import zstd_library
from sidecar.classify.lane import LaneRules
from sidecar.config.schema import EnginePathsConfig, LanesConfig, ProxyConfig
from sidecar.engines.engine import Engine
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.timeline.apis import Apis
from sidecar.timeline.outcome import Outcome
from tests.answers.spoken import CHAT, COMPLETIONS, OLLAMA, RESPONSES, SPOKEN, Api, event
from tests.support.configs import section_of
from tests.support.forms import FILE, form
from tests.support.memory import LIMITS, WEBSOCKET, Socket
from tests.support.messages import read
from tests.support.vllm_stream import chunk
from tests.support.walk import AIMS, OBJECTIVES, Walk


EVENTS, JSON = "text/event-stream", "application/json"


def ask(walk: Walk, target: str, body: bytes = b"{}", *, method: str = "POST", content_type: str = JSON) -> Socket:
    client = walk.client()
    head = f"{method} {target} HTTP/1.1\r\nHost: pod\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    client.send(head.encode() + body)
    return client


def reply(walk: Walk, body: bytes, *, content_type: str = JSON, status: str = "200 OK") -> None:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    walk.engine.send(head.encode() + body)


def begin(walk: Walk) -> None:
    walk.engine.send(f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\ntransfer-encoding: chunked\r\n\r\n".encode())


def whole_stream(api: object = CHAT) -> bytes:
    return b"".join((*api.begin, api.token, api.token, *api.finish, *api.end))  # type: ignore[attr-defined]


ORDER = json.dumps({"model": "tiny", "stream": True, "messages": []}).encode()


# --- no inference in silence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["/openai/v1/chat/completions", "/v3/chat/completions/", "/engines/v1//chat/completions"]
)
def test_a_stream_is_counted_where_kserve_and_others_mount_it(target: str) -> None:
    """With tokens, phases and a lane, as at the engine's own path."""
    walk = Walk(objectives=OBJECTIVES)
    ask(walk, target, ORDER)
    reply(walk, whole_stream(), content_type=EVENTS)

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.value("llm_requests_total", lane="interactive", outcome="ok") == 1
    assert walk.value("llm_output_tokens_sum") == 2
    assert walk.value("llm_slo_requests_total", objective="ttft") == 1


def test_the_models_are_looked_for_beside_the_path_that_served() -> None:
    """And not beside one that the engine refused, which any client may choose."""
    walk = Walk(engine=Engine("vllm"))
    ask(walk, "/evil/v1/chat/completions", ORDER)
    reply(walk, b"no", status="404 Not Found")
    ask(walk, "/openai/v1/chat/completions", ORDER)
    reply(walk, whole_stream(), content_type=EVENTS)

    assert walk.settlement.engine.lists == ("/openai/v1/models",)


def test_an_event_stream_on_an_unknown_path_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """It passes. The page counts each of them, and the log names the path and what to do."""
    structlog.reset_defaults()
    walk = Walk()
    for _ in range(3):
        ask(walk, "/my/llm?key=secret", ORDER)
        reply(walk, whole_stream(), content_type=f"{EVENTS}; charset=utf-8")
    ask(walk, "/tokenize", ORDER)
    reply(walk, b"{}")
    ask(walk, "/other", ORDER)
    reply(walk, b"no", content_type=EVENTS, status="404 Not Found")

    assert walk.value("llm_uncounted_inference_total", kind="event_stream") == 3
    assert walk.value("llm_passthrough_requests_total", outcome="ok") == 4
    told = capsys.readouterr().out
    assert told.count("inference_not_counted") == 1
    assert "/my/llm" in told
    assert "secret" not in told


def test_a_websocket_on_an_inference_path_is_told() -> None:
    walk = Walk()
    for target in (b"/v1/responses", b"/v1/realtime?model=tiny", b"/ws"):
        client = walk.client()
        client.send(WEBSOCKET.replace(b"/ws", target))
        walk.engine.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert client.taken.startswith(b"HTTP/1.1 101")
        client.lose()

    assert walk.value("llm_uncounted_inference_total", kind="websocket") == 2


@pytest.mark.parametrize("target", ["/v1/audio/speech", "/openai/v1/audio/speech", "/v1/images/generations"])
def test_inference_without_tokens_is_told_unless_the_config_leaves_it_out(target: str) -> None:
    """Nothing can split it. What fails is none."""
    walk = Walk()
    for status in ("200 OK", "200 OK", "503 Service Unavailable"):
        ask(walk, target, b'{"model":"tiny","input":"a"}')
        reply(walk, b"ID3", content_type="audio/mpeg", status=status)
    walk.observers.apis = Apis(exclude=[target])
    ask(walk, target)
    reply(walk, b"ID3", content_type="audio/mpeg")

    assert walk.value("llm_uncounted_inference_total", kind="media") == 2
    assert walk.accounts == []


# --- what the first bytes tell -------------------------------------------------------------------------------------------

TYPES = ["text/plain; charset=utf-8", "application/octet-stream", "application/json", "application/x-ndjson", ""]


@pytest.mark.parametrize("size", [1, 7, None])
@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("api", [CHAT, RESPONSES, SPOKEN["tgi"]], ids=["chat", "responses", "tgi"])
def test_events_under_another_type_are_a_stream(api: Api, content_type: str, size: int | None) -> None:
    """Read and split as under their own, and the usage that was asked for is cut out."""
    walk = Walk(objectives=OBJECTIVES)
    body = b"\n" + whole_stream(api)
    client = ask(walk, api.path, ORDER)
    typed = f"content-type: {content_type}\r\n" if content_type else ""
    walk.engine.send(
        f"HTTP/1.1 200 OK\r\n{typed}transfer-encoding: chunked\r\n\r\n".encode() + chunk(body) + b"0\r\n\r\n", size
    )

    usage = api.finish[-1] if api is CHAT else b"none"
    assert (walk.accounts[-1].outcome, walk.accounts[-1].streaming) == (Outcome.OK, True)
    assert read(bytes(client.taken))[2] == body.replace(usage, b"")
    assert walk.value("llm_output_tokens_sum") == 2
    assert walk.value("llm_answer_proofs_total", api=API_OF[api.path], proof="marked") == 1


API_OF = {CHAT.path: "openai_chat", RESPONSES.path: "openai_responses", SPOKEN["tgi"].path: "tgi_generate"}


@pytest.mark.parametrize("end", [b"data:[DONE] \n\n", b'data: "[DONE]"\n\n'])
def test_blanks_and_quotes_around_the_end_mark_are_not_of_it(end: bytes) -> None:
    walk = Walk()
    ask(walk, CHAT.path, ORDER)
    reply(walk, b"".join((*CHAT.begin, CHAT.token, *CHAT.finish, end)), content_type=EVENTS)

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.value("llm_answer_proofs_total", api="openai_chat", proof="marked") == 1


def test_lines_under_the_type_of_json_are_a_stream() -> None:
    walk = Walk(engine=Engine("ollama", ["tiny"]), objectives=OBJECTIVES)
    ask(walk, OLLAMA.path, ORDER)
    reply(walk, whole_stream(OLLAMA))

    assert (walk.accounts[-1].outcome, walk.accounts[-1].streaming) == (Outcome.OK, True)
    assert walk.value("llm_answer_proofs_total", api="ollama", proof="marked") == 1


@pytest.mark.parametrize("content_type", [*TYPES[:2], "", EVENTS])
def test_a_whole_answer_under_another_type_is_read(content_type: str) -> None:
    """Also where a stream was asked for; but no client that was promised events reads it as one of them."""
    for order in (ORDER, ORDER.replace(b"true", b"false"))[content_type == EVENTS :]:
        walk = Walk()
        ask(walk, CHAT.path, order)
        reply(walk, json.dumps(CHAT.whole, indent=1).encode(), content_type=content_type)

        assert (walk.accounts[-1].outcome, walk.accounts[-1].streaming) == (Outcome.OK, False)
        assert walk.value("llm_output_tokens_sum") == 2


@pytest.mark.parametrize(
    ("form_says", "content_type", "body", "outcome"),
    [
        ("srt", "application/x-subrip", b"1\n00:00:00,000 --> 00:00:01,000\nword\n", Outcome.OK),
        ("vtt", "text/vtt", b"WEBVTT\n\n00:00.000 --> 00:01.000\nword\n", Outcome.OK),
        ("text", "text/html; charset=utf-8", b"data and words\n", Outcome.OK),  # whisper.cpp says that it is HTML
        ("text", "application/json", b"a word", Outcome.OK),
        ("text", "text/html", b"<html>bad gateway</html>", Outcome.ENGINE_ERROR),
        ("json", "text/plain", b"Internal Server Error", Outcome.ENGINE_ERROR),
        ("json", "application/json", b"Internal Server Error", Outcome.ENGINE_ERROR),
        ("", "text/plain", b"Internal Server Error", Outcome.ENGINE_ERROR),
        ("", "application/json", b'{"text":"word"}', Outcome.OK),
    ],
)
def test_a_transcription_as_text_is_an_answer(form_says: str, content_type: str, body: bytes, outcome: Outcome) -> None:
    walk = Walk(limits=ProxyConfig())
    parts = [("response_format", form_says.encode())] if form_says else []
    said = form(("model", b"tiny"), ("file", FILE), *parts)
    ask(walk, "/v1/audio/transcriptions", said, content_type="multipart/form-data; boundary=xYz")
    reply(walk, body, content_type=content_type)

    assert walk.accounts[-1].outcome is outcome


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_text_under_the_type_of_json_is_no_embedding(stream: str) -> None:
    """Embeddings may come as bytes, under a type of their own; some clients send `stream` with every request."""
    walk = Walk()
    ask(walk, "/v1/embeddings", ORDER.replace(b"true", stream.encode()))
    reply(walk, b"Internal Server Error")

    assert walk.accounts[-1].outcome is Outcome.ENGINE_ERROR


def test_a_page_that_is_longer_than_what_is_kept_is_a_page() -> None:
    walk = Walk()
    ask(walk, CHAT.path)
    reply(walk, b"<html>" + b"<p>gone</p>" * 10_000)

    assert walk.accounts[-1].outcome is Outcome.ENGINE_ERROR


@pytest.mark.parametrize("status", ["301 Moved Permanently", "204 No Content"])
def test_what_is_no_answer_by_its_status_is_judged_by_that(status: str) -> None:
    walk = Walk()
    ask(walk, CHAT.path, ORDER)
    reply(walk, b"" if status.startswith("2") else b"<html>moved</html>", content_type="text/html", status=status)

    assert walk.accounts[-1].outcome is Outcome.OK


# --- what output is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_text": "a"},
        {"thinking": "a"},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"content": "a", "logprob": float("nan")},
        {"reasoning": "a", "logprob": float("-inf")},
        {"content": "\ud83d"},
    ],
)
def test_each_spelling_of_output_is_a_token(delta: dict[str, object]) -> None:
    """Numbers that JSON does not have stand in no way, and neither does half a character."""
    walk = Walk(objectives=OBJECTIVES)
    ask(walk, CHAT.path, ORDER)
    token = event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reply(walk, b"".join((*CHAT.begin, token, token, *CHAT.finish, *CHAT.end)), content_type=EVENTS)

    marks = walk.accounts[-1].marks
    assert (marks.output_events, marks.is_silent) == (2, False)
    assert walk.value("llm_sidecar_dropped_total", reason="unreadable_event") == 0
    assert walk.value("llm_empty_answers_total") == 0


@pytest.mark.parametrize("reason", ["load", "unload"])
@pytest.mark.parametrize("path", ["/api/generate", "/api/chat"])
def test_an_ollama_that_loads_a_model_has_answered_nothing(path: str, reason: str) -> None:
    """A request without a prompt is answered by a receipt: neither an answer nor an empty one."""
    walk = Walk(engine=Engine("ollama", ["tiny"]), objectives=OBJECTIVES)
    ask(walk, path, b'{"model":"tiny"}')
    said = {"response": ""} if path.endswith("generate") else {"message": {"role": "assistant", "content": ""}}
    reply(walk, json.dumps({"model": "tiny", **said, "done": True, "done_reason": reason}).encode())

    assert walk.accounts[-1].outcome is Outcome.ACCEPTED
    assert walk.value("llm_empty_answers_total") == 0


def test_an_end_mark_behind_nothing_proves_nothing() -> None:
    """A front end whose worker died writes it too."""
    walk = Walk()
    for _ in range(2):
        ask(walk, CHAT.path, ORDER)
        reply(walk, b"data: [DONE]\n\n", content_type=EVENTS)

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.value("llm_answer_proofs_total", api="openai_chat", proof="unproved") == 2


def test_paths_of_the_config_are_in_force_at_once() -> None:
    """A reload of `engine.paths` needs no restart."""
    walk = Walk()
    said = EnginePathsConfig(add={"/my/llm": "openai_chat"}, exclude=("/v1/embeddings",))
    walk.observers.apis = Apis(said.add, said.exclude)
    ask(walk, "/gateway/my/llm", ORDER)
    reply(walk, whole_stream(), content_type=EVENTS)
    ask(walk, "/v1/embeddings", ORDER)
    reply(walk, b"{}")

    assert [account.outcome for account in walk.accounts] == [Outcome.OK]
    assert walk.value("llm_passthrough_requests_total", outcome="ok") == 1


# --- embeddings and the like ---------------------------------------------------------------------------------------------

EMBED = json.dumps({"model": "tiny", "input": ["a", "b"]}).encode()
NUMBERS = json.dumps({"data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 7, "total_tokens": 7}}).encode()


def test_embeddings_have_a_lane_and_an_outcome_and_no_objective_by_default() -> None:
    """The lane's E2E objective is about answers that are generated."""
    walk = Walk(objectives=OBJECTIVES)
    ask(walk, "/v1/embeddings", EMBED)
    walk.clock.later(60.0)
    reply(walk, NUMBERS)
    ask(walk, "/v1/rerank", EMBED)
    reply(walk, b'{"error":"gone"}')
    ask(walk, "/score", EMBED)
    reply(walk, b"busy", status="503 Service Unavailable")

    assert [account.outcome for account in walk.accounts] == [Outcome.OK, Outcome.ENGINE_ERROR, Outcome.REJECTED]
    assert walk.value("llm_requests_total", lane="interactive", model="tiny", prompt_bucket="0-512", outcome="ok") == 1
    assert walk.value("llm_prompt_tokens_sum") == 7
    assert walk.value("llm_request_seconds_sum", streaming="false") == 60.0
    assert walk.value("llm_slo_requests_total") == 0
    assert walk.value("llm_empty_answers_total") == 0


def test_embeddings_count_for_the_objective_that_is_configured_for_them() -> None:
    walk = Walk(
        objectives=Objectives(
            {"interactive": dict.fromkeys(("0-512", "unknown"), Aims(ttft=AIMS.ttft))}, {"interactive": Aim(0.5, 0.99)}
        )
    )
    for seconds in (0.1, 2.0):
        ask(walk, "/openai/v1/embeddings", EMBED)
        walk.clock.later(seconds)
        reply(walk, NUMBERS)

    assert walk.value("llm_slo_requests_total", objective="e2e") == 2
    assert walk.value("llm_slo_misses_total", objective="e2e") == 1
    assert walk.value("llm_slo_requests_total", objective="ttft") == 0


def test_a_path_for_all_apis_is_told_by_the_body() -> None:
    """SageMaker's `/invocations`: chat, completions and embeddings, each with its own tokens."""
    walk = Walk()
    ask(walk, "/invocations", ORDER)
    reply(walk, whole_stream(CHAT), content_type=EVENTS)
    ask(walk, "/invocations", json.dumps({"model": "tiny", "stream": True, "prompt": "a"}).encode())
    reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)
    ask(walk, "/invocations", EMBED)
    reply(walk, NUMBERS)

    assert walk.value("llm_requests_total", outcome="ok") == 3
    assert walk.value("llm_output_tokens_count") == 2
    assert walk.value("llm_time_to_first_token_seconds_count") == 2
    assert walk.accounts[-1].marks.usage is not None
    assert walk.accounts[-1].marks.usage.prompt_tokens == 7


@pytest.mark.parametrize(
    "events",
    [
        (event({"object": "transcription.chunk", "choices": [{"delta": {"content": "a"}, "finish_reason": None}]}),),
        (event({"type": "transcript.text.delta", "delta": "a"}), event({"type": "transcript.text.done", "text": "a"})),
    ],
    ids=["vllm", "openai"],
)
def test_a_transcription_is_a_form_and_its_stream_has_tokens(events: tuple[bytes, ...]) -> None:
    walk = Walk(objectives=OBJECTIVES)
    body = form(("model", b"tiny"), ("stream", b"true"), ("file", FILE[:500]))
    ask(walk, "/v1/audio/transcriptions", body, content_type="multipart/form-data; boundary=xYz")
    reply(walk, b"".join(events) + b"data: [DONE]\n\n", content_type=EVENTS)

    account = walk.accounts[-1]
    assert (account.outcome, account.labels.model, account.streaming, account.marks.output_events) == (
        Outcome.OK,
        "tiny",
        True,
        1,
    )
    assert "llm_time_to_first_token_seconds_count" not in walk.page()
    assert walk.value("llm_slo_requests_total") == 0


def test_tokens_in_and_tokens_out() -> None:
    """vLLM's `/inference/v1/generate`: the prompt's length is that of its list."""
    walk = Walk(objectives=OBJECTIVES, limits=ProxyConfig())
    ask(
        walk,
        "/inference/v1/generate",
        json.dumps({"model": "tiny", "stream": True, "token_ids": list(range(600))}).encode(),
    )
    token = event({"request_id": "r", "choices": [{"index": 0, "finish_reason": None, "token_ids": [5]}]})
    last = event({"request_id": "r", "choices": [{"index": 0, "finish_reason": "length", "token_ids": [6]}]})
    reply(walk, token + last + b"data: [DONE]\n\n", content_type=EVENTS)

    account = walk.accounts[-1]
    assert (account.outcome, account.labels.prompt_bucket, account.marks.output_events) == (Outcome.OK, "512-4k", 2)


# --- prompts of unknown length -------------------------------------------------------------------------------------------

SHORT, LONG = Aims(ttft=Aim(1.5, 0.9)), Aims(ttft=Aim(48.0, 0.9))
BY_LENGTH = Objectives({"interactive": {"0-512": SHORT, "512-4k": SHORT, "4k+": LONG, "unknown": SHORT}})
UNKNOWN = {
    "unread_body": b'{"model":"tiny","stream":true,%b"prompt":"%b"}'
    % (b"".join(b'"%d":1,' % number for number in range(300)), b"words " * 1000),
    "not_text": json.dumps(
        {
            "model": "tiny",
            "stream": True,
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]}],
        }
    ).encode(),
    "no_scale": b'{"model":"tiny","stream":true,"prompt":"%b"}' % (b"words " * 1000),
}


@pytest.mark.parametrize("reason", UNKNOWN)
@pytest.mark.parametrize(
    ("seconds", "requests", "misses", "unjudged"), [(1.0, 1, 0, 0), (20.0, 0, 0, 1), (49.0, 1, 1, 0)]
)
def test_a_length_is_never_short_because_it_was_not_read(
    reason: str, seconds: float, requests: int, misses: int, unjudged: int
) -> None:
    """A long prompt that could not be measured misses nothing that its own objective allows, and a stall shows at any length."""
    walk = Walk(objectives=BY_LENGTH, limits=LIMITS if reason == "unread_body" else ProxyConfig())
    ask(walk, "/v1/completions" if reason != "not_text" else "/v1/chat/completions", UNKNOWN[reason])
    begin(walk)
    walk.clock.later(seconds)
    walk.slo.tick(walk.clock.now)
    walk.engine.send(chunk(CHAT.token if reason == "not_text" else COMPLETIONS.token))

    assert walk.value("llm_slo_requests_total", objective="ttft") == requests
    assert walk.value("llm_slo_misses_total", objective="ttft") == misses
    if unjudged:
        assert walk.value("llm_slo_unjudged_requests_total", objective="ttft", reason=reason) == 1


def test_a_short_text_is_short_before_any_prompt_was_counted() -> None:
    """No text has more tokens than bytes, and no engine adds more than a thousand."""
    walk = Walk(objectives=BY_LENGTH)
    ask(walk, "/v1/completions", b'{"model":"tiny","stream":true,"prompt":"some words"}')
    begin(walk)
    walk.clock.later(1.6)
    walk.engine.send(chunk(COMPLETIONS.token))

    assert walk.value("llm_slo_misses_total", objective="ttft") == 1


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_beyond_the_look_in_is_read_while_it_passes(framing: str) -> None:
    """Its model and its lane may stand behind a prompt of any length, and its length counts for its objective."""
    walk = Walk(objectives=BY_LENGTH, limits=ProxyConfig(look_in_bytes=65_536))
    walk.observers.rules = LaneRules(
        section_of(LanesConfig, {"default": "interactive", "rules": [{"lane": "batch", "models": ["tiny"]}]})
    )
    body = b'{"prompt":"%b","stream":true,"model":"tiny"}' % (b"words and more " * 20_000)
    pieces = [body[at : at + 20_000] for at in range(0, len(body), 20_000)]
    client = walk.client()
    client.send(b"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Type: application/json\r\n")
    client.send(
        b"content-length: %d\r\n\r\n" % len(body) if framing == "length" else b"transfer-encoding: chunked\r\n\r\n"
    )
    for piece in pieces:
        client.send(piece if framing == "length" else b"%x\r\n%b\r\n" % (len(piece), piece))
    client.send(b"" if framing == "length" else b"0\r\n\r\n")
    reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)

    assert walk.dropped == []
    assert walk.engine.taken.count(b"words and more ") >= 19_900  # each piece may cut one
    assert walk.accounts[0].labels[:2] == ("tiny", "batch")
    assert walk.value("llm_requests_in_flight") == 0


def test_of_a_prompt_with_an_image_the_text_is_the_least_that_it_can_be() -> None:
    """The image may be any number of tokens: what its text alone is allowed is kept, and what is longer is not judged."""
    walk = Walk(objectives=BY_LENGTH)
    parts = [
        {"type": "text", "text": "words " * 20_000},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 9000}},
    ]
    body = json.dumps({"model": "tiny", "stream": True, "messages": [{"role": "user", "content": parts}]}).encode()
    ask(walk, "/v1/chat/completions", body)
    begin(walk)
    walk.clock.later(20.0)
    walk.engine.send(chunk(CHAT.token))

    assert walk.value("llm_slo_requests_total", objective="ttft") == 1
    assert walk.value("llm_slo_misses_total", objective="ttft") == 0


def test_thresholds_that_a_config_gives_to_unknown_lengths_are_kept() -> None:
    walk = Walk(objectives=Objectives(BY_LENGTH.by_lane, unknown=["interactive"]), limits=LIMITS)
    ask(walk, "/v1/completions", UNKNOWN["unread_body"])
    begin(walk)
    walk.clock.later(1.6)
    walk.engine.send(chunk(COMPLETIONS.token))

    assert walk.value("llm_slo_misses_total", objective="ttft") == 1


def test_a_lane_by_length_is_frozen_and_checked_by_usage() -> None:
    """The estimate at the head decides; the page says how often usage contradicts it."""
    walk = Walk(limits=ProxyConfig())
    walk.observers.rules = LaneRules(
        section_of(LanesConfig, {"default": "interactive", "rules": [{"lane": "batch", "prompt_tokens_from": 100}]})
    )
    for tokens in (5, 200):
        ask(walk, "/v1/completions", json.dumps({"model": "tiny", "stream": True, "prompt": [7] * tokens}).encode())
        reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)  # usage states nine tokens

    assert [account.labels.lane for account in walk.accounts] == ["interactive", "batch"]
    assert walk.value("llm_lanes_by_length_total", result="held") == 1
    assert walk.value("llm_lanes_by_length_total", result="contradicted") == 1


# --- compressed requests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstd_library().compress)],
)
@pytest.mark.parametrize("prompt", [[7] * 600, "some words " * 40_000], ids=["short", "long"])
def test_a_compressed_request_is_read_and_goes_on_as_it_came(
    coding: str, pack: Callable[[bytes], bytes], prompt: object
) -> None:
    """Its model, whether it streams, and its length: a long prompt is no short one because a client packed it."""
    walk = Walk(objectives=OBJECTIVES, limits=ProxyConfig())
    body = pack(json.dumps({"model": "tiny", "stream": True, "prompt": prompt}).encode())
    head = f"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    walk.client().send(head.encode() + body)
    while walk.turn():
        pass
    reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)

    account = walk.accounts[-1]
    assert (account.outcome, account.labels.model, account.streaming) == (Outcome.OK, "tiny", True)
    assert walk.engine.taken.endswith(body)
    if not isinstance(prompt, str):
        assert walk.value("llm_slo_requests_total", prompt_bucket="512-4k", objective="ttft") == 1


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "compress", "gzip, br"])
def test_a_request_that_is_not_what_its_coding_says_passes_unread(coding: str) -> None:
    walk = Walk(objectives=OBJECTIVES)
    body = b"no such coding"
    head = f"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    walk.client().send(head.encode() + body)
    while walk.turn():
        pass
    reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.value("llm_slo_requests_total", prompt_bucket="unknown", objective="ttft") == 1
    assert walk.engine.taken.endswith(body)


@pytest.mark.parametrize(
    ("held_bytes", "reason"), [(1 << 30, "body_too_long"), (LIMITS.look_in_bytes // 2, "body_no_memory")]
)
def test_a_compressed_request_that_is_longer_than_what_is_held_passes_unread_with_its_reason(
    held_bytes: int, reason: str
) -> None:
    """So does one that is held while others hold all that may be."""
    walk = Walk(objectives=OBJECTIVES)
    walk.observers.beside.held = walk.shared.budgets.held
    walk.observers.beside.held.limit = held_bytes
    body = bytes(LIMITS.look_in_bytes + 1)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    walk.client().send(head.encode() + body)
    while walk.turn():
        pass
    reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)

    assert walk.value("llm_sidecar_dropped_total", reason=reason) == 1
    assert walk.engine.taken.endswith(body)


# --- background, and what comes later ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_receipt_is_accepted_and_no_answer(status: str) -> None:
    """It is neither an answer of 14 ms nor an empty one, and decides no objective."""
    walk = Walk(objectives=OBJECTIVES)
    ask(walk, "/v1/responses", json.dumps({"model": "tiny", "background": True, "input": "a"}).encode())
    reply(walk, json.dumps({"id": "resp_1", "status": status, "output": [], "usage": None, "error": None}).encode())

    assert walk.accounts[-1].outcome is Outcome.ACCEPTED
    assert walk.value("llm_slo_requests_total") == 0
    assert walk.value("llm_empty_answers_total") == 0
    assert "llm_time_to_first_token_seconds_count" not in walk.page()
    assert "llm_request_seconds_count" not in walk.page()


def test_the_stream_that_delivers_it_later_has_tokens_gaps_and_an_end() -> None:
    """And no TTFT, no phases and no objective: its answer began before the request came."""
    walk = Walk(objectives=OBJECTIVES)
    ask(walk, "/v1/responses/resp_1?stream=true", b"", method="GET")
    begin(walk)
    for piece in (*RESPONSES.begin, RESPONSES.token, RESPONSES.token, *RESPONSES.finish):
        walk.clock.later(5.0)
        walk.engine.send(chunk(piece))
    walk.engine.send(b"0\r\n\r\n")

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.value("llm_inter_token_seconds_count") == 1
    assert walk.value("llm_output_tokens_sum") == 2
    assert walk.value("llm_slo_requests_total") == 0
    assert "llm_time_to_first_token_seconds_count" not in walk.page()
    assert "llm_request_phase_seconds_count" not in walk.page()


@pytest.mark.parametrize(
    ("cancels", "outcome"), [("resp_1", Outcome.CLIENT_CANCELLED), ("resp_2", Outcome.ENGINE_ERROR)]
)
def test_a_response_that_its_client_cancelled_is_the_clients(cancels: str, outcome: Outcome) -> None:
    """An engine may cancel by itself, when it shuts down: that is its own error."""
    walk = Walk()
    ask(walk, "/v1/responses", ORDER)
    begin(walk)
    stream = walk.engine
    for piece in (*RESPONSES.begin, RESPONSES.token):
        stream.send(chunk(piece))
    ask(walk, f"/v1/responses/{cancels}/cancel", b"")
    stream.send(chunk(RESPONSES.denied["a cancelled status"][0]) + b"0\r\n\r\n")

    assert walk.accounts[-1].outcome is outcome


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("429 Too Many Requests", Outcome.REJECTED),
        ("503 Service Unavailable", Outcome.REJECTED),
        ("529 Overloaded", Outcome.REJECTED),
        ("499 Client Closed Request", Outcome.CLIENT_CANCELLED),
        ("400 Bad Request", Outcome.CLIENT_ERROR),
        ("500 Internal Server Error", Outcome.ENGINE_ERROR),
    ],
)
def test_a_status_that_refuses_decides_whatever_the_body_says(status: str, outcome: Outcome) -> None:
    walk = Walk()
    for api in SPOKEN.values():
        ask(walk, api.path, ORDER)
        reply(walk, json.dumps(api.whole).encode(), status=status)

    assert {account.outcome for account in walk.accounts} == {outcome}
    assert len(walk.accounts) == len(SPOKEN)


# --- the end of an answer ------------------------------------------------------------------------------------------------


def test_what_the_engine_holds_open_behind_the_end_mark_is_not_the_clients() -> None:
    """The client has all of it, and six seconds pass before the last chunk: they are in no phase, and the log says so."""
    walk = Walk()
    ask(walk, "/v1/chat/completions", ORDER)
    begin(walk)
    walk.clock.later(1.0)
    walk.engine.send(chunk(whole_stream()))
    walk.clock.later(6.0)
    walk.engine.send(b"0\r\n\r\n")

    account = walk.accounts[-1]
    assert account.ledger is not None
    assert account.ledger.e2e_seconds == pytest.approx(1.0)
    assert account.notes["engine_held_open_seconds"] == "6.000000"


def test_a_client_that_was_slow_meanwhile_has_its_time_in_stream() -> None:
    """It is not known before it caught up that it had the mark."""
    walk = Walk()
    client = walk.client()
    client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (len(ORDER), ORDER)
    )
    client.room = 0
    begin(walk)
    walk.engine.send(b"".join(map(chunk, (CHAT.token,) * 20)) + chunk(whole_stream()))
    walk.clock.later(4.0)
    client.take(None)
    walk.clock.later(2.0)
    walk.engine.send(b"0\r\n\r\n")

    account = walk.accounts[-1]
    assert account.ledger is not None
    assert account.ledger.e2e_seconds == pytest.approx(4.0)


@pytest.mark.parametrize("ends", ["lost", "held open for ever"])
def test_an_answer_that_is_cut_behind_its_end_mark_is_ok(ends: str) -> None:
    """All tokens came. The page counts it as cut, and the client's connection is cut as the engine's was."""
    walk = Walk()
    ask(walk, "/v1/chat/completions", ORDER)
    begin(walk)
    walk.engine.send(chunk(whole_stream()))
    if ends == "lost":
        walk.engine.lose()
    else:
        walk.runs(301.0)

    assert walk.accounts[-1].outcome is Outcome.OK
    assert walk.accounts[-1].ledger is not None
    assert walk.value("llm_answer_proofs_total", api="openai_chat", proof="cut_behind_mark") == 1


# --- reasoning, and tokens for nothing -----------------------------------------------------------------------------------

THOUGHT = {
    "/v1/chat/completions": [
        event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in ({"reasoning": "hm"}, {"reasoning_content": "hm"}, {"reasoning_details": [{"text": "hm"}]})
    ],
    "/v1/responses": [event({"type": "response.reasoning_text.delta", "delta": "hm"})],
    "/v1/messages": [event({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}})],
}


@pytest.mark.parametrize(
    ("path", "thought"), [(path, thought) for path, thoughts in THOUGHT.items() for thought in thoughts]
)
def test_the_answer_begins_behind_the_reasoning(path: str, thought: bytes) -> None:
    """TTFT ends with the first output of any kind; a reader of a model that reasons waits for the answer."""
    walk = Walk()
    api = next(api for api in SPOKEN.values() if api.path == path)
    ask(walk, path, ORDER)
    begin(walk)
    for piece in (thought, thought, api.token, api.token):
        walk.clock.later(1.0)
        walk.engine.send(chunk(piece))

    walk.engine.send(chunk(b"".join((*api.finish, *api.end))) + b"0\r\n\r\n")

    assert walk.value("llm_time_to_first_token_seconds_sum") == pytest.approx(1.0)
    assert walk.value("llm_time_to_first_output_token_seconds_sum") == pytest.approx(3.0)
    assert walk.value("llm_inter_token_seconds_count") == 3


def test_a_stream_of_reasoning_alone_has_no_answer() -> None:
    walk = Walk()
    ask(walk, CHAT.path, ORDER)
    reply(walk, THOUGHT[CHAT.path][0] + b"".join((*CHAT.finish, *CHAT.end)), content_type=EVENTS)

    assert walk.value("llm_time_to_first_token_seconds_count") == 1
    assert "llm_time_to_first_output_token_seconds_count" not in walk.page()


@pytest.mark.parametrize(
    ("api", "outcome", "source"),
    [(CHAT, "client_cancelled", "events"), (CHAT, "engine_truncated", "events"), (CHAT, "engine_error", "usage")],
)
def test_tokens_of_an_answer_that_did_not_end_well_are_counted(api: Api, outcome: str, source: str) -> None:
    """By usage where it came, else by events, each of which has one token or more."""
    walk = Walk()
    client = walk.client()
    client.send(
        b"POST %b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (api.path.encode(), len(ORDER), ORDER)
    )
    begin(walk)
    walk.engine.send(chunk(api.token) + chunk(api.token))
    if outcome == "client_cancelled":
        client.lose()
    elif outcome == "engine_truncated":
        walk.engine.lose()
    else:
        walk.engine.send(chunk(b"".join(api.denied["an abort"])) + b"0\r\n\r\n")

    assert walk.value("llm_unfinished_output_tokens_total", outcome=outcome, source=source) == 2
    assert "llm_output_tokens_count" not in walk.page()


# --- what clients and configs may do -------------------------------------------------------------------------------------


def test_a_client_that_leaves_on_an_error_event_has_seen_a_failure() -> None:
    """The SDKs raise on it and close: it is the engine's, although the client closes first."""
    walk = Walk()
    client = walk.client()
    client.send(b"POST /v1/messages HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (len(ORDER), ORDER))
    begin(walk)
    walk.engine.send(chunk(SPOKEN["messages"].token) + chunk(SPOKEN["messages"].denied["an error"][0]))
    client.lose()

    assert walk.accounts[-1].outcome is Outcome.ENGINE_ERROR


def test_a_path_that_the_config_excludes_is_not_told() -> None:
    walk = Walk()
    walk.observers.apis = Apis(exclude=["/v1/chat/completions"])
    ask(walk, "/v1/chat/completions", ORDER)
    reply(walk, whole_stream(), content_type=EVENTS)

    assert walk.value("llm_uncounted_inference_total") == 0
    assert walk.value("llm_passthrough_requests_total", outcome="ok") == 1


def test_a_packed_request_on_a_path_for_all_apis_is_told_by_what_is_inside() -> None:
    walk = Walk(objectives=OBJECTIVES, limits=ProxyConfig())
    for body, answer in ((EMBED, NUMBERS), (json.dumps({"query": "a", "documents": ["b"]}).encode(), NUMBERS)):
        packed = gzip.compress(body)
        head = f"POST /invocations HTTP/1.1\r\nHost: pod\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        walk.client().send(head.encode() + packed)
        while walk.turn():
            pass
        walk.clock.later(60.0)
        reply(walk, answer)

    assert [account.teaches for account in walk.accounts] == [False, False]
    assert walk.value("llm_slo_requests_total") == 0


def test_many_choices_that_end_in_any_order_are_whole() -> None:
    """A batch of two hundred prompts, the first of which ends last, after twenty answers that set both marks."""
    walk = Walk()
    for _ in range(20):
        ask(walk, COMPLETIONS.path, ORDER)
        reply(walk, whole_stream(COMPLETIONS), content_type=EVENTS)
    order = [*range(1, 200), 0]
    said = [event({"choices": [{"index": index, "text": "a", "finish_reason": None}]}) for index in order]
    said += [event({"choices": [{"index": index, "text": "", "finish_reason": "stop"}]}) for index in order]
    ask(walk, COMPLETIONS.path, ORDER)
    reply(walk, b"".join(said) + b"data: [DONE]\n\n", content_type=EVENTS)

    assert {account.outcome for account in walk.accounts} == {Outcome.OK}


def test_one_of_two_prompts_that_ends_does_not_end_both() -> None:
    """llama.cpp marks the end of each choice, and no end of all."""
    walk = Walk()
    ask(walk, "/completion", ORDER)
    begin(walk)
    for said in ({"index": 0, "content": "a"}, {"index": 1, "content": "a"}, {"index": 0, "content": "", "stop": True}):
        walk.engine.send(chunk(event(said)))
    walk.engine.lose()

    assert walk.accounts[-1].outcome is Outcome.ENGINE_TRUNCATED


def test_ids_of_any_length_are_not_kept() -> None:
    walk = Walk(limits=ProxyConfig())
    ask(walk, f"/v1/responses/{'x' * 5000}/cancel", b"")
    ask(walk, "/v1/responses/resp_1/cancel", b"")

    assert list(walk.observers.cancelled) == ["resp_1"]


def test_a_client_that_leaves_a_delivered_stream_leaves_while_it_streams() -> None:
    walk = Walk()
    client = walk.client()
    client.send(b"GET /v1/responses/resp_1?stream=True HTTP/1.1\r\nHost: pod\r\n\r\n")
    begin(walk)
    walk.engine.send(chunk(RESPONSES.token))
    client.lose()

    assert walk.value("llm_client_cancels_total", stage="streaming") == 1


def test_a_client_that_takes_the_last_bytes_late_had_not_the_mark() -> None:
    walk = Walk()
    client = walk.client()
    client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (len(ORDER), ORDER)
    )
    client.room = 0
    begin(walk)
    walk.clock.later(1.0)
    walk.engine.send(chunk(CHAT.token) + chunk(b"".join((*CHAT.finish, *CHAT.end))))
    walk.clock.later(5.0)
    walk.engine.send(b"0\r\n\r\n")
    walk.clock.later(1.0)
    client.take(None)

    ledger = walk.accounts[-1].ledger
    assert ledger is not None
    assert ledger.e2e_seconds == pytest.approx(7.0)
