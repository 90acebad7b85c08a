"""llm-d's endpoint picker: the wait before a worker was chosen is the router's part of the queue, if it lies below the request's own span."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from sidecar.engines import llm_d
from sidecar.engines.llm_d import RoutedSpans
from sidecar.engines.span import Span
from sidecar.engines.vllm import report_in_span
from sidecar.ledger.account import Account
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport, KeyedReport, span_key
from tests.support.scenario import phases
from tests.support.spans import fixture
from tests.support.vllm_stream import play, post
from tests.support.walk import Walk


(ENGINE,) = fixture("vllm-chat").spans
TRACE, MINTED = "aa" * 16, "01" * 8
MILLISECOND = 1_000_000
GATEWAY = Span(
    TRACE, "0a" * 8, MINTED, "gateway.request", 0, 700 * MILLISECOND, {}, scope="llm-d-router/pkg/epp/handlers"
)
CHOOSING = Span(
    *(TRACE, "0b" * 8, GATEWAY.span_id, "gateway.request_orchestration", 0, 150 * MILLISECOND),
    {"target_model": "tiny", "request_prio": 0},
    scope="llm-d-router/pkg/epp/requestcontrol",
)
WAIT = KeyedReport(
    (span_key(MINTED),), EngineReport(parts=(StatedPart(Part.ROUTER, 0.15),)), TRACE, part=GATEWAY.span_id
)


def heard(*spans: Span) -> list[KeyedReport]:
    routed = RoutedSpans(report_in_span, {MINTED}.__contains__)
    found = [keyed for span in spans for keyed in routed.span(span, 0.0) or ()]
    return [*found, *routed.due(60.0)]


def test_the_wait_is_known_once_the_span_above_leads_to_the_request() -> None:
    """It ends with the answer, and comes behind the one that it holds."""
    assert heard(CHOOSING, GATEWAY) == [WAIT]
    assert heard(CHOOSING, GATEWAY, GATEWAY) == [WAIT]


@pytest.mark.parametrize(
    "spans",
    [
        (CHOOSING,),
        (GATEWAY,),
        (
            CHOOSING,
            replace(GATEWAY, parent_span_id="0c" * 8),
        ),  # in front of this sidecar, or behind a proxy that traces
        (CHOOSING, replace(GATEWAY, span_id="0d" * 8)),
        (replace(CHOOSING, end_unix_nano=-1), GATEWAY),
        (replace(CHOOSING, parent_span_id=""), replace(GATEWAY, span_id="")),
    ],
)
def test_a_wait_that_does_not_lead_to_a_request_is_none(spans: Sequence[Span]) -> None:
    assert heard(*spans) == []


def test_waits_whose_second_span_does_not_come_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_d, "MAX_WAITS", 2)
    routed = RoutedSpans(report_in_span, {MINTED}.__contains__)
    for number in range(3):
        routed.span(replace(CHOOSING, parent_span_id=f"{number:016x}"), 0.0)

    kept = [routed.span(replace(GATEWAY, span_id=f"{number:016x}"), 0.0) != () for number in range(3)]

    assert (routed.lost, kept) == (1, [False, True, True])


# --- through the whole sidecar ---------------------------------------------------------------------------------------------


def split_of(order: Sequence[str]) -> Account:
    """One request that waited 0.15 s in the router, with the spans in this order."""
    walk = Walk(include_usage=False, mints=True)
    walk.client().send(post({"stream": True}))
    minted = walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()
    play(walk, usage=False)
    said = {
        "gen_ai.latency.time_to_first_token": 0.28,
        "gen_ai.latency.time_in_queue": 0.05,
        "gen_ai.latency.time_in_model_prefill": 0.2,
    }
    engine = replace(ENGINE, attributes={**ENGINE.attributes, **said})
    spans = {"choosing": CHOOSING, "gateway": replace(GATEWAY, parent_span_id=minted)}
    for name in order:
        walk.settlement.span(spans.get(name, replace(engine, parent_span_id=minted)))
    walk.settlement.expire(walk.clock.later(10.0))
    (account,) = walk.accounts
    return account


@pytest.mark.proves("vllm", "router")
@pytest.mark.parametrize(
    "order",
    [
        order
        for order in permutations(["choosing", "gateway", "engine"])
        if order.index("choosing") < order.index("gateway")
    ],
)
def test_the_wait_is_a_part_of_the_queue_in_any_order(order: Sequence[str]) -> None:
    """The engine's own span leaves room for it, and so waits for it."""
    account = split_of(order)

    assert account.ledger is not None
    assert list(phases(account.ledger).items())[:3] == [
        ("queue", (200, "engine")),
        ("prefill", (200, "engine")),
        ("first_token", (50, "derived")),
    ]
    assert [(part.part, round(part.seconds * 1000)) for part in account.parts] == [("router", 150), ("rest", 50)]


def test_without_the_routers_spans_its_time_is_first_token() -> None:
    account = split_of(["engine"])

    assert account.ledger is not None
    assert phases(account.ledger)["first_token"] == (200, "derived")
    assert account.parts == ()
