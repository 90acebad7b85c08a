"""Reports that come after the stream settle their request: by the span minted for it, or by the id of its answer."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from sidecar.engines.kind import Wire
from sidecar.engines.kinds import KINDS
from sidecar.engines.vllm import VLLM
from sidecar.ledger.account import Phase, Reason
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport, KeyedReport, response_key, span_key
from sidecar.objectives.objective import Objective
from sidecar.observe import settlement as settlement_module
from sidecar.observe.settlement import SPAN_KEPT_SECONDS
from sidecar.timeline.outcome import Outcome
from tests.support.vllm_stream import DONE, STREAM, TOKEN, chunk, play, post
from tests.support.walk import OBJECTIVES, Walk


class Spanning(VLLM):
    """A vLLM that reports by spans."""

    reads_spans = True
    late_report_seconds = 5.0


def test_a_report_may_come_seconds_after_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request counts as ended at once; its phases are recorded when the report comes with the span minted for it."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    walk.client().send(post({"stream": True}))
    assert b"traceparent: 00-%032x-%016x-01\r\n" % (1, 2) in walk.engine.taken
    play(walk, usage=False)
    assert walk.value("llm_requests_total", outcome="ok") == 1
    assert walk.accounts == []

    walk.settlement.reported(KeyedReport((span_key(f"{2:016x}"),), EngineReport(0.1, 0.2, 0.2)))

    (account,) = walk.accounts
    assert account.ledger is not None
    assert account.ledger.reason is Reason.LATE_REPORT
    assert walk.value("llm_phase_attribution_total", source="engine", reason="late_report") == 1


def test_the_clients_trace_is_continued_and_sampled_towards_the_engine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace id stays, the sidecar's span is inserted, and a trace that is not sampled becomes no exemplar."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(mints=True)
    trace = "0af7651916cd43dd8448eb211c80319c"

    walk.client().send(post({"stream": True}, f"Traceparent: 00-{trace}-b7ad6b7169203331-00", "Tracestate: a=b"))
    play(walk)

    assert b"Tracestate: a=b\r\n" in walk.engine.taken
    assert b"traceparent: 00-%s-%016x-01\r\n" % (trace.encode(), 1) in walk.engine.taken
    assert walk.engine.taken.lower().count(b"traceparent") == 1
    assert walk.accounts[0].trace_id is None


def test_a_word_may_find_its_request_by_the_id_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Needed where no span was minted, or where a hop in between made spans of its own."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False)
    walk.settlement.listens = True
    walk.client().send(post({"stream": True}))
    walk.engine.send(STREAM + chunk(TOKEN.replace(b"{", b'{"id":"chatcmpl-7",', 1)) + chunk(DONE) + b"0\r\n\r\n")

    walk.settlement.reported(KeyedReport((response_key("chatcmpl-7"),), EngineReport(0.0, 0.0, 0.0)))

    assert [account.ledger.reason for account in walk.accounts if account.ledger] == [Reason.LATE_REPORT]


class Fronted(Spanning):
    """An engine with a router in front of it, whose answers state the router's wait, and queue and prefill as one number."""

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport:  # noqa: ARG002  the interface
        return EngineReport(merged=True, merged_seconds=0.35, parts=(StatedPart(Part.ROUTER, 0.05),))


