"""A rollout as Kubernetes makes it, instant by instant: pods of before and of now behind one Service, and to what each of them is asked.

A model of its own, and none of the product's code: Services find a port as FindPort does (both before 1.32, where native sidecars have no names, and
from it on), controllers change pods as their strategies say, and a process listens where its words tell it. It reads objects, and asks no cluster.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


Objects = Sequence[Any]
_TEMPLATES: dict[str, tuple[str | int, ...]] = {
    "DynamoGraphDeployment": ("spec", "components", 0, "podTemplate"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
    "InferenceService": ("spec", "predictor"),
    "LeaderWorkerSet": ("spec", "leaderWorkerTemplate", "leaderTemplate"),
}
_DEFAULTS = {
    "text-generation-inference": 80,
    "llama.cpp": 8080,
    "ollama": 11434,
    "lmdeploy": 23333,
    "sglang": 30000,
    "huggingface": 8080,
    "redis": 6379,
}
"""By a word of the image or of the words; all others listen on 8000."""
_BESIDE = re.compile(r"router|dcgm|redis|client|worker")
_FLAG = re.compile(r"(?:--(?:http[-_]|server-)?port)(?:=|\s+)[\"']?(\d+)")


@dataclass(frozen=True)
class Template:
    """The pods of one workload, as their template is."""

    name: str
    labels: Mapping[str, str]
    spec: Any

    @property
    def sidecar(self) -> Any:
        """Its container; None without one."""
        there = [*(self.spec.get("initContainers") or ()), *(self.spec.get("containers") or ())]
        return next((each for each in there if each.get("name") == "sidecar"), None)

    @property
    def engine(self) -> Any:
        """The container of the engine; of a pod without one, the first."""
        forms = [self.spec[form] for form in ("model", "mainContainer") if form in self.spec]
        there = [*forms, *(self.spec.get("containers") or ())]
        own = (each for each in there if not _BESIDE.search(f"{each.get('name')}{each.get('image')}".lower()))
        return next((each for each in own if each.get("name") != "sidecar"), there[0])

    def listening(self) -> dict[int, str]:
        """The process on each port. A sidecar that does not stand before the engine is none."""
        own = engines_port(self.engine)
        found = {own: "engine"}
        if self.sidecar is not None:
            words = " ".join(self.sidecar["args"])
            told = re.search(r"--proxy.listen-address=:(\d+)", words)
            before = re.search(r"--engine.url=http://127.0.0.1:(\d+)", words)
            assert before is not None
            port = int(told[1]) if told else 8900
            assert port != own, f"{self.name}: both listen on {port}"
            if int(before[1]) == own:
                found[port] = "sidecar"
        return found

    def resolved(self, asked: object, *, since_132: bool) -> int | None:
        """The number of a target port in this pod."""
        if isinstance(asked, int):
            return asked
        there = list(self.spec.get("containers") or ())
        if since_132:
            there += [each for each in self.spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
        ports = [port for each in there for port in each.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
        return next((port["containerPort"] for port in ports if port.get("name") == asked), None)


def engines_port(container: Any) -> int:
    """The port that its words or its variables say, or its kind's own."""
    words = [str(each) for key in ("command", "args") for each in container.get(key) or ()]
    text = f"{container.get('image')} {container.get('modelFormat')} {' '.join(words)}"
    variables = {each["name"]: str(each.get("value")) for each in container.get("env") or ()}
    for name in ("PORT", "LLAMA_ARG_PORT", "DYN_HTTP_PORT", "OLLAMA_HOST"):
        if name in variables and re.search(r"\d+$", variables[name]):
            return int(variables[name].rsplit(":", 1)[-1])
    if told := _FLAG.findall(" ".join(words)):
        return int(told[-1])
    return next((port for word, port in _DEFAULTS.items() if word in text), 8000)


def templates(objects: Objects) -> list[Template]:
    """The pods that serve."""
    found = []
    for one in objects:
        place = _TEMPLATES.get(one["kind"], ("spec", "template"))
        if one["kind"] == "Service" and "serving.knative.dev" not in one["apiVersion"]:
            continue
        node: Any = one
        for step in place:
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                node = {}
        spec = node if one["kind"] == "InferenceService" else node.get("spec", {})
        if isinstance(spec, dict) and (spec.get("containers") or spec.get("model")):
            labels = (node.get("metadata") or {}).get("labels") or {}
            if one["kind"] == "LeaderWorkerSet":
                labels = labels | {"leaderworkerset.sigs.k8s.io/name": one["metadata"]["name"]}
            found.append(Template(f"{one['kind']} {one['metadata']['name']}", labels, spec))
    return found


