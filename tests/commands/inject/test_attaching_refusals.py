"""Workloads that cannot be attached whole are refused with what to do, all of them at once, and nothing is written."""

import copy
import json
from typing import Any

import pytest

from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.bypassing import commands
from sidecar.commands.inject.manifest_text import read, written
from sidecar.commands.inject.pod_with_sidecar import PodSettings


POD: dict[str, Any] = {
    "containers": [
        {"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"], "ports": [{"containerPort": 8000}]}
    ]
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "llm"},
    "spec": {"selector": {"app": "llm"}, "ports": [{"port": 8000}]},
}


def deployment(name: str = "llm", labels: dict[str, str] | None = None, **spec: object) -> dict[str, Any]:
    template = {"metadata": {"labels": labels or {"app": "llm"}}, "spec": {**copy.deepcopy(POD), **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"llm-phase-sidecar/attach": "true"}},
        "spec": {"selector": {}, "template": template},
    }


def refused(*objects: dict[str, Any], **settings: Any) -> str:
    """The refusals of these objects, a line each."""
    text = "---\n".join(json.dumps(one) + "\n" for one in objects)
    done = attach_all(read(text, "x"), Settings(**settings))
    return "\n".join(done.refused)


TWO = [{"name": "a", "image": "vllm/a"}, {"name": "b", "image": "sglang/b"}]
NONE = [{"name": "a", "image": "x/a", "ports": [{"containerPort": 1}]}, {"name": "b", "image": "x/b"}]
SHELL = [{"name": "vllm", "image": "vllm/vllm-openai", "command": ["sh", "-c", "/scripts/serve"]}]
VARIABLE = [
    {
        "name": "vllm",
        "image": "vllm/vllm-openai",
        "args": ["--port=$(PORT)"],
        "env": [{"name": "PORT", "valueFrom": {}}],
    }
]
TWICE = [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--port", "8000", "--port=9000"]}]
NO_PORT = [{"name": "t", "image": "x/text-generation-inference", "env": [{"name": "PORT", "value": "eighty"}]}]
NO_ADDRESS = [{"name": "o", "image": "ollama/ollama", "env": [{"name": "OLLAMA_HOST", "value": "a b"}]}]
ELSEWHERE = [
    {
        "name": "tgi",
        "image": "ghcr.io/huggingface/text-generation-inference",
        "env": [{"name": "PORT", "valueFrom": {}}],
    }
]
PORTS = [{"name": "own", "image": "x/own", "ports": [{"containerPort": 1}, {"containerPort": 2}]}]
OWN = [{"name": "own", "image": "x/own", "ports": [{"containerPort": 1}]}]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"containers": TWO}, "it has several engines (a, b), and one sidecar stands before one of them: say which by the annotation"),
        ({"containers": NONE}, "which of its containers is the engine cannot be told (a, b): say it by the annotation"),
        ({"containers": VARIABLE}, "its port is --port $(PORT), which the manifest does not resolve: say it by the annotation"),
        ({"containers": PORTS}, "on which port container own serves cannot be told (its ports: 1, 2): say it by the annotation"),
        ({"initContainers": [{"name": "sidecar", "image": "x"}]}, "it has a container named sidecar already, which is not ours"),
        ({"volumes": [{"name": "sidecar-state", "emptyDir": {}}]}, "it has a volume named sidecar-state already, which is not ours"),
        ({"containers": [*POD["containers"], {"name": "x", "image": "x", "ports": [{"containerPort": 9901}]}]}, "its container x uses port 9901"),
        ({"containers": []}, "it has no container"),
        ({"containers": NO_PORT}, "its variable PORT is 'eighty', which is no port: say it by the annotation"),
        ({"containers": NO_ADDRESS}, "its variable OLLAMA_HOST is 'a b', which is no address: say the port by the"),
        ({"containers": TWICE}, "its port is stated as 8000 and as 9000: say it by the annotation"),
        ({"containers": ELSEWHERE}, "its port is in the variable PORT, which comes from elsewhere: say it by the annotation"),
    ],
    ids=["two engines", "no engine", "a variable", "two ports", "a name", "a volume", "a port", "no container", "no port", "no address", "twice", "elsewhere"],
)  # fmt: skip
def test_what_the_manifest_does_not_say_or_has_taken(spec: dict[str, Any], told: str) -> None:
    assert told in refused(deployment(**spec), SERVICE)


