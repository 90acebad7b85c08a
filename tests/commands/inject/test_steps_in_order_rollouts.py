"""A table of rollouts: at each instant, forwards and back, every pod that is ready is reached, and through its sidecar where it has one.

Each manifest goes through the command, and its folders through a model of Kubernetes (`tests/support/rollouts.py`). In the same change of the
template without us each ready pod is reached; so as many endpoints are ready as then, if each of them is reached here.
"""

import contextlib
import copy
import io
import json
import random
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from sidecar.cli import main
from sidecar.commands.inject.bypassing import commands
from sidecar.commands.inject.manifest_text import read
from sidecar.commands.inject.workload_kinds import DYNAMO, POD_KINDS, Led, PodKind
from tests.support.attached import EVERY, ONLY_LABELLED
from tests.support.imports import CHECKOUT
from tests.support.kustomize import MANIFESTS
from tests.support.rollouts import Objects, Template, applied, engines_port, instants, reached, routes, templates


BEFORE = sorted((Path(__file__).parent / "attached_before").glob("*.yaml"))
"""The output of the tree 7628e029 of 1 December 2026 of the manifests with the same names: with turned Services, and names that went along."""
IN_STEPS = ("redis-beside",)
"""TGI listens on port 80, where the sidecar may not."""


def objects_of(text: str) -> list[Any]:
    found: list[Any] = []
    for one in yaml.load_all(text, yaml.CSafeLoader):
        if one:
            found += one["items"] if one["kind"] == "List" else [one]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def played(command: str, text: str, folder: Path, *flags: str) -> list[Objects]:
    """The objects of each folder that the command writes, in the order of the folders' names."""
    folder.mkdir()
    (folder / "given.yaml").write_text(text)
    assert main([command, *flags, f"--out={folder / 'out'}", str(folder / "given.yaml")]) == 0
    return [objects_of(path.read_text()) for path in sorted((folder / "out").glob("*/manifests.yaml"))]


@cache
def injected(path: Path) -> list[Objects]:
    """Once in a process: no test changes them."""
    every = [] if path.stem in ONLY_LABELLED else ["--all"]
    with TemporaryDirectory() as folder:
        return played("inject", path.read_text(), Path(folder) / "in", *every, "--image=r.example.com/s:1")


def text_of(objects: Objects) -> str:
    """Documents in JSON, which are read fast; the manifests above are YAML."""
    return "---\n".join(f"{json.dumps(one)}\n" for one in objects)


def lost(
    cluster: Objects,
    steps: Sequence[Objects],
    wanted: tuple[str, ...],
    *,
    leads_first: bool = False,
    before: Objects | None = None,
) -> set[str]:
    """The pods that are not reached at some instant of these steps although they were before, or not as is wanted. `before`: the cluster without us."""
    found = set()
    led = {(each.name, key) for each in templates(cluster) for key, who in reached(cluster, each).items() if who}
    if before is not None:
        led &= {(each.name, key) for each in templates(before) for key, who in reached(before, each).items() if who}
    for step in steps:
        for instant in instants(cluster, step, leads_first=leads_first):
            for pod in instant.ready:
                asked = reached(instant.leads, pod)
                needs = wanted if pod.sidecar is not None else ("engine",)
                found |= {
                    f"{pod.name}: {key} reaches {who}"
                    for key, who in asked.items()
                    if (pod.name, key) in led and who not in needs
                }
        cluster = applied(cluster, step)
    return found


THROUGH = ("sidecar",)
IN_ANY_WAY = ("sidecar", "engine")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_going_in_loses_no_pod_and_goes_back_by_the_same_way(path: Path) -> None:
    """Back: the files of before, folder by folder in the other order; and where one step was enough, `kubectl rollout undo`, which is the pods alone."""
    before = objects_of(path.read_text())
    steps = injected(path)
    through = IN_ANY_WAY if len(steps) > 1 else THROUGH
    after: Objects = before
    for step in steps:
        after = applied(after, step)
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in before}
    same_way = [[by_name[one["kind"], one["metadata"]["name"]] for one in step] for step in reversed(steps)]

    assert len(steps) == (2 if path.stem in IN_STEPS else 1)
    assert lost(before, steps, through) == set()
    assert lost(after, same_way, through) == set()
    assert [
        who for each in templates(after) if each.sidecar for who in reached(after, each).values() if who == "engine"
    ] == []


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_going_out_loses_no_pod_and_leaves_what_was_there(path: Path, tmp_path: Path) -> None:
    before = objects_of(path.read_text())
    after: Objects = before
    for step in injected(path):
        after = applied(after, step)
    steps = played("uninject", text_of(after), tmp_path / "out")
    there: Objects = after
    for step in steps:
        there = applied(there, step)

    assert lost(after, steps, IN_ANY_WAY) == set()
    assert [without_wave(one) for one in there] == before


