"""Promises of every diagnosis for any measurement: two latencies, no phase without evidence, no refusal without advice."""

from dataclasses import replace

import pytest
from hypothesis import given

from sidecar.commands.diagnose.terminal import text
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis, Outcome, State
from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.diagnosis.levers import LoadLevel
from sidecar.diagnosis.measured import CostRatio, Latency, Load, Machine, Measured, PhaseTime, PodShare
from sidecar.diagnosis.tree import SMALL_BATCH, contained, diagnose, load_level
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOT_PHASES, Cause, Per
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize
from tests.support.measured import BROKEN, WELL, anything, live, verdict


@given(anything)
def test_there_are_always_two_numbers_and_never_a_phase_without_evidence(measured: Measured) -> None:
    found = diagnose(measured)
    (written,) = document([found])["diagnoses"]

    assert {"time_to_first_token", "inter_token"} <= written.keys()
    assert (found.phase is not None) == (found.outcome is Outcome.VERDICT)
    assert found.confidence is None or (found.phase is not None and 0.0 <= found.confidence <= 1.0)
    if found.phase is not None:
        assert found.evidence
        assert found.because
        assert {step.phase for step in found.steps} <= {
            found.phase,
            *found.candidates,
            *([found.second.phase] if found.second else []),
        }
        assert [step for step in found.steps if not step.what.effect] == []
    if found.outcome is Outcome.REFUSED:
        assert [missing for missing in found.missing if not missing.how] == []
        assert found.steps == ()


# --- the root --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [*ROOT_PHASES])
def test_the_root_of_the_misses_is_the_diagnosis_whatever_the_objective(phase: str) -> None:
    found = diagnose(live(verdict(phase)))

    assert (found.outcome, found.phase, found.first) == (Outcome.VERDICT, phase, Objective.TTFT)
    assert found.steps[0].phase in {phase, *found.candidates}
    assert found.not_to_do[0] in chapters()[CHAPTERS[(found.candidates or (phase,))[0]]].not_to_do


@pytest.mark.parametrize(
    ("rejected", "own", "said"),
    [
        (37.0, 0.0, "The engine rejected 37 requests in the last 5 min (429, 503 or 529)."),
        (37.0, None, "37 requests were rejected in the last 5 min."),
        *(
            (
                37.0,
                own,
                f"37 requests were rejected in the last 5 min; of all lanes, `proxy.max_in_flight` of the sidecar rejected {own:g}.",
            )
            for own in (7.0, 37.0, 90.0)
        ),
    ],
)
def test_rejections_come_before_any_word_of_a_queue(rejected: float, own: float | None, said: str) -> None:
    """A page said that more work arrived than the engine can serve, at the usual load, and never that requests were refused."""
    one = verdict(Blame.QUEUE, Cause.REJECTED)
    found = diagnose(live(one, rejected=rejected, own_rejections=own, window_seconds=300.0))

    assert (found.cause, found.evidence[0]) == (Cause.REJECTED, said)
    assert found.steps[0].what.targets == (Cause.REJECTED,)
    assert "37 more were rejected, and have no first token" in text(document([found]), columns=200)


def test_nothing_is_advised_against_rejections_that_nothing_counted() -> None:
    found = diagnose(live(verdict(Blame.QUEUE, Cause.LOAD), rejected=0.0))

    assert [step for step in found.steps if step.what.targets == (Cause.REJECTED,)] == []
    assert "rejected" not in " ".join(found.evidence)


def test_a_cause_puts_its_own_fixes_first() -> None:
    first = [diagnose(live(verdict(Blame.QUEUE, cause))).steps[0].what.targets for cause in (Cause.KV, Cause.LOAD)]

    assert ["kv" in first[0], "load" in first[1]] == [True, True]


def test_an_unattributed_verdict_names_the_flag_that_would_split_the_time() -> None:
    found = diagnose(live(verdict(Blame.UNATTRIBUTED)))

    assert found.candidates == (Blame.QUEUE, Blame.PREFILL)
    assert "`--enable-per-request-metrics`" in {step.flag for step in found.steps}


def test_a_flag_that_some_answer_shows_to_be_set_is_no_step() -> None:
    """Most are estimated, as those of the Messages API: what is left to do is what covers these."""
    queue = PhaseTime(mean_seconds=1.0, sources={"engine": 0.01, "estimated": 0.99})
    found = diagnose(live(verdict(Blame.UNATTRIBUTED), phases={Blame.QUEUE: queue}))

    flags = {step.flag for step in found.steps}
    assert ("`--enable-per-request-metrics`" in flags, "`--otlp-traces-endpoint`" in flags) == (False, True)