@pytest.mark.parametrize(
    ("containers", "told"),
    [
        (
            SHELL,
            "the sidecar must take the engine's port, and a shell, a script or the image starts the engine without --port: state it there",
        ),
        (OWN, "how this engine is told to listen on another is not known: give the pods a Service of their own"),
    ],
    ids=["a shell", "an engine of one's own"],
)
def test_an_engine_that_would_have_to_move_and_cannot(containers: list[Any], told: str) -> None:
    """No Service leads to it; with one, it need not move."""
    one = deployment(containers=containers)

    assert told in refused(one)
    assert "no Service or InferencePool of these manifests leads to it" in refused(one)
    port = containers[0].get("ports", [{"containerPort": 8000}])[0]["containerPort"]
    service = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": port}]}}
    assert refused(one, service) == ""
    assert refused(one, no_service=True) == ""


def test_a_kind_that_is_not_known_is_told_how_to_name_it() -> None:
    one = {
        "apiVersion": "x.io/v1",
        "kind": "ModelServer",
        "metadata": {"name": "m", "labels": {"llm-phase-sidecar/attach": "true"}},
        "spec": {"pod": {"spec": POD}},
    }

    assert (
        refused(one)
        == "ModelServer m: this kind is not known; if it has a pod's spec, say where: --pod-spec-path=ModelServer=spec.pod.spec"
    )
    assert refused(copy.deepcopy(one), further_kinds={"ModelServer": ("spec", "pod", "spec")}) == ""


def test_a_kind_that_is_not_known_is_named_where_all_are_meant_and_an_engine_is_in_it() -> None:
    def said(pod: Any) -> list[str]:
        one = {"apiVersion": "x.io/v1", "kind": "ModelServer", "metadata": {"name": "m"}, "spec": {"pod": pod}}
        return attach_all(read(json.dumps(one), "x"), Settings(every=True)).lines

    assert said(POD) == [
        "ModelServer m is left as it is: this kind is not known; if it has a pod's spec, say where: --pod-spec-path=ModelServer=spec.pod"
    ]
    assert said({"containers": [{"name": "redis", "image": "redis"}]}) == []


def test_a_rollout_that_only_names_a_deployment() -> None:
    one = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "r", "labels": {"llm-phase-sidecar/attach": "true"}},
        "spec": {"workloadRef": {}},
    }

    assert refused(one) == "Rollout r: it describes no pod of its own; label what makes its pods"


def test_all_refusals_are_told_at_once() -> None:
    told = refused(deployment("one", containers=TWO), deployment("two", containers=NONE)).splitlines()

    assert [line.split(":")[0] for line in told] == ["Deployment one", "Deployment two"]


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_an_annotation_that_is_no_port(port: str) -> None:
    one = deployment()
    one["metadata"]["annotations"] = {"llm-phase-sidecar/engine-port": port}

    assert f"engine-port is '{port}'; a number from 1 to 65535 is meant" in refused(one, SERVICE)


def test_a_workload_that_says_no_is_left_alone() -> None:
    one = deployment()
    one["metadata"]["labels"]["llm-phase-sidecar/attach"] = "false"
    text = json.dumps(one) + "\n"
    documents = read(text, "x")
    attach_all(documents, Settings(every=True))

    assert written(documents) == text


def two_deployments(first_port: int = 8000, second_port: int = 8000) -> list[dict[str, Any]]:
    """Two workloads behind one Service that asks for a port by name."""
    found = []
    for name, port in (("one", first_port), ("two", second_port)):
        container = {
            **POD["containers"][0],
            "args": [f"--port={port}"],
            "ports": [{"name": "http", "containerPort": port}],
        }
        found.append(deployment(name, {"app": "llm", "track": name}, containers=[container]))
    return found


BY_NAME = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": "http"}]}}
HEADLESS = {
    **SERVICE,
    "metadata": {"name": "pods"},
    "spec": {"clusterIP": "None", "selector": {"track": "two"}, "ports": [{"port": 8000}]},
}


