"""A request's account becomes spans that say what it says, in OpenTelemetry's words, and no text."""

import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags as Flags
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes

from sidecar.ledger.account import Account
from sidecar.observe.span_sampling import SpanSampling
from sidecar.otlp import request_spans
from sidecar.otlp.request_spans import phases_of, resource_of, scope_of, spans_of
from tests.support.vllm_stream import DONE, STREAM, TOKEN, chunk, play, post
from tests.support.walk import Walk


TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = f"Traceparent: 00-{TRACE}-{CLIENT}-01"
CHECKOUT = Path(__file__).parents[2]
MILLI = 1_000_000
"""Nanoseconds."""


def walk_of(untraced_ratio: float = 1.0) -> Walk:
    walk = Walk()
    walk.settlement.sampling = SpanSampling(untraced_ratio, walk.settlement.random_hex)
    return walk


def spans(account: Account, provider: str | None = "vllm") -> list[Any]:
    """The account's spans, read by OpenTelemetry's own message. Their instants are those of the walk's clock."""
    assert account.own_span is not None
    numbers = iter(range(0xA0, 0xFF))
    written = spans_of(
        account,
        account.own_span,
        phases_of(account, account.own_span),
        provider=provider,
        unix_nanos=lambda at: round(at * 1e9),
        random_hex=lambda size: f"{next(numbers):0{2 * size}x}",
    )
    return [Span.FromString(each) for each in written]


def told(span: Any) -> dict[str, Any]:
    """The attributes as plain values."""
    found = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        found[each.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    assert len(found) == len(span.attributes), "a key stands twice"
    return found


def timed(span: Any) -> tuple[Any, ...]:
    """Name, and begin and end in milliseconds since the clock's 0."""
    return span.name, span.start_time_unix_nano / MILLI, span.end_time_unix_nano / MILLI


def streamed(*headers: str, usage: bool = True) -> Walk:
    """A walk after one streamed request, sent whole at 100 ms (walk time), that ended well."""
    walk = walk_of()
    walk.client().send(post({"stream": True}, *headers))
    play(walk, usage=usage)
    return walk


def test_a_streamed_request_and_its_phases_below_the_clients_span() -> None:
    """The phases stand one after the other, from the request's last byte to its client's last byte; nothing is said twice."""
    (account,) = streamed(TRACED).accounts
    request, *phases = spans(account)
    begin = request.start_time_unix_nano / MILLI

    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, CLIENT)
    assert request.kind == Span.SPAN_KIND_SERVER
    assert (request.status.code, request.flags) == (Status.STATUS_CODE_UNSET, 0x301)
    assert timed(request) == ("chat tiny", begin, pytest.approx(begin + 700))
    assert [timed(phase) for phase in phases] == [
        ("queue", pytest.approx(begin), pytest.approx(begin + 100)),
        ("prefill", pytest.approx(begin + 100), pytest.approx(begin + 400)),
        ("first_token", pytest.approx(begin + 400), pytest.approx(begin + 450)),
        ("decode", pytest.approx(begin + 450), pytest.approx(begin + 650)),
        ("stream", pytest.approx(begin + 650), pytest.approx(begin + 700)),
    ]
    assert [each.start_time_unix_nano for each in phases[1:]] == [each.end_time_unix_nano for each in phases[:-1]]
    assert {(p.trace_id, p.parent_span_id, p.kind, p.flags) for p in phases} == {
        (request.trace_id, request.span_id, Span.SPAN_KIND_INTERNAL, 0x101)
    }
    assert len({span.span_id for span in (request, *phases)}) == 6
    assert [told(phase) for phase in phases] == [
        {"llm_sidecar.phase": phase, "llm_sidecar.source": source}
        for phase, source in (
            ("queue", "engine"),
            ("prefill", "engine"),
            ("first_token", "derived"),
            ("decode", "engine"),
            ("stream", "derived"),
        )
    ]
    assert told(request) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.usage.input_tokens": 600,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "http.response.status_code": 200,
        "llm_sidecar.outcome": "ok",
        "llm_sidecar.lane": "interactive",
        "llm_sidecar.prompt_bucket": "512-4k",
        "llm_sidecar.split.source": "engine",
        "llm_sidecar.split.reason": "in_band",
        "llm_sidecar.ttft_seconds": pytest.approx(0.45),
    }


def test_the_flags_are_those_of_the_standard() -> None:
    """A sampled span whose parent is of another process, and one whose parent is not."""
    known, remote = Flags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK, Flags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK

    assert (1 | known | remote, 1 | known) == (0x301, 0x101)


def test_a_request_without_a_trace_begins_one() -> None:
    (account,) = streamed().accounts
    request, *phases = spans(account)

    assert (request.parent_span_id, request.flags) == (b"", 0x101)
    assert {phase.trace_id for phase in phases} == {request.trace_id}
    assert account.trace_id == request.trace_id.hex(), "no exemplar leads to it"