def without_wave(one: Any) -> Any:
    """Argo CD's wave of the way back is the one thing that stays, in the folder."""
    annotations = one["metadata"].get("annotations", {})
    if annotations.pop("argocd.argoproj.io/sync-wave", None) and not annotations:
        del one["metadata"]["annotations"]
    return one


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_what_an_earlier_tree_attached_is_taken_back_in_a_safe_order(path: Path, tmp_path: Path) -> None:
    after = objects_of(path.read_text())
    steps = played("uninject", path.read_text(), tmp_path / "out")
    there: Objects = after
    for step in steps:
        there = applied(there, step)

    turned = [asked for _, asked in routes(after).values() if 8900 in asked]
    assert len(steps) > 1 or not turned
    assert lost(after, steps, IN_ANY_WAY) == set()
    assert [without_wave(one) for one in there] == objects_of((MANIFESTS / path.name).read_text())


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_a_pipeline_that_injects_anew_what_an_earlier_tree_attached_loses_no_pod(path: Path) -> None:
    """The cluster is as that tree left it; the pipeline has the user's own files. Pods of then may be asked past their sidecar for as long as they live."""
    steps = injected(MANIFESTS / path.name)
    cluster = objects_of(path.read_text())

    assert lost(cluster, steps, IN_ANY_WAY, leads_first=True) == set()


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def asked_by_probes(pod: Template) -> list[tuple[str, object]]:
    """The ports that the engine's own probes ask: kubelet reads a name in the container itself."""
    names = {port.get("name"): port["containerPort"] for port in pod.engine.get("ports") or ()}
    asked = [
        (probe, handler.get(way, {}).get("port"))
        for probe in PROBES
        for handler in [pod.engine.get(probe) or {}]
        for way in ("httpGet", "tcpSocket", "grpc")
        if way in handler
    ]
    return [(probe, names.get(port, port)) for probe, port in asked]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_the_engines_own_probes_ask_the_engine_and_never_the_proxy(path: Path) -> None:
    for step in injected(path):
        for pod in templates(step):
            if pod.sidecar is not None:
                assert {port for _, port in asked_by_probes(pod)} <= {engines_port(pod.engine)}


# --- a table of what leads to pods, by every engine that moves and that does not --------------------------------------------


ENGINES: dict[str, dict[str, Any]] = {
    "a flag": {"image": "vllm/vllm-openai", "args": ["--model=m", "--port=8000"]},
    "its usual port": {"image": "vllm/vllm-openai", "args": ["--model=m"]},
    "a shell": {"image": "vllm/vllm-openai", "command": ["sh", "-c", "exec vllm serve m"]},
    "a variable": {"image": "x/text-generation-inference", "env": [{"name": "PORT", "value": "8000"}]},
    "a script": {"image": "vllm/vllm-openai", "command": ["/serve.sh"]},
}
"""By the way in which it is told its port, which is 8000; the script cannot be told another."""


def service(name: str, *targets: Any, **spec: Any) -> dict[str, Any]:
    ports = [
        {"name": f"p{at}", "port": 8000 + at, **({} if each is None else {"targetPort": each})}
        for at, each in enumerate(targets)
    ]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"selector": {"app": "llm"}, "ports": ports, **spec}}  # fmt: skip


def policy(*ports: Any) -> dict[str, Any]:
    rules = [{"ports": [{"protocol": "TCP", **each} for each in ports]}]
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "guard"},
        "spec": {"podSelector": {"matchLabels": {"app": "llm"}}, "policyTypes": ["Ingress"], "ingress": rules},
    }  # fmt: skip


