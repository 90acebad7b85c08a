"""The ledger: marks and the engine's report become phases that add up to what the client waited."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Ledger, Phase, Reason, Source
from sidecar.ledger.ledger import close_ledger, ledger_of_span
from sidecar.ledger.report import EngineReport, SpanRequest
from sidecar.timeline.events import NO_USAGE
from sidecar.timeline.marks import Marks
from tests.support.scenario import Scenario, phases


def streamed() -> Scenario:
    """Received at 0.1 s, first token at 1.1 s (TTFT 1 s), last at 3.1 s, delivered by 3.3 s."""
    return Scenario().received(0.1).sent(0.1).headers(0.12).token(1.1).token(3.1).end(3.2, flushed=3.3)


def test_the_engines_report_splits_the_request_into_five_phases() -> None:
    """Queue, prefill and decode are the engine's own; first token and stream are the rest of the wire's times."""
    ledger = streamed().ledger(queue=0.6, prefill=0.3, decode=1.9)

    assert phases(ledger) == {
        "queue": (600, "engine"),
        "prefill": (300, "engine"),
        "first_token": (100, "derived"),
        "decode": (1900, "engine"),
        "stream": (300, "derived"),
    }
    assert Reason.IN_BAND is ledger.reason
    assert ledger.source == "engine"


def test_reasoning_that_is_not_sent_is_neither_the_front_ends_nor_held_back() -> None:
    """0.5 s of the engine's 2.4 s of decode came before the first output that is sent: before, they were stream, and the vote the hop's."""
    report = EngineReport(0.2, 0.25, 2.4, unsent_seconds=0.5)
    ledger = close_ledger(streamed().timeline.marks(), streaming=True, report=report)

    assert ledger is not None
    assert phases(ledger) == {
        "queue": (200, "engine"),
        "prefill": (250, "engine"),
        "first_token": (50, "derived"),
        "unattributed": (500, "engine"),
        "decode": (1900, "engine"),
        "stream": (300, "derived"),
    }
    assert [round(seconds, 9) for seconds in (ledger.held_seconds, sum(share.seconds for share in ledger.shares))] == [
        0,
        3.2,
    ]


@pytest.mark.parametrize(
    ("untold", "known"),
    [
        (0.2, {"first_token": (350, "derived"), "unattributed": (200, "engine")}),
        (9.0, {"first_token": (0, "derived"), "unattributed": (550, "engine")}),
    ],
)
def test_a_wait_that_may_be_a_queue_or_a_cache_s_move_is_neither(
    untold: float, known: dict[str, tuple[int, str]]
) -> None:
    """A worker's queue in which it waited for another one's KV cache; at most what the wire leaves beside queue and prefill."""
    report = EngineReport(0.2, 0.25, 1.9, untold_seconds=untold)
    ledger = close_ledger(streamed().timeline.marks(), streaming=True, report=report)

    assert ledger is not None
    assert {phase: value for phase, value in phases(ledger).items() if phase in known} == known
    assert round(sum(share.seconds for share in ledger.shares), 9) == 3.2


def test_without_a_report_the_time_before_the_first_token_is_unattributed() -> None:
    """Queue and prefill cannot be told apart, so neither is in the ledger, not even as zero; decode is the wire's."""
    ledger = streamed().ledger()

    assert phases(ledger) == {"unattributed": (1000, "wire"), "decode": (2000, "wire"), "stream": (200, "wire")}
    assert Reason.NO_REPORT is ledger.reason
    assert ledger.source == "none"


def whole() -> Scenario:
    """Received at 0.1 s; all 60 tokens come in one event 1 s later, and are delivered by 1.3 s."""
    return Scenario().received(0.1).sent(0.1).headers(0.12).token(1.1).usage(1.1, completion_tokens=60).end(1.1, 1.3)


def test_the_decode_of_an_answer_that_was_held_back_is_unattributed() -> None:
    """Its TTFT holds its decode; a decode of 0 s measured on the wire would be a lie."""
    ledger = whole().ledger()

    assert phases(ledger) == {"unattributed": (1000, "wire"), "stream": (200, "wire")}
    assert ledger.ttft_seconds == pytest.approx(1.0)


