"""The diagnosis of one process: its counters of now and of before become the numbers of a lane."""

import re

import pytest

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.first_facts import Around, facts_of_lane
from sidecar.admin.page.verdicts import verdicts
from sidecar.admin.runbook_page import present
from sidecar.commands.diagnose.terminal import text
from sidecar.diagnosis.confirming import answered
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Outcome, State
from sidecar.diagnosis.live import missed_since
from sidecar.diagnosis.measured import EngineDown, Regime
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import LaneObjective
from sidecar.diagnosis.why import healed, state
from sidecar.history.rows import Moment
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Per
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize
from tests.diagnosis.life import LANE, MODEL, STEP_SECONDS, Life
from tests.support.page_reader import Reader


EMPTY = Anatomy(300.0, ever=True, bars=(), ends=(), budgets=())
CHAT = LaneObjective(MODEL, LANE, Objective.TTFT)


def test_a_quiet_lane_has_its_true_numbers() -> None:
    life = Life()
    life.minutes(8)

    found = life.now()

    assert (found.model, found.lane, found.window_seconds) == (MODEL, LANE, 300.0)
    assert found.load.arrivals_per_second == pytest.approx(4.0)
    assert (found.load.prompt_mean_tokens, found.load.output_mean_tokens) == (300.0, 50.0)
    assert found.load.cached == pytest.approx(1 / 3)
    assert {phase: time.mean_seconds for phase, time in found.phases.items()} == pytest.approx(
        {Blame.QUEUE: 0.1, Blame.PREFILL: 0.1, Blame.DECODE: 1.0}
    )
    assert (found.ttft.samples, found.ttft.threshold_seconds, found.ttft.misses) == (1200, 1.0, 0.0)
    assert found.inter_token.p99_seconds == pytest.approx(0.02, rel=0.3)
    assert (found.verdicts, found.regime, found.ratios) == ({}, None, {})


def test_without_requests_no_lane_is_known() -> None:
    life = Life()
    life.minutes(8, rate=0)

    assert life.lanes() == []


def test_a_burst_is_the_queues_with_load_as_its_cause_and_a_spike() -> None:
    life = Life()
    life.minutes(20)
    life.minutes(5, rate=8, missing=0.6, queue=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.regime) == (Blame.QUEUE, Cause.LOAD, Regime.SPIKE)
    assert found.measured.verdicts[Objective.TTFT].decided == pytest.approx(8 * 120 * 0.6)


def test_a_root_is_read_with_its_share_its_place_its_size_and_since_when() -> None:
    """Prefill broke, and the requests waited in queue: the counters say both, and nothing is decided here."""
    life = Life()
    life.minutes(15)
    life.metrics.gauge(c.INCIDENT_AGE_SECONDS).child("prefill", "uncached").set(300.0)
    life.metrics.gauge(c.INCIDENT_SHOWN_AGE_SECONDS).child("prefill", "uncached").set(180.0)
    life.metrics.gauge(c.SIDECAR_TIME_SECONDS).child().set(1_790_000_300.0)
    life.metrics.gauge(c.INCIDENT_CONFIDENCE_RATIO).child("prefill", "uncached").set(0.93)
    life.metrics.gauge(c.INCIDENT_SIZE_RATIO).child("prefill", "uncached", "request").set(5.2)
    life.metrics.gauge(c.EVIDENCE_RATIO).child("uncached").set(4.8)
    life.metrics.gauge(c.ENGINE_COST_RATIO).child("decode").set(1.1)
    life.metrics.gauge(c.ENGINE_COST_RATIO_LOW).child("decode").set(1.0)
    life.metrics.gauge(c.ENGINE_COST_UNKNOWN).child("prefill", "few").set(1)
    life.metrics.gauge(c.ENGINE_COST_UNKNOWN).child("prefill", "young").set(0)
    life.metrics.gauge(c.SLO_UNDECIDED_MISSES).child(MODEL, LANE, "ttft").set(3)
    life.minutes(5, missing=0.5, queue=2.0, root="prefill", cause="uncached", certain=0.8)

    found = diagnose(life.now())
    one = found.measured.verdicts[Objective.TTFT]

    assert (found.phase, found.cause, found.since_at) == (Blame.PREFILL, Cause.UNCACHED, 1_790_000_000.0)
    assert (found.shown_at, found.size) == (1_790_000_120.0, RootSize(Factor(5.2, 5.2, 5.2), Per.REQUEST))
    assert found.confidence == 0.93
    assert one.confidence == pytest.approx(0.8)
    assert one.undecided == 3.0
    assert one.waited_in == {Blame.QUEUE: 1.0}
    assert found.measured.ratios == {Cause.UNCACHED: 4.8}
    assert found.measured.costs == {"decode": (1.1, 1.0, 1.1)}
    assert found.measured.unknown_costs == {"prefill": "few"}


