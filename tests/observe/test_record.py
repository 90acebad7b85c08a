"""The numbers that a request adds, by its outcome: each goes to the population that its HELP states."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sidecar.ledger.account import Account, Phase, PhasePart
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter, Histogram
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.record import Recorder
from sidecar.observe.slo_counters import Slo
from sidecar.timeline.events import Usage
from sidecar.timeline.finish import Finish
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome, Stage


MARKS = Marks(
    accepted_at=100.0,
    received_at=100.25,
    first_token_at=101.25,
    last_token_at=103.25,
    ended_at=103.25,
    flushed_at=103.5,
    paused_seconds=0.5,
    output_events=5,
    choices=1,
    usage=Usage(prompt_tokens=1000, cached_tokens=600, completion_tokens=5, reasoning_tokens=2),
)
LABELS = RequestLabels("llama", "chat", "512-4k")
REPORT = EngineReport(queue_seconds=0.25, prefill_seconds=0.5, decode_seconds=2.0)


class RecorderHarness:
    """A registry, its recorder, and helpers that read what was recorded."""

    def __init__(self, *, by_bucket: bool = False) -> None:
        self.metrics = Metrics(
            lanes=["chat"], prompt_buckets=["512-4k"], models=["llama"], inter_token_by_prompt_bucket=by_bucket
        )
        self.recorder = Recorder(self.metrics)

    def close(self, account: Account, at_unix: float | None = None) -> None:
        """The request ends, and its ledger closes at once."""
        self.recorder.ended(account, at_unix)
        self.recorder.settled(account, at_unix)

    def count(self, metric: Counter, *labels: str) -> float:
        return self.metrics.counter(metric).child(*labels).value

    def seen(self, metric: Histogram) -> dict[tuple[str, ...], tuple[int, float]]:
        """Labels to (count, sum) of all children with an observation."""
        children = self.metrics.histogram(metric).children
        return {labels: (child.count, child.sum) for labels, child in children.items() if child.count}


def account(
    outcome: Outcome = Outcome.OK,
    marks: Marks = MARKS,
    report: EngineReport | None = REPORT,
    *,
    streaming: bool = True,
    cancelled_in: Stage | None = None,
    trace_id: str | None = None,
) -> Account:
    ledger = close_ledger(marks, streaming=streaming, report=report) if outcome is Outcome.OK else None
    return Account(LABELS, streaming, outcome, marks, ledger, cancelled_in, trace_id)


def test_an_answer_that_was_held_back_is_counted_and_has_no_time_per_token() -> None:
    """All 60 tokens came in one event. One that ended badly is not in the population, nor is one that was no stream."""
    harness = RecorderHarness()
    usage = Usage(prompt_tokens=1000, completion_tokens=60)
    held = replace(MARKS, last_token_at=MARKS.first_token_at, output_events=1, paused_seconds=0.0, usage=usage)

    harness.close(account(marks=held, report=None))
    harness.close(account(Outcome.ENGINE_TRUNCATED, held))
    harness.close(account(marks=held, streaming=False))
    harness.close(account())

    assert harness.count(c.ANSWERS_HELD_BACK_TOTAL, "llama", "chat") == 1
    assert harness.seen(c.TIME_PER_OUTPUT_TOKEN_SECONDS) == {("llama", "chat"): (1, 0.5)}
    assert harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS)["llama", "chat", "512-4k"][0] == 3


def test_answers_are_counted_by_finish_reason_and_empty_ones_again() -> None:
    """One that failed is told by its outcome alone. The usual reasons are there from the start, so that no first one is missed."""
    harness = RecorderHarness()
    cut = replace(account(), finish=Finish.LENGTH)

    harness.close(replace(cut, is_empty=True))
    harness.close(cut)
    harness.close(replace(cut, outcome=Outcome.ENGINE_TRUNCATED, is_empty=True))
    harness.close(account())

    told = {labels: child.value for labels, child in harness.metrics.counter(c.ANSWERS_TOTAL).children.items()}
    who = ("llama", "chat")
    assert {labels[2]: value for labels, value in told.items() if labels[:2] == who} == {
        "stop": 0,
        "repetition": 0,
        "length": 2,
        "tool_calls": 0,
        "unknown": 1,
    }
    assert harness.count(c.EMPTY_ANSWERS_TOTAL, *who) == 1


def test_a_streamed_request_owes_everything() -> None:
    """Received at .25, first token 1 s later, five tokens in 2 s, flushed 0.25 s after the last."""
    harness = RecorderHarness()

    harness.close(account())

    who, bucket = ("llama", "chat"), ("llama", "chat", "512-4k")
    assert harness.count(c.REQUESTS_TOTAL, *bucket, "ok") == 1
    assert harness.seen(c.REQUEST_UPLOAD_SECONDS) == {("chat",): (1, 0.25)}
    assert {bucket: (1, 1.0)} == harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS)
    assert {who: (1, 0.5)} == harness.seen(c.TIME_PER_OUTPUT_TOKEN_SECONDS)
    assert {(*bucket, "true"): (1, 3.25)} == harness.seen(c.REQUEST_SECONDS)
    assert {
        (*bucket, "true", "queue", "engine"): (1, 0.25),
        (*bucket, "true", "prefill", "engine"): (1, 0.5),
        (*bucket, "true", "first_token", "derived"): (1, 0.25),
        (*bucket, "true", "decode", "engine"): (1, 2.0),
        (*bucket, "true", "stream", "derived"): (1, 0.25),
    } == harness.seen(c.REQUEST_PHASE_SECONDS)
    assert harness.count(c.PHASE_ATTRIBUTION_TOTAL, "chat", "engine", "in_band") == 1
    assert {who: (1, 1000.0)} == harness.seen(c.PROMPT_TOKENS)
    assert {who: (1, 5.0)} == harness.seen(c.OUTPUT_TOKENS)
    assert harness.count(c.CACHED_PROMPT_TOKENS_TOTAL, *who) == 600
    assert harness.count(c.STREAM_PAUSED_SECONDS_TOTAL, "chat") == 0.5


def test_phases_add_up_to_whole_requests_on_the_page() -> None:
    """Over requests with a report, without one, with one that contradicts the wire, and not streamed."""
    harness = RecorderHarness()
    reports = (REPORT, None, EngineReport(5.0, 5.0, 1.0), EngineReport(0.25, None, None))

    for report in reports:
        for streaming in (True, False):
            harness.close(account(report=report, streaming=streaming))

    phases = sum(total for _, total in harness.seen(c.REQUEST_PHASE_SECONDS).values())
    assert pytest.approx(phases, abs=1e-9) == 8 * 3.25
    assert pytest.approx(sum(total for _, total in harness.seen(c.REQUEST_SECONDS).values()), abs=1e-9) == 8 * 3.25


def test_without_a_report_no_phase_is_invented() -> None:
    """Queue, prefill and first token are absent, not zero."""
    harness = RecorderHarness()

    harness.close(account(report=None))

    told = {labels[4] for labels in harness.seen(c.REQUEST_PHASE_SECONDS)}
    assert {Phase.UNATTRIBUTED, Phase.DECODE, Phase.STREAM} == told
    assert harness.count(c.PHASE_ATTRIBUTION_TOTAL, "chat", "none", "no_report") == 1


def test_a_non_streamed_request_is_in_series_of_its_own() -> None:
    """It has no time to first token and no pace, whatever its marks say."""
    harness = RecorderHarness()

    harness.close(account(streaming=False))

    assert {"false"} == {labels[3] for labels in harness.seen(c.REQUEST_PHASE_SECONDS)}
    assert harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS) == {}
    assert harness.seen(c.TIME_PER_OUTPUT_TOKEN_SECONDS) == {}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_a_stream_that_ended_badly_owes_its_first_token_and_no_more(outcome: Outcome) -> None:
    """Its TTFT has happened; its phases, pace and tokens would describe a part of a request."""
    harness = RecorderHarness()

    harness.close(account(outcome, cancelled_in=Stage.STREAMING))

    assert harness.count(c.REQUESTS_TOTAL, "llama", "chat", "512-4k", outcome) == 1
    assert harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS) == {("llama", "chat", "512-4k"): (1, 1.0)}
    for metric in (c.REQUEST_PHASE_SECONDS, c.REQUEST_SECONDS, c.TIME_PER_OUTPUT_TOKEN_SECONDS, c.OUTPUT_TOKENS):
        assert harness.seen(metric) == {}
    cancels = sum(harness.count(c.CLIENT_CANCELS_TOTAL, "llama", "chat", stage) for stage in Stage)
    assert (outcome is Outcome.CLIENT_CANCELLED) == cancels


def test_a_client_that_left_in_the_queue_has_a_stage_and_no_latency() -> None:
    harness = RecorderHarness()
    marks = Marks(accepted_at=1.0, received_at=1.5)

    harness.close(account(Outcome.CLIENT_CANCELLED, marks, cancelled_in=Stage.WAITING))

    assert harness.count(c.CLIENT_CANCELS_TOTAL, "llama", "chat", "waiting") == 1
    assert harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS) == {}
    assert harness.seen(c.REQUEST_UPLOAD_SECONDS) == {("chat",): (1, 0.5)}


@pytest.mark.parametrize(
    "marks",
    [
        replace(MARKS, usage=Usage(completion_tokens=1)),
        replace(MARKS, choices=2),
        replace(MARKS, usage=None),
        replace(MARKS, usage=Usage(prompt_tokens=3)),
    ],
    ids=["one token", "two choices", "no usage", "no completion tokens"],
)
def test_a_pace_that_is_undefined_is_not_written(marks: Marks) -> None:
    harness = RecorderHarness()

    harness.close(account(marks=marks))

    assert harness.seen(c.TIME_PER_OUTPUT_TOKEN_SECONDS) == {}


def test_an_answer_before_the_upload_ended_has_no_time_to_first_token() -> None:
    harness = RecorderHarness()

    harness.close(account(Outcome.ENGINE_ERROR, replace(MARKS, received_at=102.0)))

    assert harness.seen(c.TIME_TO_FIRST_TOKEN_SECONDS) == {}
    assert harness.count(c.DROPPED_TOTAL, "not_a_duration") == 0


def test_a_late_report_settles_later() -> None:
    """The end is on the page at once; the phases, and the total to which they add up, when the ledger closes."""
    harness = RecorderHarness()

    harness.recorder.ended(account())
    assert harness.count(c.REQUESTS_TOTAL, "llama", "chat", "512-4k", "ok") == 1
    assert harness.seen(c.REQUEST_SECONDS) == {}

    harness.recorder.settled(account())
    assert list(harness.seen(c.REQUEST_SECONDS).values()) == [(1, 3.25)]
    assert len(harness.seen(c.REQUEST_PHASE_SECONDS)) == 5


def test_the_transfer_of_the_kv_cache_is_a_metric_of_its_own() -> None:
    """Only if the engine stated it in a report that was accepted; it is a part of another phase."""
    harness = RecorderHarness()

    harness.close(replace(account(), kv_transfer_seconds=0.25))
    harness.close(account())
    harness.close(replace(account(report=EngineReport(9.0, 9.0)), kv_transfer_seconds=9.0))

    assert list(harness.seen(c.KV_TRANSFER_SECONDS).values()) == [(1, 0.25)]


def test_reasoning_and_the_answer_add_up_to_the_output_from_the_first_reasoning_on() -> None:
    """A model that never reasons has no series: some servers state 0 of each answer. A count above the whole is none."""
    harness = RecorderHarness()

    def answers(completion: int, reasoning: int | None, outcome: Outcome = Outcome.OK) -> None:
        usage = Usage(1000, None, completion, reasoning)
        harness.close(account(outcome, replace(MARKS, usage=usage)))

    answers(7, 0)
    answers(7, None)
    assert (harness.seen(c.REASONING_TOKENS), harness.seen(c.ANSWER_TOKENS)) == ({}, {})

    answers(100, 70)
    answers(100, None)
    answers(100, 101)
    answers(100, 50, Outcome.ENGINE_TRUNCATED)
    answers(30, 0)

    who = ("llama", "chat")
    assert harness.seen(c.REASONING_TOKENS) == {who: (2, 70.0)}
    assert harness.seen(c.ANSWER_TOKENS) == {who: (2, 60.0)}


def test_seconds_of_reasoning_are_those_that_the_engine_stated() -> None:
    """Also of an answer that is not streamed, of which the wire knows nothing."""
    harness = RecorderHarness()

    harness.close(replace(account(), reasoning_seconds=2.5))
    harness.close(replace(account(streaming=False), reasoning_seconds=0.5))
    harness.close(account())

    assert harness.seen(c.REASONING_SECONDS) == {("llama", "chat"): (2, 3.0)}


def test_the_parts_of_a_phase_add_up_to_it() -> None:
    """They are seen only of requests whose engine states one."""
    harness = RecorderHarness()
    parts = (PhasePart(Phase.QUEUE, "router", 0.1), PhasePart(Phase.QUEUE, "rest", 0.15))

    harness.close(account())
    assert harness.seen(c.REQUEST_PHASE_PART_SECONDS) == {}
    harness.close(replace(account(), parts=parts))

    found = harness.seen(c.REQUEST_PHASE_PART_SECONDS)
    assert found == {
        ("llama", "chat", "queue", "router"): (1, 0.1),
        ("llama", "chat", "queue", "rest"): (1, 0.15),
    }


def test_a_sampled_trace_becomes_an_exemplar() -> None:
    harness = RecorderHarness()

    harness.close(account(trace_id="d" * 32), at_unix=1_700_000_000.0)

    child = harness.metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child("llama", "chat", "512-4k")
    assert [tuple(exemplar) for exemplar in (child.exemplars or {}).values()] == [("d" * 32, 1.0, 1_700_000_000.0)]


@pytest.mark.parametrize(("by_bucket", "labels"), [(False, ("llama", "chat")), (True, ("llama", "chat", "512-4k"))])
def test_gaps_are_written_as_they_happen(by_bucket: bool, labels: tuple[str, ...]) -> None:
    harness = RecorderHarness(by_bucket=by_bucket)

    observe: Callable[[float], None] = harness.recorder.gaps[LABELS].observe
    observe(0.02)
    observe(0.03)

    assert {labels: (2, 0.05)} == harness.seen(c.INTER_TOKEN_SECONDS)


def test_the_rest_of_the_road_is_counted() -> None:
    harness = RecorderHarness()

    harness.recorder.passthrough(Outcome.OK)
    harness.recorder.failed("engine_connect_failed")
    harness.recorder.dropped("event_too_long", 3)
    harness.recorder.injection("spliced")
    harness.recorder.connected(LABELS, 0.001)
    harness.recorder.per_read[LABELS].observe(2)
    harness.recorder.overhead(0.00002)

    assert harness.count(c.PASSTHROUGH_REQUESTS_TOTAL, "ok") == 1
    assert harness.count(c.FAILURES_TOTAL, "engine_connect_failed") == 1
    assert harness.count(c.DROPPED_TOTAL, "event_too_long") == 3
    assert harness.count(c.USAGE_INJECTION_TOTAL, "spliced") == 1
    assert harness.seen(c.ENGINE_CONNECT_SECONDS) == {("chat",): (1, 0.001)}
    assert harness.seen(c.STREAM_EVENTS_PER_READ) == {("chat",): (1, 2.0)}
    assert harness.seen(c.OVERHEAD_SECONDS) == {(): (1, 0.00002)}


def test_every_counter_that_a_rule_reads_begins_at_zero() -> None:
    """Otherwise the first error of a lane would be no growth. All are there from the first scrape, those of `Slo`
    included; those that only people look at come with the first request of a lane.
    """
    metrics = RecorderHarness().metrics
    aims = Aims(Aim(1.0, 0.99), Aim(0.1, 0.99), Aim(10.0, 0.99))
    Slo(metrics, Objectives({"chat": {"512-4k": aims, "unknown": aims}}))
    metrics.refresh(100.0)

    begun = {family.metric.name for family in metrics.families if family.children}

    counters = {family.metric.name for family in metrics.families if isinstance(family.metric, Counter)}
    engine = {name for name in counters if name.startswith("llm_engine_")}
    elsewhere = {"llm_sidecar_scrapes_total", "llm_sidecar_budget_exceeded_total"}
    elsewhere |= {"llm_sidecar_admin_logins_total", "llm_sidecar_web_config_loads_total"}
    elsewhere |= {"llm_sidecar_admin_hosts_refused_total"}  # by the admin listener
    # where spans are exported
    elsewhere |= {"llm_sidecar_exported_spans_total", "llm_sidecar_exported_spans_ended_total"}
    elsewhere |= {name for name in counters if name.startswith("llm_estimator_")}  # at the first scrape: estimates.py
    used = {c.CACHED_PROMPT_TOKENS_TOTAL, c.STREAM_PAUSED_SECONDS_TOTAL, c.ANSWERS_HELD_BACK_TOTAL}
    used |= {c.UNCACHED_PROMPT_TOKENS_TOTAL, c.RECEIVED_PROMPT_TOKENS_TOTAL, c.RECEIVED_MEASURED_REQUESTS_TOTAL}
    used |= {
        c.ANSWER_PROOFS_TOTAL,
        c.VERIFY_PROBES_TOTAL,
        c.LANES_BY_LENGTH_TOTAL,
        c.UNFINISHED_OUTPUT_TOKENS_TOTAL,
        c.SLO_UNJUDGED_REQUESTS_TOTAL,
        c.GOOD_OUTPUT_TOKENS_TOTAL,
        c.TOKEN_DEADLINES_TOTAL,
        c.TOKEN_DEADLINE_MISSES_TOTAL,
    }
    assert counters - engine - elsewhere - begun == {metric.name for metric in used}
    assert len(metrics.counter(c.REQUESTS_TOTAL).children) == 2 * 10


def test_models_and_lanes_that_are_told_later_begin_at_zero_too() -> None:
    harness = RecorderHarness()

    harness.recorder.admit_models(["mixtral"])
    harness.recorder.admit_lanes(["batch"])

    assert ("mixtral", "batch", "512-4k", "rejected") in harness.metrics.counter(c.REQUESTS_TOTAL).children
    assert harness.count(c.LABEL_OVERFLOW_TOTAL, "model") == 0


def test_a_mistake_in_recording_is_counted_and_goes_no_further() -> None:
    """The mistake: marks that are no instants. Nothing is raised, and both halves of the record count it."""
    harness = RecorderHarness()
    broken = replace(MARKS, received_at="yesterday")  # the mistake under test
    ledger = account().ledger
    assert ledger is not None
    spoiled = replace(ledger, shares=(None,))  # the mistake under test

    harness.close(replace(account(), marks=broken, ledger=spoiled))

    assert harness.count(c.DROPPED_TOTAL, "observer_error") == 2
