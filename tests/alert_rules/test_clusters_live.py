"""Real Prometheus and Alertmanager servers with the shipped alerts and routes: clusters whose namespaces and jobs have the same names.

Four clusters in one Prometheus, by a label of their series; two clusters with a Prometheus each, by `external_labels` alone, one of
them an HA pair. Each has a fault of another phase, so that any page of an earlier phase would mute the others if they were one
cluster. The recorded series that alerts read are constants here: what is judged is the way from a rule to a message.
"""

import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.export.rules.rule import scaled
from tests.alert_rules.promtool import ALERTS, RULES
from tests.support.alertmanager import Alertmanager, at_sink, running_alertmanager, shipped
from tests.support.ports import free_port
from tests.support.sink import Notification, Sink, listening_sink
from tests.support.tools import need_tool


pytestmark = [pytest.mark.long, pytest.mark.timed]

FASTER = 1 / 60
FAULTS = {"eu": "engine", "us": "prefill", "ap": "decode", "sa": "queue"}
"""Cluster to the phase that breaks there, the one that mutes all others first."""
ONE, OWN = "together", "apart"
"""Namespaces of the two fleets."""


@dataclass(frozen=True, slots=True)
class Fleet:
    alertmanager: Alertmanager
    sink: Sink

    def told(self, phase: str, namespace: str, cluster: str) -> list[Notification]:
        """The pages of this phase about one cluster."""
        return self.sink.wait_for(f"/{phase}/page", about=(f'"namespace": "{namespace}"', f'"cluster": "{cluster}"'))


def burning(phase: str, namespace: str, lane: str = "chat", **cluster: str) -> list[dict[str, Any]]:
    """Rules that record what the alert of this phase reads."""
    lane_of = {"namespace": namespace, "job": "vllm", "model": "small", "lane": lane, "objective": "ttft", **cluster}
    return [
        {"record": "lane:llm_slo_root:share", "expr": "vector(0.9)", "labels": {**lane_of, "phase": phase, "window": "5m"}},
        {"record": "lane:llm_slo_burn:tier", "expr": "vector(1)", "labels": {**lane_of, "tier": "fast"}},
        *(
            {"record": f"lane:llm_slo_{counted}:increase{window}", "expr": f"vector({count})", "labels": lane_of}
            for counted, count in (("misses", 60), ("requests", 100), ("allowed_misses", 1))
            for window in ("1m", "2m", "5m")
        ),
    ]  # fmt: skip


@contextmanager
def prometheus(
    folder: Path, rules: Sequence[Mapping[str, Any]], alertmanager_url: str, external: Mapping[str, str]
) -> Iterator[None]:
    """A server that evaluates these rules and the shipped alerts. A label `prometheus_replica` stays with it, as the operator has it."""
    folder.mkdir()
    (folder / "constants.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "constants", "interval": "1s", "rules": [*rules]}]})
    )
    (folder / ALERTS).write_text(scaled((RULES / ALERTS).read_text(), FASTER))
    target = alertmanager_url.removeprefix("http://")
    config = {
        "global": {"evaluation_interval": "1s", "external_labels": dict(external)},
        "rule_files": ["*.yml"],
        "alerting": {
            "alert_relabel_configs": [{"regex": "prometheus_replica", "action": "labeldrop"}],
            "alertmanagers": [{"static_configs": [{"targets": [target]}]}],
        },
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        *(str(need_tool("prometheus")), f"--config.file={folder / 'prometheus.yaml'}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={url.removeprefix('http://')}"),
        "--rules.alert.resend-delay=1s",
    ]
    log = folder / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        deadline = time.monotonic() + 30
        is_ready = False
        while not is_ready and process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/-/ready", timeout=10).close()
                is_ready = True
            time.sleep(0.1)
        assert is_ready, log.read_text()[-4000:]
        yield
    finally:
        process.kill()
        process.wait(timeout=10)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("clusters")
    together = [rule for cluster, phase in FAULTS.items() for rule in burning(phase, ONE, cluster=cluster)]
    together += burning("queue", ONE, "code", cluster="eu")
    servers: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
        "of-all": (together, {}),
        "eu-a": (burning("engine", OWN), {"cluster": "eu", "prometheus_replica": "a"}),
        "eu-b": (burning("engine", OWN), {"cluster": "eu", "prometheus_replica": "b"}),
        "us": (burning("prefill", OWN), {"cluster": "us"}),
    }
    with ExitStack() as running:
        sink = running.enter_context(listening_sink())
        config = at_sink(shipped(), sink.url, folder, waits_divided_by=60)
        alertmanager = running.enter_context(running_alertmanager(config, folder))
        for name, (rules, external) in servers.items():
            running.enter_context(prometheus(folder / name, rules, alertmanager.url, external))
        yield Fleet(alertmanager, sink)


