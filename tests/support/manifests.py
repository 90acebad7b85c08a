"""The facts of rendered manifests, and those that contradict each other or the program.

It reads ports, paths, flags and labels out of objects of any kind that has a pod with a sidecar, and compares them with the config's
defaults, the command line, and the admin listener's routes. It makes no objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.config.file import load
from sidecar.config.schema import FLAGS, Config, WebConfig, flag_of
from tests.support.admin import Visit, visit
from tests.support.kustomize import Objects
from tests.support.rollouts import engines_port


ADMIN = WebConfig().address.port
SELECTED_BY_DEFAULT = {"release": "kube-prometheus-stack"}
"""The labels by which a Prometheus of that chart, installed under its own name, selects PodMonitors and rules."""
RESERVE_SECONDS = 2
"""The sidecar's last steps after the engine has ended."""


@dataclass(frozen=True)
class AttachedPod:
    """One pod with a sidecar, whatever kind of object describes it."""

    labels: dict[str, str]
    spec: dict[str, Any]
    sidecar: dict[str, Any]
    engine: dict[str, Any]

    @property
    def flags(self) -> dict[str, str]:
        return dict(arg.split("=", 1) for arg in self.sidecar["args"])

    @property
    def hook(self) -> list[str]:
        """The command that the engine's container waits for before it stops."""
        return list(self.engine["lifecycle"]["preStop"]["exec"]["command"])


def pod_of(objects: Objects) -> AttachedPod:
    """The pod with the sidecar."""
    for (kind, _), one in objects.items():
        if kind in {"Deployment", "StatefulSet"}:
            template, spec = one["spec"]["template"], one["spec"]["template"]["spec"]
            labels, engine = template["metadata"].get("labels", {}), spec["containers"][0]
        elif kind == "InferenceService":
            spec = one["spec"]["predictor"]
            labels, engine = spec.get("labels", {}), spec["model"]
        elif kind == "DynamoGraphDeployment":
            template = one["spec"]["components"][0]["podTemplate"]
            labels, spec, engine = template["metadata"]["labels"], template["spec"], template["spec"]["containers"][0]
        else:
            continue
        containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
        if found := [each for each in containers if each["name"] == "sidecar"]:
            return AttachedPod(labels, spec, found[0], engine)
    raise LookupError("no pod with a sidecar")


def config_file(objects: Objects, folder: Path) -> Path:
    """The config that the sidecar's volume mounts, written into `folder`."""
    pod = pod_of(objects)
    (volume,) = (each for each in pod.spec["volumes"] if each["name"] == "sidecar-config")
    ((name, text),) = objects["ConfigMap", volume["configMap"]["name"]]["data"].items()
    file = folder / str(name)
    file.write_text(text)
    return file


def config_of(objects: Objects, folder: Path) -> Config:
    """The config with which the sidecar of this pod runs."""
    pod = pod_of(objects)
    known = {key: pod.flags[flag_of(key)] for key in FLAGS if flag_of(key) in pod.flags}
    variables = {each["name"]: each["value"] for each in pod.sidecar["env"] if "value" in each}
    return load(str(config_file(objects, folder)), known, variables)


def mismatches(objects: Objects, folder: Path) -> list[str]:
    """Every fact of these objects that contradicts another, or the program, in words; empty if all agree."""
    pod, config = pod_of(objects), config_of(objects, folder)
    return [
        *_flags(pod, folder),
        *_ports(objects, pod, config),
        *_probes(pod),
        *_probe_of_the_engine(pod, config),
        *_schemes(objects, pod),
        *_labels(objects, pod),
        *_stop(pod, config),
    ]


def _flags(pod: AttachedPod, folder: Path) -> Iterator[str]:
    known = {"--config.file", *map(flag_of, FLAGS)}
    yield from (f"flag {flag}: not one of `sidecar serve`" for flag in sorted(set(pod.flags) - known))
    mounted = {mount["mountPath"] for mount in pod.sidecar["volumeMounts"]}
    for flag in ("--config.file", "--web.config.file"):
        if flag in pod.flags and str(Path(pod.flags[flag]).parent) not in mounted:
            yield f"flag {flag}: its folder is not mounted"
    if Path(pod.flags["--config.file"]).name not in {each.name for each in folder.iterdir()}:
        yield "flag --config.file: not a key of the ConfigMap"
    volumes = {volume["name"] for volume in pod.spec["volumes"]}
    for mount in pod.sidecar["volumeMounts"]:
        if mount["name"] not in volumes:
            yield f"volume {mount['name']}: mounted, and not there"


def _ports(objects: Objects, pod: AttachedPod, config: Config) -> Iterator[str]:
    traffic, admin = config.proxy.address.port, config.web.address.port
    ports = {port["name"]: port["containerPort"] for port in pod.sidecar["ports"]}
    if ports != {"traffic": traffic, "admin": admin}:
        yield f"ports of the container: {ports}, and it listens on {traffic} and {admin}"
    if config.engine.address.port in (traffic, admin):
        yield f"port {config.engine.address.port}: the engine's and the sidecar's"
    if config.engine.address.port != engines_port(pod.engine):
        yield f"engine.url: port {config.engine.address.port}, and the engine listens on {engines_port(pod.engine)}"
    names = {port.get("name"): port["containerPort"] for port in pod.engine.get("ports", ())}
    if names and traffic not in names.values():
        yield f"port {traffic}: none of the engine's container, in which Services find their names"
    for (kind, name), one in objects.items():
        if kind == "Service":
            wanted = admin if name == "llm-phase-sidecar" else traffic
            target = one["spec"]["ports"][0]["targetPort"]
            if names.get(target, target) != wanted:
                yield f"Service {name}: target port {target}, and the sidecar listens on {wanted}"
    for endpoint in objects["PodMonitor", "llm-phase-sidecar"]["spec"]["podMetricsEndpoints"]:
        if ports.get(endpoint["port"]) != admin:
            yield f"PodMonitor: port {endpoint['port']} is not the admin port"