POOL = {
    "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "pool"},
    "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}], "endpointPickerRef": {"name": "epp"}},
}  # fmt: skip
HEADLESS = service("pods", None, clusterIP="None")
LEADS: dict[str, list[dict[str, Any]]] = {
    "a name": [service("s", "http")],
    "a number": [service("s", 8000)],
    "its own number": [service("s", None)],
    "both": [service("s", "http"), service("t", 8000)],
    "both in one": [service("s", "http", 8000)],
    "a name, and headless": [service("s", "http"), HEADLESS],
    "headless": [HEADLESS],
    "a pool": [POOL],
    "a pool and a name": [POOL, service("s", "http")],
    "nothing": [],
    "a name behind a policy by name": [service("s", "http"), policy({"port": "http"})],
    "a name behind a policy by number": [service("s", "http"), policy({"port": 8000})],
    "a number behind a policy by number": [service("s", 8000), policy({"port": 8000})],
    "a number behind a policy by name": [service("s", 8000), policy({"port": "http"})],
    "a number behind a range": [service("s", 8000), policy({"port": 8000, "endPort": 8100})],
}
BESIDE: dict[str, dict[str, Any]] = {
    "alone": {},
    "beside a container with the name": {"second": {"name": "ui", "image": "x/ui", "ports": [{"name": "http", "containerPort": 3000}]}},
    "on the node's network": {"hostNetwork": True},
    "with a port of the node": {"hostPort": 80},
    "on the second of two containers": {"first": {"name": "dcgm", "image": "x/dcgm-exporter", "ports": [{"name": "metrics", "containerPort": 9400}]}},
    "beside another container on 8900": {"second": {"name": "client", "image": "x/client", "ports": [{"containerPort": 8900}]}},
}  # fmt: skip


def workload(kind: PodKind, engine: dict[str, Any], beside: Any = None, *, name: str = "llm") -> dict[str, Any]:
    """An object of this kind with one engine on port 8000, which asks itself by the name and by the number."""
    beside = beside or {}
    port = {"name": "http", "containerPort": 8000, **({"hostPort": beside["hostPort"]} if "hostPort" in beside else {})}
    container = {
        "name": "engine", **engine, "ports": [port],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}},
    }  # fmt: skip
    spec: dict[str, Any] = {
        "containers": [
            *([beside["first"]] if "first" in beside else ()),
            container,
            *([beside["second"]] if "second" in beside else ()),
        ],
        **({"hostNetwork": True} if "hostNetwork" in beside else {}),
    }
    metadata = {"labels": {"app": "llm"}}
    one: dict[str, Any] = {
        "apiVersion": f"{kind.group}/v1" if kind.group else "v1",
        "kind": kind.kind,
        "metadata": {"name": name},
    }
    if kind is DYNAMO:
        frontend = {"name": "Frontend", "type": "frontend", "podTemplate": {"metadata": metadata, "spec": spec}}
        return {**one, "apiVersion": "nvidia.com/v1beta1", "spec": {"components": [frontend]}}
    if kind.inline:
        return {**one, "apiVersion": f"{kind.group}/v1beta1", "spec": {"predictor": {**metadata, **spec}}}
    below: Any = {"metadata": metadata, "spec": spec}
    for step in reversed(kind.template):
        below = {step: below}
    return {**one, **below, "metadata": {**one["metadata"], **(metadata if not kind.template else {})}}


DEPLOYMENT = PodKind("apps", "Deployment", ("spec", "template"))


def tried(before: Objects, folder: Path) -> list[Objects] | str:
    """The steps, or the refusal."""
    folder.mkdir()
    (folder / "given.yaml").write_text(text_of(before))
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(["inject", "--all", "--image=r/s:1", f"--out={folder / 'out'}", str(folder / "given.yaml")])
    if code:
        return " ".join(said.getvalue().split())
    return [objects_of(path.read_text()) for path in sorted((folder / "out").glob("*/manifests.yaml"))]


@pytest.mark.parametrize(
    "beside", [each if each == "alone" else pytest.param(each, marks=pytest.mark.long) for each in BESIDE]
)
@pytest.mark.parametrize("leads", LEADS)
def test_whatever_leads_to_an_engine_leads_to_it_at_each_instant_in_and_out_and_past(
    leads: str, beside: str, tmp_path: Path
) -> None:
    """A refusal says what to do; where no Service leads to an engine that can be told another port, there is none."""
    for name, engine in ENGINES.items():
        before = objects_of(text_of([workload(DEPLOYMENT, engine, BESIDE[beside]), *LEADS[leads]]))
        steps = tried(before, tmp_path / f"in {name}")
        if isinstance(steps, str):
            assert (name, "the sidecar must take the engine's port, and" in steps or "uses port 8900" in steps) == (
                "a script",
                True,
            ), steps
            continue
        after: Objects = before
        for step in steps:
            after = applied(after, step)
        out = played("uninject", text_of(after), tmp_path / f"out {name}")
        there: Objects = after
        for step in out:
            there = applied(there, step)

        assert (name == "a script") >= (len(steps) > 1)
        assert lost(before, steps, IN_ANY_WAY if len(steps) > 1 else THROUGH) == set()
        assert lost(after, out, IN_ANY_WAY) == set()
        assert [without_wave(one) for one in there] == before
        past(after)


