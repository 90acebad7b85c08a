"""The catalogue of metrics is closed and bounded, and agrees with the ledger and the relay."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Ledger, Reason, Source
from sidecar.ledger.ledger import close_ledger, ledger_of_span
from sidecar.ledger.report import EngineReport, SpanRequest
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import CATALOGUE, catalogue, series_ceiling, series_in_use
from sidecar.metrics.declaration import Counter, Label, Metric, Sizes
from sidecar.timeline.events import NO_USAGE, Usage
from sidecar.timeline.marks import Marks


durations = st.floats(0, 1000)
maybe = st.none() | durations


def test_series_are_counted_as_the_config_multiplies_them() -> None:
    """Two lanes, six buckets, one model and `other`: at most 25,000 series, under 4,000 in full use. Inter-token histograms by bucket have
    six times the series: two histograms of 28 lines, four children each."""
    ceiling = series_ceiling(2, 6, 2)

    assert 13_000 < ceiling < 25_000
    assert 1_000 < series_in_use(2, 6, 2) < 4_000
    assert ceiling + 2 * 28 * 4 * 5 == series_ceiling(2, 6, 2, catalogue(inter_token_by_prompt_bucket=True))
    assert c.REQUEST_UPLOAD_SECONDS.series(Sizes(2, 6, 2)) == 2 * (29 + 3)  # the edges; +Inf, sum and count


def test_only_what_can_be_is_counted() -> None:
    """Lanes are known by number; a set that the engine fills counts as full, its fallback included. Of labels that are not all possible
    together only the listed combinations count."""
    version = Label("version", told_by="the engine", most=4)
    source, reason = Label("source", ("engine", "none")), Label("reason", ("in_band", "no_report", "no_token"))
    together = (("engine", "in_band"), ("none", "no_report"), ("none", "no_token"))
    free, bound = (Counter("llm_x_total", (c.LANE, source, reason), together=each) for each in ((), together))

    assert [Sizes(5, 6, 2).of(label) for label in (c.LANE, reason, version)] == [5, 3, 5]
    assert (free.children(Sizes(5, 6, 2)), bound.children(Sizes(5, 6, 2))) == (30, 15)


def test_no_part_of_a_request_ends_at_a_lower_edge_than_the_request() -> None:
    """A wait of a quarter of an hour has a quantile in its phase, as it has one in the whole: a share of a stack must not be cut off."""
    parts = (c.REQUEST_PHASE_SECONDS, c.TIME_TO_FIRST_TOKEN_SECONDS, c.TIME_TO_FIRST_OUTPUT_TOKEN_SECONDS)

    assert {part.buckets for part in parts} == {c.REQUEST_SECONDS.buckets}
    assert c.REQUEST_SECONDS.buckets[-1] == 1200.0


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """The rules: a name given once, prefix, `_total` on counters and nowhere else, a help text that no format escapes, rising edges,
    label sets without repetition."""
    assert [each for each in CATALOGUE if each.name == metric.name] == [metric]
    assert re.fullmatch("llm_[a-z_]+", metric.name)
    assert not {*metric.help} & {"\\", "\n"}
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert (metric.kind == "info") == metric.name.endswith("_info")
    assert metric.help.endswith(".")
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert all(len(label.values) == len(set(label.values)) for label in metric.labels)
    assert all(label.values or (label.told_by and label.most) for label in metric.labels)
    assert {label.name for label in metric.labels} <= {*c.OVERFLOWING, "build", "profile"}


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
    report = draw(
        st.none()
        | st.builds(EngineReport, *3 * (maybe,), queue_source=stated, prefill_source=stated, merged=st.booleans())
    )
    missing = (Reason.NO_REPORT, Reason.SHUTDOWN, Reason.TABLE_FULL)
    reason = draw(st.sampled_from(missing if report is None else (Reason.IN_BAND, Reason.LATE_REPORT)))
    ledger = close_ledger(marks, streaming=streaming, report=report, reason=reason)
    assert ledger is not None
    return streaming, ledger


@given(st.tuples(durations, durations).map(sorted), st.builds(EngineReport, maybe, maybe, maybe))
def test_the_ledger_of_a_span_says_nothing_that_is_impossible_either(times: list[float], report: EngineReport) -> None:
    ttft, e2e = times
    ledger = ledger_of_span(SpanRequest(0.0, ttft, e2e, NO_USAGE), report)

    assert {("true", share.phase.value, share.source.value) for share in ledger.shares} <= set(c.PHASES_TOGETHER)
    assert (ledger.source, ledger.reason.value) in c.ATTRIBUTIONS_TOGETHER


@given(ledgers())
def test_the_ledger_says_nothing_that_the_catalogue_calls_impossible(drawn: tuple[bool, Ledger]) -> None:
    """For any report of an engine, each phase has a source that was counted into the ceiling of series."""
    streaming, ledger = drawn

    said = {("true" if streaming else "false", share.phase.value, share.source.value) for share in ledger.shares}

    assert said <= set(c.PHASES_TOGETHER)
    assert (ledger.source, ledger.reason.value) in c.ATTRIBUTIONS_TOGETHER