def test_sources_that_disagree_are_no_reason_to_refuse_a_root_and_get_no_other_answer() -> None:
    """A page names the root of the decided misses, so the diagnosis does too."""
    for told in ({"agreement": {"queue": 0.3}}, {"traffic_seen": 0.2}):
        paged = diagnose(live(verdict(Blame.QUEUE), **told))
        refused = diagnose(live(verdict(Blame.QUEUE), verdicts={}, **told))

        assert (paged.phase, refused.outcome) == (Blame.QUEUE, Outcome.REFUSED)
        assert refused.missing[0].how.startswith("the runbook LLMSidecar")


def test_an_engine_that_is_down_needs_no_samples() -> None:
    nothing = Latency(samples=0, misses=12.0, burn=20.0, burn_long=3.0)
    down = live(verdict(Blame.ENGINE, Cause.DOWN), ttft=nothing, inter_token=Latency(samples=0, misses=0.0))

    found = diagnose(down)

    assert (found.phase, found.cause, found.confidence) == (Blame.ENGINE, Cause.DOWN, 1.0)


@pytest.mark.parametrize(
    ("ttft", "outcome"),
    [
        (replace(BROKEN, misses=1.0, burn=0.002, misses_long=1.0, burn_long=0.001), Outcome.WELL),
        (replace(BROKEN, misses=9.0, burn=0.4, misses_long=9.0, burn_long=0.4), Outcome.WELL),
        (replace(BROKEN, misses=9.0, burn=1.4, misses_long=9.0, burn_long=1.4), Outcome.VERDICT),
    ],
)
def test_misses_that_the_target_allows_are_no_verdict_on_the_engine(ttft: Latency, outcome: Outcome) -> None:
    """An objective that is met is met, whatever the root of its few misses."""
    assert diagnose(live(verdict(Blame.ENGINE, Cause.DOWN), ttft=ttft)).outcome is outcome


def test_an_objective_that_the_engine_fails_comes_before_a_worse_one() -> None:
    verdicts = {Objective.TTFT: verdict(Blame.QUEUE), Objective.TPOT: verdict(Blame.ENGINE, Cause.SILENCE)}
    slow = Latency(p99_seconds=0.2, samples=5000, threshold_seconds=0.08, misses=20.0, burn=2.0)

    found = diagnose(live(verdict(Blame.QUEUE), inter_token=slow, verdicts=verdicts))

    assert (found.first, found.phase, found.cause) == (Objective.TPOT, Blame.ENGINE, Cause.SILENCE)
    assert found.second is not None
    assert (found.second.objective, found.second.phase) == (Objective.TTFT, Blame.QUEUE)


def test_a_root_stands_with_its_size_since_when_where_it_waited_and_the_worst_pod() -> None:
    one = verdict(
        Blame.PREFILL,
        Cause.PREFILL_COST,
        waited_in={Blame.QUEUE: 0.92, Blame.PREFILL: 0.08},
        began={Blame.PREFILL: 1_795_170_900.0},
        shown={Blame.PREFILL: 1_795_171_020.0},
        confidences={Blame.PREFILL: 0.93},
        sizes={Cause.PREFILL_COST: RootSize(Factor(2.2, 2.0, 2.4), Per.TOKEN)},
    )
    pods = {Objective.TTFT: (PodShare("llm-3", 55.0, 0.92, 0.13, True), PodShare("llm-1", 5.0, 0.08, 0.87, False))}

    found = diagnose(
        live(
            one,
            window_seconds=300.0,
            ratios={Cause.PREFILL_COST: 1.09, Cause.UNCACHED: 1.3, Cause.LOAD: 1.05},
            costs={"prefill": CostRatio(1.76, 1.54, 4.7)},
            pods=pods,
            load=Load(running=3.1, running_peak=9.0, waiting=12.2),
        )
    )

    assert (found.since_at, found.shown_at, found.confidence) == (1_795_170_900.0, 1_795_171_020.0, 0.93)
    assert found.evidence[:5] == (
        "Prefill costs 2.2 x the usual per token, between 2 x and 2.4 x.",
        "What broke is decided for 40 of 60 misses of the last 5 min: prefill 100 %.",
        "The requests that missed waited in queue 92 %, prefill 8 %. That is no contradiction: prompts that cost more hold up other requests and their tokens.",
        "The worst of 2 pods is llm-3, with 92 % of the misses and 13 % of the requests. It has a page of its own.",
        "It began at 2026-11-20 10:35:00 UTC; a miss showed it last at 2026-11-20 10:37:00 UTC.",
    )
    assert found.changes == (
        "Above the usual now, beside the cause: uncached 1.3 x.",
        "Not above the usual now: load.",
        "Running stands at 3, and was up to 9 in the last half hour; 12 wait.",
    )