SAID = re.compile(r"([0-9.]+) x the usual|confidence (?:of )?([0-9.]+) %", re.IGNORECASE)
"""A size, or a confidence, in any text."""


def test_every_place_tells_the_size_and_the_confidence_of_the_incident() -> None:
    """One text had "7 x" in its head, "1.76 x, between 1.54 and 4.7" below and 1.09x in its runbook: ratios of three instants."""
    life = Life()
    life.minutes(15)
    for metric, value in (
        (c.INCIDENT_SIZE_RATIO, 7.0),
        (c.INCIDENT_SIZE_RATIO_LOW, 6.1),
        (c.INCIDENT_SIZE_RATIO_HIGH, 8.0),
    ):
        life.metrics.gauge(metric).child("decode", "decode_cost", "token").set(value)
    life.metrics.gauge(c.INCIDENT_CONFIDENCE_RATIO).child("decode", "decode_cost").set(0.91)
    life.metrics.gauge(c.EVIDENCE_RATIO).child("decode_cost").set(1.09)
    for metric, value in (
        (c.ENGINE_COST_RATIO, 1.76),
        (c.ENGINE_COST_RATIO_LOW, 1.54),
        (c.ENGINE_COST_RATIO_HIGH, 4.7),
    ):
        life.metrics.gauge(metric).child("decode").set(value)
    life.minutes(5, missing=0.5, queue=2.0, root="decode", cause="decode_cost", certain=0.8)
    d = diagnose(life.now())
    moment = Moment(history=life.history, now=run_now(life.history.now(life.at)), at_unix=1000.0)

    places = {
        "the evidence": " ".join(d.evidence),
        "the terminal": text(document([d])),
        "the first screen": facts_of_lane(d, (d,), EMPTY, Around(at_unix=1000.0, uptime_seconds=900.0)),
        "the card": verdicts([d]),
        "the runbook": present("LLMDecodeBurn", d, LANE, None),
        "its check": " ".join(run_now(answered("decode-cost", moment)).lines),
    }

    told = {
        place: {number for pair in SAID.findall(Reader(said).text) for number in pair if number}
        for place, said in places.items()
    }
    assert told == {
        "the evidence": {"7"},
        "the terminal": {"7"},
        "the first screen": {"7", "91"},
        "the card": {"7", "91"},
        "the runbook": {"7", "91"},
        "its check": {"7"},
    }
    assert document([d])["diagnoses"][0]["size"] == {"ratio": 7.0, "low": 6.1, "high": 8.0, "per": "token"}
    assert "1.09" not in " ".join(places.values())


def test_of_two_incidents_the_live_one_is_the_headline() -> None:
    """Prefill was dear until two minutes ago, and now the engine is silent: alerts count the last two minutes too."""
    life = Life()
    life.minutes(15)
    life.minutes(3, missing=0.6, queue=2.0, root="prefill", cause="prefill_cost")
    life.minutes(2, missing=0.5, queue=2.0, root="engine", cause="silence")

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.confidence) == (Blame.ENGINE, Cause.SILENCE, 1.0)
    assert found.because[0] == "This is the root's share of 240 decided misses of the last 2 min."


@pytest.mark.parametrize(("missing", "rate", "seconds"), [(0.31, 4.0, 120.0), (0.2, 4.0, 300.0), (1.0, 1 / 60, 300.0)])
def test_roots_are_of_two_minutes_while_these_burn_and_else_of_five(
    missing: float, rate: float, seconds: float
) -> None:
    """Below a quarter of the requests, or with fewer than three decided misses, two minutes say too little."""
    life = Life()
    life.minutes(15)
    life.minutes(3, missing=0.6, queue=2.0)
    life.minutes(2, rate=rate, missing=missing)

    one = life.now().verdicts[Objective.TTFT]

    assert one.seconds == pytest.approx(seconds)
    assert one.decided == one.misses


def test_one_lanes_misses_are_never_the_votes_of_another() -> None:
    life = Life()
    life.minutes(15)
    life.metrics.counter(c.SLO_ROOT_MISSES_TOTAL).child(MODEL, "batch", "ttft", "decode").inc(5000)
    life.minutes(5, missing=0.5, queue=2.0)

    assert diagnose(life.now()).phase is Blame.QUEUE


def test_what_lasts_for_half_an_hour_is_steady() -> None:
    life = Life()
    life.minutes(40, missing=0.4, queue=2.0)

    assert diagnose(life.now()).regime is Regime.STEADY


