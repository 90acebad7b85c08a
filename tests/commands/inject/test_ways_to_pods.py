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


def attached(*further: dict[str, Any], moves: bool = True) -> tuple[list[Any], Attached]:
    """The objects after DEPLOYMENT, and what was done. `moves`: its engine can be told another port; else what leads there is turned."""
    first = copy.deepcopy(DEPLOYMENT)
    if not moves:
        first["spec"]["template"]["spec"]["containers"][0] |= {"command": ["/serve.sh"]}
    text = "---\n".join(json.dumps(one) + "\n" for one in (first, *further))
    documents = read(text, "x")
    done = attach_all(documents, Settings(every=True))
    objects = [json.loads(json.dumps(one)) for each in read(written(documents), "again") for one in each.objects]
    return objects[1:], done


def policy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec}


ENGINES = [8000]
BESIDE: dict[bool, tuple[int, int]] = {True: (8000, 18000), False: (8900, 8000)}
"""The port that clients need then, and the engine's own, which they need for `bypass`: where the engine moves, and where it does not."""


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize(
    ("ports", "lets_in"),
    [
        ([{"port": 8000}], ENGINES),
        ([{"port": 8000, "protocol": None}], ENGINES),
        ([{"port": 7990, "endPort": 8010}], ENGINES),
        ([{"port": 8000, "endPort": 9000}], [8000, 8900]),
        ([{"port": 8000, "endPort": 18000}], [8000, 8900, 18000]),
        ([{"port": 8001, "endPort": 8010}], []),
        ([{"port": 8000, "protocol": "UDP"}], []),
        ([{"protocol": "TCP"}], [8000, 8900, 18000]),
        ([{"port": 8000}, {"port": 8900}], [8000, 8900]),
    ],
)
def test_a_policy_that_lets_clients_in_lets_them_reach_the_sidecar_and_the_way_past_it(
    ports: list[Any], lets_in: list[int], moves: bool
) -> None:
    """A range may have some of them; a rule about another port stays."""
    is_ours = policy(podSelector={"matchLabels": {"app": "llm"}}, ingress=[{"ports": ports}])
    (_, found), _ = attached(SERVICE, is_ours, moves=moves)
    added = [{"protocol": "TCP", "port": port} for port in BESIDE[moves] if lets_in and port not in lets_in]

    assert found["spec"]["ingress"][0]["ports"] == [*ports, *added]


HERE = {"podSelector": {"matchLabels": {"app": "llm"}}}


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize(
    ("peers", "added", "told"),
    [
        ([HERE], True, "NetworkPolicy p lets out to port {} too"),
        ([{"podSelector": {"matchLabels": {"app": "db"}}}], False, ""),
        ([HERE, {"ipBlock": {"cidr": "10.0.0.0/8"}}], False, "let them out to {} too"),
        ([{**HERE, "namespaceSelector": {}}], False, "let them out to {} too"),
        ([], False, "let them out to {} too"),
    ],
)
def test_a_policy_on_the_clients_side_is_kept_right_or_told(
    peers: list[Any], added: bool, told: str, moves: bool
) -> None:
    """It is asked for the pod's own port, behind the Service. A rule that opens more than these pods is the owner's to widen."""
    rule = {"ports": [{"port": 8000}], **({"to": peers} if peers else {})}
    of_clients = policy(podSelector={"matchLabels": {"app": "client"}}, egress=[rule])
    (_, found), done = attached(SERVICE, of_clients, moves=moves)

    assert len(found["spec"]["egress"][0]["ports"]) == 1 + added
    assert told.format(18000 if moves else 8900) in "\n".join(done.lines)
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
    """One of them would lead to the sidecar, and the others past it."""
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


BY_NAME: dict[str, Any] = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": "http"}]}}  # fmt: skip


@pytest.mark.parametrize("leads", [[], [SERVICE], [BY_NAME]], ids=["nothing", "a number", "a name"])
def test_a_policy_by_name_stays_and_lets_the_way_past_the_sidecar_in_too(leads: list[dict[str, Any]]) -> None:
    """The name is the sidecar's in each way, so that policies elsewhere that have it need nothing."""
    ports = [{"port": "http"}]
    both = policy(podSelector={"matchLabels": {"app": "llm"}}, ingress=[{"ports": ports}])
    clients = policy(podSelector={}, egress=[{"to": [HERE], "ports": ports}, {"ports": ports}])
    objects, lines = lines_of(named(), *leads, both, clients)
    engine = {"protocol": "TCP", "port": 8000 if leads == [BY_NAME] else 18000}

    assert objects[-2]["spec"]["ingress"][0]["ports"] == [*ports, engine]
    assert [rule["ports"] for rule in objects[-1]["spec"]["egress"]] == [[*ports, engine], ports]
    assert any("NetworkPolicy p lets its pods out to port 8000, and stays" in line for line in lines)


NUMBERED = [
    policy(podSelector={"matchLabels": {"app": "llm"}}, ingress=[{"ports": [{"port": 8000}]}]),
    policy(podSelector={}, egress=[{"to": [HERE], "ports": [{"port": 8000}]}]),
    {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": {"toPorts": "8000"}},
]  # fmt: skip


@pytest.mark.parametrize("guard", NUMBERED, ids=["clients in", "clients out", "another project's"])
def test_a_name_does_not_become_the_sidecars_where_a_policy_names_the_number(guard: dict[str, Any]) -> None:
    """The way back would close the policy for new connections while pods with a sidecar still serve by it."""
    objects, lines = lines_of(named(), BY_NAME, guard)

    assert objects[0]["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"name": "http", "containerPort": 8000}]
    assert any(" p names the number 8000, so the sidecar takes port 8000" in line for line in lines)


def router(*words: str) -> dict[str, Any]:
    containers = [{"name": "router", "image": "lmstack-router", "args": ["--service-discovery", "k8s", *words]}]
    template = {"metadata": {"labels": {"app": "router"}}, "spec": {"containers": containers}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "router"}, "spec": {"template": template}}  # fmt: skip


@pytest.mark.parametrize(("words", "engine"), [((), 18000), (("--k8s-port", "8000"), 18000), (("--k8s-port=8900",), 8000)])  # fmt: skip
def test_a_router_that_finds_pods_by_their_labels_asks_the_sidecar_at_the_port_that_it_asks(
    words: tuple[str, ...], engine: int
) -> None:
    """Nothing resolves a name for it. One that was told 8900 by the values of an earlier tree gets what it asks for."""
    objects, _ = lines_of(named(), BY_NAME, router(*words))
    args = objects[0]["spec"]["template"]["spec"]["initContainers"][0]["args"]

    assert args[0] == f"--engine.url=http://127.0.0.1:{engine}"


@pytest.mark.parametrize(("pods", "service"), [("", "llm"), ("llm", ""), ("llm", "llm")])
def test_what_states_no_namespace_stands_where_the_rest_does(pods: str, service: str) -> None:
    leads = {**SERVICE, "metadata": {"name": "llm", "namespace": service}}

    _, lines = lines_of(named(namespace=pods), leads)

    assert any("asks for its number" in line for line in lines)


@pytest.mark.parametrize("target", [{"targetPort": None}, {"targetPort": 0}, {"targetPort": "", "protocol": None}])
def test_a_service_whose_chart_left_its_target_empty_asks_for_its_own_number(target: dict[str, Any]) -> None:
    """Kubernetes takes null, 0 and "" for what is not stated."""
    empty = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 8000, **target}]}}
    (found,), done = attached(empty, moves=False)

    assert found["spec"]["ports"] == [{"port": 8000, **target, "targetPort": 8900}]
    assert done.in_steps != []
