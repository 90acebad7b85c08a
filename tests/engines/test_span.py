"""A span of an engine that is not known splits its request where that is asked for, and only if it states queue and prefill apart."""

from dataclasses import replace

import pytest

from sidecar.engines.engine import NONE, Engine
from sidecar.engines.span import Span, report_of_any, usage_in
from sidecar.engines.vllm import report_in_span
from sidecar.ledger.account import Reason
from sidecar.ledger.report import EngineReport, response_key, span_key
from sidecar.timeline.events import Usage
from tests.support.scenario import phases
from tests.support.spans import fixture
from tests.support.vllm_stream import play, post
from tests.support.walk import Walk


STATED: dict[str, str | int | float | bool] = {
    "gen_ai.latency.time_in_queue": 0.1,
    "gen_ai.latency.time_in_model_prefill": 0.3,
    "gen_ai.latency.time_in_model_decode": 0.2,
    "gen_ai.latency.time_to_first_token": 0.42,
    "gen_ai.usage.prompt_tokens": 600,
    "gen_ai.request.id": "chatcmpl-7",
}
SPAN = Span("aa" * 16, "bb" * 8, "cc" * 8, "Request", 1, 2, STATED)


def stating(**attributes: float | None) -> Span:
    changed = {f"gen_ai.latency.{name}": value for name, value in attributes.items()}
    return replace(SPAN, attributes={name: value for name, value in {**STATED, **changed}.items() if value is not None})


def test_queue_and_prefill_of_one_span_are_read_as_vllm_means_them() -> None:
    keyed = report_of_any(SPAN)

    assert keyed is not None
    assert (keyed.report, keyed.report.usage) == (EngineReport(0.1, 0.3, 0.2), Usage(600))
    assert (keyed.keys, keyed.trace_id) == ((span_key("cc" * 8), response_key("chatcmpl-7")), "aa" * 16)


@pytest.mark.parametrize(
    "span",
    [
        stating(time_in_queue=None),
        stating(time_in_model_prefill=None),
        stating(time_in_model_prefill=0.41),  # SGLang's: the queue is in it
        stating(time_in_queue=-0.1),
        replace(SPAN, name="prefill", attributes={}),  # llm-d's router: decode lies inside a span of this name
    ],
)
def test_a_span_that_does_not_state_both_apart_splits_nothing(span: Span) -> None:
    assert report_of_any(span) is None


def test_a_span_that_states_first_token_and_whole_as_well_tells_its_request() -> None:
    """The very request that the engine's own reader makes of it, to the last digit; without one of them it reports, and tells none."""
    (span,) = fixture("vllm-chat").spans
    any_report, own = report_of_any(span), report_in_span(span)
    partial = [
        report_of_any(stating(**given)) for given in ({}, {"e2e": 0.41}, {"e2e": 0.5, "time_to_first_token": None})
    ]

    assert any_report is not None
    assert own is not None
    assert any_report.request is not None
    assert (any_report.request, any_report.part) == (own.request, span.span_id)
    assert [keyed and keyed.request for keyed in partial] == [None, None, None]
    assert None not in partial


@pytest.mark.parametrize("generation", ["cmpl-7-beam-0", "resp_7_1", "resp_7_12"])
def test_a_beam_or_a_later_turn_is_no_request_of_an_unknown_engine_either(generation: str) -> None:
    """One answer has many of them: read as requests they would count it many times, each short."""
    attributes = {**STATED, "gen_ai.latency.e2e": 0.7, "gen_ai.request.id": generation}

    assert report_of_any(replace(SPAN, attributes=attributes)) is None
    assert report_in_span(replace(SPAN, name="llm_request", attributes=attributes)) is None


def test_counts_that_are_none_are_not_stated() -> None:
    assert usage_in({"gen_ai.usage.prompt_tokens": -1, "gen_ai.usage.completion_tokens": True}) is None
    assert usage_in({"gen_ai.usage.cached_tokens": 64}) == Usage(None, 64)


def test_an_unknown_engines_request_gets_a_span_and_its_split_where_that_is_asked_for() -> None:
    walk = Walk(engine=Engine(NONE, ["tiny"]), mints=True, any_engine=True)
    walk.client().send(post({"stream": True}))
    minted = walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()
    play(walk, usage=False)
    walk.clock.later(5.0)

    assert walk.settlement.span(replace(SPAN, parent_span_id=minted))

    (account,) = walk.accounts
    assert account.ledger is not None
    assert account.ledger.reason is Reason.LATE_REPORT
    assert phases(account.ledger)["queue"] == (100, "engine")


def test_else_its_requests_pass_as_they_are() -> None:
    walk = Walk(engine=Engine(NONE, ["tiny"]), mints=True)
    walk.client().send(post({"stream": True}))
    play(walk, usage=False)

    assert (b"traceparent" in walk.engine.taken, len(walk.accounts)) == (False, 1)
