"""One pod with its sidecar: what was there is added to, and what stops stops in order."""

import copy
import json
from typing import Any

import pytest

from sidecar.commands.export.shipped_files import DEPLOY, shipped
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.engine_in_pod import HOOKS, STARTS, engine_of, listens_on_loopback
from sidecar.commands.inject.manifest_text import read, written
from sidecar.commands.inject.pod_with_sidecar import PodSettings
from sidecar.config.quick_yaml import read_yaml


ENGINE: dict[str, Any] = {
    "name": "vllm",
    "image": "vllm/vllm-openai",
    "args": ["--model=m"],
    "ports": [{"containerPort": 8000}],
}
DEFAULTS = PodSettings()
BY_SERVICE = "\n---\n{{kind: Service, apiVersion: v1, metadata: {{name: s}}, spec: {{selector: {{app: x}}, ports: [{{port: 1, targetPort: {}}}]}}}}\n"
TOLD: list[str] = []
"""The lines that were said of the last pod."""


def pod(
    engine: dict[str, Any] | None = None,
    *,
    service: Any = 8000,
    chosen: PodSettings = DEFAULTS,
    replicas: int | None = None,
    **spec: Any,
) -> Any:
    """The pod's spec with its sidecar. `service`: the target port of its Service, which has none if it is False."""

    one: Any = {
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
        "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{**copy.deepcopy(ENGINE), **(engine or {})}], **spec}}},
    }  # fmt: skip
    if replicas is not None:
        one["spec"]["replicas"] = replicas
    documents = read("---\n" + json.dumps(one) + (BY_SERVICE.format(service) if service else "\n"), "x")
    done = attach_all(documents, Settings(every=True, pod=chosen))
    assert done.refused == []
    TOLD[:] = done.lines
    return read(written(documents), "again")[1].root["spec"]["template"]["spec"]


@pytest.mark.parametrize(("replicas", "said"), [(None, None), (0, None), (1, None), (2, "true"), (8, "true")])
def test_a_pod_knows_whether_others_stay_when_it_leaves_its_service(replicas: int | None, said: str | None) -> None:
    """Under an autoscaler that is not here no number is stated."""
    (sidecar,) = pod(replicas=replicas)["initContainers"]

    assert {each["name"]: each.get("value") for each in sidecar["env"]}.get("SIDECAR__ENGINE__REPLICATED") == said


POD = "{containers: [{name: vllm, image: vllm/vllm-openai, args: [--model=m], ports: [{containerPort: 8000}]}]}"
WORKLOAD = f"{{kind: Deployment, apiVersion: apps/v1, metadata: {{name: d}}, spec: {{template: {{metadata: {{labels: {{app: x}}}}, spec: {POD}}}}}}}"
SCALER = (
    "\n---\n{{kind: {}, apiVersion: {}/v1, metadata: {{name: h{}}}, spec: {{scaleTargetRef: {{{}name: d}}, {}}}}}\n"
)
DYNAMO = "{kind: DynamoGraphDeployment, apiVersion: nvidia.com/v1alpha1, metadata: {name: d}, spec: {services: {Frontend: {replicas: %d, extraPodSpec: {mainContainer: {image: a/vllm-runtime, command: [python3, -m, dynamo.frontend]}}}, Worker: {replicas: 4}}}}"
KSERVE = "{kind: InferenceService, apiVersion: serving.kserve.io/v1beta1, metadata: {name: i}, spec: {predictor: {minReplicas: %d, containers: [{name: a, image: vllm/vllm-openai, args: [--model=m, --port=8080]}]}}}"
LEADERS = f"{{kind: LeaderWorkerSet, apiVersion: leaderworkerset.x-k8s.io/v1, metadata: {{name: l}}, spec: {{replicas: %d, leaderWorkerTemplate: {{size: 4, leaderTemplate: {{metadata: {{labels: {{app: x}}}}, spec: {POD}}}, workerTemplate: {{spec: {{containers: [{{name: w}}]}}}}}}}}}}"