def test_an_engine_that_restarted_and_made_no_request_miss_breaks_nothing() -> None:
    """The last half hour has misses, and the window has none."""
    life = Life()
    life.minutes(10)
    life.minutes(2, missing=0.9, root="engine", cause="down")
    during = diagnose(life.now())
    life.minutes(8)
    life.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc()
    life.minutes(1)

    found = diagnose(life.now())

    assert (during.phase, during.cause) == (Blame.ENGINE, Cause.DOWN)
    assert (found.outcome, found.ttft.state, found.measured.verdicts) == (Outcome.WELL, State.MET, {})


def test_an_objective_is_met_once_it_is_met_over_the_window() -> None:
    life = Life()
    life.minutes(15)
    life.minutes(5, missing=0.6, queue=2.0)
    life.minutes(7)

    found = diagnose(life.now())

    assert found.measured.verdicts == {}
    assert (found.outcome, found.ttft.state, found.ttft.over) == (Outcome.WELL, State.MET, 0.0)
    assert found.evidence[0].startswith("The time to first token is met now; it was missed until 7 min ago (720 misses")


def test_a_chance_miss_in_a_quiet_minute_does_not_prolong_an_incident() -> None:
    life = Life()
    life.minutes(15)
    life.minutes(5, missing=0.6, queue=2.0)
    life.minutes(7)
    life.minutes(0.25, rate=1 / 15, missing=1.0)
    life.minutes(0.75, rate=0)

    (sentence,) = healed(life.now())

    assert sentence.startswith("The time to first token is met now; it was missed until 8 min ago (")


def test_the_requests_that_an_objective_judged_are_counted() -> None:
    life = Life()
    life.minutes(8)

    assert (life.now().ttft.judged, life.now().e2e.judged) == (1200.0, None)


def test_an_objective_without_a_judged_request_in_the_window_is_not_called_met() -> None:
    life = Life()
    life.minutes(15)
    life.minutes(5, missing=0.6, queue=2.0)
    life.minutes(7, rate=0)

    found = diagnose(life.now())

    assert (found.outcome, found.ttft.state, found.has_few_samples) == (Outcome.REFUSED, State.UNKNOWN, True)
    assert healed(found.measured) == []


def test_an_incident_of_five_misses_is_counted_in_the_window_alone() -> None:
    """440 requests missed before the window; the card speaks of the eight within it."""
    life = Life()
    life.minutes(15)
    life.minutes(3, missing=0.6, queue=2.0, root="decode", cause="decode_cost")
    life.minutes(6, rate=0)
    life.minutes(2, rate=0.2, missing=1 / 3)

    found = diagnose(life.now())

    assert (found.ttft.state, found.phase) == (State.BROKEN, Blame.QUEUE)
    assert found.measured.ttft.misses == pytest.approx(8.0)
    assert found.evidence[1] == "What broke is decided for 8 of 8 misses of the last 2 min: queue 100 %."
    assert "Only 8 misses are decided: their shares may be chance." in found.because


def test_an_engine_that_is_down_is_known_without_traffic_and_since_when() -> None:
    life = Life()
    life.minutes(2, rate=0)
    up = life.engine_down()
    life.metrics.gauge(c.ENGINE_UP).child().set(1)
    life.minutes(2, rate=0)
    answers = life.engine_down()
    life.metrics.gauge(c.ENGINE_UP).child().set(0)
    life.minutes(3, rate=0)
    down = life.engine_down()
    life.metrics.gauge(c.ENGINE_UP).child().set(1)

    assert (up, answers, life.lanes()) == (None, None, [])
    assert down == EngineDown(seconds=3 * 60.0 - STEP_SECONDS, never_up=False)
    assert life.engine_down() is None


def test_an_engine_that_has_stopped_in_the_middle_of_its_work_is_told_apart() -> None:
    life = Life()
    life.metrics.gauge(c.ENGINE_UP).child().set(1)
    life.minutes(2, rate=0)
    life.metrics.gauge(c.ENGINE_UP).child().set(0)
    life.metrics.gauge(c.ENGINE_STALLED).child().set(1)
    life.minutes(1, rate=0)

    assert life.engine_down() == EngineDown(seconds=60.0 - STEP_SECONDS, stalled=True, never_up=False)


def test_an_engine_that_was_never_up_has_half_an_hour_to_come_up() -> None:
    """As in the alert LLMEngineDown; one that was up and restarts has none."""
    life = Life()
    life.metrics.gauge(c.ENGINE_UP).child().set(0)
    life.minutes(29, rate=0)
    starting = life.engine_down()
    life.minutes(1, rate=0)
    late = life.engine_down()

    assert starting == EngineDown(seconds=29 * 60.0 - STEP_SECONDS, coming_up=True, never_up=True)
    assert late == EngineDown(seconds=30 * 60.0 - STEP_SECONDS, never_up=True)