@pytest.mark.parametrize(
    ("streaming", "p99", "state"),
    [(2.0, 0.3, State.BROKEN), (2.0, 0.02, State.MET), (0.0, 0.3, State.UNKNOWN), (None, None, State.UNKNOWN)],
)
def test_while_no_stream_is_judged_its_gaps_count_if_streams_are_under_way(
    streaming: float | None, p99: float | None, state: State
) -> None:
    """Answers longer than the window are judged by what is known of them within the window; older misses say nothing."""
    samples = 0 if not streaming else 500
    waits = Latency(
        p99_seconds=p99, samples=samples, threshold_seconds=0.08, misses=0.0, burn=None, misses_long=40.0, burn_long=4.0
    )
    load = Load(arrivals_per_second=1.0, lane_streaming=streaming)

    found = diagnose(live(verdict(Blame.QUEUE), ttft=WELL, inter_token=waits, load=load))

    assert found.inter_token.state is state


@pytest.mark.parametrize("number", ["ttft", "e2e"])
def test_an_objective_that_healed_is_not_broken_by_requests_that_it_does_not_judge(number: str) -> None:
    """These two are judged at their deadline, so a window without a judged request had none that is late."""
    healed = Latency(samples=0, misses=0.0, burn=None, misses_long=40.0, burn_long=4.0)
    load = Load(arrivals_per_second=1.0, lane_streaming=2.0)

    found = diagnose(live(verdict(Blame.QUEUE), **{"ttft": WELL, "load": load, number: healed}))

    assert found.outcome is not Outcome.VERDICT


def test_a_miss_or_two_within_the_budget_are_no_case() -> None:
    found = diagnose(live(verdict(Blame.QUEUE), ttft=replace(BROKEN, misses=5.0, burn=0.4, burn_long=0.3)))

    assert (found.outcome, found.ttft.state) == (Outcome.WELL, State.MET)


@pytest.mark.parametrize(("samples", "outcome"), [(19, Outcome.REFUSED), (20, Outcome.VERDICT), (0, Outcome.REFUSED)])
def test_a_lane_without_objectives_needs_twenty_first_tokens(samples: int, outcome: Outcome) -> None:
    phases = {Blame.QUEUE: PhaseTime(mean_seconds=2.0), Blame.PREFILL: PhaseTime(mean_seconds=0.2)}
    lane = Measured(
        source="sidecar",
        ttft=Latency(p99_seconds=4.0, mean_seconds=2.3, samples=samples),
        inter_token=Latency(p99_seconds=0.02, samples=samples * 50),
        load=Load(arrivals_per_second=1.0),
        phases=phases,
    )

    found = diagnose(lane)

    assert (found.outcome, found.phase) == (outcome, Blame.QUEUE if outcome is Outcome.VERDICT else None)


@pytest.mark.parametrize(
    "told",
    [
        {"ttft": replace(WELL, samples=1000, judged=1000.0), "inter_token": Latency(samples=0)},
        {
            "ttft": Latency(samples=3),
            "inter_token": Latency(samples=90),
            "e2e": Latency(misses=0.0, burn=0.0, judged=1000.0),
        },
    ],
    ids=["answers of one token", "three streams among whole answers"],
)
def test_a_lane_that_one_objective_judged_often_is_not_passed_over(told: dict[str, Latency]) -> None:
    assert diagnose(live(verdict(Blame.QUEUE), verdicts={}, **told)).outcome is Outcome.WELL


def test_a_lane_of_answers_of_one_token_is_told_to_have_an_objective() -> None:
    lane = live(verdict(Blame.QUEUE), verdicts={}, ttft=replace(WELL, misses=None), inter_token=Latency(samples=0))

    found = diagnose(lane)

    assert found.outcome is Outcome.REFUSED
    assert "objective" in found.missing[0].how