def routes(objects: Objects) -> dict[str, tuple[Any, list[object]]]:
    """Each Service and InferencePool: the selector, and what its ports ask for."""
    found: dict[str, tuple[Any, list[object]]] = {}
    for one in objects:
        spec, name = one.get("spec") or {}, f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] == "InferencePool":
            numbers: list[object] = [each["number"] for each in spec.get("targetPorts", ())]
            found[name] = (spec["selector"]["matchLabels"], numbers)
        elif (one["kind"], one["apiVersion"]) == ("Service", "v1") and spec.get("selector"):
            if spec.get("clusterIP") == "None":  # its clients ask at the port that they know
                asked: list[object] = [each["port"] for each in spec.get("ports", ())]
            else:
                asked = [each.get("targetPort", each["port"]) for each in spec["ports"]]
            found[name] = (spec["selector"], asked)
    return found


def reached(objects: Objects, template: Template) -> dict[tuple[str, int, bool], str | None]:
    """The process that answers in this pod, for each port of each object that leads to it, on clusters before 1.32 and since."""
    found: dict[tuple[str, int, bool], str | None] = {}
    for name, (selector, asked) in routes(objects).items():
        for at, each in enumerate(asked if selector.items() <= template.labels.items() else ()):
            for since in (False, True):
                port = template.resolved(each, since_132=since)
                comes = port is not None and let_in(objects, template, port, since_132=since)
                found[name, at, since] = template.listening().get(port or 0) if comes else None
    return found


def let_in(objects: Objects, template: Template, port: int, *, since_132: bool) -> bool:
    """Whether the policies of these pods let a client of theirs reach this port; a pod that none selects is open."""
    specs = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    chosen = [each for each in specs if each["podSelector"].get("matchLabels", {}).items() <= template.labels.items()]
    return not chosen or any(
        not rule.get("ports")
        or any(
            (low := template.resolved(each["port"], since_132=since_132)) is not None
            and low <= port <= each.get("endPort", low)
            for each in rule["ports"]
        )
        for each in chosen
        for rule in each.get("ingress", ())
    )


def strategies() -> dict[str, list[tuple[int, int]]]:
    """Pods of before and pods of now that are ready, at each instant of a rollout, by the strategy."""
    return {
        "one replica, surge": [(1, 0), (1, 1), (0, 1)],
        "one replica, Recreate": [(1, 0), (0, 0), (0, 1)],
        "four replicas, one unavailable": [(4, 0), (3, 0), (3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (0, 3), (0, 4)],
        "four replicas, surge": [(4, 0), (4, 1), (3, 1), (3, 2), (2, 2), (2, 3), (1, 3), (1, 4), (0, 4)],
        "a StatefulSet of three, or OnDelete": [(3, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2), (0, 3)],
    }


@dataclass(frozen=True)
class Instant:
    """The objects that lead, and the pods that are ready then: one of each kind that there is."""

    leads: Objects
    ready: list[Template]


def instants(cluster: Objects, step: Objects, *, leads_first: bool) -> Iterator[Instant]:
    """Every state between the cluster and the cluster with this step applied: what leads to pods changes at once, before or behind the pods.

    `leads_first`: before them alone. One `kubectl apply` changes a Service within the second, and no new pod is ready so soon.
    """
    after = applied(cluster, step)
    before_pods, after_pods = ({each.name: each for each in templates(objects)} for objects in (cluster, after))
    for counts in strategies().values():
        for olds, news in counts:
            ready = [each for each in before_pods.values() if olds or after_pods.get(each.name) == each]
            ready += [each for name, each in after_pods.items() if news and before_pods.get(name) != each]
            for leads in (after,) if leads_first else (cluster, after):
                yield Instant(leads, ready)


def applied(cluster: Objects, step: Objects) -> list[Any]:
    """The cluster after `kubectl apply`: the objects of the step in place of those of the same name."""
    keys = {_key(one): one for one in step}
    there = [keys.pop(_key(one), one) for one in cluster]
    return copy.deepcopy([*there, *keys.values()])


def _key(one: Any) -> tuple[str, str]:
    return (one["kind"], one["metadata"]["name"])