def listening(*objects: dict[str, Any]) -> list[int]:
    """The ports of the sidecars of these Deployments, in their order; nothing is refused."""
    documents = read("---\n".join(json.dumps(one) + "\n" for one in objects), "x")
    done = attach_all(documents, Settings())
    assert done.refused == []
    return [
        next(port["containerPort"] for port in one["spec"]["template"]["spec"]["initContainers"][-1]["ports"])
        for document in read(written(documents), "again")
        for one in document.objects
        if one["kind"] == "Deployment"
    ]


@pytest.mark.parametrize("target", [{}, {"targetPort": "http"}, {"targetPort": "of-none"}])
@pytest.mark.parametrize("second_port", [8000, 8001])
def test_a_port_by_name_is_each_pods_own_answer(second_port: int, target: dict[str, str]) -> None:
    """A headless Service of the second makes its sidecar take the engine's port, whatever it is to lead to, which it cannot."""
    selector = {"clusterIP": "None", "selector": {"track": "two"}}
    headless = {**HEADLESS, "spec": {**selector, "ports": [{"port": second_port, **target}]}}

    assert listening(*two_deployments(8000, second_port), BY_NAME, headless) == [8900, second_port]


def test_a_workload_whose_engine_cannot_move_takes_along_those_behind_the_same_number() -> None:
    """The Service is turned for both, in a second step."""
    one, two = two_deployments()
    two["spec"]["template"]["spec"]["containers"] = SHELL

    assert listening(one, two, SERVICE) == [8900, 8900]


def test_two_workloads_behind_one_number_of_which_one_must_move_and_the_other_cannot() -> None:
    one, two = two_deployments()
    one["spec"]["template"]["spec"]["containers"] = SHELL
    told = refused(one, two, SERVICE, HEADLESS)

    assert (
        "Deployment two: the sidecar must take the engine's port, and another workload behind the same Service cannot"
        in told
    )