def test_an_objective_that_is_near_its_limit_is_not_called_met() -> None:
    near = replace(BROKEN, misses=9.0, burn=0.8, misses_long=90.0, burn_long=2.0)

    found = diagnose(live(verdict(Blame.QUEUE), ttft=near))

    assert found.ttft.state is State.NEAR
    assert found.evidence[0] == (
        "The time to first token is near its limit now; it was missed before (90 misses in the last half hour)."
    )


@pytest.mark.parametrize(("phase", "said"), [(Blame.STREAM, True), (Blame.DECODE, False), (Blame.ENGINE, False)])
def test_delivery_is_the_reason_for_missed_answers_only_where_it_is_the_phase(phase: Blame, said: bool) -> None:
    missed = Latency(p99_seconds=0.02, samples=5000, threshold_seconds=0.08, misses=60.0, burn=5.0)
    one = verdict(phase)

    found = diagnose(live(one, ttft=WELL, inter_token=missed, verdicts={Objective.TPOT: one}))

    assert any("while a client does not read" in sentence for sentence in found.evidence) is said


E2E_ALONE = Measured(
    source="sidecar",
    lane="batch",
    window_seconds=300.0,
    e2e=Latency(misses=3.0, burn=1.0, misses_long=5.0, burn_long=0.4),
    load=Load(arrivals_per_second=1.0),
)


def test_a_lane_that_promises_whole_answers_alone_is_diagnosed_before_it_has_a_verdict() -> None:
    """Its evidence is its misses. The phase is unknown, and decode is a candidate too."""
    found = diagnose(E2E_ALONE)

    assert (found.outcome, found.first, found.phase) == (Outcome.VERDICT, Objective.E2E, Blame.UNATTRIBUTED)
    assert found.candidates == (Blame.QUEUE, Blame.PREFILL, Blame.DECODE)
    assert found.evidence == (
        "The whole answer is missed 1 x as often as is allowed: 3 requests in the last 5 min, 5 in the last half hour.",
    )


def test_a_lane_without_one_request_that_was_judged_is_not_well() -> None:
    """All that came was refused as the client's error, such as by a server that is no engine."""
    nothing = Latency(samples=0, misses=0.0, judged=0.0)

    found = diagnose(replace(E2E_ALONE, ttft=nothing, inter_token=nothing, e2e=nothing))

    assert (found.outcome, found.has_few_samples) == (Outcome.REFUSED, True)


def test_an_objective_that_is_broken_by_its_misses_is_no_case_of_too_few_samples() -> None:
    """No request got its first token, and no verdict is there yet: the misses are the answer."""
    nothing = Latency(samples=0, misses=12.0, burn=20.0)

    found = diagnose(live(verdict(Blame.QUEUE), verdicts={}, ttft=nothing, inter_token=Latency(samples=0, misses=0.0)))

    assert (found.outcome, found.first, found.ttft.state) == (Outcome.VERDICT, Objective.TTFT, State.BROKEN)


@pytest.mark.parametrize("number", ["ttft", "inter_token", "e2e"])
def test_a_number_that_is_broken_by_its_misses_alone_has_evidence(number: str) -> None:
    """No verdict, no quantile and no part of any time is known, for instance in a Prometheus without the recording rules."""
    missed = Latency(samples=30, misses=8.0, burn=4.0)
    lane = replace(E2E_ALONE, **{"ttft": WELL, "inter_token": WELL, "e2e": Latency(), number: missed})  # type: ignore[arg-type]

    found = diagnose(lane)

    assert found.outcome is Outcome.VERDICT
    assert found.evidence[0].endswith("is missed 4 x as often as is allowed: 8 requests in the last 5 min.")
    assert [sentence for sentence in found.evidence if " - " in sentence] == []


def test_the_parts_of_the_first_token_do_not_speak_for_a_whole_answer() -> None:
    """The lane's streams are quick; their parts say nothing about the answers that are not streamed."""
    streams = {Blame.QUEUE: PhaseTime(mean_seconds=0.2), Blame.PREFILL: PhaseTime(mean_seconds=0.1)}
    quick = Latency(p99_seconds=0.4, mean_seconds=0.3, samples=500)

    found = diagnose(replace(E2E_ALONE, ttft=quick, inter_token=WELL, phases=streams))

    assert (found.first, found.phase) == (Objective.E2E, Blame.UNATTRIBUTED)
    assert [sentence for sentence in found.evidence if "first token" in sentence or "Queue" in sentence] == []