@pytest.mark.parametrize(
    ("manifests", "others_stay"),
    [
        (WORKLOAD + SCALER.format("HorizontalPodAutoscaler", "autoscaling", "", "kind: Deployment, ", "minReplicas: 2"), True),
        (WORKLOAD + SCALER.format("HorizontalPodAutoscaler", "autoscaling", "", "kind: Deployment, ", "maxReplicas: 9"), False),
        (WORKLOAD + SCALER.format("HorizontalPodAutoscaler", "autoscaling", "", "kind: StatefulSet, ", "minReplicas: 2"), False),
        (WORKLOAD + SCALER.format("HorizontalPodAutoscaler", "autoscaling", ", namespace: o", "kind: Deployment, ", "minReplicas: 2"), False),
        (WORKLOAD + SCALER.format("ScaledObject", "keda.sh", "", "", "minReplicaCount: 3"), True),
        (WORKLOAD.replace("{template", "{replicas: 3, template") + SCALER.format("ScaledObject", "keda.sh", "", "", "minReplicaCount: 1"), False),
        *((of % many, many > 1) for of in (DYNAMO, KSERVE, LEADERS) for many in (1, 2)),
    ],
)  # fmt: skip
def test_the_fewest_pods_stand_where_each_kind_has_them_and_at_its_autoscaler(
    manifests: str, *, others_stay: bool
) -> None:
    documents = read("---\n" + manifests + "\n", "x")
    done = attach_all(documents, Settings(every=True))

    assert done.refused == []
    assert ("SIDECAR__ENGINE__REPLICATED" in written(documents)) is others_stay


def test_init_containers_and_volumes_stay_and_come_first() -> None:
    found = pod(initContainers=[{"name": "fetch"}], volumes=[{"name": "models"}])

    assert [each["name"] for each in found["initContainers"]] == ["fetch", "sidecar"]
    assert [each["name"] for each in found["volumes"]] == ["models", "sidecar-state", "sidecar-no-token"]


ASKING: dict[str, Any] = {
    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
    "livenessProbe": {"tcpSocket": {"port": "http"}},
    "startupProbe": {"grpc": {"port": 9}},
    "lifecycle": {"preStop": {"httpGet": {"path": "/bye", "port": "http"}}, "postStart": {"tcpSocket": {"port": 8000}}},
}


def asked(container: dict[str, Any]) -> list[object]:
    """The ports that ASKING asks, in its order."""
    hooks = container["lifecycle"]
    return [
        container["readinessProbe"]["httpGet"]["port"],
        container["livenessProbe"]["tcpSocket"]["port"],
        container["startupProbe"]["grpc"]["port"],
        hooks["preStop"]["httpGet"]["port"],
        hooks["postStart"]["tcpSocket"]["port"],
    ]


def test_an_engine_that_moves_leaves_its_ports_and_takes_its_probes_and_hooks_along() -> None:
    """The numbers and the names lead to the sidecar now, in whatever asks for them, and the probes to the engine."""
    ports = [{"name": "http", "containerPort": 8000}]
    engine = pod({**copy.deepcopy(ASKING), "ports": ports}, service=False)["containers"][0]

    assert engine["args"] == ["--model=m", "--port=18000"]
    assert engine["ports"] == ports
    assert asked(engine) == [18000, 18000, 9, 18000, 18000]


def test_a_name_that_leads_to_the_sidecar_is_the_number_of_the_engine_in_its_own_probes() -> None:
    ports = [{"name": "http", "containerPort": 8000}, {"name": "other", "containerPort": 8000}]
    engine = pod({**copy.deepcopy(ASKING), "ports": ports}, service="http")["containers"][0]

    assert engine["args"] == ["--model=m"]
    assert engine["ports"] == [{"name": "http", "containerPort": 8900}, ports[1]]
    assert asked(engine) == [8000, 8000, 9, 8000, 8000]


