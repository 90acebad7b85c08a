"""Every engine's spans through the whole sidecar, as its source makes them and damaged: right phases or a refusal."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.engines.engine import Engine
from sidecar.engines.kinds import KINDS
from sidecar.engines.span import Span
from sidecar.ledger.account import Ledger, Reason
from tests.support.examples import examples
from tests.support.proofs import proofs
from tests.support.scenario import phases
from tests.support.spans import Fixture, fixture, fixtures
from tests.support.vllm_stream import play, post
from tests.support.walk import Walk


ENGINES = {name: name.split("-")[0] for name in fixtures()} | {
    "tensorrt-llm": "tensorrt_llm",
    "tensorrt-llm-disaggregated-generation": "tensorrt_llm",
}
SPLITTING = [name for name in fixtures() if fixture(name).says["prefill"] is not None]
SEVERAL = [name for name in fixtures() if len(fixture(name).spans) > 1]


class SpanHarness:
    """A walk with one request that has ended, and the span that was minted for it."""

    def __init__(self, name: str) -> None:
        self.fixture: Fixture = fixture(name)
        self.walk = Walk(engine=Engine(ENGINES[name], ["tiny"]), include_usage=False, mints=True)
        self.minted: list[str] = []
        self.ask()

    def ask(self, trace: str | None = None) -> int:
        """Play a whole request on a connection of its own; returns its number."""
        fields = [f"X-Team: {len(self.minted)}"]
        if trace is not None:
            fields.append(f"traceparent: 00-{trace}-b7ad6b7169203331-01")
        self.walk.client().send(post({"stream": True}, *fields))
        self.minted.append(self.walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode())
        play(self.walk, usage=False)
        return len(self.minted) - 1

    def spans(self, request: int = 0) -> list[Span]:
        """The request's spans; all ids but the minted one are unique to it."""
        minted = self.minted[request]
        trace = self.walk.settlement.minted[minted].trace_id
        return [
            replace(
                span,
                span_id=f"{request + 16:02x}{span.span_id[2:]}",
                parent_span_id=span.parent_span_id
                if span.parent_span_id == minted
                else f"{request + 16:02x}{span.parent_span_id[2:]}",
                attributes={
                    name: f"{value}-{request}" if name in {"rid", "gen_ai.request.id"} else value
                    for name, value in span.attributes.items()
                },
            )
            for span in self.fixture.under(minted, trace)
        ]

    def hear(self, spans: Sequence[Span], seconds: int = 7) -> None:
        """The spans come, and some time passes: by default the hold is over then, the deadline is not."""
        for span in spans:
            self.walk.settlement.span(span)
        self.pass_by(seconds)

    def pass_by(self, seconds: int) -> None:
        for _ in range(seconds):
            self.walk.settlement.expire(self.walk.clock.later(1))

    @property
    def ledgers(self) -> list[Ledger]:
        return [account.ledger for account in self.walk.accounts if account.ledger is not None]

    def dropped(self, reason: str) -> float:
        return self.walk.value("llm_sidecar_dropped_total", reason=reason)


def slower(span: Span, request: int) -> Span:
    """The same span, of a request that was queued for `request` milliseconds longer."""
    attributes = dict(span.attributes)
    for name in ("gen_ai.latency.time_in_queue", "gen_ai.latency.time_to_first_token", "gen_ai.latency.e2e"):
        if name in attributes:
            attributes[name] = float(attributes[name]) + request / 1000
    if "queue_time" in attributes:
        attributes["queue_time"] = f"{100 + request}ms"
    began = span.start_unix_nano - (request * 1_000_000 if span.name == "prefill_waiting" else 0)
    return replace(span, attributes=attributes, start_unix_nano=began)


# --- as the source makes them ------------------------------------------------------------------------------------------------


@pytest.mark.proves("dynamo", "spans")
@pytest.mark.proves("sglang", "spans")
@pytest.mark.proves("tensorrt_llm", "spans")
@pytest.mark.proves("tgi", "spans")
@pytest.mark.proves("vllm", "spans")
@pytest.mark.parametrize("name", SPLITTING)
def test_each_engines_spans_split_the_request(name: str) -> None:
    """Queue and prefill are as the fixture says, and the five phases add up."""
    harness = SpanHarness(name)
    harness.hear(harness.spans())

    (ledger,) = harness.ledgers
    found = {phase: round(value / 1000, 9) for phase, (value, _) in phases(ledger).items()}
    stated = {
        phase: value for phase, value in harness.fixture.says.items() if value is not None and phase != "kv_transfer"
    }
    assert ledger.reason is Reason.LATE_REPORT
    assert {phase: found[phase] for phase in stated} == stated
    assert round(sum(found.values()), 9) == round(ledger.e2e_seconds, 9)
    assert harness.walk.accounts[0].kv_transfer_seconds == harness.fixture.says.get("kv_transfer")


@pytest.mark.parametrize("name", SPLITTING)
def test_their_order_does_not_matter(name: str) -> None:
    """Several processes export, each in batches of its own. Only within a process do parts come before their parent."""
    harness = SpanHarness(name)
    first, rest = harness.spans()[-1:], harness.spans()[:-1]
    harness.hear([*first, *rest])

    assert [ledger.reason for ledger in harness.ledgers] == [Reason.LATE_REPORT]


def test_an_engine_that_only_received_the_cache_does_not_split_the_ttft() -> None:
    """Its first token is not the prompt's: the split is refused and counted, the transfer is recorded."""
    harness = SpanHarness("tensorrt-llm-disaggregated-generation")
    harness.hear(harness.spans())

    assert [ledger.reason for ledger in harness.ledgers] == [Reason.REPORT_INCOMPLETE]
    assert harness.walk.accounts[0].kv_transfer_seconds == 0.02