def test_a_diagnosis_that_fails_says_so_and_only_names_its_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_told: Measured) -> Diagnosis:
        raise ZeroDivisionError("the mistake under test")

    monkeypatch.setattr("sidecar.diagnosis.tree.diagnose", broken)
    told: list[tuple[str | None, str]] = []

    found = contained(live(verdict(Blame.QUEUE)), lambda of, error: told.append((of.lane, str(error))))

    assert (found.outcome, found.measured) == (Outcome.REFUSED, Measured(source="sidecar", lane="chat"))
    assert found.missing[0].what.startswith("The diagnosis of this lane failed: ZeroDivisionError in test_tree.py:")
    assert "The diagnosis of this lane failed" in text(document([found]))
    assert told == [("chat", "the mistake under test")]


def test_a_lane_without_objectives_is_told_where_its_time_goes_and_no_root() -> None:
    """No request of it can miss, so no root is decided: the ratios stand beside the phase."""
    lane = Measured(
        source="sidecar",
        ttft=Latency(p99_seconds=4.0, mean_seconds=2.3, samples=500),
        inter_token=Latency(p99_seconds=0.02, samples=5000),
        load=Load(arrivals_per_second=1.0),
        phases={Blame.QUEUE: PhaseTime(mean_seconds=2.0), Blame.PREFILL: PhaseTime(mean_seconds=0.2)},
        ratios={Cause.PREFILL_COST: 2.0, Cause.LOAD: 1.0},
    )

    found = diagnose(lane)

    assert (found.phase, found.cause, found.confidence) == (Blame.QUEUE, None, None)
    assert found.changes == ("Above the usual now: prefill cost 2 x.", "Not above the usual now: load.")


def test_an_objective_without_a_decided_miss_is_unattributed_whatever_its_parts() -> None:
    parts = {Blame.QUEUE: PhaseTime(mean_seconds=2.0), Blame.PREFILL: PhaseTime(mean_seconds=0.2)}

    found = diagnose(live(verdict(Blame.QUEUE), verdicts={}, phases=parts))

    assert (found.phase, found.candidates) == (Blame.UNATTRIBUTED, (Blame.QUEUE, Blame.PREFILL))


# --- the load level ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "load", "level"),
    [
        ("sidecar", Load(), None),
        ("sidecar", Load(running=SMALL_BATCH - 0.1), LoadLevel.LOW),
        ("sidecar", Load(running=SMALL_BATCH), None),
        ("sidecar", Load(running=SMALL_BATCH, waiting=0.9, kv_usage=0.84), None),
        ("sidecar", Load(running=SMALL_BATCH, waiting=1.0), LoadLevel.HIGH),
        ("sidecar", Load(running=SMALL_BATCH, kv_usage=0.85), LoadLevel.HIGH),
        ("sidecar", Load(running=2.0, waiting=5.0), LoadLevel.LOW),
        ("sidecar", Load(arrivals_per_second=1.0, output_mean_tokens=10.0), None),
        ("hand", Load(arrivals_per_second=1.0, output_mean_tokens=10.0), LoadLevel.LOW),
        ("hand", Load(arrivals_per_second=9.0, output_mean_tokens=10.0), None),
        ("hand", Load(arrivals_per_second=9.0, output_mean_tokens=10.0, waiting=3.0), LoadLevel.HIGH),
        ("hand", Load(arrivals_per_second=9.0, output_mean_tokens=10.0, running=2.0), LoadLevel.LOW),
        ("prometheus", Load(running=2.0), LoadLevel.LOW),
        ("prometheus", Load(running=64.0, waiting=9.0), None),
    ],
)
def test_the_batch_is_small_below_eight_running_requests_and_full_if_others_wait(
    source: str, load: Load, level: LoadLevel | None
) -> None:
    """One lane's rate says nothing about the engine's batch, and a fleet's sum nothing about a full one."""
    lane = Measured(source=source, inter_token=Latency(p99_seconds=0.1), load=load)

    assert load_level(lane) is level


def test_arrivals_beyond_the_peak_of_the_gpus_fill_every_batch() -> None:
    machine = Machine(parameters=13e9, gpus=2, gpu="a100")
    load = Load(arrivals_per_second=60.0, prompt_mean_tokens=2200.0)

    assert load_level(Measured(source="hand", machine=machine, load=load)) is LoadLevel.HIGH