def test_an_answer_that_was_held_back_and_ends_in_two_events_adds_up_too() -> None:
    """The milliseconds between its events are no decode either."""
    held = Scenario().received(0.1).token(1.1).token(1.104).usage(1.104, completion_tokens=60).end(1.104, 1.3)

    assert phases(held.ledger()) == {"unattributed": (1004, "wire"), "stream": (196, "wire")}


def test_of_an_answer_that_was_held_back_the_engines_own_times_stand() -> None:
    """If the engine states its decode, the time for which its output was held is stream; if not, it stays unattributed,
    and so does the front end, which nothing tells from it.
    """
    assert phases(whole().ledger(queue=0.2, prefill=0.1, decode=0.6)) == {
        "queue": (200, "engine"),
        "prefill": (100, "engine"),
        "first_token": (300, "derived"),
        "decode": (200, "engine"),
        "stream": (400, "derived"),
    }
    assert phases(whole().ledger(queue=0.2, prefill=0.1)) == {
        "queue": (200, "engine"),
        "prefill": (100, "engine"),
        "unattributed": (700, "derived"),
        "stream": (200, "wire"),
    }


def test_no_prefill_is_derived_from_the_ttft_of_an_answer_that_was_held_back() -> None:
    """TTFT less queue and front end is prefill and decode."""
    report = EngineReport(queue_seconds=0.25, front_end_seconds=0.0625)
    ledger = close_ledger(whole().timeline.marks(), streaming=True, report=report)

    assert ledger is not None
    assert ledger.reason is Reason.REPORT_INCOMPLETE
    assert phases(ledger) == {"unattributed": (1000, "wire"), "stream": (200, "wire")}