def test_what_nothing_reports_is_one_unsplit_phase() -> None:
    (account,) = streamed(usage=False).accounts
    request, *phases = spans(account, provider=None)

    assert [phase.name for phase in phases] == ["unattributed", "decode", "stream"]
    said = told(request)
    assert (said["llm_sidecar.split.source"], said["llm_sidecar.split.reason"]) == ("none", "no_report")
    assert [key for key in said if "usage" in key or "provider" in key or "bucket" in key] == []


def whole_answer() -> Account:
    walk = walk_of()
    walk.client().send(post({}, TRACED))
    walk.clock.later(0.5)
    body = b'{"id":"chatcmpl-7","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
    walk.engine.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    return walk.accounts[0]


def left(*, after_token: bool) -> Account:
    walk = walk_of()
    client = walk.client()
    client.send(post({"stream": True}, TRACED))
    walk.clock.later(0.3)
    if after_token:
        walk.engine.send(STREAM + chunk(TOKEN))
        walk.clock.later(0.2)
        walk.engine.send(chunk(TOKEN))
    walk.clock.later(0.4)
    client.lose()
    return walk.accounts[0]


def broke_off() -> Account:
    walk = walk_of()
    walk.client().send(post({"stream": True}, TRACED))
    walk.clock.later(0.3)
    walk.engine.send(STREAM + chunk(TOKEN))
    walk.clock.later(0.4)
    walk.engine.lose()
    return walk.accounts[0]