def page(phase: str, namespace: str, cluster: str, lane: str = "chat") -> dict[str, str]:
    """The labels of an alert in Alertmanager."""
    return {
        "alertname": f"LLM{phase.capitalize()}Burn", "severity": "page", "phase": phase,
        "cluster": cluster, "namespace": namespace, "job": "vllm", "model": "small", "lane": lane, "objective": "ttft",
    }  # fmt: skip


def test_each_of_four_clusters_in_one_prometheus_pages_by_itself(fleet: Fleet) -> None:
    """The engine that is down in one mutes the queue of its own lanes, and of no other cluster."""
    told = {
        cluster: {alert["labels"]["cluster"] for one in fleet.told(phase, ONE, cluster) for alert in one.body["alerts"]}
        for cluster, phase in FAULTS.items()
    }

    assert told == {cluster: {cluster} for cluster in FAULTS}
    assert fleet.alertmanager.wait_until_muted(page("queue", ONE, "eu", "code"))
    assert [fleet.alertmanager.muted(page(phase, ONE, cluster)) for cluster, phase in FAULTS.items()] == [False] * 4


def test_each_message_and_link_names_the_cluster(fleet: Fleet) -> None:
    for cluster, phase in FAULTS.items():
        (alert,) = fleet.told(phase, ONE, cluster)[0].body["alerts"]
        links = [alert["annotations"][link] for link in ("runbook_url", "dashboard_url")]
        chat, *_ = fleet.sink.wait_for(
            "/slack", about=(f"LLM{phase.capitalize()}Burn {phase} chat, cluster {cluster}", ONE)
        )

        assert alert["annotations"]["summary"].endswith(f", {cluster}, {ONE}")
        assert "60 of 100 requests" in alert["annotations"]["description"]
        assert [f"?cluster={cluster}&" in links[0], f"?var-cluster={cluster}&" in links[1]] == [True, True]
        assert chat.body["attachments"][0]["title"].endswith(f", cluster {cluster}")


def test_clusters_of_external_labels_page_by_themselves_and_links_ask_for_no_label(fleet: Fleet) -> None:
    """Series of such a Prometheus have no cluster: a query that asked for one would find nothing."""
    for cluster, phase in (("eu", "engine"), ("us", "prefill")):
        (alert,) = fleet.told(phase, OWN, cluster)[0].body["alerts"]
        chat, *_ = fleet.sink.wait_for(
            "/slack", about=(f"LLM{phase.capitalize()}Burn {phase} chat, cluster {cluster}", OWN)
        )

        assert alert["labels"] == page(phase, OWN, cluster)
        assert [link for link in ("runbook_url", "dashboard_url") if "cluster" in alert["annotations"][link]] == []
        assert f"cluster {cluster}, namespace {OWN}" in chat.body["attachments"][0]["text"]
        assert not fleet.alertmanager.muted(page(phase, OWN, cluster))


def test_an_ha_pair_is_one_cluster_and_one_message(fleet: Fleet) -> None:
    """Both halves send the alert, and Alertmanager has it once."""
    told = fleet.told("engine", OWN, "eu")
    later = fleet.sink.wait_for("/engine/page", about=OWN, at_least=len(told) + 1, patience_seconds=3)

    assert [[alert["labels"]["cluster"] for alert in one.body["alerts"]] for one in later] == [["eu"]]