@pytest.mark.parametrize("each", [2, 4, 5])
def test_several_tokens_in_an_event_leave_decode_to_the_wire(each: int) -> None:
    """Speculative decoding or a stream interval of four: 61 tokens, 10 ms each."""
    steady = Scenario().received(0.1)
    for number in range(60 // each + 1):
        steady.token(1.1 + 0.01 * each * number)
    ledger = steady.usage(1.7, completion_tokens=61).end(1.7).ledger()

    assert phases(ledger) == {"unattributed": (1000, "wire"), "decode": (600, "wire"), "stream": (0, "wire")}


@pytest.mark.parametrize(
    ("queue", "prefill", "expected"),
    [
        pytest.param(0.6, 0.405, (600, 400), id="a little too much comes off prefill"),
        pytest.param(1.008, 0.001, (1000, 0), id="and off queue only where prefill has nothing more"),
    ],
)
def test_a_report_may_exceed_the_wire_by_a_rounding(
    queue: float, prefill: float, expected: tuple[float, float]
) -> None:
    """Two clocks differ by some milliseconds: an excess of up to 2 ms or 1 % is taken off, and no phase becomes
    negative."""
    ledger = streamed().ledger(queue=queue, prefill=prefill)

    found = phases(ledger)
    assert expected == (found["queue"][0], found["prefill"][0])
    assert found["first_token"][0] == 0


def test_a_report_that_contradicts_the_wire_is_refused_whole() -> None:
    """The engine reports 1.2 s of queue and prefill in a TTFT of 1 s: then its decode is not used either, and the
    reason is named."""
    ledger = streamed().ledger(queue=0.9, prefill=0.3, decode=0.5)

    assert phases(ledger) == {"unattributed": (1000, "wire"), "decode": (2000, "wire"), "stream": (200, "wire")}
    assert Reason.REPORT_EXCEEDS_WIRE is ledger.reason


def test_a_report_that_is_longer_than_the_whole_request_is_refused() -> None:
    """Queue, prefill and decode follow each other within e2e: 0.4 + 0.1 + 2.9 s do not fit into 3.2 s, whatever was held back."""
    assert streamed().ledger(queue=0.4, prefill=0.1, decode=2.9).reason is Reason.REPORT_EXCEEDS_WIRE
    assert streamed().ledger(queue=0.4, prefill=0.1, decode=2.7).reason is Reason.IN_BAND


def test_an_engine_that_states_queue_and_prefill_as_one_gives_no_split() -> None:
    """The merged value is neither the queue nor the prefill, and halving it would be a guess."""
    report = EngineReport(prefill_seconds=0.8, merged=True)
    ledger = close_ledger(streamed().timeline.marks(), streaming=True, report=report)

    assert ledger is not None
    assert ledger.reason is Reason.ENGINE_MERGES_PHASES
    assert phases(ledger)["unattributed"] == (1000, "wire")


def test_an_estimate_fills_the_time_to_first_token_and_says_what_it_is() -> None:
    """Two estimated phases add up to TTFT. There is no first_token phase, because the estimator does not know it."""
    report = EngineReport(0.7, 0.3, queue_source=Source.ESTIMATED, prefill_source=Source.ESTIMATED)
    ledger = close_ledger(streamed().timeline.marks(), streaming=True, report=report, reason=Reason.ESTIMATED)

    assert ledger is not None
    assert phases(ledger) == {
        "queue": (700, "estimated"),
        "prefill": (300, "estimated"),
        "decode": (2000, "wire"),
        "stream": (200, "wire"),
    }


def test_half_a_report_is_no_split() -> None:
    """Queue without prefill leaves TTFT unattributed."""
    assert Reason.REPORT_INCOMPLETE is streamed().ledger(queue=0.9).reason
    assert "queue" not in phases(streamed().ledger(queue=0.9))


def test_output_that_something_held_back_belongs_to_stream() -> None:
    """The engine decoded for 2.5 s, but tokens passed here for only 2.2 s: some output was made before it was seen
    here."""
    ledger = streamed().ledger(queue=0.4, prefill=0.1, decode=2.5)

    assert round(ledger.held_seconds, 9) == 0.3
    assert phases(ledger) == {
        "queue": (400, "engine"),
        "prefill": (100, "engine"),
        "first_token": (200, "derived"),
        "decode": (2200, "engine"),
        "stream": (300, "derived"),
    }


def test_a_client_that_pauses_the_stream_is_in_stream_and_not_in_decode() -> None:
    """With a report, decode is the engine's; without one, the time for which the client kept the sidecar from reading
    is taken off."""
    scenario = Scenario().received(0).token(1.0).paused(1.5).resumed(2.5).token(3.0).end(3.0)

    assert phases(scenario.ledger())["decode"] == (1000, "wire")
    assert phases(scenario.ledger())["stream"] == (1000, "wire")
    assert phases(scenario.ledger(queue=0.5, prefill=0.4, decode=1.0))["stream"] == (1000, "derived")


def test_a_whole_answer_has_the_engines_phases_and_a_rest() -> None:
    """Non-streamed: there is no first token on the wire, so the time that the engine does not report is
    unattributed."""
    scenario = Scenario().received(0.5).sent(0.5).headers(2.4).end(2.5)

    assert phases(scenario.ledger(queue=0.3, prefill=0.2, decode=1.4, streaming=False)) == {
        "queue": (300, "engine"),
        "prefill": (200, "engine"),
        "decode": (1400, "engine"),
        "unattributed": (100, "derived"),
    }
    assert phases(scenario.ledger(streaming=False)) == {"unattributed": (2000, "wire")}
    assert Reason.REPORT_EXCEEDS_WIRE is scenario.ledger(queue=0.3, prefill=0.6, decode=1.4, streaming=False).reason


def test_a_decode_that_fills_the_whole_answer_leaves_nothing_negative() -> None:
    """A decode that is a millisecond longer than the wire is a rounding: every other phase is then 0, and none is
    negative."""
    scenario = Scenario().received(0).headers(1.9).end(2.0)

    assert phases(scenario.ledger(queue=0.0, prefill=0.0, decode=2.001, streaming=False)) == {
        "queue": (0, "engine"),
        "prefill": (0, "engine"),
        "decode": (2000, "engine"),
        "unattributed": (0, "derived"),
    }
    assert Reason.REPORT_EXCEEDS_WIRE is scenario.ledger(queue=0.0, prefill=0.0, decode=2.1, streaming=False).reason


def test_a_stream_without_output_is_unattributed() -> None:
    """It has no TTFT to split."""
    ledger = Scenario().received(0).headers(0.1).end(0.4).ledger(queue=0.1, prefill=0.1)

    assert phases(ledger) == {"unattributed": (400, "wire")}
    assert Reason.NO_TOKEN is ledger.reason
    assert ledger.ttft_seconds is None


def test_a_request_that_was_never_delivered_has_no_ledger() -> None:
    """Its marks do not reach from body to flush."""
    assert close_ledger(Scenario().received(0).timeline.marks(), streaming=True, report=None) is None


def test_a_late_report_counts_like_an_early_one_and_says_so() -> None:
    """A report that comes seconds after the stream gives the same ledger; only the reason differs."""
    early, late = (streamed().ledger(0.6, 0.3, 1.9, reason=reason) for reason in (Reason.IN_BAND, Reason.LATE_REPORT))

    assert early.shares == late.shares
    assert Reason.LATE_REPORT is late.reason
    assert Reason.SHUTDOWN is streamed().ledger(reason=Reason.SHUTDOWN).reason


durations = st.floats(0, 1000, allow_nan=False)


spans = st.tuples(durations, durations, durations, durations, st.floats(0, 1))
reports = st.none() | st.builds(EngineReport, *[st.none() | durations] * 3)


@given(spans, reports, st.booleans())
def test_whatever_the_report_says_the_phases_add_up_to_what_the_client_waited(
    span: tuple[float, float, float, float, float], report: EngineReport | None, streaming: bool
) -> None:
    """The sum is e2e by construction, and no phase is negative (past the rounding of a float)."""
    upload, ttft, tokens, tail, paused_share = span
    received_at = 10 + upload
    marks = Marks(
        accepted_at=10,
        received_at=received_at,
        first_token_at=received_at + ttft,
        last_token_at=received_at + ttft + tokens,
        flushed_at=received_at + ttft + tokens + tail,
        paused_seconds=tokens * paused_share,
    )

    ledger = close_ledger(marks, streaming=streaming, report=report)

    assert ledger is not None
    assert math.isclose(ledger.e2e_seconds, sum(share.seconds for share in ledger.shares), abs_tol=1e-9)
    assert all(share.seconds > -1e-9 for share in ledger.shares)
    assert len({share.phase for share in ledger.shares}) == len(ledger.shares)
    split = {share.phase for share in ledger.shares}
    # Only for a whole answer may the queue be known and the prefill not: a known TTFT is never split in part.
    assert (Phase.QUEUE in split) >= (Phase.PREFILL in split)
    assert not streaming or (Phase.QUEUE in split) == (Phase.PREFILL in split)
    assert not (streaming and Phase.UNATTRIBUTED in split and Phase.QUEUE in split)


def scenario_of_a_front_end(queue: float, front_end: float) -> Ledger:
    """A ledger with a TTFT of 1 s, of which the engine reports only queue and front end."""
    timeline = Scenario().received(0).token(1.0).token(1.5).end(1.5).timeline
    report = EngineReport(queue_seconds=queue, front_end_seconds=front_end)
    found = close_ledger(timeline.marks(), streaming=True, report=report, reason=Reason.LATE_REPORT)
    assert found is not None
    return found


def test_where_all_but_the_prefill_is_stated_the_prefill_is_what_is_left() -> None:
    """Prefill is derived, and the front end's time is in the first_token phase."""
    assert phases(scenario_of_a_front_end(0.25, 0.0625)) == {
        "queue": (250, "engine"),
        "prefill": (687.5, "derived"),
        "first_token": (62.5, "derived"),
        "decode": (500, "wire"),
        "stream": (0, "wire"),
    }


@pytest.mark.parametrize(
    ("queue", "front_end", "reason", "prefill"),
    [
        (0.9, 0.109, Reason.LATE_REPORT, 0.0),
        (1.005, 0.0, Reason.LATE_REPORT, 0.0),
        (0.9, 0.12, Reason.REPORT_EXCEEDS_WIRE, None),
        (1.2, 0.0, Reason.REPORT_EXCEEDS_WIRE, None),
    ],
)
def test_a_front_end_and_a_queue_that_leave_nothing_contradict_the_wire(
    queue: float, front_end: float, reason: Reason, prefill: float | None
) -> None:
    """An excess within the tolerance of two clocks leaves a prefill of 0; beyond it, no value of the report is used."""
    ledger = scenario_of_a_front_end(queue, front_end)

    assert ledger.reason is reason
    assert phases(ledger).get("prefill", (None,))[0] == prefill


def test_a_whole_answer_has_no_first_token_to_derive_a_prefill_from() -> None:
    """The rest of the whole answer would include decode. The queue is still used, if it is no longer than the wire's
    time."""
    timeline = Scenario().received(0).end(1.5).timeline
    report = EngineReport(queue_seconds=0.25, front_end_seconds=0.0625)
    ledger = close_ledger(timeline.marks(), streaming=False, report=report)

    assert ledger is not None
    assert (phases(ledger), ledger.reason) == (
        {"queue": (250, "engine"), "unattributed": (1250, "derived")},
        Reason.IN_BAND,
    )
    too_long = close_ledger(timeline.marks(), streaming=False, report=EngineReport(queue_seconds=1.6))
    assert too_long is not None
    assert Reason.REPORT_EXCEEDS_WIRE is too_long.reason


def of_span(ttft: float, e2e: float, report: EngineReport) -> tuple[Reason, dict[str, float]]:
    """Reason and phases of a request that no hop saw."""
    ledger = ledger_of_span(SpanRequest(0.0, ttft, e2e, NO_USAGE), report)
    assert (ledger.ttft_seconds, ledger.e2e_seconds) == (ttft, e2e)
    return ledger.reason, {share.phase.value: round(share.seconds, 6) for share in ledger.shares}


def test_a_span_alone_splits_its_request_and_says_nothing_of_a_stream() -> None:
    """The front end's time is before the first token, or behind it; of a late front end the engine's own times stand all the same."""
    report = EngineReport(0.1, 0.3, 0.5)
    engine = {"queue": 0.1, "prefill": 0.3, "decode": 0.5}

    assert of_span(0.43, 1.0, report) == (Reason.SPAN_ALONE, {**engine, "first_token": 0.03, "unattributed": 0.07})
    assert of_span(0.48, 0.92, report) == (Reason.SPAN_ALONE, {**engine, "first_token": 0.02})


def test_a_span_that_states_less_or_contradicts_itself_leaves_the_rest_unattributed() -> None:
    assert of_span(0.4, 1.0, EngineReport(0.1, None, 0.5)) == (
        Reason.REPORT_INCOMPLETE,
        {"decode": 0.5, "unattributed": 0.5},
    )
    assert of_span(0.4, 1.0, EngineReport(0.1, 0.2)) == (
        Reason.SPAN_ALONE,
        {"queue": 0.1, "prefill": 0.2, "first_token": 0.1, "unattributed": 0.6},
    )
    whole = (Reason.REPORT_EXCEEDS_WIRE, {"unattributed": 1.0})
    assert [of_span(0.4, 1.0, EngineReport(*said)) for said in ((0.1, 0.5, 0.1), (0.1, 0.2, 0.8))] == [whole, whole]
    assert of_span(0.4, 1.0, EngineReport(0.4, merged=True))[0] is Reason.ENGINE_MERGES_PHASES


@given(st.tuples(durations, durations).map(sorted), st.builds(EngineReport, *[st.none() | durations] * 3))
def test_whatever_a_span_says_its_phases_add_up_to_its_whole(times: list[float], report: EngineReport) -> None:
    ttft, e2e = times
    ledger = ledger_of_span(SpanRequest(0.0, ttft, e2e, NO_USAGE), report)

    assert math.isclose(e2e, sum(share.seconds for share in ledger.shares), abs_tol=2e-6)
    assert all(share.seconds > -1e-9 for share in ledger.shares)
    assert Phase.STREAM not in {share.phase for share in ledger.shares}
    assert len({share.phase for share in ledger.shares}) == len(ledger.shares)
