"""The order of lanes, the same in the JSON document, in a terminal and on the status page."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.commands.diagnose.terminal import text
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import Latency, Measured
from sidecar.diagnosis.order import has_objective, worst_first
from sidecar.diagnosis.tree import diagnose
from sidecar.objectives.attribution import Blame
from tests.support.measured import WELL, live, verdict


def burning(name: str, phase: Blame, *, misses: float = 20.0, burn: float = 4.0) -> Diagnosis:
    slow = Latency(p99_seconds=9.0, samples=200, threshold_seconds=1.0, misses=misses, burn=burn)
    return diagnose(live(verdict(phase), lane=name, ttft=slow))


def quiet(name: str, samples: int) -> Diagnosis:
    fast = Latency(p99_seconds=0.2, samples=samples, threshold_seconds=1.0, misses=0.0, burn=0.0)
    return diagnose(Measured(source="sidecar", lane=name, model="llama", ttft=fast, inter_token=fast))


LANES = (
    burning("an engine that fails", Blame.ENGINE, burn=1.5),
    burning("the highest burn", Blame.QUEUE, burn=9.0),
    burning("a lower burn", Blame.DECODE, burn=3.0),
    burning("few misses", Blame.QUEUE, misses=3.0, burn=12.0),
    burning("no root", Blame.UNATTRIBUTED, misses=50.0, burn=20.0),
    diagnose(live(verdict(Blame.QUEUE), lane="bypassed", ttft=WELL, verdicts={}, traffic_seen=0.2)),
    quiet("well", 500),
    quiet("too few samples", 9),
)


def test_the_lane_that_a_person_should_read_about_comes_first() -> None:
    for lanes in permutations(LANES[:4]):
        assert worst_first([*LANES[4:], *lanes]) == [*LANES]


@given(st.permutations(LANES))
def test_every_text_has_this_order(lanes: list[Diagnosis]) -> None:
    written = document(lanes)

    titles = [line for line in text(written, 200).splitlines() if "[lane " in line]
    assert [one["lane"] for one in written["diagnoses"]] == [one.measured.lane for one in LANES]
    assert [line.split("[lane ")[1].split(", ")[0].rstrip("]") for line in titles] == [
        one["lane"] for one in written["diagnoses"]
    ]


def test_a_lane_has_an_objective_if_its_misses_are_counted() -> None:
    assert has_objective(LANES[0])
    assert not has_objective(diagnose(Measured(source="sidecar", lane="free", model="llama", ttft=Latency(samples=9))))
