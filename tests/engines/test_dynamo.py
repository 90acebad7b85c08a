"""Dynamo's own words: queue and prefill as one number, the router's wait in it, and the KV cache's move behind it."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.dynamo import report_of_timing
from sidecar.engines.kind import Wire
from sidecar.engines.kinds import KINDS
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport
from sidecar.timeline.marks import Marks
from tests.support.streams import STREAMS, reader_of


WIRE = Wire(Marks(accepted_at=0.0), streaming=True, fields=())


def reported(name: str) -> EngineReport | None:
    """The report in the last extras of a stream."""
    stream = STREAMS / name
    events = [event for event in reader_of(stream).feed(stream.read_bytes()) if event.extras is not None]
    assert events
    extras: dict[str, object] = {}
    for event in events:
        extras |= event.extras or {}
    return KINDS["dynamo"].in_band(extras, WIRE)


@pytest.mark.parametrize("name", ["dynamo-chat-usage-timing.sse", "dynamo-completions-usage-timing.sse"])
def test_a_real_answer_states_both_phases_as_one_number_and_the_routers_wait(name: str) -> None:
    report = reported(name)

    assert report is not None
    assert (report.merged, report.queue_seconds, report.prefill_seconds, report.kv_transfer_seconds) == (
        True,
        None,
        None,
        None,
    )
    assert report.merged_seconds is not None
    assert 0.01 < report.merged_seconds < 0.2
    assert [part.part for part in report.parts] == [Part.ROUTER]
    assert 0.0 < report.least_queue_seconds < report.merged_seconds


def test_a_real_disaggregated_answer_states_the_caches_move_too() -> None:
    """21 tokens of 25,000 bytes at 0.1 GB a second are 5.25 ms, and the estimate holds a step of the decode's worker."""
    report = reported("dynamo-chat-usage-timing-disaggregated.sse")

    assert report is not None
    assert report.kv_transfer_seconds is not None
    assert 0.00525 < report.kv_transfer_seconds < 0.00525 + 0.015
    assert [part.part for part in report.parts] == [Part.ROUTER, Part.KV_TRANSFER]


def test_a_move_of_zero_is_none_that_was_measured() -> None:
    """If the decode's first token came before the prefill was told done, the difference is cut off at 0."""
    timing = {
        "prefill_wait_time_ms": 2.0,
        "prefill_time_ms": 20.0,
        "ttft_ms": 22.0,
        "kv_transfer_estimated_latency_ms": 0.0,
    }

    assert report_of_timing(timing) == EngineReport(
        merged=True, merged_seconds=0.022, parts=(StatedPart(Part.ROUTER, 0.002),)
    )


@pytest.mark.parametrize(
    ("timing", "seconds"),
    [
        ({"prefill_wait_time_ms": 12.0, "prefill_time_ms": 388.0, "ttft_ms": 401.0}, 0.4),
        ({"ttft_ms": 401.0}, 0.401),
        ({"prefill_time_ms": 388.0}, None),
        ({"prefill_wait_time_ms": 12.0, "prefill_time_ms": None, "ttft_ms": math.nan}, None),
    ],
)
def test_the_sum_is_known_only_where_it_is_stated(timing: dict[str, object], seconds: float | None) -> None:
    report = report_of_timing(timing)

    assert report is not None
    assert (report.merged, report.merged_seconds) == (True, seconds)


@given(
    st.dictionaries(
        st.sampled_from(["prefill_wait_time_ms", "prefill_time_ms", "ttft_ms", "kv_transfer_estimated_latency_ms"]),
        st.one_of(st.none(), st.floats(), st.text(max_size=3), st.booleans(), st.integers()),
    )
)
def test_nonsense_is_not_stated(timing: dict[str, object]) -> None:
    report = report_of_timing(timing)

    if report is not None:
        numbers = [report.merged_seconds, report.kv_transfer_seconds, *(part.seconds for part in report.parts)]
        assert [
            number for number in numbers if number is not None and not (math.isfinite(number) and number >= 0)
        ] == []
        assert report.merged


@pytest.mark.parametrize(
    "nvext", [None, 5, "timing", [], {"timing": None}, {"timing": 3}, {"timing": {}}, {"timing": {"ttft_ms": "fast"}}]
)
def test_no_timing_is_no_report(nvext: object) -> None:
    assert KINDS["dynamo"].in_band({"nvext": json.loads(json.dumps(nvext))}, WIRE) is None


def test_the_engine_behind_it_has_the_routers_wait_added_to_its_queue() -> None:
    """Its span states its own queue alone. What it says itself stands."""
    front = EngineReport(
        merged=True,
        merged_seconds=0.5,
        kv_transfer_seconds=0.1,
        parts=(StatedPart(Part.ROUTER, 0.2), StatedPart(Part.KV_TRANSFER, 0.1)),
    )
    engine = EngineReport(queue_seconds=0.05, prefill_seconds=0.2)

    assert engine.beside(front) == EngineReport(0.25, 0.2, kv_transfer_seconds=0.1, parts=front.parts)
    assert engine.beside(EngineReport(merged=True)) == engine
    assert front.beside(front) == front
