"""The lines below the headline: each answers in a few words, says why where it cannot, and claims no more than was seen."""

from dataclasses import replace

import pytest

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.budget import Budget, Tally
from sidecar.admin.page.first_facts import Around, facts_of_engine, facts_of_lane
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.diagnosis.measured import EngineDown, Latency, Load, Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import Verdict
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Per
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize
from tests.support.page_reader import Reader


NOW = 1_795_171_000.0
AROUND = Around(at_unix=NOW, uptime_seconds=7200.0)
TALLY = Tally(200, 60, 10)
ANATOMY = Anatomy(
    300.0,
    ever=True,
    bars=(),
    ends=(),
    budgets=(Budget("chat", Objective.TTFT, (1.0, 1.0), (0.95, 0.95), TALLY, TALLY),),
)
GROWN = {
    Cause.LOAD: 1.02,
    Cause.PROMPT_MIX: 2.0,
    Cause.PREFILL_COST: 1.04,
    Cause.DECODE_COST: 0.9,
    Cause.UNCACHED: 0.8,
    Cause.LONGER_OUTPUTS: 0.7,
}
"""Ratios of now: the load of the incident has gone already."""
SIZE = RootSize(Factor(6.0, 5.0, 7.0), Per.SECOND)


def broken(
    lane: str = "chat",
    *,
    began_at: float | None = NOW - 97.0,
    phase: Blame = Blame.QUEUE,
    cause: Cause = Cause.LOAD,
    ratios: dict[Cause, float] | None = None,
) -> Diagnosis:
    verdict = Verdict(
        roots={phase: 60.0},
        seconds=120.0,
        misses=60.0,
        causes={phase: cause},
        waited_in={Blame.QUEUE: 1.0},
        began={} if began_at is None else {phase: began_at},
        confidences={} if began_at is None else {phase: 0.9},
        sizes={Cause.LOAD: SIZE},
    )
    ttft = Latency(p99_seconds=9.0, samples=200, threshold_seconds=1.0, misses=60.0, judged=200.0, burn=6.0)
    return diagnose(
        Measured(
            source="sidecar",
            lane=lane,
            model="llama",
            window_seconds=300.0,
            ttft=ttft,
            inter_token=Latency(p99_seconds=0.02, samples=900, threshold_seconds=0.1, misses=0.0, burn=0.0),
            verdicts={Objective.TTFT: verdict},
            ratios=GROWN if ratios is None else ratios,
        )
    )


def lines(page: str) -> dict[str, str]:
    """Name of each line to its text."""
    return {
        Reader(part.partition("</dt>")[0]).text: Reader(part.partition("</dt>")[2].partition("</div>")[0]).text
        for part in page.split("<div><dt>")[1:]
    }


def of_lane(d: Diagnosis, *others: Diagnosis, around: Around = AROUND) -> dict[str, str]:
    return lines(facts_of_lane(d, (d, *others), ANATOMY, around))


def test_the_lines_answer_what_is_asked_first_and_in_this_order() -> None:
    told = of_lane(broken())

    assert list(told.items())[:6] == [
        ("Lane", "chat"),
        ("Objective", "time to first token, 95 % ≤ 1.00 s"),
        ("Since", "2026-11-20 10:35:03 UTC, 97 s ago"),
        ("Burn", "6 x the allowed misses: 60 of 200 requests, 30 %, in the last 5 min"),
        (
            "Root",
            "Cause load, 6 x the usual, confidence 90 % (60 misses of the last 2 min are decided). Waited in queue.",
        ),
        (
            "Changed",
            (
                "Grown: prompt mix 2 x. Not grown: prefill cost, decode cost, uncached and 1 more."
                " No restart and no new config in the last 30 min."
            ),
        ),
    ]
    assert list(told)[6:] == ["Do first", "Runbook"]


def test_the_first_step_is_that_of_the_card_with_this_engines_flag() -> None:
    """The line and the card below must not advise two things."""
    d = diagnose(replace(broken().measured, engine="vllm"))
    (first, *_) = d.steps

    told = of_lane(d)["Do first"]

    assert told.startswith(Reader(first.what.fix.replace("`", "")).text)
    assert first.flag is None or first.flag.replace("`", "") in told.replace(" .", ".")


def test_the_runbook_is_that_of_the_phase_filled_in_for_the_lane() -> None:
    page = Reader(facts_of_lane(broken(), (broken(),), ANATOMY, AROUND))

    assert ("href", "/runbooks/LLMQueueBurn?lane=chat&model=llama") in page.attributes