def refused(status: bytes) -> Account:
    walk = walk_of()
    walk.client().send(post({"stream": True}, TRACED))
    walk.clock.later(0.25)
    walk.engine.send(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
    return walk.accounts[0]


def half_uploaded() -> Account:
    walk = walk_of()
    client = walk.client()
    client.send(post({"stream": True}, TRACED)[:-5])
    walk.clock.later(0.2)
    client.lose()
    return walk.accounts[0]


UNSET, ERROR = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR


@pytest.mark.parametrize(
    ("account", "status", "said", "phases", "whole"),
    [
        pytest.param(
            whole_answer,
            UNSET,
            {"llm_sidecar.outcome": "ok", "gen_ai.response.id": "chatcmpl-7", "gen_ai.request.stream": False},
            [("unattributed", 500)],
            500,
            id="not streamed",
        ),
        pytest.param(
            lambda: left(after_token=False),
            UNSET,
            {"llm_sidecar.outcome": "client_cancelled", "llm_sidecar.cancelled_in": "waiting"},
            [("unattributed", 700)],
            700,
            id="left before a token",
        ),
        pytest.param(
            lambda: left(after_token=True),
            UNSET,
            {"llm_sidecar.outcome": "client_cancelled", "llm_sidecar.cancelled_in": "streaming"},
            [("unattributed", 300), ("decode", 200), ("stream", 0)],
            900,
            id="left between tokens: nothing tells whose the last 400 ms were",
        ),
        pytest.param(
            broke_off,
            ERROR,
            {"llm_sidecar.outcome": "engine_truncated", "error.type": "engine_truncated"},
            [("unattributed", 300), ("decode", 0), ("stream", 0)],
            700,
            id="the engine broke off",
        ),
        pytest.param(
            lambda: refused(b"500 Oh"),
            ERROR,
            {"llm_sidecar.outcome": "engine_error", "error.type": "500", "http.response.status_code": 500},
            [("unattributed", 250)],
            250,
            id="the engine failed",
        ),
        pytest.param(
            lambda: refused(b"429 Busy"),
            ERROR,
            {"llm_sidecar.outcome": "rejected", "error.type": "429"},
            [("unattributed", 250)],
            250,
            id="the engine had no room",
        ),
        pytest.param(
            lambda: refused(b"400 No"),
            UNSET,
            {"llm_sidecar.outcome": "client_error", "http.response.status_code": 400},
            [("unattributed", 250)],
            250,
            id="a mistake of the client is no error of its server",
        ),
        pytest.param(
            half_uploaded,
            UNSET,
            {"llm_sidecar.outcome": "client_cancelled", "llm_sidecar.cancelled_in": "upload"},
            [],
            200,
            id="never whole: no phase has begun",
        ),
    ],
)
def test_every_end_has_its_span_with_as_many_phases_as_are_known(
    account: Any, status: int, said: dict[str, Any], phases: list[tuple[str, float]], whole: float
) -> None:
    request, *children = spans(account())
    attributes = told(request)

    assert (request.parent_span_id.hex(), request.status.code) == (CLIENT, status)
    assert {key: attributes.get(key) for key in said} == said
    assert ("error.type" in attributes) == (status == ERROR)
    assert [(name, round(end - begin, 3)) for name, begin, end in map(timed, children)] == phases
    assert (request.end_time_unix_nano - request.start_time_unix_nano) / MILLI == pytest.approx(whole)
    assert all(each.end_time_unix_nano <= request.end_time_unix_nano for each in children)


def test_an_answer_that_began_during_the_upload_has_no_phases() -> None:
    """Its first token came before the request was whole: the phases are no part of that time."""
    (account,) = streamed(TRACED, usage=False).accounts
    marks = account.marks
    assert marks.received_at is not None
    early = account.__class__(
        **{
            **{name: getattr(account, name) for name in account.__struct_fields__},
            "outcome": "engine_error",
            "ledger": None,
            "marks": marks.__class__(
                accepted_at=marks.accepted_at,
                received_at=marks.received_at,
                first_token_at=marks.received_at - 0.1,
                last_token_at=marks.received_at,
            ),
        }
    )

    assert early.own_span is not None
    assert phases_of(early, early.own_span) == ()


@pytest.mark.parametrize("absurd", [-1, 1 << 63, 10**30])
def test_a_count_without_room_in_otlp_is_unknown(absurd: int) -> None:
    walk = walk_of()
    walk.client().send(post({"stream": True}, TRACED))
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":2}}\n\n' % absurd
    walk.engine.send(STREAM + chunk(TOKEN) + chunk(usage) + chunk(DONE) + b"0\r\n\r\n")
    (account,) = walk.accounts

    assert "gen_ai.usage.input_tokens" not in told(spans(account)[0])


def test_every_name_is_of_the_conventions_or_bears_our_prefix() -> None:
    """`gen_ai.*` are names that OpenTelemetry's package has, and none that it has for text."""
    known = {
        value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI_") and isinstance(value, str)
    }
    others = {error_attributes.ERROR_TYPE, http_attributes.HTTP_RESPONSE_STATUS_CODE}
    accounts = [*streamed(TRACED).accounts, whole_answer(), left(after_token=True), broke_off()]
    used = {key for account in accounts for span in spans(account) for key in told(span)}

    assert {key for key in used if key.startswith("gen_ai.")} <= known
    assert {key for key in used if not key.startswith(("gen_ai.", "llm_sidecar."))} <= others
    assert (
        used
        & {
            gen_ai_attributes.GEN_AI_INPUT_MESSAGES,
            gen_ai_attributes.GEN_AI_OUTPUT_MESSAGES,
            gen_ai_attributes.GEN_AI_SYSTEM_INSTRUCTIONS,
            gen_ai_attributes.GEN_AI_TOOL_DEFINITIONS,
        }
        == set()
    )


def test_no_text_of_a_client_or_a_model_leaves() -> None:
    """Not from the prompt, the answer, a header, the path, the name of a model that is not served, or the trace's state."""
    walk = walk_of()
    request = {
        "stream": True,
        "model": "CANARY-model",
        "user": "CANARY",
        "messages": [{"role": "user", "content": "CANARY"}],
    }
    headers = ("X-Team: CANARY", "Authorization: Bearer CANARY", "Tracestate: v=CANARY", "X-Lane: CANARY", TRACED)
    walk.client().send(post(request, *headers, path="/v1/chat/completions?CANARY=CANARY"))
    walk.engine.send(STREAM + chunk(TOKEN.replace(b'"a"', b'"CANARY"')) + chunk(DONE) + b"0\r\n\r\n")
    (account,) = walk.accounts
    assert "CANARY" in account.notes["header.x-team"]

    found = spans(account)
    assert b"CANARY" not in b"".join(span.SerializeToString() for span in found)
    assert (found[0].name, told(found[0])["llm_sidecar.lane"]) == ("chat", "other")


@pytest.mark.parametrize(
    ("environment", "more"),
    [
        ({}, {"service.name": "llm-phase-sidecar"}),
        ({"OTEL_SERVICE_NAME": "llama"}, {"service.name": "llama"}),
        (
            {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a, team=search%2Cads", "OTEL_SERVICE_NAME": "llama"},
            {"service.name": "llama", "team": "search,ads"},
        ),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,k8s.pod.name=b"}, {"service.name": "a", "k8s.pod.name": "b"}),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,nothing"}, {"service.name": "llm-phase-sidecar"}),
    ],
)
def test_the_resource_says_which_pod_this_is_and_takes_opentelemetrys_own_variables(
    environment: dict[str, str], more: dict[str, str]
) -> None:
    written = ResourceSpans.FromString(resource_of("1.2", {"pod": "llama-0", "node": "gpu-7"}, environment))

    assert (
        told(written.resource)
        == {
            "service.version": "1.2",
            "k8s.pod.name": "llama-0",
            "k8s.node.name": "gpu-7",
        }
        | more
    )


def test_the_scope_is_this_program() -> None:
    scope = ScopeSpans.FromString(scope_of("1.2")).scope

    assert (scope.name, scope.version) == ("llm-phase-sidecar", "1.2")


def test_the_page_names_every_attribute_and_no_other() -> None:
    """docs/opentelemetry.md, and what the code can write: those of the spans, and those of the resource that we make."""
    name = r"(?:gen_ai|llm_sidecar|http|error|service|k8s)(?:\.[a-z_]+)+"
    page = (CHECKOUT / "docs/opentelemetry.md").read_text().partition("## Metrics without Prometheus")[0]
    code = Path(request_spans.__file__).read_text()
    written = {*re.findall(f'"({name})"', code), *filter(None, request_spans.LABEL_ATTRIBUTES)}

    assert set(re.findall(f"`({name})`", page)) == written
