"""How far a verdict is trusted."""

from dataclasses import replace

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import PhaseTime
from sidecar.diagnosis.tree import diagnose
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
        replace(sure, agreement={"queue": 0.8}),
        replace(sure, traffic_seen=0.7),
        replace(sure, unsplit={"no_report": 0.6}),
        replace(sure, phases={Blame.QUEUE: PhaseTime(mean_seconds=1.0, sources={"estimated": 1.0})}),
    ]

    assert diagnose(sure).confidence is Confidence.HIGH
    assert {diagnose(one).confidence for one in doubts} == {Confidence.FAIR}
    assert diagnose(live(verdict(Blame.UNATTRIBUTED))).confidence is Confidence.LOW
