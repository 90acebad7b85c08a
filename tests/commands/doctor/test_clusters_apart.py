"""Two clusters that nothing tells apart are found, by series and by alerts; one cluster, and an HA pair of it, are not taken for two."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sidecar.commands.doctor.clusters_apart import external_labels, identity_labels
from sidecar.commands.doctor.gathered import Evidence, Read
from sidecar.commands.doctor.links import Link, State
from sidecar.commands.export.identity_labels import Identity
from sidecar.commands.export.rules.rule_files import files
from sidecar.config.quick_yaml import read_yaml
from tests.commands.doctor.one_change import alertmanager, prometheus, routed, said, states
from tests.commands.doctor.sound_evidence import NOW, STARTED, TARGET, api, groups, routes, sound, told, vector


ELSEWHERE = {**TARGET, "instance": "10.9.0.7:9901"}
EU = {"cluster": "eu"}
Change = Callable[[Evidence], None]


def scraped(*processes: tuple[Mapping[str, str], float, float]) -> Change:
    """Processes that Prometheus has: labels, start and last scrape."""

    def change(evidence: Evidence) -> None:
        prometheus("sidecars", vector(*((labels, started) for labels, started, _ in processes)))(evidence)
        prometheus("scraped_at", vector(*((labels, at) for labels, _, at in processes)))(evidence)

    return change


def beside(labels: Mapping[str, str], started: float = STARTED - 500, at: float = NOW - 5) -> Change:
    """This process and another."""
    return scraped((TARGET, STARTED, NOW - 3), (labels, started, at))


def together(*changes: Change) -> Change:
    def change(evidence: Evidence) -> None:
        for one in changes:
            one(evidence)

    return change


def adds(**labels: str) -> Change:
    """Prometheus adds these labels to its alerts."""
    return prometheus("config", api({"yaml": json.dumps({"global": {"external_labels": labels}})}))


def in_alertmanager(*alerts: Mapping[str, str], began: str = "2026-09-21T14:00:00.000Z") -> Change:
    sent = {"status": {"state": "active"}, "startsAt": began, "updatedAt": "2026-09-21T14:13:00.000Z"}
    return alertmanager(
        "alerts", told(json.dumps([{"labels": labels, **sent} for labels in ({"alertname": "Watchdog"}, *alerts)]))
    )


def fires(labels: Mapping[str, str]) -> Change:
    """This Prometheus fires an alert with these labels."""

    def change(evidence: Evidence) -> None:
        loaded: list[dict[str, Any]] = groups()
        rule = next(rule for group in loaded for rule in group["rules"] if rule["name"] == labels["alertname"])
        rule["alerts"] = [{"labels": dict(labels)}]
        prometheus("rules", api({"groups": loaded}))(evidence)

    return change


PAGE = {
    "alertname": "LLMEngineDown",
    "severity": "page",
    "phase": "engine",
    **{name: TARGET[name] for name in ("namespace", "job", "pod")},
}
FOREIGN = {**PAGE, "job": "mistral", "pod": "mistral-0"}
MERGING = {"inhibit_rules": json.loads(json.dumps(routes()["inhibit_rules"]).replace('"cluster", ', ""))}
"""The inhibition of 0.1.0."""


@pytest.mark.parametrize(
    ("change", "link", "words"),
    [
        (beside(ELSEWHERE), Link.LABELS, "llama-0 of namespace llm is scraped at 10.0.0.7:9901 and at 10.9.0.7:9901"),
        (beside({**TARGET, "site": "b"}), Link.LABELS, "two clusters that nothing tells apart -> give each cluster's targets a label"),
        (prometheus("falling_starts", vector((TARGET, 40.0))), Link.LABELS, "began 40 times earlier than before"),
        (together(adds(cluster="eu"), routed(**MERGING)), Link.ROUTES, "of another cluster mutes this one's page of"),
        (in_alertmanager({"alertname": "Watchdog", "cluster": "us"}), Link.ROUTES, "has alerts of cluster=us, and those of this Prometheus name no cluster"),
        (
            scraped(({**TARGET, "k8s_cluster": "eu"}, STARTED, NOW), ({**TARGET, "pod": "b", "instance": "b:1", "k8s_cluster": "us"}, STARTED - 9, NOW)),
            Link.LABELS,
            "namespace llm differ by k8s_cluster (eu, us), and the loaded rules add them up as one -> let rules, routes and dashboards ask",
        ),
        (
            together(adds(region="eu", prometheus_replica="a"), in_alertmanager({"alertname": "Watchdog", "region": "us", "prometheus_replica": "b"})),
            Link.ROUTES,
            "do not ask for region under equal -> let rules, routes and dashboards ask for region",
        ),
        (in_alertmanager(FOREIGN), Link.ROUTES, "another Prometheus sends LLMEngineDown of namespace llm, job mistral"),
    ],
    ids=["two pods", "one address", "one series", "inhibition", "named elsewhere", "another label", "another external label", "foreign job"],
)  # fmt: skip
def test_two_clusters_under_one_name_are_found(change: Change, link: Link, words: str) -> None:
    evidence = sound()
    change(evidence)

    assert states(evidence)[State.BROKEN] == [link.label]
    assert words in said(evidence, link)


@pytest.mark.parametrize(
    "change",
    [
        beside(ELSEWHERE, at=STARTED - 1),
        beside({**TARGET, "instance": "10.0.0.7:9902"}),
        scraped(({**TARGET, **EU}, STARTED, NOW - 3), ({**ELSEWHERE, "cluster": "us"}, STARTED - 500, NOW - 5)),
        beside({**ELSEWHERE, "pod": "llama-1"}),
        adds(cluster="eu", prometheus_replica="a"),
        together(adds(prometheus_replica="a"), in_alertmanager({"alertname": "Watchdog", "prometheus_replica": "b"})),
        scraped(({**TARGET, "zone": "a"}, STARTED, NOW), ({**TARGET, "pod": "b", "instance": "b:1", "zone": "b"}, STARTED - 9, NOW)),
        together(adds(cluster="eu"), in_alertmanager({"alertname": "Watchdog", "cluster": "us"}, FOREIGN | {"cluster": "us"})),
        together(fires(PAGE), in_alertmanager(PAGE)),
        in_alertmanager(FOREIGN, began="2026-09-21T14:13:00.000Z"),
        in_alertmanager({"alertname": "HostDown"}),
        routed(**MERGING),
    ],
    ids=[
        "a pod made anew",
        "two containers of one pod",
        "two clusters by label",
        "two pods",
        "half of a pair",
        "the other half of a pair",
        "two zones",
        "two clusters by external_labels",
        "an alert of its own",
        "an alert that just began",
        "an alert of others",
        "older routes, one cluster",
    ],
)  # fmt: skip
def test_what_can_be_told_apart_is_not_taken_for_two_of_one_name(change: Change) -> None:
    evidence = sound()
    change(evidence)

    assert states(evidence)[State.OK] == [link.label for link in Link]


def test_an_alert_of_a_known_job_that_another_sends_may_be_of_an_ha_pair() -> None:
    """It cannot be told from a cluster whose names are the same: unknown is never ok, and no fault."""
    evidence = sound()
    in_alertmanager(PAGE)(evidence)

    assert (states(evidence)[State.UNKNOWN], states(evidence)[State.BROKEN]) == (["routes"], [])
    assert "the other half of an HA pair sends it, or another cluster whose names are the same" in said(
        evidence, Link.ROUTES
    )


def test_a_label_that_the_fleet_has_chosen_is_read_from_the_loaded_rules() -> None:
    """Absent from series, as where Prometheus adds it to alerts, it is not missed."""
    evidence, chosen = sound(), Identity("k8s_cluster", ("region",))
    texts = files(identity=chosen)
    queries = {}
    for name in ("llm-recording.yml", "llm-alerts.yml"):
        for group in read_yaml(texts[name])["groups"]:
            queries[group["name"]] = [rule["expr"] for rule in group["rules"]]
    renamed = groups()
    for group in renamed:
        for rule, query in zip(group["rules"], queries[group["name"]], strict=True):
            rule["query"] = query
    prometheus("rules", api({"groups": renamed}))(evidence)

    assert identity_labels([rule for group in renamed for rule in group["rules"]]) == chosen.names
    assert states(evidence)[State.OK] == [link.label for link in Link]


def test_the_labels_that_prometheus_adds_are_read_from_its_config() -> None:
    evidence = sound()
    adds(cluster="eu", shard=3)(evidence)  # type: ignore[arg-type]

    assert external_labels(Read(evidence)) == {"cluster": "eu", "shard": "3"}
