"""Ways to a pod besides a turned Service: policies on either side, addresses without ports, pools with several."""

import copy
import json
from typing import Any

import pytest

from sidecar.commands.inject.attaching import Attached, Settings, attach_all
from sidecar.commands.inject.manifest_text import read, written


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llm"},
    "spec": {"selector": {"matchLabels": {"app": "llm"}}, "template": {"metadata": {"labels": {"app": "llm"}}, "spec": {
        "containers": [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"], "ports": [{"containerPort": 8000}]}]}}},
}  # fmt: skip
SERVICE: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm"}, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 8000}]}}  # fmt: skip


def attached(*further: dict[str, Any]) -> tuple[list[Any], Attached]:
    """The objects after DEPLOYMENT, and what was done."""
    text = "---\n".join(json.dumps(one) + "\n" for one in (copy.deepcopy(DEPLOYMENT), *further))
    documents = read(text, "x")
    done = attach_all(documents, Settings(every=True))
    objects = [json.loads(json.dumps(one)) for each in read(written(documents), "again") for one in each.objects]
    return objects[1:], done


def policy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("ports", "added"),
    [
        ([{"port": 8000}], True),
        ([{"port": 7990, "endPort": 8010}], True),
        ([{"port": 8000, "endPort": 9000}], False),
        ([{"port": 8001, "endPort": 8010}], False),
        ([{"port": 8000, "protocol": "UDP"}], False),
        ([{"protocol": "TCP"}], False),
        ([{"port": 8000}, {"port": 8900}], False),
    ],
)
def test_a_policy_that_lets_clients_in_lets_them_reach_the_sidecar(ports: list[Any], added: bool) -> None:
    """A range may have the engine's port and not the sidecar's, or both."""
    (_, found), _ = attached(SERVICE, policy(podSelector={"matchLabels": {"app": "llm"}}, ingress=[{"ports": ports}]))

    assert found["spec"]["ingress"][0]["ports"] == [*ports, *([{"protocol": "TCP", "port": 8900}] if added else [])]


HERE = {"podSelector": {"matchLabels": {"app": "llm"}}}


@pytest.mark.parametrize(
    ("peers", "added", "told"),
    [
        ([HERE], True, "NetworkPolicy p lets out to port 8900 too"),
        ([{"podSelector": {"matchLabels": {"app": "db"}}}], False, ""),
        ([HERE, {"ipBlock": {"cidr": "10.0.0.0/8"}}], False, "let them out to 8900 too"),
        ([{**HERE, "namespaceSelector": {}}], False, "let them out to 8900 too"),
        ([], False, "let them out to 8900 too"),
    ],
)
def test_a_policy_on_the_clients_side_is_kept_right_or_told(peers: list[Any], added: bool, told: str) -> None:
    """It is asked for the pod's own port, behind the Service. A rule that opens more than these pods is the owner's to widen."""
    rule = {"ports": [{"port": 8000}], **({"to": peers} if peers else {})}
    (_, found), done = attached(SERVICE, policy(podSelector={"matchLabels": {"app": "client"}}, egress=[rule]))

    assert len(found["spec"]["egress"][0]["ports"]) == 1 + added
    assert told in "\n".join(done.lines)
    assert bool(told) == ("NetworkPolicy p" in "\n".join(done.lines))


def test_a_policy_of_another_namespace_is_told_if_it_may_be_about_these_pods() -> None:
    """Its selector of pods alone is about its own namespace."""
    placed = [
        {**copy.deepcopy(one), "metadata": {**one["metadata"], "namespace": "a"}} for one in (DEPLOYMENT, SERVICE)
    ]
    there = {"metadata": {"name": "p", "namespace": "b"}}
    for peer, told in ((HERE, False), ({**HERE, "namespaceSelector": {}}, True)):
        rule = {"ports": [{"port": 8000}], "to": [peer]}
        found = {**policy(podSelector={}, egress=[rule], ingress=[{"ports": [{"port": 8000}]}]), **there}
        documents = read("---\n".join(json.dumps(one) + "\n" for one in (*placed, found)), "x")
        done = attach_all(documents, Settings(every=True))

        assert documents[-1].changed is False
        assert ("NetworkPolicy p in b lets its pods out" in "\n".join(done.lines)) is told


def test_a_headless_service_without_ports_leads_to_the_sidecar_by_the_engines_port() -> None:
    """Its clients have the pods' addresses, and ask at the engine's port as ever."""
    headless = {**SERVICE, "metadata": {"name": "pods"}, "spec": {"clusterIP": "None", "selector": {"app": "llm"}}}
    found, done = attached(SERVICE, headless)

    assert found == [SERVICE, headless]
    assert "Service pods is headless and maps no port, so the sidecar takes port 8000" in "\n".join(done.lines)


def test_a_pool_with_a_port_for_each_rank_is_refused() -> None:
    """One of them would be turned, and the others would go past the sidecar."""
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "ranks"},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}, {"number": 8001}], "endpointPickerRef": {"name": "epp"}},
    }  # fmt: skip
    _, done = attached(pool)

    assert [each.partition(" of these")[0] for each in done.refused] == [
        "Deployment llm: InferencePool ranks leads to ports 8001"
    ]