@pytest.mark.parametrize("span_first", [False, True])
def test_a_late_report_of_both_phases_together_waits_for_the_span_that_tells_them_apart(
    span_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dynamo's request trace states both as one, and comes seconds before the engine's own span. Where spans have come it settles nothing alone."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    merged = EngineReport(merged=True, merged_seconds=0.4, parts=(StatedPart(Part.ROUTER, 0.01),))
    reports = [merged, EngineReport(0.1, 0.2, 0.2)]
    for turn in range(2):
        walk.client().send(post({"stream": True}))
        play(walk, usage=False)
        key = (span_key(f"{2 + 2 * turn:016x}"),)
        for number, report in enumerate(reversed(reports) if span_first else reports):
            if turn == 0 and report is merged:
                continue  # the first one shows that spans come
            walk.settlement._span_reported(KeyedReport(key, report, part=str(number)))

    first, second = walk.accounts
    assert first.ledger is not None
    assert second.ledger is not None
    queues = [share.seconds for ledger in (first.ledger, second.ledger) for share in ledger.shares[:1]]
    assert second.ledger.reason is Reason.LATE_REPORT
    assert queues == pytest.approx([0.1, 0.1 if span_first else 0.11])


def test_a_span_that_splits_nothing_leaves_the_report_of_both_phases_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router's wait alone, or a worker that made too few tokens: what the server states of both phases still bounds the estimate."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    for turn in range(2):
        walk.client().send(post({"stream": True}))
        play(walk, usage=False)
        key = (span_key(f"{2 + 2 * turn:016x}"),)
        if turn == 1:
            walk.settlement.reported(KeyedReport(key, EngineReport(merged=True, merged_seconds=0.4)))
        said = EngineReport(0.1, 0.2, 0.2) if turn == 0 else EngineReport(parts=(StatedPart(Part.ROUTER, 0.01),))
        walk.settlement._span_reported(KeyedReport(key, said, part="a"))
        walk.clock.later(6)
        walk.settlement.expire(walk.clock.now)

    assert [account.ledger and account.ledger.reason for account in walk.accounts] == [
        Reason.LATE_REPORT,
        Reason.ENGINE_MERGES_PHASES,
    ]


def test_where_no_span_comes_the_late_report_of_both_phases_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request waits in vain for its span; the next one does not."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    settled = []
    for turn in range(3):
        walk.client().send(post({"stream": True}))
        play(walk, usage=False)
        key = (span_key(f"{2 + 2 * turn:016x}"),)
        report = EngineReport(0.1, 0.2, 0.2) if turn == 0 else EngineReport(merged=True, merged_seconds=0.4)
        if turn == 0:
            walk.settlement._span_reported(KeyedReport(key, report, part="a"))
        else:
            walk.settlement.reported(KeyedReport(key, report))
        settled.append(len(walk.accounts))
        walk.clock.later(6)
        walk.settlement.expire(walk.clock.now)
        settled.append(len(walk.accounts))

    assert settled == [1, 1, 1, 2, 3, 3]


def test_times_that_do_not_fit_into_their_request_are_counted_and_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A histogram's sum is spoilt for good by one such number."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    for turn, times in enumerate(
        (
            {"kv_transfer_seconds": 50.0},
            {"reasoning_seconds": 99_999.0},
            {"kv_transfer_seconds": 0.05, "reasoning_seconds": 0.1},
        )
    ):
        walk.client().send(post({"stream": True}))
        play(walk, usage=False)
        report = replace(EngineReport(0.1, 0.2, 0.2), **times)
        walk.settlement.reported(KeyedReport((span_key(f"{2 + 2 * turn:016x}"),), report))

    assert [(account.kv_transfer_seconds, account.reasoning_seconds) for account in walk.accounts] == [
        (None, None),
        (None, None),
        (0.05, 0.1),
    ]
    assert walk.value("llm_sidecar_dropped_total", reason="not_a_duration") == 2


def test_a_refused_report_states_no_times_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    walk.client().send(post({"stream": True}))
    play(walk, usage=False)
    report = EngineReport(9.0, 9.0, 0.2, kv_transfer_seconds=0.01, reasoning_seconds=0.1)
    walk.settlement.reported(KeyedReport((span_key(f"{2:016x}"),), report))

    (account,) = walk.accounts
    assert account.ledger is not None
    assert account.ledger.reason is Reason.REPORT_EXCEEDS_WIRE
    assert (account.kv_transfer_seconds, account.reasoning_seconds) == (None, None)


def test_the_span_of_a_request_that_its_client_left_is_no_unmatched_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standing ticket said that all requests were not measured whole."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True)
    client = walk.client()
    client.send(post({"stream": True}))
    walk.engine.send(STREAM + chunk(TOKEN))
    client.lose()
    walk.settlement.reported(KeyedReport((span_key(f"{2:016x}"),), EngineReport(0.1, 0.2, 0.2)))
    walk.clock.later(60)
    walk.settlement.expire(walk.clock.now)

    assert [account.outcome for account in walk.accounts] == [Outcome.CLIENT_CANCELLED]
    assert walk.value("llm_sidecar_dropped_total", reason="report_unneeded") == 1
    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == 0