def test_a_workload_that_comes_behind_a_turned_service_listens_where_that_leads() -> None:
    one, two = two_deployments()

    assert listening(
        one, two, {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": 8900}]}}
    ) == [8900, 8900]


WORDS: dict[str, tuple[list[str], str]] = {
    "a shell": (["bash", "-c", "vllm serve m"], "vllm serve m --port=18000"),
    "behind an init": (["tini", "--", "bash", "-c", "exec vllm serve m"], "exec vllm serve m --port=18000"),
    "its own command alone": (["sh", "-c", "pip install vllm && ray start --head; vllm serve m &"], "pip install vllm && ray start --head; vllm serve m --port=18000 &"),
    "before a redirection": (["sh", "-c", "HF=1 vllm serve m > /log 2>&1"], "HF=1 vllm serve m --port=18000 > /log 2>&1"),
    "before a comment": (["sh", "-c", "vllm serve m # the model"], "vllm serve m --port=18000 # the model"),
    "over lines": (["sh", "-c", "vllm serve m \\\n  --x 1 \\\n"], "vllm serve m \\\n  --x 1 --port=18000 \\\n"),
    "as a module": (["sh", "-c", "python3 -m vllm.entrypoints.openai.api_server"], "python3 -m vllm.entrypoints.openai.api_server --port=18000"),
    "behind words of its own": (["numactl", "--", "/opt/vllm/bin/vllm", "serve", "m"], "--port=18000"),
    "a variable": (["sh", "-c", "vllm serve m --port $PORT"], "vllm serve m --port 18000"),
    "words of JSON": (["vllm", "serve", "m", "--chat-template-kwargs", '{"a": 1}'], "--port=18000"),
}  # fmt: skip


@pytest.mark.parametrize("what", WORDS)
@pytest.mark.parametrize("key", ["command", "args"])
def test_an_engine_is_told_another_port_wherever_its_command_can_state_it(key: str, what: str) -> None:
    """Also where it relied on its usual one: this is how vLLM's own documentation starts it."""
    words, told = WORDS[what]
    env = [{"name": "PORT", "value": "8000"}]
    documents = read(
        json.dumps(deployment(containers=[{"name": "vllm", "image": "vllm/vllm-openai", key: words, "env": env}]))
        + "\n",
        "x",
    )
    done = attach_all(documents, Settings())
    (document,) = read(written(documents), "again")
    (container,) = document.root["spec"]["template"]["spec"]["containers"]

    assert done.refused == []
    assert (container.get("args") or container["command"])[-1] == told


def test_an_engine_of_ones_own_with_a_port_among_its_words_is_told_another() -> None:
    one = deployment(containers=[{**OWN[0], "args": ["--port=9000"], "ports": [{"containerPort": 9000}]}])
    documents = read(json.dumps(one) + "\n", "x")

    assert attach_all(documents, Settings()).refused == []
    assert documents[0].root["spec"]["template"]["spec"]["containers"][0]["args"] == ["--port=19000"]


CANNOT = {
    "a script": ["/scripts/start.sh"],
    "a shell's own script": ["bash", "start.sh"],
    "two of them": ["sh", "-c", "vllm serve a & vllm serve b"],
    "half a quote": ["sh", "-c", "vllm serve m --x 'a;b'"],
    "within brackets": ["sh", "-c", "echo $(vllm serve m)"],
    "only its name": ["sh", "-c", "cd /vllm && ./serve"],
    "a script of Python": ["sh", "-c", "exec python3 /app/vllm_start.py"],
}


@pytest.mark.parametrize("what", CANNOT)
@pytest.mark.parametrize("key", ["command", "args"])
def test_a_flag_that_would_not_reach_the_engine_is_not_added(key: str, what: str) -> None:
    containers = [{"name": "vllm", "image": "vllm/vllm-openai", key: CANNOT[what], "ports": [{"containerPort": 8000}]}]

    assert "a shell, a script or the image starts the engine without --port" in refused(
        deployment(containers=containers)
    )


NAMED = [{"name": "http", "containerPort": 8000}]
REDIS = {"name": "redis", "image": "redis", "ports": [{"name": "http", "containerPort": 6379}]}
BY_NUMBER = {**SERVICE, "metadata": {"name": "number"}, "spec": {"selector": {"own": "1"}, "ports": [{"port": 8000}]}}


@pytest.mark.parametrize(("beside", "further"), [([REDIS], []), ([], [BY_NUMBER])], ids=["its name twice", "a number"])
def test_a_name_is_not_turned_while_pods_without_a_sidecar_answer_to_it(beside: list[Any], further: list[Any]) -> None:
    """The engine cannot move: its name would be turned, since another container has it too, or with the number beside it."""
    one = deployment(labels={"app": "llm", "own": "1"}, containers=[{**SHELL[0], "ports": NAMED}, *beside])
    other = deployment("other", containers=[{**POD["containers"][0], "ports": NAMED}])
    other["metadata"]["labels"] = {}
    by_name = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": "http"}]}}

    assert "Service llm leads to Deployment other too, which has no sidecar" in refused(one, other, by_name, *further)


def test_a_script_with_the_engines_name_may_pass_on_no_word() -> None:
    own = {"name": "vllm", "image": "vllm/vllm-openai", "command": ["/usr/local/bin/run-vllm", "m"]}

    assert "starts the engine without --port: state it there" in refused(deployment(containers=[own]))


def test_an_operator_that_asks_at_another_port_than_the_engine_has() -> None:
    predictor = {"containers": [{"name": "kserve-container", "image": "vllm/vllm-openai", "args": ["--port=9000"]}]}
    one = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "i"},
        "spec": {"predictor": predictor},
    }

    assert (
        "InferenceService i: its operator asks at port 8080, and the engine listens on 9000: let it listen there; where it does, say so by the annotation"
        in refused(one, every=True)
    )


def test_a_word_that_is_neither_yes_nor_no() -> None:
    one = deployment()
    one["metadata"]["labels"]["llm-phase-sidecar/attach"] = "yes"

    assert (
        refused(one, SERVICE) == 'Deployment llm: it says llm-phase-sidecar/attach: "yes"; "true" or "false" is meant'
    )


