"""Port 9901 behind NetworkPolicies: what scrapes gets a rule of its own, or the port is named as closed. Each pair is judged by a model of the API."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands.inject.audit import audited
from sidecar.commands.inject.manifest_text import read
from tests.support.kustomize import IMAGE
from tests.support.schemas import refused


Injecting = Callable[..., tuple[list[Any], str]]
LABELS = {"app": "llm"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "llm"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"]}]},
        },
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "llm"},
    "spec": {"selector": LABELS, "ports": [{"port": 8000}]},
}


def space(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def pods(**labels: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": {name.replace("_", "/"): value for name, value in labels.items()}}}


def among(*names: str) -> dict[str, Any]:
    told = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(names)}
    return {"namespaceSelector": {"matchExpressions": [told]}}


PROMETHEUS = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
TO_8000 = [{"protocol": "TCP", "port": 8000}]


def policy(*ingress: Any, **spec: Any) -> dict[str, Any]:
    body = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"], "ingress": list(ingress), **spec}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": body}


@pytest.fixture
def injected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Injecting:
    """The policies that `sidecar inject` makes of these, and what it says, on one line."""

    def of(*policies: Any, flags: tuple[str, ...] = ()) -> tuple[list[Any], str]:
        file = tmp_path / "all.yaml"
        file.write_text("---\n".join(json.dumps(one) + "\n" for one in (DEPLOYMENT, SERVICE, *policies)))
        assert main(["inject", "--all", IMAGE, *flags, str(file)]) == 0
        said = capsys.readouterr()
        written = [one for document in read(said.out, "x") for one in document.objects]
        assert [refused(one) for one in written if refused(one)] == []
        faults = [told for told, _ in audited(read(said.out, "x")).faults]
        assert ("is closed" in said.err) == any("is closed" in told for told in faults)
        file.write_text(said.out)
        assert main(["uninject", str(file)]) == 0
        back = [one for document in read(capsys.readouterr().out, "x") for one in document.objects]
        assert json.loads(json.dumps(back)) == [DEPLOYMENT, SERVICE, *policies]
        return [json.loads(json.dumps(one)) for one in written[2:]], " ".join(said.err.split())

    return of


def reached(policies: list[Any], port: int) -> list[Any]:
    """The peers that may reach this port; None for every peer."""
    return [
        peer
        for one in policies
        for rule in one["spec"].get("ingress") or ()
        if any(each.get("port") == port for each in rule.get("ports") or [{"port": port}])
        for peer in rule.get("from") or [None]
    ]


@pytest.mark.parametrize(
    ("rules", "scrapers"),
    [
        ([{"from": [space("gateway"), space("monitoring")], "ports": TO_8000}], [space("monitoring")]),
        ([{"from": [space("gateway")], "ports": TO_8000}, {"from": [space("observability")], "ports": [{"port": 9400}]}], [space("observability")]),
        ([{"from": [among("gateway", "monitoring")], "ports": TO_8000}], [among("monitoring")]),
        ([{"from": [PROMETHEUS | space("infra")], "ports": TO_8000}], [PROMETHEUS | space("infra")]),
        ([{"from": [pods(prometheus="k8s"), pods(app="gateway")], "ports": TO_8000}], [pods(prometheus="k8s")]),
        ([{"from": [PROMETHEUS | {"namespaceSelector": {}}, space("monitoring")], "ports": TO_8000}], [PROMETHEUS | {"namespaceSelector": {}}, space("monitoring")]),
        ([{"from": [space("monitoring")], "ports": [{"port": 8000, "endPort": 8100}]}], [space("monitoring")]),
    ],
    ids=["beside a gateway", "a rule of its own", "in a list", "pods of a namespace", "pods", "two peers", "a range"],
)  # fmt: skip
def test_a_peer_that_scrapes_gets_a_rule_with_9901_alone_and_no_other_peer_reaches_it(
    rules: Any, scrapers: Any, injected: Injecting
) -> None:
    (after,), said = injected(policy(*rules))

    assert reached([after], 9901) == scrapers
    assert after["spec"]["ingress"][-1] == {"from": scrapers, "ports": [{"protocol": "TCP", "port": 9901}]}
    assert "NetworkPolicy p lets in port 9901 for" in said


@pytest.mark.parametrize(
    "rules",
    [
        [{"from": [space("monitoring")]}],
        [{}],
        [{"from": [space("monitoring")], "ports": [*TO_8000, {"port": 9901}]}],
        [{"from": [space("monitoring")], "ports": [{"port": 8000, "endPort": 10_000}]}],
        [{"from": [space("monitoring")], "ports": [{"port": "admin"}]}],
        [{"from": [space("ours")], "ports": [{"port": 9901}]}],
    ],
    ids=["all ports", "all peers and ports", "the port already", "a range", "its name", "a peer that is not known"],
)
def test_where_9901_is_open_already_nothing_is_added(rules: Any, injected: Injecting) -> None:
    (after,), said = injected(policy(*rules))

    assert len(after["spec"]["ingress"]) == len(rules)
    assert "9901" not in said


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [{"ports": TO_8000}],
        [{"from": [{"namespaceSelector": {}}], "ports": TO_8000}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": TO_8000}],
        [{"from": [pods(app="grafana") | space("monitoring")], "ports": TO_8000}],
        [{"from": [space("gateway")], "ports": TO_8000}],
        [{"from": [{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["monitoring"]}]}}]
          , "ports": TO_8000}],
    ],
    ids=["nothing", "all peers", "all namespaces", "addresses", "Grafana beside it", "a gateway", "all but it"],
)  # fmt: skip
def test_where_nothing_is_known_to_scrape_9901_is_named_as_closed(rules: Any, injected: Injecting) -> None:
    (after,), said = injected(policy(*rules))

    assert reached([after], 9901) == []
    assert "Deployment llm: port 9901 is closed to what scrapes it, by NetworkPolicy p: let your Prometheus in" in said


def test_a_policy_about_other_pods_or_another_way_closes_nothing(injected: Injecting) -> None:
    others = policy(podSelector={"matchLabels": {"app": "redis"}})
    out = policy(policyTypes=["Egress"])
    elsewhere = policy()
    elsewhere["metadata"] = {"name": "e", "namespace": "other"}
    DEPLOYMENT["metadata"]["namespace"] = "here"  # type: ignore[index]
    try:
        _, said = injected(others, out, elsewhere)
    finally:
        del DEPLOYMENT["metadata"]["namespace"]  # type: ignore[attr-defined]

    assert "9901" not in said


@pytest.mark.parametrize(
    ("chosen", "egress", "is_closed"),
    [
        (PROMETHEUS["podSelector"], [{"to": [{"namespaceSelector": {}}], "ports": TO_8000}], True),
        ({}, [{"ports": TO_8000}], True),
        ({}, [], True),
        ({}, [{"ports": [*TO_8000, {"port": 9901}]}], False),
        ({}, [{}], False),
        ({"matchLabels": {"app": "grafana"}}, [{"ports": TO_8000}], False),
    ],
    ids=["Prometheus", "its namespace", "nothing goes out", "the port", "all", "Grafana"],
)
def test_a_scraper_that_may_not_go_out_to_9901_is_named(
    chosen: Any, egress: Any, is_closed: bool, injected: Injecting
) -> None:
    theirs = policy(podSelector=chosen, policyTypes=["Egress"], egress=egress)
    theirs["metadata"] = {"name": "out", "namespace": "monitoring"}
    _, said = injected(theirs)

    assert ("port 9901 is closed to what scrapes it, by NetworkPolicy out in monitoring" in said) == is_closed


def test_policies_add_up(injected: Injecting) -> None:
    """One denies all, and another lets the scraper in: it needs one rule, and nothing is closed."""
    deny, allow = policy(podSelector={}), policy({"from": [space("monitoring")], "ports": TO_8000})
    after, said = injected(deny, allow)

    assert reached(after, 9901) == [space("monitoring")]
    assert "is closed" not in said


def test_a_scraper_of_ones_own_is_named_by_a_label_and_a_meshs_port_by_a_flag(injected: Injecting) -> None:
    """A mesh's port carries every port of the pod, so it is opened for what scrapes, and only where it is asked for."""
    rules = [{"from": [pods(team="watch") | space("ops"), space("gateway")], "ports": TO_8000}]
    (unnamed,), _ = injected(policy(*rules))
    (named,), _ = injected(policy(*rules), flags=("--scraper=team=watch", "--mesh-port=15008"))

    assert reached([unnamed], 9901) == []
    assert named["spec"]["ingress"][-1] == {
        "from": [pods(team="watch") | space("ops")],
        "ports": [{"protocol": "TCP", "port": 9901}, {"protocol": "TCP", "port": 15008}],
    }


@pytest.mark.parametrize("flag", ["--scraper=watch", "--scraper=a=b,c=d", "--mesh-port=0", "--mesh-port=70000"])
def test_a_wrong_flag_is_refused(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.json").write_text(json.dumps(DEPLOYMENT))

    assert main(["inject", "--all", IMAGE, flag, str(tmp_path / "all.json")]) == 2
    assert flag.replace("=", " ", 1) in capsys.readouterr().err


def test_a_rule_of_ours_that_has_changed_since_is_not_taken_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another rule may stand at its place by now, and nothing else would say so."""
    file = tmp_path / "all.yaml"
    given = policy({"from": [space("monitoring")], "ports": TO_8000})
    file.write_text("---\n".join(json.dumps(one) + "\n" for one in (DEPLOYMENT, SERVICE, given)))
    assert main(["inject", "--all", IMAGE, str(file)]) == 0
    before, _, behind = capsys.readouterr().out.rpartition("9901")
    file.write_text(f"{before}9902{behind}")

    assert main(["uninject", str(file)]) == 2
    assert "NetworkPolicy p: /spec/ingress/1 is no longer what was put there" in " ".join(
        capsys.readouterr().err.split()
    )