def test_the_routers_wait_is_a_part_of_the_queue_before_the_engines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer states the one, the engine's span the other. Where no span comes, nothing is split and no part is told."""
    monkeypatch.setitem(KINDS, "vllm", Fronted())
    walk = Walk(include_usage=False, mints=True)
    for _ in range(2):
        walk.client().send(post({"stream": True}))
        play(walk, usage=False)

    walk.settlement.reported(KeyedReport((span_key(f"{2:016x}"),), EngineReport(0.1, 0.2, 0.2)))
    walk.clock.now += 60.0
    walk.settlement.expire(walk.clock.now)

    joined, alone = walk.accounts
    assert joined.ledger is not None
    assert alone.ledger is not None
    assert {share.phase: round(share.seconds, 9) for share in joined.ledger.shares}[Phase.QUEUE] == 0.15
    assert [(part.phase, part.part, round(part.seconds, 9)) for part in joined.parts] == [
        (Phase.QUEUE, "router", 0.05),
        (Phase.QUEUE, "rest", 0.1),
    ]
    assert (alone.ledger.reason, alone.parts) == (Reason.ENGINE_MERGES_PHASES, ())


CLIENTS_TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_burst_is_forgotten_half_a_minute_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the spans minted for it lie between the pages of the heap for hours."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(mints=True)
    traced = f"Traceparent: 00-{CLIENTS_TRACE}-b7ad6b7169203331-01"
    for headers in ((), (traced,), ()):
        walk.client().send(post({"stream": True}, *headers))
        play(walk)
    settlement, known = walk.settlement, []

    for seconds in (SPAN_KEPT_SECONDS / 3, SPAN_KEPT_SECONDS):
        walk.clock.later(seconds)
        settlement.expire(walk.clock.now)
        known.append((len(settlement.minted), list(settlement.sampled_traces)))

    assert known == [(3, [CLIENTS_TRACE]), (0, [])]


def test_a_request_that_runs_for_long_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is its trace, which another request had too."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(mints=True)
    for _ in range(2):
        walk.client().send(post({"stream": True}, f"Traceparent: 00-{CLIENTS_TRACE}-b7ad6b7169203331-01"))
    play(walk)  # the answer of the second one
    walk.clock.later(10 * SPAN_KEPT_SECONDS)
    walk.settlement.expire(walk.clock.now)

    assert len(walk.settlement.minted) == 1
    assert CLIENTS_TRACE in walk.settlement.sampled_traces


def test_in_a_rush_the_oldest_ends_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound by number holds before the one by time, and little is forgotten in one turn."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    monkeypatch.setattr(settlement_module, "MAX_MINTED", 4)
    monkeypatch.setattr(settlement_module, "FORGOTTEN_AT_ONCE", 3)
    walk = Walk(mints=True)
    for _ in range(6):
        walk.client().send(post({"stream": True}))
        play(walk)
    assert len(walk.settlement.minted) == 4
    walk.clock.later(SPAN_KEPT_SECONDS)
    left = [(walk.settlement.expire(walk.clock.now), len(walk.settlement.minted)) for _ in range(2)]

    assert left == [(True, 1), (False, 0)]


def test_each_closed_request_is_one_row_with_the_objectives_that_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow answer is closed when its report comes, a refused one at once; both verdicts stand in their rows."""
    monkeypatch.setitem(KINDS, "vllm", Spanning())
    walk = Walk(include_usage=False, mints=True, objectives=OBJECTIVES)
    ring = walk.instruments.accounts
    walk.client().send(post({"stream": True}))
    walk.clock.later(2.0)
    play(walk, usage=False)
    walk.client().send(post({"stream": True}))
    walk.clock.later(0.5)
    walk.engine.send(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")
    assert [ring.row(number).outcome for number in range(ring.closed)] == [Outcome.ENGINE_ERROR]

    walk.settlement.reported(KeyedReport((span_key(f"{2:016x}"),), EngineReport(1.5, 0.25, 0.0)))

    failed, slow = (ring.row(number) for number in range(ring.closed))
    assert (failed.missed, failed.phases, failed.whole_seconds) == ((Objective.TTFT,), {}, 0.5)
    assert (slow.missed, slow.phases[Phase.QUEUE], slow.outcome) == ((Objective.TTFT,), 1.5, Outcome.OK)
    assert len(walk.accounts) == 2


@pytest.mark.reaches_in
def test_a_row_that_cannot_be_kept_is_counted_and_the_account_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk()

    def broken(*_told: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(walk.instruments.accounts, "add", broken)
    walk.client().send(post({"stream": True}))
    play(walk)

    assert len(walk.accounts) == 1
    assert walk.value("llm_sidecar_dropped_total", reason="observer_error") == 1