def _probes(pod: AttachedPod) -> Iterator[str]:
    asked = {("GET", probe["httpGet"]["path"]) for name, probe in pod.sidecar.items() if name.endswith("Probe")}
    asked |= {("POST", "/-/drain"), ("GET", "/-/engine")}
    yield from (f"{method} {path}: status {status}" for method, path, status in _answers(asked) if status >= 400)
    for name, probe in pod.sidecar.items():
        if name.endswith("Probe") and probe["httpGet"]["port"] != "admin":
            yield f"{name}: port {probe['httpGet']['port']}"
    # The start-up probe gates the engine's start, so it must not depend on the engine.
    if pod.sidecar["startupProbe"]["httpGet"]["path"] == pod.sidecar["readinessProbe"]["httpGet"]["path"]:
        yield "startupProbe: it waits for the engine, which waits for it"


def _probe_of_the_engine(pod: AttachedPod, config: Config) -> Iterator[str]:
    """Mistakes of the probe of `engine-liveness`; one that asks nothing of the sidecar is the user's own."""
    command = pod.engine.get("livenessProbe", {}).get("exec", {}).get("command", [])
    if "/-/engine" not in " ".join(command):
        return
    _, _, script, *_, told = command
    if told != f"--engine.url=http://127.0.0.1:{config.engine.address.port}":
        yield f"the engine's livenessProbe: is told {told}"
    if f"$1://127.0.0.1:{ADMIN}/-/engine" not in script:
        yield "the engine's livenessProbe: does not ask the sidecar"


def _schemes(objects: Objects, pod: AttachedPod) -> Iterator[str]:
    """Each question to the admin port goes over TLS if the sidecar has a web config, and over plain HTTP if not."""
    served = "https" if "--web.config.file" in pod.flags else "http"
    asked = {
        name: probe["httpGet"].get("scheme", "HTTP") for name, probe in pod.sidecar.items() if name.endswith("Probe")
    }
    asked["preStop"] = "https" if "https://" in pod.hook[-1] else "http"
    for endpoint in objects["PodMonitor", "llm-phase-sidecar"]["spec"]["podMetricsEndpoints"]:
        asked["PodMonitor"] = endpoint.get("scheme", "http")
    command = pod.engine.get("livenessProbe", {}).get("exec", {}).get("command", [])
    if "/-/engine" in " ".join(command):
        asked["the engine's livenessProbe"] = command[-2]
    yield from (
        f"{name}: asks over {scheme}, not {served}" for name, scheme in asked.items() if scheme.lower() != served
    )


def _answers(asked: set[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """The status with which a real admin listener answers each."""
    found: list[tuple[str, str, int]] = []

    async def scenario(visit: Visit) -> None:
        for method, path in sorted(asked):
            status, _, _ = await visit.ask(path, method)
            found.append((method, path, status))

    visit(scenario)
    return found


def _labels(objects: Objects, pod: AttachedPod) -> Iterator[str]:
    monitor, service = objects["PodMonitor", "llm-phase-sidecar"], objects["Service", "llm-phase-sidecar"]
    for name, selector in (
        ("PodMonitor", monitor["spec"]["selector"]["matchLabels"]),
        ("admin Service", service["spec"]["selector"]),
    ):
        if not selector.items() <= pod.labels.items():
            yield f"{name}: selects {selector}, and the pod has {pod.labels}"
    for (kind, name), one in objects.items():
        if kind in {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"}:
            labels = one["metadata"]["labels"]
            if not SELECTED_BY_DEFAULT.items() <= labels.items():
                yield f"{kind} {name}: no default Prometheus selects {labels}"
        if kind == "NetworkPolicy" and not one["spec"]["podSelector"]["matchLabels"].items() <= pod.labels.items():
            yield f"NetworkPolicy {name}: not for the pods with a sidecar"


def _stop(pod: AttachedPod, config: Config) -> Iterator[str]:
    grace_seconds = config.shutdown.grace_seconds
    if f"127.0.0.1:{config.web.address.port}/-/drain" not in pod.hook[-1]:
        yield f"preStop: asks {pod.hook[-1]}"
    if float(_limit_of(pod.hook)) <= grace_seconds:
        yield f"preStop: gives up before the drain ends, after {grace_seconds:g} s"
    if pod.spec["terminationGracePeriodSeconds"] < grace_seconds + 5 + RESERVE_SECONDS:
        yield f"terminationGracePeriodSeconds: {pod.spec['terminationGracePeriodSeconds']}"


def _limit_of(hook: list[str]) -> str:
    """The time limit of the hook's question, in seconds: of curl, or of Python's urllib."""
    return hook[hook.index("-m") + 1] if "curl" in hook[0] else hook[-1].rpartition("timeout=")[2].rstrip(")")
