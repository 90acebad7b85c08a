"""Reports of an engine behind Dynamo: Dynamo's own spans lead to the request, whichever engine is behind it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.span import Span
from sidecar.ledger.report import KeyedReport, span_key
from tests.engines.dynamo_family import ENGINE, FRONT, MINTED, REPORT, WORKER, descendants, heard
from tests.support.scenario import phases
from tests.support.spans import fixture
from tests.support.vllm_stream import DONE, FINISH, ROLE, STREAM, TOKEN, chunk, post
from tests.support.walk import Walk


TIMED = FINISH.rstrip().removesuffix(b"}") + (
    b',"nvext":{"timing":{"prefill_wait_time_ms":30,"prefill_time_ms":310,"kv_transfer_estimated_latency_ms":70}}}\n\n'
)


def test_dynamos_own_spans_lead_up_to_the_request() -> None:
    """They may come in any order; the report is held for as long as one between could still come."""
    for spans in ((ENGINE, WORKER, FRONT), (FRONT, WORKER, ENGINE), (WORKER, ENGINE, FRONT)):
        assert heard(*spans) == [KeyedReport((span_key(MINTED),), REPORT, ENGINE.trace_id, part=ENGINE.span_id)]
    family = descendants()
    family.span(ENGINE, 0.0)
    family.span(WORKER, 0.0)
    assert list(family.due(5.9)) == []


def test_tensorrt_llm_may_stand_behind_it_too() -> None:
    """Both engines call their span llm_request, and state different things in it."""
    (span,) = fixture("tensorrt-llm").under(MINTED)

    assert [keyed.report.prefill_seconds for keyed in heard(span)] == [pytest.approx(0.3)]


@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_a_prefill_workers_span_and_a_decode_workers_are_put_together(order: Sequence[int], timing: bool) -> None:
    """However long the decode took: the prefill worker's span, which came with the first batch, does not settle its request alone.

    Where the answer states the router's wait and the cache's move, both are parts beside those of the workers.
    """
    walk = Walk(engine=Engine("dynamo", ["tiny"]), include_usage=False, mints=True)
    walk.client().send(post({"stream": True}))
    minted = walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()
    walk.clock.later(0.45)
    walk.engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
    workers = [
        _worker("p", {"queue": 0.1, "prefill": 0.2, "decode": 0.0}, tokens=1),
        _worker("d", {"queue": 0.06, "prefill": 0.02, "decode": 20.0}, tokens=2),
    ]
    between = (WORKER, replace(FRONT, parent_span_id=minted))
    for at, each in enumerate(order):
        for span in (workers[each], *between):
            walk.settlement.span(span)
        for _ in range(10 if at == 0 else 0):
            walk.settlement.expire(walk.clock.later(1.0))
    walk.clock.later(10.0)
    walk.engine.send((chunk(TIMED) if timing else chunk(FINISH)) + chunk(DONE) + b"0\r\n\r\n")

    (account,) = walk.accounts
    assert account.ledger is not None
    split = phases(account.ledger)
    assert [split[phase][0] for phase in ("queue", "prefill")] == [(130 if timing else 100), 200]
    assert split["decode"] == (20_000, "engine")
    assert (split.get("unattributed", (0, ""))[0], split["first_token"][0]) == ((0, 120) if timing else (60, 90))
    told = [(part.part, round(part.seconds * 1000)) for part in account.parts if part.part != "rest"]
    assert sorted(told) == sorted(
        [("prefill_queue", 100), ("compute", 200), *([("router", 30), ("kv_transfer", 70)] if timing else [])]
    )


def _worker(name: str, seconds: dict[str, float], tokens: int) -> Span:
    said = {
        "gen_ai.latency.time_to_first_token": seconds["queue"] + seconds["prefill"] + 0.01,
        "gen_ai.latency.time_in_queue": seconds["queue"],
        "gen_ai.latency.time_in_model_prefill": seconds["prefill"],
        "gen_ai.latency.time_in_model_decode": seconds["decode"],
        "gen_ai.usage.completion_tokens": tokens,
    }
    return replace(ENGINE, span_id=f"{name}00000000000000a", attributes={**ENGINE.attributes, **said})
