"""One pod with its sidecar: what was there is added to, and what stops stops in order."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.export.shipped_files import DEPLOY, shipped
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.engine_in_pod import CURL, HOOKS, STARTS, engine_of, listens_on_loopback
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
BY_SERVICE = (
    "\n---\n{kind: Service, apiVersion: v1, metadata: {name: s}, spec: {selector: {app: x}, ports: [{port: 8000}]}}\n"
)


def pod(
    engine: dict[str, Any] | None = None, *, service: bool = True, chosen: PodSettings = DEFAULTS, **spec: Any
) -> Any:
    """The pod's spec with its sidecar; without a Service the sidecar takes the engine's port."""

    one = {
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
        "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{**copy.deepcopy(ENGINE), **(engine or {})}], **spec}}},
    }  # fmt: skip
    documents = read("---\n" + json.dumps(one) + (BY_SERVICE if service else "\n"), "x")
    done = attach_all(documents, Settings(every=True, pod=chosen))
    assert done.refused == []
    return read(written(documents), "again")[1].root["spec"]["template"]["spec"]


def test_init_containers_and_volumes_stay_and_come_first() -> None:
    found = pod(initContainers=[{"name": "fetch"}], volumes=[{"name": "models"}])

    assert [each["name"] for each in found["initContainers"]] == ["fetch", "sidecar"]
    assert [each["name"] for each in found["volumes"]] == ["models", "sidecar-state", "sidecar-no-token"]


@pytest.mark.parametrize(("stated", "grace"), [(None, 70), (30, 70), (70, 70), (300, 300)])
def test_the_grace_period_is_long_enough_for_the_drain_and_never_shorter(stated: int | None, grace: int) -> None:
    given: dict[str, Any] = {} if stated is None else {"terminationGracePeriodSeconds": stated}
    found = pod(**given)

    assert found["terminationGracePeriodSeconds"] == grace
    assert found["containers"][0]["lifecycle"] == {"preStop": {"exec": {"command": list(CURL)}}}


@pytest.mark.parametrize(("stated", "grace"), [(None, 100), (300, 370)])
def test_the_time_of_a_hook_that_was_there_is_added(stated: int | None, grace: int) -> None:
    given: dict[str, Any] = {} if stated is None else {"terminationGracePeriodSeconds": stated}

    assert (
        pod({"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}, **given)["terminationGracePeriodSeconds"] == grace
    )


@pytest.mark.parametrize(
    "first",
    [
        ["sh", "-c", 'printf "%s|" "$0" "one two" "$HOME"; exit 3', "it's"],
        ["printf", "%s|", "a b", 'c"d', "$e", "*"],
        ["true"],
        ["false"],
        ["no-such-tool"],
    ],
    ids=["a shell", "words", "nothing", "it fails", "it is missing"],
)
def test_a_hook_that_was_there_runs_first_with_its_own_words_and_ours_whatever_it_gives(
    first: list[str], tmp_path: Path
) -> None:
    """By a real shell; ours only notes its words."""
    script = pod({"lifecycle": {"preStop": {"exec": {"command": first}}}})["containers"][0]["lifecycle"]["preStop"][
        "exec"
    ]["command"]
    assert script[-len(CURL) :] == list(CURL)
    ours = tmp_path / "curl"
    ours.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done > "$NOTED"\n')
    ours.chmod(0o755)
    noted = tmp_path / "noted"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NOTED": str(noted), "HOME": "/root"}
    said = subprocess.run(script, env=env, capture_output=True, text=True, check=False, timeout=20)
    alone = (
        subprocess.run(first, env=env, capture_output=True, text=True, check=False)
        if first != ["no-such-tool"]
        else None
    )

    assert noted.read_text().splitlines() == list(CURL[1:])
    assert said.stdout == (alone.stdout if alone else "")


def test_a_sleep_that_was_there_is_slept_first() -> None:
    command = pod({"lifecycle": {"preStop": {"sleep": {"seconds": 7}}}})["containers"][0]["lifecycle"]["preStop"][
        "exec"
    ]["command"]

    assert command[-len(CURL) - 2 :] == ["sleep", "7", *CURL]


def test_a_hook_that_is_a_request_stays() -> None:
    hook = {"preStop": {"httpGet": {"path": "/bye", "port": 1}}, "postStart": {"exec": {"command": ["x"]}}}

    assert pod({"lifecycle": copy.deepcopy(hook)})["containers"][0]["lifecycle"] == hook


def test_an_engine_that_moves_takes_its_ports_and_probes_along() -> None:
    probes = {
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
        "livenessProbe": {"tcpSocket": {"port": "http"}},
        "startupProbe": {"grpc": {"port": 9}},
    }
    engine = pod({**copy.deepcopy(probes), "ports": [{"name": "http", "containerPort": 8000}]}, service=False)[
        "containers"
    ][0]

    assert engine["args"] == ["--model=m", "--port=18000"]
    assert engine["ports"] == [{"name": "http", "containerPort": 18000}]
    assert engine["readinessProbe"]["httpGet"]["port"] == 18000
    assert (engine["livenessProbe"], engine["startupProbe"]) == (probes["livenessProbe"], probes["startupProbe"])


def test_a_port_of_the_node_goes_to_the_sidecar() -> None:
    found = pod({"ports": [{"containerPort": 8000, "hostPort": 80}]}, service=False)

    assert found["containers"][0]["ports"] == [{"containerPort": 18000}]
    assert found["initContainers"][0]["ports"][0] == {"name": "traffic", "containerPort": 8000, "hostPort": 80}


def test_on_the_nodes_own_network_both_ports_are_the_same() -> None:
    found = pod({"ports": [{"containerPort": 8000, "hostPort": 8000}]}, service=False, hostNetwork=True)

    assert found["containers"][0]["ports"] == [{"containerPort": 18000, "hostPort": 18000}]
    assert found["initContainers"][0]["ports"][0] == {"name": "traffic", "containerPort": 8000}


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
    found = pod(engine, service=False)

    assert found["containers"][0]["env"][0]["value"] == moved
    assert f"--engine.url=http://127.0.0.1:{port + 10_000}" in found["initContainers"][0]["args"]


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


def test_tritons_metrics_are_read_at_their_own_port() -> None:
    for words, port in ([], "8002"), (["--metrics-port=9002"], "9002"):
        (sidecar,) = pod({"image": "nvcr.io/nvidia/tritonserver", "args": ["tritonserver", *words]})["initContainers"]
        variables = {each["name"]: each.get("value") for each in sidecar["env"]}
        assert variables["SIDECAR__ENGINE__METRICS_PORT"] == port
