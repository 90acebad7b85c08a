"""The spans of llm-d's router are named as phases are, and are none: no engine's reader takes them for queue, prefill or decode.

They are requests that the router sends (llm-d-router, `pkg/sidecar/proxy/connector_nixlv2.go` at 45c38549): `prefill` is the whole answer of
the prefill worker, its queue included, and `decode` begins after it and hangs below it, for its context is handed on. With other connectors
(`connector_pd_common.go` at 5a23b61a) both run at once. What the spans of its endpoint picker tell is in `sidecar/engines/llm_d.py`.
"""

from dataclasses import replace

import pytest

from sidecar.engines.engine import NONE, Engine
from sidecar.engines.kind import UNKNOWN_KIND, EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.engines.span import Span
from sidecar.ledger.account import Reason
from tests.support.vllm_stream import play, post
from tests.support.walk import Walk


TRACE, MINTED, SCOPE = "aa" * 16, "01" * 8, "llm-d-router/pkg/sidecar/proxy"
SECOND = 1_000_000_000
PREFILL = Span(
    *(TRACE, "bb" * 8, MINTED, "prefill", 0, SECOND),
    {
        "llm_d.pd_proxy.request_id": "5f1880b9",
        "llm_d.pd_proxy.prefill_target": "10.0.0.7:8000",
        "llm_d.pd_proxy.connector": "nixlv2",
        "llm_d.pd_proxy.prefill.status_code": 200,
        "llm_d.pd_proxy.prefill.duration_ms": 1_000.0,
    },
    scope=SCOPE,
)
DECODE = Span(
    *(TRACE, "cc" * 8, PREFILL.span_id, "decode", SECOND, 3 * SECOND),
    {
        "llm_d.pd_proxy.connector": "nixlv2",
        "llm_d.pd_proxy.decode.streaming": True,
        "llm_d.pd_proxy.decode.duration_ms": 2_000.0,
    },
    scope=SCOPE,
)
AT_ONCE = replace(
    DECODE, start_unix_nano=0, attributes={**DECODE.attributes, "llm_d.pd_proxy.decode.concurrent_with_prefill": True}
)
FORWARD = Span(
    TRACE, "dd" * 8, MINTED, "forward_request", 0, 3 * SECOND, {"llm_d.pd_proxy.true_ttft_ms": 1_100.0}, scope=SCOPE
)


@pytest.mark.parametrize("kind", [UNKNOWN_KIND, *KINDS.values()], ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("spans", [(PREFILL, DECODE, FORWARD), (DECODE, PREFILL), (PREFILL, AT_ONCE)])
def test_no_kind_reads_a_phase_in_them(kind: EngineKind, spans: tuple[Span, ...]) -> None:
    assembler = kind.assembler(lambda span_id: span_id == MINTED)
    if assembler is None:
        found = [keyed for span in spans if (keyed := kind.span(span)) is not None]
    else:
        found = [keyed for span in spans for keyed in assembler.span(span, 0.0) or ()] + list(assembler.due(60.0))

    assert found == []


@pytest.mark.parametrize("engine", [Engine("vllm", ["tiny"]), Engine(NONE, ["tiny"])], ids=["vllm", "any engine"])
def test_a_request_behind_the_router_is_not_split_by_them(engine: Engine) -> None:
    """They come below the span that was minted for it, and it is told as one on which no report came."""
    walk = Walk(engine=engine, include_usage=False, mints=True, any_engine=True)
    walk.client().send(post({"stream": True}))
    minted = walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()
    play(walk, usage=False)

    taken = [walk.settlement.span(span) for span in (replace(PREFILL, parent_span_id=minted), DECODE)]
    walk.settlement.expire(walk.clock.later(60.0))

    (account,) = walk.accounts
    assert account.ledger is not None
    assert (taken, account.ledger.reason, account.ledger.source) == ([False, False], Reason.NO_REPORT, "none")
