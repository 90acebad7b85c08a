"""The catalogue of metrics is closed and bounded, and agrees with the ledger and the relay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Ledger, Reason, Source
from sidecar.ledger.ledger import close_ledger, ledger_of_span
from sidecar.ledger.report import EngineReport, SpanRequest
from sidecar.metrics.catalogue import (
    ATTRIBUTIONS_TOGETHER,
    CATALOGUE,
    OVERFLOWING,
    PHASES_TOGETHER,
    catalogue,
    series_ceiling,
    series_in_use,
)
from sidecar.metrics.declaration import Metric
from sidecar.timeline.events import NO_USAGE, Usage
from sidecar.timeline.marks import Marks


durations = st.floats(0, 1000)
maybe = st.none() | durations


def test_the_default_config_stays_under_its_ceiling_of_series() -> None:
    """Two lanes, six buckets, one model and `other`: at most 25,000 series, under 4,000 in full use."""
    assert 13_000 < series_ceiling(2, 6, 2) < 25_000
    assert 1_000 < series_in_use(2, 6, 2) < 4_000


def test_the_ceiling_grows_with_what_the_config_asks_for() -> None:
    """Inter-token histograms by bucket have six times the series: two histograms of 28 lines, four children each."""
    plain = series_ceiling(2, 6, 2)

    assert plain + 2 * 28 * 4 * 5 == series_ceiling(2, 6, 2, catalogue(inter_token_by_prompt_bucket=True))


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """The rules: prefix, `_total` on counters and nowhere else, no colon, a help text, rising edges, label sets without
    repetition."""
    assert metric.name.startswith("llm_")
    assert ":" not in metric.name
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert (metric.kind == "info") == metric.name.endswith("_info")
    assert metric.help.endswith(".")
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert all(len(label.values) == len(set(label.values)) for label in metric.labels)
    assert all(label.values or (label.told_by and label.most) for label in metric.labels)
    assert {label.name for label in metric.labels} <= {*OVERFLOWING, "build", "profile"}


def test_names_are_given_once() -> None:
    names = [metric.name for metric in CATALOGUE]

    assert sorted(set(names)) == sorted(names)


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[bool, Ledger]:
    """Ledgers of streamed or whole answers, with arbitrary marks and an arbitrary report or none."""
    received_at, first, last, flushed = sorted(draw(st.tuples(durations, durations, durations, durations)))
    got_tokens, streaming = draw(st.booleans()), draw(st.booleans())
    marks = Marks(
        accepted_at=received_at,
        received_at=received_at,
        first_token_at=first if got_tokens else None,
        last_token_at=last if got_tokens else None,
        ended_at=flushed,
        flushed_at=flushed,
        paused_seconds=min(draw(durations), last - first),
        usage=Usage(completion_tokens=draw(st.sampled_from((None, 5, 60)))),
    )
    stated = st.sampled_from((Source.ENGINE, Source.DERIVED))
    report = draw(st.none() | st.builds(EngineReport, maybe, maybe, maybe, stated, stated, st.booleans()))
    missing = (Reason.NO_REPORT, Reason.SHUTDOWN, Reason.TABLE_FULL)
    reason = draw(st.sampled_from(missing if report is None else (Reason.IN_BAND, Reason.LATE_REPORT)))
    ledger = close_ledger(marks, streaming=streaming, report=report, reason=reason)
    assert ledger is not None
    return streaming, ledger


@given(st.tuples(durations, durations).map(sorted), st.builds(EngineReport, maybe, maybe, maybe))
def test_the_ledger_of_a_span_says_nothing_that_is_impossible_either(times: list[float], report: EngineReport) -> None:
    ttft, e2e = times
    ledger = ledger_of_span(SpanRequest(0.0, ttft, e2e, NO_USAGE), report)

    assert {("true", share.phase.value, share.source.value) for share in ledger.shares} <= set(PHASES_TOGETHER)
    assert (ledger.source, ledger.reason.value) in ATTRIBUTIONS_TOGETHER


@given(ledgers())
def test_the_ledger_says_nothing_that_the_catalogue_calls_impossible(drawn: tuple[bool, Ledger]) -> None:
    """For any report of an engine, each phase has a source that was counted into the ceiling of series."""
    streaming, ledger = drawn

    said = {("true" if streaming else "false", share.phase.value, share.source.value) for share in ledger.shares}

    assert said <= set(PHASES_TOGETHER)
    assert (ledger.source, ledger.reason.value) in ATTRIBUTIONS_TOGETHER


def test_a_config_may_ask_for_inter_token_by_prompt_bucket() -> None:
    names = {
        metric.name: [label.name for label in metric.labels] for metric in catalogue(inter_token_by_prompt_bucket=True)
    }

    assert names["llm_inter_token_seconds"] == ["model", "lane", "prompt_bucket"]
    assert names["llm_time_per_output_token_seconds"] == ["model", "lane", "prompt_bucket"]
