"""A request's own span is sampled as its client sampled, and a share of those without a trace begins one."""

import pytest

from sidecar.classify.trace import Minted, TraceContext
from sidecar.engines.kinds import KINDS
from sidecar.engines.vllm import VLLM
from sidecar.observe.span_sampling import SampledTraces, SpanSampling
from tests.support.vllm_stream import play, post
from tests.support.walk import Walk


TRACE, CLIENT, OURS = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "1111111111111111"
SAMPLED, UNSAMPLED = TraceContext(TRACE, CLIENT, sampled=True), TraceContext(TRACE, CLIENT, sampled=False)
LOW, HIGH = "f" * 18 + "0" * 14, "0" * 18 + "f" * 14
"""Trace ids whose random digits are the lowest and the highest."""


class Spanning(VLLM):
    """A vLLM that reports by spans."""

    reads_spans = True
    late_report_seconds = 5.0


def sampling(ratio: float, trace_id: str = LOW) -> SpanSampling:
    return SpanSampling(ratio, lambda size: trace_id if size == 16 else OURS)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_a_client_with_a_trace_has_decided_whatever_the_ratio(ratio: float) -> None:
    """Below its span where it sampled, and never below an unsampled one; the id that the engine was told of is the span's own."""
    decides = sampling(ratio)

    assert decides.ids(SAMPLED, None) == (TRACE, OURS, CLIENT)
    assert decides.ids(SAMPLED, Minted(TRACE, "2" * 16, SAMPLED)) == (TRACE, "2" * 16, CLIENT)
    assert (decides.ids(UNSAMPLED, None), decides.ids(UNSAMPLED, Minted(TRACE, OURS, UNSAMPLED))) == (None, None)
    assert [decides.exports(Minted(TRACE, OURS, each)) for each in (SAMPLED, UNSAMPLED)] == [True, False]


@pytest.mark.parametrize(
    ("ratio", "trace_id", "kept"),
    [
        (0.0, LOW, False),
        (1e-9, LOW, True),
        (0.5, LOW, True),
        (0.5, HIGH, False),
        (0.999, HIGH, False),
        (1.0, HIGH, True),
    ],
)
def test_a_trace_that_begins_here_is_kept_by_the_random_digits_of_its_id(
    ratio: float, trace_id: str, kept: bool
) -> None:
    """The same for all who ask: for the request, for its engine's spans, and for other spans of the trace."""
    decides = sampling(ratio, trace_id)
    minted = Minted(trace_id, "2" * 16, None)

    assert decides.ids(None, None) == ((trace_id, OURS, "") if kept else None)
    assert decides.ids(None, minted) == ((trace_id, "2" * 16, "") if kept else None)
    assert decides.exports(minted) == kept
    assert (trace_id in SampledTraces((), {trace_id: OURS}, decides)) == kept


def test_with_a_ratio_of_0_no_id_is_drawn() -> None:
    def drawn(_size: int) -> str:
        raise AssertionError("random bytes were used")

    assert SpanSampling(0.0, drawn).ids(None, None) is None


def test_the_kept_share_is_the_ratio() -> None:
    """1,024 ids are spread evenly here, as random ones are in the mean."""
    decides = sampling(0.25)
    step = (1 << 56) // 1024

    assert sum(decides.begins("0" * 18 + f"{step * place:014x}") for place in range(1024)) == 256


def test_spans_of_another_trace_do_not_go_on() -> None:
    """Those of a client that had sampled do; those of an engine's own trace, or of none, do not."""
    traces = SampledTraces({TRACE: 1}, {LOW: OURS}, sampling(1.0))

    assert [each in traces for each in (TRACE, LOW, HIGH, "", None)] == [True, True, False, False, False]


def test_off_a_request_has_no_span_and_no_exemplar_of_its_own() -> None:
    walk = Walk()
    walk.client().send(post({"stream": True}))
    play(walk)

    assert [(account.own_span, account.trace_id) for account in walk.accounts] == [(None, None)]


@pytest.mark.parametrize(
    ("header", "parent"),
    [
        pytest.param(f"Traceparent: 00-{TRACE}-{CLIENT}-01", CLIENT, id="sampled"),
        pytest.param(f"Traceparent: 00-{TRACE}-{CLIENT}-00", None, id="unsampled"),
        pytest.param("X-None: 1", "", id="no trace"),
        pytest.param(f"Traceparent: 00-{TRACE}-{'0' * 16}-00", "", id="malformed: there is no trace"),
    ],
)
@pytest.mark.parametrize("mints", [False, True])
def test_on_a_request_hangs_where_its_client_wanted_it(
    monkeypatch: pytest.MonkeyPatch, header: str, parent: str | None, mints: bool
) -> None:
    """And where the engine was told of a span, the exported one is that: the engine's spans are below it."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(mints=mints)
    walk.settlement.sampling = SpanSampling(1.0, walk.settlement.random_hex)
    walk.client().send(post({"stream": True}, header))
    play(walk)

    (span,) = [account.own_span for account in walk.accounts]
    assert (None if span is None else span.parent_id) == parent
    told = walk.engine.taken.partition(b"traceparent: 00-")[2][:49].decode()
    assert bool(told) == mints
    if span is not None and mints:
        assert told == f"{span.trace_id}-{span.span_id}"