@pytest.mark.parametrize("change", ["template", "owned", "client", "frontend"])
def test_what_is_not_meant_by_all_is_left_alone(change: str) -> None:
    """A pod template that says no, what another object makes, a client of an engine, and a Dynamo graph without a frontend's pod."""
    one = deployment()
    one["metadata"]["labels"] = {}
    if change == "template":
        one["spec"]["template"]["metadata"]["annotations"] = {"llm-phase-sidecar/attach": "false"}
    elif change == "owned":
        one["metadata"]["ownerReferences"] = [{"kind": "Rollout", "name": "r"}]
    elif change == "client":
        one["spec"]["template"]["spec"] = {
            "containers": [{"name": "c", "image": "curlimages/curl", "args": ["http://vllm:8000/health"]}]
        }
    else:
        one = {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "g"},
            "spec": {"services": {"Frontend": {}}},
        }
    text = json.dumps(one) + "\n"
    documents = read(text, "x")
    done = attach_all(documents, Settings(every=True))

    assert (written(documents), done.refused, done.workloads) == (text, [], 0)


CONFIGURED = [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m", "--config=/etc/vllm/config.yaml"]}]
AT_9000: dict[str, Any] = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": 9000}]}}
POOL_AT_9000 = {
    "apiVersion": "inference.networking.k8s.io/v1",
    "kind": "InferencePool",
    "metadata": {"name": "llm"},
    "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 9000}]},
}


@pytest.mark.parametrize(
    "leads", [AT_9000, {**AT_9000, "spec": {**AT_9000["spec"], "clusterIP": "None"}}, POOL_AT_9000]
)
def test_a_port_that_no_container_has_is_the_engines_for_all_that_is_known(leads: dict[str, Any]) -> None:
    """The engine's own port is only its usual one: moved away from it, what is led to 9000 would reach nothing."""
    one = deployment(containers=CONFIGURED)

    assert (
        f"{leads['kind']} llm leads to 9000, the engine seems to be on 8000: say it by the annotation"
        " llm-phase-sidecar/engine-port, or --engine-port" in refused(one, leads)
    )
    assert refused(one, leads, port=9000) == ""


LLAMA = {"name": "l", "image": "x/llama.cpp", "envFrom": [{"configMapRef": {"name": "c"}}]}


@pytest.mark.parametrize(("engine", "unseen"), [(CONFIGURED[0], "--config"), (LLAMA, "envFrom")])
def test_a_port_that_a_file_may_state_is_not_taken_for_the_usual_one(engine: dict[str, Any], unseen: str) -> None:
    """A Service that leads there, or `ports`, tells it."""
    told = f"the port of its engine may be in what {unseen} names, and nothing here leads to"

    assert told in refused(deployment(containers=[engine]))
    assert refused(deployment(containers=[{**engine, "ports": [{"containerPort": 8000}]}])) == ""


BESIDE = {"name": "metrics", "image": "nvidia/dcgm-exporter", "ports": [{"containerPort": 9000}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [*CONFIGURED, BESIDE]},
        {"containers": CONFIGURED, "initContainers": [{**BESIDE, "restartPolicy": "Always"}]},
        {"containers": [{**CONFIGURED[0], "args": ["--port=8000"]}]},
    ],
    ids=["another container's", "a native sidecar's", "the engine's is stated"],
)
def test_a_service_that_leads_to_a_port_of_others_is_no_contradiction(spec: dict[str, Any]) -> None:
    assert refused(deployment(**spec), SERVICE, AT_9000) == ""