def test_an_incident_as_old_as_the_process_is_at_least_that_old() -> None:
    """A sidecar that began in the middle of an incident does not know its beginning, and one that began long before it does."""
    young = Around(at_unix=NOW, uptime_seconds=110.0)
    older = Around(at_unix=NOW, uptime_seconds=170.0)

    assert of_lane(broken(), around=young)["Since"] == (
        "at least 2026-11-20 10:35:03 UTC, 97 s ago (this page knows the last 110 s)"
    )
    assert of_lane(broken(), around=older)["Since"] == "2026-11-20 10:35:03 UTC, 97 s ago"


def test_without_an_open_incident_the_beginning_is_that_of_the_misses() -> None:
    """Misses of half an hour may be older, because the history ends there; a few misses have no beginning."""
    slow = replace(AROUND, missed_since_at_unix=NOW - 97.0)
    old = replace(AROUND, missed_since_at_unix=NOW - 1790.0)
    told = [of_lane(broken(began_at=None), around=around)["Since"] for around in (slow, old, AROUND)]

    assert told == [
        "2026-11-20 10:35:03 UTC, 97 s ago",
        "at least 2026-11-20 10:06:50 UTC, 30 min ago (this page knows the last 30 min)",
        "not known: no incident is open on this pod, and misses are few",
    ]


def test_other_broken_lanes_are_named_beside_the_first_and_many_are_counted() -> None:
    others = [broken(name) for name in ("batch", "code", "rag", "night", "agents")]

    assert of_lane(broken(), *others[:2])["Lane"] == "chat broken too: batch and code"
    assert of_lane(broken(), *others)["Lane"] == "chat broken too: batch, code, rag and 2 more"


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (replace(AROUND, engine_restarted_seconds=130.0), "The engine restarted 2 min ago."),
        (replace(AROUND, config_loaded_at_unix=NOW - 50.0), "The config was loaded again 50 s ago."),
        (
            Around(at_unix=NOW, uptime_seconds=600.0, config_loaded_at_unix=NOW - 599.0),
            "This sidecar began 10 min ago.",
        ),
        (
            replace(AROUND, config_loaded_at_unix=NOW - 7199.0),
            "No restart and no new config in the last 30 min.",
        ),
    ],
)
def test_what_happened_within_the_half_hour_stands_beside_the_numbers(around: Around, said: str) -> None:
    """The config of the start is no change, and neither is one that was loaded an hour ago."""
    assert of_lane(broken(), around=around)["Changed"].endswith(f"and 1 more. {said}")


def test_slots_that_are_gone_stand_among_what_changed() -> None:
    """No ratio tells of a batch that was made smaller: the engine's own numbers do."""
    load = Load(running=1.0, running_peak=16.0, waiting=30.0)

    told = of_lane(diagnose(replace(broken().measured, load=load)))["Changed"]

    assert "Running stands at 1, and was up to 16 in the last half hour; 30 wait." in told


def test_while_nothing_usual_is_known_nothing_is_said_to_have_grown() -> None:
    assert of_lane(broken(ratios={}))["Changed"].startswith("Nothing usual is known yet to compare with.")


def test_a_lane_without_an_objective_burns_nothing() -> None:
    d = broken()
    number = Latency(p99_seconds=9.0, mean_seconds=5.0, samples=200)
    slow = diagnose(replace(d.measured, ttft=number, inter_token=replace(number, p99_seconds=0.02), verdicts={}))

    told = of_lane(slow)

    assert told["Burn"] == "no objective p99 6 x what readers expect"
    assert told["Since"].startswith("not known")
    assert told["Objective"] == "time to first token"


def test_an_engine_that_is_down_has_its_own_beginning_fix_and_runbook() -> None:
    """Without a broken lane, the first fix of its chapter stands there; with one, the lane's own first step."""
    down = EngineDown(seconds=42.0)
    quiet = facts_of_engine(down, None, (), ANATOMY, AROUND)
    d = broken(phase=Blame.ENGINE, cause=Cause.DOWN, began_at=NOW - 30.0)
    busy = lines(facts_of_engine(down, d, (d,), ANATOMY, AROUND))
    first = chapters()[CHAPTERS[Blame.ENGINE]].fixes[0].fix

    assert lines(quiet)["Since"] == busy["Since"] == "2026-11-20 10:35:58 UTC, 42 s ago"
    assert (lines(quiet)["Lane"], busy["Lane"]) == ("none misses an objective yet", "chat")
    assert lines(quiet)["Do first"] == first
    assert busy["Do first"].startswith(d.steps[0].what.fix)
    assert "Burn" in busy
    assert ("href", "/runbooks/LLMEngineDown") in Reader(quiet).attributes


def test_the_fix_of_another_phase_mends_no_engine_that_is_down() -> None:
    d = broken()

    told = lines(facts_of_engine(EngineDown(seconds=42.0), d, (d,), ANATOMY, AROUND))

    assert told["Do first"] == chapters()[CHAPTERS[Blame.ENGINE]].fixes[0].fix