@pytest.mark.parametrize(
    ("words", "moved", "told"),
    [
        (["curl", "-f", "http://localhost:8000/health"], ["curl", "-f", "http://localhost:18000/health"], False),
        (["sh", "-c", "curl 127.0.0.1:8000 && curl [::1]:8000"], ["sh", "-c", "curl 127.0.0.1:18000 && curl [::1]:18000"], False),
        (["probe", "--port", "8000"], ["probe", "--port", "8000"], True),
        (["curl", "http://other:8000"], ["curl", "http://other:8000"], True),
        (["curl", "localhost:80001"], ["curl", "localhost:80001"], False),
        (["curl", "localhost:$(PORT)"], ["curl", "localhost:18000"], False),
        (["sh", "-c", "curl localhost:${PORT:-1}/x && curl localhost:$ELSE"], ["sh", "-c", "curl localhost:18000/x && curl localhost:$ELSE"], False),
        (["sh", "-c", "nc -z localhost $PORT"], ["sh", "-c", "nc -z localhost $PORT"], True),
    ],
)  # fmt: skip
def test_a_probe_that_runs_a_command_asks_the_engine_at_its_new_port_or_is_told(
    words: list[str], moved: list[str], told: bool
) -> None:
    env = [{"name": "PORT", "value": "8000"}, {"name": "ELSE", "value": "9"}]
    found = pod({"livenessProbe": {"exec": {"command": words}}, "env": env}, service=False)

    assert found["containers"][0]["livenessProbe"]["exec"]["command"] == moved
    assert (
        "its livenessProbe runs a command that names 8000, and stays: the engine is on 18000 now" in "\n".join(TOLD)
    ) is told


@pytest.mark.parametrize("service", [False, "http"])
def test_a_port_of_the_node_leads_to_the_sidecar_with_the_port_of_the_pod(service: Any) -> None:
    """Kubernetes maps it to the number that stands beside it, whichever container has that entry."""
    found = pod({"ports": [{"name": "http", "containerPort": 8000, "hostPort": 80}]}, service=service)
    (entry,), (traffic, _) = found["containers"][0]["ports"], found["initContainers"][0]["ports"]

    assert entry == {"name": "http", "containerPort": traffic["containerPort"], "hostPort": 80}


@pytest.mark.parametrize("plain", [False, True])
def test_on_the_nodes_own_network_the_number_is_taken_and_stands_once_among_containers(plain: bool) -> None:
    """Kubernetes refuses a port of the node in two containers, and takes it in an init container beside."""
    ports = [{"name": "http", "containerPort": 8000, "hostPort": 8000}]
    found = pod({"ports": ports}, service="http", chosen=PodSettings(plain=plain), hostNetwork=True)
    listed = [port["containerPort"] for each in found["containers"] for port in each["ports"]]

    assert found["containers"][0]["ports"] == ports
    assert sorted(listed) == ([8000, 9901] if plain else [8000])


@pytest.mark.parametrize(("sysctl", "taken"), [("80", True), ("0", True), ("81", False), ("all", False), (None, False)])
def test_a_port_below_1024_is_taken_where_the_pod_lets_an_ordinary_user_listen_there(
    sysctl: str | None, taken: bool
) -> None:
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": sysctl}] if sysctl is not None else []
    engine = {"args": ["--port=80"], "ports": [{"containerPort": 80}]}
    found = pod(engine, service=80, securityContext={"sysctls": sysctls})

    assert found["initContainers"][0]["ports"][0]["containerPort"] == (80 if taken else 8900)


@pytest.mark.parametrize(("service", "at"), [("http", "past the sidecar"), (8000, "which is the sidecar's now")])
def test_what_stands_before_the_engine_in_its_pod_is_told(service: Any, at: str) -> None:
    """A proxy beside it leads clients past the sidecar, or through it."""
    proxy = {"name": "proxy", "image": "x/proxy", "args": ["--upstream=http://localhost:8000"]}
    other = {"name": "other", "image": "x/other", "env": [{"name": "URL", "value": "http://llm:8000"}]}
    engine = {**copy.deepcopy(ENGINE), "ports": [{"name": "http", "containerPort": 8000}]}
    pod(service=service, containers=[engine, proxy, other])

    assert [line.strip() for line in TOLD if "its container" in line] == [
        f"its container proxy asks this pod at port 8000, {at}"
    ]


def test_behind_the_last_port_the_first_ones_are_free() -> None:
    found = pod({"args": ["--port=65535"], "ports": None}, service=65535)

    assert found["containers"][0]["args"] == ["--port=1024"]


def test_a_port_that_anything_in_the_pod_names_is_not_taken() -> None:
    """Also a flag of a neighbour that declares no port, and an init container's."""
    near = pod(
        {"env": [{"name": "X", "value": "http://127.0.0.1:18000"}]},
        service=False,
        initContainers=[{"name": "p", "args": ["--port=18001"]}],
    )
    high = pod({"args": ["--port=30000"], "ports": [{"containerPort": 30000}]}, service=False)

    assert near["containers"][0]["args"][-1] == "--port=18002"
    assert high["containers"][0]["args"][-1] == "--port=30001"