def test_a_port_of_the_user_that_the_manifest_contradicts() -> None:
    one = deployment(containers=[{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--port", "8001"]}])

    assert "its port is stated as 8001 in the manifest, and as 8000 by the annotation" in refused(one, port=8000)
    assert refused(one, port=8001) == ""
    assert refused(deployment(containers=TWICE), SERVICE, port=8000) == "", "what is stated in two ways, the user says"


HTTPS_PROBE = {**CONFIGURED[0], "readinessProbe": {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}}}
TLS = {"vllm": "--ssl-certfile", "sglang": "--ssl-keyfile=/k", "llama.cpp": "--ssl-key-file", "lmdeploy": "--ssl"}


@pytest.mark.parametrize(("image", "flag"), TLS.items())
def test_an_engine_that_speaks_tls(image: str, flag: str) -> None:
    containers = [{"name": "e", "image": f"x/{image}", "args": [flag, "/tls/one", "--ssl-ca-certs", "/ca"]}]

    assert f"its engine speaks TLS ({flag.partition('=')[0]})" in refused(deployment(containers=containers))


def test_a_probe_by_https_shows_that_the_engine_speaks_tls() -> None:
    assert "its engine speaks TLS (a probe with the scheme HTTPS)" in refused(deployment(containers=[HTTPS_PROBE]))


def test_an_engine_on_a_unix_socket() -> None:
    one = deployment(containers=[{**CONFIGURED[0], "args": ["--model=m", "--uds", "/run/engine.sock"]}])

    assert "its engine listens on a Unix socket (--uds), and the sidecar asks at a port" in refused(one, SERVICE)


def test_the_port_to_be_taken_is_another_containers() -> None:
    front = {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 8000}]}

    told = refused(deployment(containers=[{**CONFIGURED[0], "args": ["--model=m"]}, front]))

    assert "its container nginx has port 8000 too, which the sidecar must take" in told


@pytest.mark.parametrize("text", ["vllm serve m \\\n  --tensor-parallel-size 2 \\\n  --port 9000", "vllm serve m --port \\\n 9000", "vllm serve m --port ${PORT:-9000}"])  # fmt: skip
def test_a_port_in_the_text_of_a_shell(text: str) -> None:
    """A backslash at the end of a line goes on with the command; a shell's variable may have a value for where it is not set."""
    one = deployment(containers=[{"name": "vllm", "image": "vllm/vllm-openai", "command": ["sh", "-c", text]}])

    assert refused(one, AT_9000) == ""


def test_a_variable_from_elsewhere_outranks_what_a_shell_takes_without_it() -> None:
    text = {"command": ["sh", "-c", "vllm serve m --port ${PORT:-9000}"], "env": [{"name": "PORT", "valueFrom": {}}]}

    assert "which the manifest does not resolve" in refused(deployment(containers=[{**CONFIGURED[0], **text}]), AT_9000)


def test_a_port_by_a_name_that_two_containers_have_stays_whosever_it_is() -> None:
    """Not all that reads names takes the first container that has one, so the number is taken."""
    first = {**POD["containers"][0], "ports": [{"name": "http", "containerPort": 8000}]}
    second = {"name": "ui", "image": "x/ui", "ports": [{"name": "http", "containerPort": 3000}]}

    assert listening(deployment(containers=[first, second]), BY_NAME) == [8000]


def leader_worker_set(**templates: Any) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "group", "labels": {"llm-phase-sidecar/attach": "true"}},
        "spec": {"leaderWorkerTemplate": {"size": 2, **templates}},
    }


def test_workers_of_a_leader_have_a_sidecar_if_something_leads_to_them() -> None:
    serves = {"metadata": {"labels": {"app": "llm"}}, "spec": POD}
    for labels, many in (({"app": "llm"}, 2), ({"app": "workers"}, 1)):
        one = leader_worker_set(leaderTemplate=serves, workerTemplate={"metadata": {"labels": labels}, "spec": POD})
        documents = read("---\n".join(json.dumps(each) + "\n" for each in (one, SERVICE)), "x")
        done = attach_all(documents, Settings())

        assert (done.refused, done.workloads) == ([], many)
        assert written(documents).count("--engine.url") == many


def test_one_template_for_a_leader_and_its_workers() -> None:
    one = leader_worker_set(workerTemplate={"metadata": {"labels": {"app": "llm"}}, "spec": POD})

    assert "its leader and its workers are made from one template" in refused(one, SERVICE)
    one["spec"]["leaderWorkerTemplate"]["size"] = 1
    assert refused(one, SERVICE) == ""