# --- waiting times -------------------------------------------------------------------------------------------------------


def test_the_engines_queue_is_divided_by_the_arrivals_of_all_lanes_and_models() -> None:
    """13.4 requests wait, and 4.3 come each second: each waits 3.1 s, whichever lane is looked at."""
    life = Life()
    life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child().set(13.4)
    for _ in range(32):
        life.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child(MODEL, "batch").inc(57)
        life.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child("other", LANE).inc(3)
        life.minutes(STEP_SECONDS / 60, rate=1 / 3)

    loads = {lane.lane: lane.load for lane in life.lanes() if lane.model == MODEL}
    said = [sentence for lane in life.lanes() for sentence in state(lane) if "wait in" in sentence]

    assert loads[LANE].arrivals_per_second == pytest.approx(1 / 3)
    assert {name: load.engine_arrivals_per_second for name, load in loads.items()} == pytest.approx(
        {LANE: 65 / 15, "batch": 65 / 15}
    )
    sentence = (
        "13.4 requests wait in the engine's whole queue: each waits about 3.09 s, at 4.33 arrivals a second in all."
    )
    assert said == [sentence] * 3


def test_requests_that_bypass_the_sidecar_count_as_arrivals_of_the_engine() -> None:
    life = Life()
    life.metrics.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO).child().set(0.8)
    life.minutes(8)

    assert life.now().load.engine_arrivals_per_second == pytest.approx(4.0 / 0.8)


def test_without_the_engines_queue_the_lanes_own_waiting_requests_are_counted() -> None:
    """The sidecar knows how many requests of this lane wait for their first output; those of another lane are not added."""
    life = Life()
    life.metrics.gauge(c.REQUESTS_IN_FLIGHT).child(MODEL, LANE, "waiting").set(6)
    life.metrics.gauge(c.REQUESTS_IN_FLIGHT).child(MODEL, "batch", "waiting").set(90)
    life.minutes(8)

    found = life.now()

    assert (found.load.waiting, found.load.lane_waiting) == (None, 6.0)
    expected = "6 requests of this lane wait for their first output: each waits about 1.5 s, at the lane's own rate."
    assert expected in state(found)


def test_the_slots_in_use_are_told_beside_those_of_the_last_half_hour() -> None:
    """Six of nine slots are gone: the loads of before and of now stand in one sentence."""
    life = Life()
    running, waiting = (life.metrics.gauge(of).child() for of in (c.ENGINE_REQUESTS_RUNNING, c.ENGINE_REQUESTS_WAITING))
    running.set(9)
    waiting.set(0)
    life.minutes(15)
    running.set(3)
    waiting.set(12)
    life.minutes(5, missing=0.5, queue=2.0, cause="slots")

    found = diagnose(life.now())

    assert found.changes == ("Running stands at 3, and was up to 9 in the last half hour; 12 wait.",)
    assert found.cause is Cause.SLOTS


def test_a_minute_is_five_looks_and_each_counts_once() -> None:
    """As in Prometheus: if the last one counted twice, the diagnosis would see a full cache before the page does."""
    life = Life()
    waiting = life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
    waiting.set(0)
    life.minutes(10)
    waiting.set(10)
    life.minutes(0.25)

    assert life.now().load.waiting == pytest.approx(2.0)


def since(life: Life) -> float | None:
    """Seconds since the misses in a row began."""
    at = missed_since(life.history, run_now(life.history.now(life.at)), CHAT)
    return None if at is None else life.at - at


@pytest.mark.parametrize("minutes", [1.5, 4, 14, 25])
def test_misses_that_go_on_begin_with_the_first_of_them(minutes: float) -> None:
    """To one tick within the shown window, and to a minute before it."""
    life = Life()
    life.minutes(8)
    life.minutes(minutes, missing=0.3)

    assert since(life) == pytest.approx(60 * minutes, abs=STEP_SECONDS if minutes < 5 else 65.0)


def test_misses_before_a_calm_minute_are_another_story() -> None:
    life = Life()
    life.minutes(5, missing=0.6)
    life.minutes(3)
    life.minutes(2, missing=0.6)

    assert since(life) == pytest.approx(120.0, abs=STEP_SECONDS)


def test_a_minute_with_no_more_misses_than_are_allowed_begins_nothing() -> None:
    life = Life()
    life.minutes(8, missing=0.02)

    assert since(life) is None
