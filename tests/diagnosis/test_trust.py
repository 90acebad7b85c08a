"""The confidence in a verdict."""

from dataclasses import replace

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import PhaseTime
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import FAULTS
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective
from tests.support.measured import live, verdict


def test_trust_is_high_and_each_doubt_lowers_it() -> None:
    sure = live(verdict(Blame.QUEUE, Cause.LOAD))
    doubts = [
        replace(sure, baseline=False),
        replace(sure, verdicts={Objective.TTFT: verdict(Blame.QUEUE, votes=6.0)}),
        replace(sure, verdicts={Objective.TTFT: verdict(Blame.QUEUE, provisional=True)}),
        replace(sure, window_seconds=300.0, votes_seconds={Objective.TTFT: 1800.0}),
        replace(sure, agreement={"queue": 0.8}),
        replace(sure, traffic_seen=0.7),
        replace(sure, unsplit={"no_report": 0.6}),
        replace(sure, phases={Blame.QUEUE: PhaseTime(mean_seconds=1.0, sources={"estimated": 1.0})}),
    ]

    assert diagnose(sure).confidence is Confidence.HIGH
    assert {diagnose(one).confidence for one in doubts} == {Confidence.FAIR}
    assert diagnose(live(verdict(Blame.UNATTRIBUTED))).confidence is Confidence.LOW


def test_only_the_engines_own_state_is_high_without_votes() -> None:
    """Votes for `engine` are votes like others: requests that it failed."""
    stated = [live(verdict(Blame.ENGINE, cause, votes=1.0)) for cause in (*FAULTS, Cause.KV)]

    assert {diagnose(one).confidence for one in stated} == {Confidence.HIGH}
    assert diagnose(live(verdict(Blame.ENGINE, votes=1.0))).confidence is Confidence.FAIR


def test_a_high_confidence_states_the_window_of_its_votes() -> None:
    votes = {Objective.TTFT: 300.0}
    sure = live(verdict(Blame.QUEUE, Cause.LOAD, votes=75.0), window_seconds=300.0, votes_seconds=votes)

    assert diagnose(sure).because == ("60 votes of the last 5 min, a clear lead, and sources that agree.",)