def test_pods_of_a_kind_that_is_not_known_have_no_sidecar() -> None:
    """The Service leads to them too, so it stays. `bypass` would lead it to a port that they do not have."""
    template = {"metadata": {"labels": {"app": "llm"}}, "spec": POD}
    other = {"apiVersion": "x.io/v1", "kind": "ModelServer", "metadata": {"name": "m"}, "spec": {"template": template}}
    documents = read("---\n".join(json.dumps(one) + "\n" for one in (deployment(), SERVICE, other)), "x")
    done = attach_all(documents, Settings())

    assert any("Service llm leads to ModelServer m too, which has no sidecar" in line for line in done.lines)
    told, cannot = commands(documents, back=False)
    assert told == []
    assert "leads to ModelServer m too" in cannot[0]


def inference_service(mode: str = "Standard", port: str = "", **model: Any) -> dict[str, Any]:
    annotations = {"serving.kserve.io/deploymentMode": mode}
    if port:
        annotations["llm-phase-sidecar/engine-port"] = port
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "i", "annotations": annotations},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "huggingface"}, **model}}},
    }


def test_an_operator_that_makes_other_pods_than_the_manifest_shows() -> None:
    assert refused(inference_service(), every=True) == ""
    assert refused(inference_service("RawDeployment"), every=True) == ""
    assert "deploymentMode is Serverless" in refused(inference_service("Serverless"), every=True)


def test_a_runtime_that_is_not_read_and_the_annotation_that_says_its_port() -> None:
    """The runtime's engine gets its own flag, and not that of the server which the model's format means."""
    told = refused(inference_service(runtime="my-vLLM", args=["--model=m"]), every=True)
    one = inference_service(port="8080", runtime="my-vLLM", args=["--model=m"])
    documents = read(json.dumps(one), "x")

    assert "its container is that of the runtime my-vLLM, which is not read" in told
    assert "by the annotation llm-phase-sidecar/engine-port" in told
    assert attach_all(documents, Settings(every=True)).refused == []
    assert documents[0].objects[0]["spec"]["predictor"]["model"]["args"] == ["--model=m", "--port=18080"]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_pods_that_end_have_no_plain_container(policy: str) -> None:
    """A Job would never be complete."""
    one = {**deployment(restartPolicy=policy), "apiVersion": "batch/v1", "kind": "Job"}

    assert "a container beside the engine does not: attach it without --plain" in refused(
        one, pod=PodSettings(plain=True)
    )
    assert refused(one) == ""


def test_a_selector_means_the_engines_among_them() -> None:
    """A release's label is on its Redis too; the workload's own label asks for an engine that is not known."""
    one = deployment(containers=[{"name": "redis", "image": "redis:7", "ports": [{"containerPort": 6379}]}])
    one["metadata"]["labels"] = {"release": "r"}
    documents = read(json.dumps(one), "x")
    done = attach_all(documents, Settings(selector={"release": "r"}))

    assert (done.refused, done.workloads) == ([], 0)
    assert done.lines[0].startswith("Deployment llm is left as it is: no engine is known in it")


UNSEEN: dict[str, dict[str, Any]] = {
    "a program of one's own": {"image": "vllm/vllm-openai", "command": ["python3", "/app/vllm_server.py"]},
    "one with the engine's words": {"image": "r/vllm", "command": ["/launch"], "args": ["--name", "vllm"]},
    "an image that may have words": {"image": "r/vllm-llama:1"},
    "a script behind an engine with a variable": {
        "image": "ghcr.io/ggml-org/llama.cpp:server",
        "command": ["/start.py"],
    },
}


@pytest.mark.parametrize("what", UNSEEN)
def test_what_starts_the_engine_unseen_is_given_no_words_of_ours(what: str) -> None:
    """Words in a manifest replace those of an image, and what a script does with them is not known: another model might serve, or none."""
    assert "starts the engine without" in refused(deployment(containers=[{"name": "llm", **UNSEEN[what]}]))


def test_the_image_of_vllm_itself_has_no_words() -> None:
    documents = read(json.dumps(deployment(containers=[{"name": "v", "image": "r.io/vllm/vllm-openai:v1"}])), "x")

    assert attach_all(documents, Settings()).refused == []
    assert documents[0].root["spec"]["template"]["spec"]["containers"][0]["args"] == ["--port=18000"]