TURNED_IN_ANY_CASE: dict[str, list[dict[str, Any]]] = {
    "for another workload": [
        workload(DEPLOYMENT, ENGINES["a script"]),
        workload(DEPLOYMENT, ENGINES["a script"], BESIDE["beside a container with the name"], name="two"),
        service("s", "http"),
    ],
    "for its number": [
        workload(DEPLOYMENT, ENGINES["a script"]),
        *LEADS["a pool and a name"],
        policy({"port": "http"}),
    ],
}


@pytest.mark.parametrize("what", TURNED_IN_ANY_CASE)
def test_no_name_moves_where_what_leads_there_is_turned_in_any_case(what: str, tmp_path: Path) -> None:
    """The way back by the same files, and the way past the sidecar, lead to the name or the number of before: both must be the engine's."""
    before = objects_of(text_of(TURNED_IN_ANY_CASE[what]))
    steps = tried(before, tmp_path / "in")
    assert not isinstance(steps, str)
    pods, _ = steps
    after = applied(applied(before, pods), steps[1])

    assert lost(before, steps, IN_ANY_WAY, leads_first=True) == set()
    assert lost(after, [before], IN_ANY_WAY, leads_first=True) == set()
    assert {
        each["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
        for each in pods
        if "template" in each["spec"]
    } == {8000}
    past(after)


def past(after: Objects) -> None:
    """The commands of `bypass` lead all that they name to the engine, and those of `--back` to the sidecar again; each is let in."""
    documents = read(text_of(after), "after")
    for back in (False, True):
        told, _ = commands(documents, back=back)
        patched = copy.deepcopy(after)
        for command in told:
            words = shlex.split(command)
            one = next(
                each
                for each in patched
                if each["metadata"]["name"] == words[3] and each["kind"] in ("Service", "InferencePool")
            )
            for step in json.loads(words[-1]):
                *way, last = step["path"].split("/")[1:]
                node: Any = one
                for each in way:
                    node = node[int(each)] if isinstance(node, list) else node[each]
                node[last] = step["value"]
        named = {shlex.split(command)[3] for command in told}
        for pod in templates(patched):
            for (name, at, _), who in reached(patched, pod).items():
                if name.split()[1] in named and reached(after, pod)[name, at, True]:
                    assert who == ("sidecar" if back else "engine"), (name, told)


@pytest.mark.parametrize("kind", [*POD_KINDS, DYNAMO], ids=lambda kind: f"{kind.kind} of {kind.group or 'core'}")
@pytest.mark.parametrize("leads", ["a name", "a number", "nothing"])
def test_every_kind_goes_in_and_out(kind: PodKind, leads: str, tmp_path: Path) -> None:
    engine = {**ENGINES["its usual port"], **({"args": ["--port=8080"]} if kind.known_port == 8080 else {})}
    one = workload(kind, engine)
    if kind.known_port == 8080:
        one = json.loads(json.dumps(one).replace("8000", "8080"))
    before = objects_of(text_of([one, *(LEADS[leads] if kind.led in (Led.BY_SERVICES, Led.BY_ADDRESS) else ())]))
    steps = tried(before, tmp_path / "in")
    assert not isinstance(steps, str), steps
    (after,) = steps
    (out,) = played("uninject", text_of(after), tmp_path / "out")

    assert [pod.sidecar is not None for pod in templates(after)] == [True]
    assert lost(before, [after], THROUGH) == lost(after, [out], IN_ANY_WAY) == set()
    assert out == before


def test_the_guide_names_every_kind() -> None:
    table = (CHECKOUT / "docs/inject.md").read_text().partition("## Every kind")[2]

    assert [
        each.kind for each in (*POD_KINDS, DYNAMO) if f"| `{each.kind}` | {each.group or 'core'} |" not in table
    ] == []


def test_a_kind_that_the_user_names_goes_in_and_out(tmp_path: Path) -> None:
    one = workload(PodKind("x.io", "ModelServer", ("spec", "pods")), ENGINES["its usual port"])
    before = [one, service("s", "http")]
    flags = ("--all", "--image=r/s:1", "--pod-spec-path=ModelServer=spec.pods.spec")
    (after,) = played("inject", text_of(before), tmp_path / "in", *flags)
    (out,) = played("uninject", text_of(after), tmp_path / "out")

    assert "sidecar" in json.dumps(after[0]["spec"]["pods"]["spec"]["initContainers"])
    assert out == before


def test_a_canary_beside_pods_without_a_sidecar_loses_none_of_them(tmp_path: Path) -> None:
    """By name and by number; the others are not touched."""
    for at, leads in enumerate((service("s", "http"), service("s", 8000))):
        stable, canary = (workload(DEPLOYMENT, ENGINES["a flag"], name=name) for name in ("stable", "canary"))
        canary["metadata"]["labels"] = {"llm-phase-sidecar/attach": "true"}
        before = [stable, canary, leads]
        (after,) = played("inject", text_of(before), tmp_path / f"in{at}", "--image=r/s:1")
        (out,) = played("uninject", text_of(after), tmp_path / f"out{at}")

        assert after[0] == stable
        assert lost(before, [after], THROUGH) == lost(after, [out], IN_ANY_WAY) == set()


# --- drawn: several workloads, and what leads to some of them or to all ------------------------------------------------------


def drawn(seed: int) -> Objects:
    """One to three workloads that share Services, a pool or a policy, with further ports and containers."""
    chance = random.Random(seed)
    some: list[Any] = []
    for at in range(chance.choice([1, 2, 2, 3])):
        beside = BESIDE[chance.choice(["alone", "alone", "alone", *BESIDE])]
        one = workload(DEPLOYMENT, chance.choice(list(ENGINES.values())), beside, name=f"w{at}")
        template = one["spec"]["template"]
        template["metadata"]["labels"] = {"app": chance.choice(["llm", "llm", "two"]), "tier": chance.choice("ab")}
        engine = next(each for each in template["spec"]["containers"] if each["name"] == "engine")
        if chance.random() < 0.2:
            del engine["ports"][0]["name"]
            engine["readinessProbe"]["httpGet"]["port"] = 8000
        if chance.random() < 0.3:
            engine["ports"].append({"name": "metrics", "containerPort": chance.choice([8000, 9000])})
        if chance.random() < 0.2:
            port = {"name": chance.choice(["http", "metrics"]), "containerPort": chance.choice([7000, 8000, 8900])}
            template["spec"]["initContainers"] = [
                {"name": "first", "image": "x/n", "restartPolicy": "Always", "ports": [port]}
            ]
        if chance.random() < 0.15:
            one["metadata"]["labels"] = {"llm-phase-sidecar/attach": "false"}
        some.append(one)
    for at in range(chance.choice([1, 1, 2, 3])):
        targets = chance.choices(["http", 8000, None, "metrics"], [4, 4, 1, 1], k=chance.choice([1, 1, 2]))
        leads = service(f"s{at}", *targets, **({"clusterIP": "None"} if chance.random() < 0.1 else {}))
        leads["spec"]["selector"] = {"app": chance.choice(["llm", "llm", "two"])} | (
            {"tier": "a"} if chance.random() < 0.3 else {}
        )
        some.append(leads)
    some += [POOL] if chance.random() < 0.15 else []
    some += [policy({"port": chance.choice([8000, "http"])}, {"port": 9000})] if chance.random() < 0.35 else []
    return objects_of(text_of(some))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_what_is_drawn_goes_in_out_and_past_and_loses_no_pod(seed: int, tmp_path: Path) -> None:
    before = drawn(seed)
    steps = tried(before, tmp_path / "in")
    if isinstance(steps, str):
        assert "nothing is written" in steps
        return
    after: Objects = before
    for step in steps:
        after = applied(after, step)
    out = played("uninject", text_of(after), tmp_path / "out")
    there: Objects = after
    for step in out:
        there = applied(there, step)
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in before}
    same_way = [[by_name[one["kind"], one["metadata"]["name"]] for one in step] for step in reversed(steps)]

    assert lost(before, steps, IN_ANY_WAY, leads_first=True) == set()
    assert lost(after, same_way, IN_ANY_WAY, leads_first=True, before=before) == set()
    assert lost(after, out, IN_ANY_WAY, leads_first=True, before=before) == set()
    assert [without_wave(one) for one in there] == before
    if all(pod.sidecar is not None for pod in templates(after)):
        past(after)