@pytest.mark.parametrize(
    ("expression", "is_about"),
    [
        ({"key": "app", "operator": "In", "values": ["llm", "x"]}, True),
        ({"key": "app", "operator": "In", "values": ["x"]}, False),
        ({"key": "app", "operator": "NotIn", "values": ["llm"]}, False),
        ({"key": "app", "operator": "NotIn", "values": ["x"]}, True),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "track", "operator": "Exists"}, False),
        ({"key": "app", "operator": "DoesNotExist"}, False),
        ({"key": "track", "operator": "DoesNotExist"}, True),
        ({"key": "app", "operator": "in"}, False),
    ],
)
def test_a_policy_that_chooses_pods_by_an_expression(expression: dict[str, Any], is_about: bool) -> None:
    """One about other pods stays as it is: it would let clients of theirs reach a port more."""
    chooses = {"matchExpressions": [expression]}
    (_, found), _ = attached(SERVICE, policy(podSelector=chooses, ingress=[{"ports": [{"port": 8000}]}]))

    assert (len(found["spec"]["ingress"][0]["ports"]) == 2) is is_about


def named(**metadata: Any) -> dict[str, Any]:
    """The DEPLOYMENT with a name for its port."""
    one = copy.deepcopy(DEPLOYMENT)
    one["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8000}]
    one["metadata"] |= metadata
    return one


def lines_of(*objects: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """The objects after they were attached, and what was told."""
    documents = read("---\n".join(json.dumps(one) + "\n" for one in objects), "x")
    done = attach_all(documents, Settings(every=True))
    assert done.refused == []
    text = written(documents)
    return [json.loads(json.dumps(one)) for each in read(text, "again") for one in each.objects], done.lines


def test_a_port_by_name_is_a_number_on_both_sides_of_a_policy_where_the_sidecar_takes_it() -> None:
    """The name goes with the engine to its new port; there no client may come any more."""
    ports = [{"port": "http"}]
    both = policy(podSelector={"matchLabels": {"app": "llm"}}, ingress=[{"ports": ports}])
    clients = policy(podSelector={}, egress=[{"to": [HERE], "ports": ports}, {"ports": ports}])
    objects, lines = lines_of(named(), both, clients)

    assert objects[1]["spec"]["ingress"][0]["ports"] == [{"port": 8000}]
    assert [rule["ports"] for rule in objects[2]["spec"]["egress"]] == [[{"port": 8000}], ports]
    assert any("lets its pods out to port http by name, and stays" in line for line in lines)


def test_a_name_that_goes_with_the_engine_is_told_for_services_elsewhere() -> None:
    told = "  port http goes with the engine: a Service elsewhere that asks for it by name must ask for 8000"

    assert told in lines_of(named())[1]
    assert told not in lines_of(named(), SERVICE)[1]


@pytest.mark.parametrize(("pods", "service"), [("", "llm"), ("llm", ""), ("llm", "llm")])
def test_what_states_no_namespace_stands_where_the_rest_does(pods: str, service: str) -> None:
    leads = {**SERVICE, "metadata": {"name": "llm", "namespace": service}}

    objects, _ = lines_of(named(namespace=pods), leads)

    assert objects[1]["spec"]["ports"][0]["targetPort"] == 8900


def test_a_policy_of_another_project_is_told_if_it_names_the_engines_port() -> None:
    def other(port: str) -> dict[str, Any]:
        rule = {"toPorts": [{"ports": [{"port": port}]}]}
        return {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": {"name": f"p{port}"}, "spec": {"ingress": [rule]}}  # fmt: skip

    _, lines = lines_of(named(), SERVICE, other("8000"), other("18000"))

    assert [line for line in lines if "Cilium" in line] == [
        "  CiliumNetworkPolicy p8000 names port 8000, and stays: if it is about these pods, let it let 8900 pass too"
    ]
