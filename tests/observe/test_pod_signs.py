"""A reading holds what the page shows, lane by lane, and nothing where the engine states nothing."""

from math import exp

import pytest

from sidecar.ledger.account import Reason, Source
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import EVENT_LOOP_LAG_SECONDS, INTER_TOKEN_BUCKETS
from sidecar.metrics.registry import Metrics
from sidecar.observe.evidence import Inside
from sidecar.observe.pod_signs import PodReader
from sidecar.pod.reading import LaneCounts, Reading


INSIDE = Inside(silent_seconds=3.0, excused_seconds=1.0, waiting=4, streaming=5, unseen_seconds=2.0)


def page() -> Metrics:
    return Metrics(lanes=["chat", "rag"], prompt_buckets=["0-512"], models=["llama", "qwen"])


def test_an_empty_page_is_a_reading_of_nothing() -> None:
    found = PodReader(page()).read(7.0, INSIDE, long_prompts=False)

    assert found == Reading(at=7.0, silent_seconds=3.0, excused_seconds=1.0, waiting=4, streaming=5, unseen_seconds=2.0)


def test_a_reading_says_whether_unusually_long_prompts_were_in_the_engine() -> None:
    assert PodReader(page()).read(7.0, INSIDE, long_prompts=True).long_prompts


def test_the_engines_numbers_are_those_of_the_page() -> None:
    metrics = page()
    reader = PodReader(metrics)
    for gauge, value in (
        (c.ENGINE_UP, 0.0),
        (c.ENGINE_KV_CACHE_USAGE_RATIO, 0.25),
        (c.ENGINE_REQUESTS_WAITING, 2.0),
        (c.ENGINE_REQUESTS_RUNNING, 3.0),
    ):
        metrics.gauge(gauge).child().set(value)
    metrics.counter(c.ENGINE_PREEMPTIONS_TOTAL).child().inc(4)
    metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc(5)
    metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL).child().inc(6)
    metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(0.5)
    metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(0.25)
    found = reader.read(7.0, INSIDE, long_prompts=False)

    assert (found.engine_up, found.kv_usage, found.engine_waiting, found.engine_running) == (False, 0.25, 2.0, 3.0)
    assert (found.preemptions, found.restarts, found.stalled_seconds, reader.lags) == (4.0, 5.0, 6.0, (0.75, 2))


def test_each_number_of_a_lane_is_summed_over_models() -> None:
    metrics = page()
    reader = PodReader(metrics)
    for model, weight in (("llama", 1), ("qwen", 10)):
        metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child(model, "chat").inc(1 * weight)
        metrics.counter(c.RECEIVED_MEASURED_REQUESTS_TOTAL).child(model, "chat").inc(2 * weight)
        metrics.counter(c.RECEIVED_PROMPT_TOKENS_TOTAL).child(model, "chat").inc(3 * weight)
        metrics.histogram(c.PROMPT_TOKENS).child(model, "chat").observe(4 * weight)
        metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child(model, "chat").inc(5 * weight)
        metrics.histogram(c.OUTPUT_TOKENS).child(model, "chat").observe(6 * weight)
        metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child(model, "chat", "0-512").observe(0.1)
    metrics.histogram(c.STREAM_EVENTS_PER_READ).child("chat").observe(7)
    metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child("llama", "rag").inc(8)
    lanes = reader.read(7.0, INSIDE, long_prompts=False).lanes

    assert lanes["chat"] == LaneCounts(
        arrivals=11,
        measured=22,
        received_tokens=33,
        answered=2,
        prompt_tokens=44,
        cached_tokens=55,
        outputs=2,
        output_tokens=66,
        reads=1,
        events=7,
        streams=2,
    )
    assert lanes["rag"] == LaneCounts(arrivals=8)


def test_gaps_are_told_by_their_sum_and_by_that_of_their_logarithms() -> None:
    """To the width of a bucket: 15 to 20 % in the range of gaps."""
    metrics = page()
    reader = PodReader(metrics)
    gaps = metrics.histogram(c.INTER_TOKEN_SECONDS).child("llama", "chat")
    for seconds in (*[0.022] * 97, 5.0, 0.0, 20.0):
        gaps.observe(seconds)
    counts = reader.read(7.0, INSIDE, long_prompts=False).lanes["chat"]

    assert counts.gaps == 100.0
    assert counts.gap_seconds == pytest.approx(27.134)
    assert INTER_TOKEN_BUCKETS[0] * exp(counts.gap_logs / counts.gaps) == pytest.approx(0.022, rel=0.2)


def test_answers_with_phases_of_the_engine_are_told_from_those_without() -> None:
    metrics = page()
    reader = PodReader(metrics)
    family = metrics.counter(c.PHASE_ATTRIBUTION_TOTAL)
    family.child("chat", Source.ENGINE, Reason.IN_BAND).inc(1)
    family.child("rag", Source.DERIVED, Reason.LATE_REPORT).inc(2)
    family.child("chat", Source.ESTIMATED, Reason.ESTIMATED).inc(4)
    family.child("chat", "none", Reason.NO_REPORT).inc(8)
    metrics.counter(c.PREFILL_OWN_SECONDS_TOTAL).child("llama").inc(0.5)
    metrics.counter(c.PREFILL_OWN_SECONDS_TOTAL).child("qwen").inc(0.25)
    metrics.counter(c.PREFILL_EXPECTED_SECONDS_TOTAL).child("llama").inc(0.125)
    found = reader.read(7.0, INSIDE, long_prompts=False)

    assert (found.reported, found.unreported) == (3.0, 12.0)
    assert (found.own_seconds, found.expected_seconds) == (0.75, 0.125)


def test_a_stalled_engine_is_not_down() -> None:
    """Its silence is a sign of its own; and when it goes on, it has not restarted."""
    metrics = page()
    metrics.gauge(c.ENGINE_UP).child().set(0.0)
    metrics.gauge(c.ENGINE_STALLED).child().set(1.0)

    assert PodReader(metrics).read(7.0, INSIDE, long_prompts=False).engine_up is True
