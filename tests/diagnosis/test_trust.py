"""The confidence is a number with its count; what lowers it and what would tell more stands beside it."""

from dataclasses import replace

from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import Verdict
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Unknown
from tests.support.measured import live, verdict


def of(one: Verdict, **told: object) -> Diagnosis:
    return diagnose(live(one, window_seconds=300.0, **told))


def test_a_clear_root_states_its_share_of_how_many_misses_of_which_window() -> None:
    found = of(Verdict(roots={Blame.QUEUE: 42.0, Blame.UNATTRIBUTED: 14.0}, seconds=300.0))

    assert found.confidence == 0.75
    assert found.because == ("This is the root's share of 56 decided misses of the last 5 min.",)


def test_the_confidence_is_that_of_the_incident_while_one_is_open() -> None:
    """The page tells this number; the share of the window stands beside it."""
    one = Verdict(
        roots={Blame.QUEUE: 42.0, Blame.UNATTRIBUTED: 14.0},
        seconds=300.0,
        shown={Blame.QUEUE: 1_795_171_020.0},
        confidences={Blame.QUEUE: 0.9},
    )

    found = of(one)

    assert (found.confidence, one.confidence) == (0.9, 0.75)
    (said,) = found.because
    assert said == (
        "The open incident is as sure as that, by what its misses last showed, at 2026-11-20 10:37 UTC."
        " Of 56 decided misses of the last 5 min, 75 % have this root."
    )


def test_votes_never_exceed_the_misses_of_the_stated_window() -> None:
    """A miss of the seconds before the window may be decided within it: 75 decisions, 60 misses."""
    found = of(verdict(Blame.QUEUE, Cause.LOAD, votes=75.0))

    assert found.because == ("This is the root's share of 60 decided misses of the last 5 min.",)
    assert found.evidence[1] == "What broke is decided for 60 of 60 misses of the last 5 min: queue 100 %."


def test_below_six_tenths_nothing_is_named_and_what_would_tell_is_said() -> None:
    one = Verdict(
        roots={Blame.QUEUE: 18.0, Blame.PREFILL: 16.0, Blame.UNATTRIBUTED: 6.0},
        causes={Blame.UNATTRIBUTED: Unknown.YOUNG},
        seconds=120.0,
    )

    found = of(one, hints=("`--x` makes y tell",), unknown_costs={"prefill": "few"})

    assert (found.phase, found.candidates) == (Blame.UNATTRIBUTED, (Blame.QUEUE, Blame.PREFILL))
    assert (found.confidence, found.cause, found.reason) == (0.45, None, Unknown.YOUNG)
    assert found.because[0] == (
        "No known root has 60 % of the 40 decided misses of the last 2 min: queue 45 %, prefill 40 %, no cause found 15 %."
    )
    assert found.because[1].startswith("The usual values are learned while no objective burns")
    assert found.because[2:] == (
        "The cost of prefill is not known: too little traffic now.",
        "It would tell: `--x` makes y tell.",
    )


def test_few_misses_may_be_chance() -> None:
    found = of(verdict(Blame.QUEUE, votes=6.0))

    assert "Only 6 misses are decided: their shares may be chance." in found.because


def test_sources_that_do_not_agree_are_named_and_take_nothing_from_the_root() -> None:
    """A root needs no split of the time, so the reports' seconds may be wrong."""
    doubted = of(verdict(Blame.QUEUE), agreement={"queue": 0.3}, traffic_seen=0.2)

    assert (doubted.phase, doubted.confidence) == (Blame.QUEUE, 1.0)
    assert doubted.because[1:] == (
        "Requests report 30 % of the queue that the engine counts.",
        "Only 20 % of the engine's requests came through the sidecar.",
    )


def test_without_a_decided_miss_there_is_no_confidence() -> None:
    waiting = of(Verdict(roots={}, undecided=60.0))
    hand = diagnose(replace(live(verdict(Blame.QUEUE)), source="hand", verdicts={}))

    assert (waiting.confidence, waiting.because[0]) == (None, "No miss of the window is decided yet.")
    assert waiting.evidence[0] == "60 misses are too new: they are decided within 15 s."
    assert (hand.confidence, hand.because[0].startswith("The numbers are quantiles")) == (None, True)


def test_each_objective_has_the_confidence_of_its_own_misses() -> None:
    measured: Measured = live(verdict(Blame.QUEUE))
    other = replace(measured, verdicts={Objective.TPOT: verdict(Blame.DECODE)})

    assert (diagnose(measured).confidence, diagnose(other).confidence) == (1.0, None)