@pytest.mark.parametrize(
    ("stated", "port", "moved"),
    [
        ("0.0.0.0", 11434, "0.0.0.0:21434"),
        ("0.0.0.0:8080", 8080, "0.0.0.0:18080"),
        (":9000", 9000, ":19000"),
        ("http://0.0.0.0", 80, "http://0.0.0.0:10080"),
        ("http://0.0.0.0:8080/", 8080, "http://0.0.0.0:18080"),
        ("::", 11434, "[::]:21434"),
        ("[::1]:8080", 8080, "[::1]:18080"),
        ("'0.0.0.0'", 11434, "0.0.0.0:21434"),
        ("9000", 11434, "9000:21434"),
    ],
)
def test_a_variable_with_a_host_keeps_it(stated: str, port: int, moved: str) -> None:
    """As Ollama reads it: a number alone is a host there, and a scheme brings a port of its own."""
    engine = {"image": "ollama/ollama", "args": None, "ports": None, "env": [{"name": "OLLAMA_HOST", "value": stated}]}
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]
    found = pod(engine, service=False, securityContext={"sysctls": sysctls})

    assert found["containers"][0]["env"][0]["value"] == moved
    assert f"--engine.url=http://127.0.0.1:{port + 10_000}" in found["initContainers"][0]["args"]


def test_of_two_variables_with_one_name_the_last_one_counts() -> None:
    env = [{"name": "LLAMA_ARG_PORT", "value": "8001"}, {"name": "LLAMA_ARG_PORT", "value": "8000"}]
    found = pod({"image": "x/llama.cpp", "args": None, "env": env}, service=False)

    assert [each["value"] for each in found["containers"][0]["env"]] == ["8001", "18000"]


@pytest.mark.parametrize(
    ("image", "variable"),
    [
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime", "DYN_HTTP_PORT"),
        ("ghcr.io/ggml-org/llama.cpp:server", "LLAMA_ARG_PORT"),
    ],
)
def test_an_engine_with_a_variable_keeps_the_words_that_its_image_or_its_operator_has(
    image: str, variable: str
) -> None:
    """Words in a manifest replace all of them."""
    engine = pod({"image": image, "args": None, "ports": None}, service=False)["containers"][0]

    assert engine["args"] is None
    assert [each["name"] for each in engine["env"]] == [variable]


def test_the_drain_and_the_state_are_those_of_the_shipped_config() -> None:
    shipped_config = read_yaml((shipped(DEPLOY) / "base" / "sidecar.yml").read_text())
    (sidecar,) = pod()["initContainers"]
    variables = {each["name"]: each["value"] for each in sidecar["env"] if "value" in each}

    assert variables == {
        "SIDECAR__SHUTDOWN__LAME_DUCK_SECONDS": str(shipped_config["shutdown"]["lame_duck_seconds"]),
        "SIDECAR__SHUTDOWN__GRACE_SECONDS": str(shipped_config["shutdown"]["grace_seconds"]),
        "SIDECAR__STATE__DIRECTORY": shipped_config["state"]["directory"],
    }


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (
            "ray start --head --port=6379 && vllm serve m --port 8000",
            "ray start --head --port=6379 && vllm serve m --port 18000",
        ),
        (
            "exporter --port 8000 & exec vllm serve m --port=8000",
            "exporter --port 8000 & exec vllm serve m --port=18000",
        ),
        ("vllm serve m --port '8000' | tee log", "vllm serve m --port '18000' | tee log"),
    ],
)
def test_in_the_text_of_a_shell_the_engines_own_command_counts(text: str, moved: str) -> None:
    engine = pod({"command": ["sh", "-c", text], "args": None}, service=False)["containers"][0]

    assert engine["command"][2] == moved


def test_a_plain_container_for_older_clusters() -> None:
    found = pod(chosen=PodSettings(plain=True))

    assert [each["name"] for each in found["containers"]] == ["vllm", "sidecar"]
    assert "restartPolicy" not in found["containers"][1]
    assert "initContainers" not in found