@pytest.mark.parametrize("name", SPLITTING)
def test_forty_requests_of_one_trace_each_get_their_own(name: str) -> None:
    """Ten at a time end before any span comes; then all their spans come, mixed. Each engine queue was 1 ms longer."""
    harness = SpanHarness(name)
    harness.hear(harness.spans())
    for _ in range(4):
        requests = [harness.ask("0af7651916cd43dd8448eb211c80319c") for _ in range(10)]
        batches = [[slower(span, request) for span in harness.spans(request)] for request in requests]
        harness.hear([batch[at] for at in range(len(batches[0])) for batch in batches])

    queues = [phases(ledger)["queue"][0] for ledger in harness.ledgers]
    assert {ledger.reason for ledger in harness.ledgers} == {Reason.LATE_REPORT}
    assert sorted(queues) == [100 + request for request in range(41)]
    # The order is that of the reports, not of the requests: each account has its own queue.
    assert [int(account.notes["header.x-team"]) for account in harness.walk.accounts] == [
        queue - 100 for queue in queues
    ]


@pytest.mark.parametrize("name", SPLITTING)
def test_what_comes_twice_is_used_once(name: str) -> None:
    """An exporter that did not get the sidecar's answer sends its batch again."""
    harness = SpanHarness(name)
    harness.hear([*harness.spans(), *harness.spans()], seconds=4)
    harness.hear(harness.spans(), seconds=30)

    assert [ledger.reason for ledger in harness.ledgers] == [Reason.LATE_REPORT]


@pytest.mark.parametrize("name", SPLITTING)
def test_spans_without_a_request_join_none(name: str) -> None:
    """Another client uses the engine, too: in another trace, under a span of its own."""
    harness = SpanHarness(name)
    strangers = [
        replace(
            span,
            trace_id="f" * 32,
            parent_span_id="f" * 16 if span.parent_span_id == harness.minted[0] else span.parent_span_id,
        )
        for span in harness.spans()
    ]
    harness.hear(strangers, seconds=40)

    assert [ledger.reason for ledger in harness.ledgers] == [Reason.NO_REPORT]
    assert harness.dropped("report_unmatched") == 1


@pytest.mark.parametrize("name", SEVERAL)
def test_a_part_that_never_comes_leaves_the_request_without_a_split(name: str) -> None:
    """It has a split if the part states nothing needed. Nothing is raised, and every number is the engine's."""
    for missing in range(len(fixture(name).spans)):
        harness = SpanHarness(name)
        harness.hear([span for at, span in enumerate(harness.spans()) if at != missing], seconds=40)
        (ledger,) = harness.ledgers
        whole = SpanHarness(name)
        whole.hear(whole.spans())
        if ledger.reason is Reason.LATE_REPORT:
            engines = {"queue", "prefill"}
            assert {phase: phases(ledger)[phase] for phase in engines} == {
                phase: phases(whole.ledgers[0])[phase] for phase in engines
            }
        else:
            assert ledger.reason in {Reason.NO_REPORT, Reason.REPORT_INCOMPLETE}


# --- damaged -----------------------------------------------------------------------------------------------------------------

values = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["-1ms", "1h", "µs", "1e3s", "NaN"])
)
instants = st.integers(-(2**63), 2**64)
ids = st.text("0123456789abcdef", max_size=16)


@st.composite
def damage(draw: st.DrawFn, spans: list[Span]) -> list[Span]:
    """Change some fields of some spans, and leave some spans out or send them twice."""
    found = []
    for span in spans:
        if draw(st.integers(0, 9)) == 0:
            continue
        attributes = dict(span.attributes)
        for name in list(attributes):
            what = draw(st.integers(0, 11))
            if what == 0:
                del attributes[name]
            elif what == 1:
                attributes[name] = draw(values)
        changed = replace(span, attributes=attributes)
        if draw(st.integers(0, 9)) == 0:
            changed = replace(changed, start_unix_nano=draw(instants), end_unix_nano=draw(instants))
        if draw(st.integers(0, 19)) == 0:
            changed = replace(changed, span_id=draw(ids), parent_span_id=draw(ids), name=draw(st.text(max_size=8)))
        found += [changed] * draw(st.integers(1, 2))
    return found


@pytest.mark.parametrize("name", fixtures())
@settings(max_examples=examples(40))
@given(data=st.data())
def test_damaged_spans_give_a_true_number_or_a_reason(name: str, data: st.DataObject) -> None:
    """Nothing is raised, the request is settled once, its phases add up, and none is negative or above the whole."""
    harness = SpanHarness(name)
    harness.hear(data.draw(damage(harness.spans())), seconds=40)

    (ledger,) = harness.ledgers
    assert sum(share.seconds for share in ledger.shares) == pytest.approx(ledger.e2e_seconds)
    assert all(-1e-9 <= share.seconds <= ledger.e2e_seconds + 1e-9 for share in ledger.shares)
    assert harness.dropped("observer_error") == 0


@pytest.mark.parametrize("name", fixtures())
def test_each_fixture_says_which_file_it_follows(name: str) -> None:
    """Each names an engine that has a file here, a version, and files of the engine's source."""
    found = fixture(name)

    assert ENGINES[name] in KINDS
    assert any(letter.isdigit() for letter in found.engine)
    assert "/" in found.follows
    assert ENGINES[name] in {proof.kind for proof in proofs() if "test_every_engines_spans" in proof.test}
    assert json.dumps(found.says)
