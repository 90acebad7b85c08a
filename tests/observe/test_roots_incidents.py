"""The incident that is open, on the page and in the log: since when, its root, and what spoke for it."""

import pytest

from sidecar.metrics import catalogue as c
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause
from tests.observe.pod_story import PodStory, calm_pod, decodes_dearly, leader


def open_ones(pod: PodStory) -> dict[tuple[str, ...], float]:
    pod.harness.page()
    family = pod.metrics.gauge(c.INCIDENT_AGE_SECONDS)
    return {key: child.value for key, child in family.children.items() if child.value is not None}


@pytest.mark.long
def test_an_incident_is_on_the_page_with_its_age_while_it_is_open() -> None:
    pod = calm_pod()
    began_at = pod.now
    pod.waits(60)
    found = open_ones(pod)
    seconds = pod.now - began_at
    pod.calm(800)

    assert found == {("engine", "silence"): pytest.approx(seconds, abs=5.0)}
    assert open_ones(pod) == {}


TOLD = (
    *(c.INCIDENT_SIZE_RATIO_LOW, c.INCIDENT_SIZE_RATIO, c.INCIDENT_SIZE_RATIO_HIGH),
    *(c.INCIDENT_CONFIDENCE_RATIO, c.INCIDENT_SHOWN_AGE_SECONDS),
)


def told(pod: PodStory) -> list[dict[tuple[str, ...], float]]:
    """Label values to the value of each series that tells of the incident."""
    pod.harness.page()
    families = (pod.metrics.gauge(metric) for metric in TOLD)
    return [
        {key: child.value for key, child in family.children.items() if child.value is not None} for family in families
    ]


@pytest.mark.long
def test_one_root_is_told_with_its_size_for_as_long_as_the_incident_lasts() -> None:
    """Steps are dear for a minute; another minute later no ratio shows it, and misses still stand in the windows that burn."""
    pod = calm_pod()
    for _ in range(60):
        decodes_dearly(pod)
    during, shown_at = told(pod), pod.now
    pod.calm(60)
    calm_seconds = pod.now - shown_at
    after, ratio = told(pod), pod.metrics.gauge(c.EVIDENCE_RATIO).child(Cause.DECODE_COST).value
    pod.calm(700)

    low, size, high, confidence, age = during
    assert [set(one) for one in during] == [{("decode", "decode_cost", "step")}] * 3 + [{("decode", "decode_cost")}] * 2
    assert [*size.values()] == [pytest.approx(3.0, rel=0.2)]
    assert [*low.values()] < [*size.values()] < [*high.values()]
    assert 0.6 < next(iter(confidence.values())) <= 1.0
    assert ratio == pytest.approx(1.0, abs=0.15)
    assert open_ones(pod) == {}
    assert after == [low, size, high, confidence, {root: each + calm_seconds for root, each in age.items()}]
    assert told(pod) == [{}] * 5


def test_an_incident_of_unknown_root_has_a_beginning_and_a_log_too() -> None:
    """A process that knows nothing usual yet: its page says since when, and why no root is known."""
    pod = PodStory()
    pod.harness.slo.roots.unix_of = lambda at: 1_000_000.0 + at
    for _ in range(60):
        pod.second(prefill=20.0)
    found = open_ones(pod)
    (logged,) = pod.harness.slo.roots.incidents.as_json()

    assert list(found) == [("unattributed", "young")]
    assert (logged["phase"], logged["cause"]) == ("unattributed", "young")
    assert logged["began_timestamp_seconds"] == 1_000_000.0 + pod.now - found["unattributed", "young"]
    assert logged["signs"] == ["young"]


@pytest.mark.long
def test_the_log_of_incidents_has_each_with_its_root_and_its_votes() -> None:
    """Tokens are dear for a minute, and then all is well again."""
    pod = calm_pod()
    roots = pod.harness.slo.roots
    roots.unix_of = lambda at: 1_000_000.0 + at
    for _ in range(60):
        decodes_dearly(pod)
    open_one = roots.incidents.as_json()[0]
    pod.calm(700)
    over = roots.incidents.as_json()[0]

    assert open_one["ended_timestamp_seconds"] is None
    assert len(roots.incidents.as_json()) == 1
    assert over["phase"] == Blame.DECODE
    assert over["ended_timestamp_seconds"] > over["began_timestamp_seconds"] > 1_000_000.0
    assert leader(over["votes"]) == Blame.DECODE
    assert open_one["votes"][Blame.DECODE] > 0.0
    assert over["evidence_ratios"][Cause.DECODE_COST] == pytest.approx(3.0, rel=0.2)
    assert over["size"]["ratio"] == pytest.approx(3.0, rel=0.2)
    assert over["size"]["low"] <= over["size"]["ratio"] <= over["size"]["high"]
    assert 0.6 < over["confidence"] <= 1.0
    assert over["began_timestamp_seconds"] < over["leads"][0]["timestamp_seconds"]