def test_a_config_map_of_ones_own_replaces_the_variables() -> None:
    (sidecar,) = pod(chosen=PodSettings(config_map="mine", image="r.example.com/s:1"))["initContainers"]

    assert sidecar["args"][1] == "--config.file=/etc/sidecar/sidecar.yml"
    assert sidecar["image"] == "r.example.com/s:1"
    assert [each["name"] for each in sidecar["env"]] == ["POD_NAME", "POD_NAMESPACE", "NODE_NAME"]
    assert "sidecar-config" in [each["name"] for each in sidecar["volumeMounts"]]


@pytest.mark.parametrize("start", STARTS, ids=lambda each: each.known_by)
def test_every_engine_is_told_to_move_by_a_flag_or_a_variable_and_its_hook_is_known(start: Any) -> None:
    assert start.flags or start.variable
    assert start.drains_with in ("", *HOOKS)


@pytest.mark.parametrize(
    ("container", "alone"),
    [
        ({"image": "vllm/vllm-openai", "args": ["--model=m"]}, False),
        ({"image": "vllm/vllm-openai", "args": ["--host", "127.0.0.1"]}, True),
        ({"image": "lmsysorg/sglang", "command": ["python3", "-m", "sglang.launch_server"]}, True),
        (
            {"image": "lmsysorg/sglang", "command": ["sh", "-c", "python3 -m sglang.launch_server --host=0.0.0.0"]},
            False,
        ),
        ({"image": "lmsysorg/sglang"}, False),
        ({"image": "tensorrt-llm/release", "args": ["trtllm-serve", "m", "--host", "::"]}, False),
        ({"image": "tensorrt-llm/release", "args": ["trtllm-serve", "m"]}, True),
        ({"image": "openmmlab/lmdeploy", "args": ["--server-name", "localhost"]}, True),
        ({"image": "ollama/ollama", "env": [{"name": "OLLAMA_HOST", "value": "127.0.0.1:11434"}]}, True),
        ({"image": "ollama/ollama", "env": [{"name": "OLLAMA_HOST", "value": "0.0.0.0"}]}, False),
        ({"image": "ollama/ollama"}, False),
    ],
)
def test_an_engine_that_only_its_pod_reaches_is_known(container: dict[str, Any], alone: bool) -> None:
    """SGLang and TensorRT-LLM listen on loopback unless they are told a host."""
    assert listens_on_loopback(container) is alone


def test_the_server_that_a_client_asks_is_no_engine_of_its_own() -> None:
    """As the test Pod of a chart: it has the engine's name and port among its words."""
    asks = [engine_of({"image": "busybox", "args": [word]}) for word in ("ollama:11434", "http://ollama/api")]

    assert asks == [None, None]
    assert engine_of({"image": "busybox", "args": ["ollama"]}) is not None


@pytest.mark.parametrize(
    ("words", "serves"),
    [
        ("vllm bench serve --host llm --port 8000", False),
        ("python3 -m sglang.bench_serving --backend sglang --port 30000", False),
        ("vllm run-batch -i in -o out", False),
        ("vllm serve m & vllm bench serve", True),
        ("python3 -m vllm.entrypoints.openai.api_server --served-model-name run_batch", True),
    ],
)
def test_another_program_of_an_engine_is_none(words: str, serves: bool) -> None:
    """Its port is that of the server that it asks."""
    assert (engine_of({"image": "vllm/vllm-openai", "command": words.split()}) is not None) is serves


@pytest.mark.parametrize(
    ("word", "links"), [("$(REDIS_SERVICE_HOST)", None), ("$REDIS_PORT_6379_TCP_ADDR", None), ("$(KUBERNETES_SERVICE_HOST)", False)]
)  # fmt: skip
def test_a_pod_that_asks_for_the_variables_of_a_service_keeps_them(word: str, links: bool | None) -> None:
    assert pod({"args": ["--model=m", f"--store={word}"]}).get("enableServiceLinks") is links


def test_tritons_metrics_are_read_at_their_own_port() -> None:
    for words, port in ([], "8002"), (["--metrics-port=9002"], "9002"):
        (sidecar,) = pod({"image": "nvcr.io/nvidia/tritonserver", "args": ["tritonserver", *words]})["initContainers"]
        variables = {each["name"]: each.get("value") for each in sidecar["env"]}
        assert variables["SIDECAR__ENGINE__METRICS_PORT"] == port
