"""Pod, namespace and node stand on every line and in words, as far as Kubernetes has said them, and nothing stands for the rest."""

import json
from io import BytesIO

import pytest
import structlog

from sidecar.config.schema import LogConfig
from sidecar.logs.placement import FROM_KUBERNETES, in_words, placement_of
from sidecar.logs.setup import Logs
from tests.support.kustomize import documented
from tests.support.logs import account
from tests.support.manifests import pod_of


WHOLE = {"POD_NAME": "llama-0", "POD_NAMESPACE": "prod", "NODE_NAME": "gpu-7"}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (WHOLE, "pod llama-0 in prod on gpu-7"),
        ({"POD_NAME": "llama-0", "NODE_NAME": ""}, "pod llama-0"),
        ({"NODE_NAME": "gpu-7", "HOME": "/"}, "on gpu-7"),
        ({}, ""),
    ],
)
def test_the_words_say_what_is_known(environment: dict[str, str], words: str) -> None:
    assert in_words(placement_of(environment)) == words


def test_every_line_has_them_and_a_line_outside_kubernetes_has_none_of_them() -> None:
    """An event of the program and the line of a request."""
    found = []
    for environment in (WHOLE, {}):
        file = BytesIO()
        logs = Logs.set_up(LogConfig(format="json"), file, placement=placement_of(environment))
        structlog.get_logger().warning("listening")
        logs.request(account())
        logs.close()
        found.append(
            [{key: line.get(key) for key in FROM_KUBERNETES} for line in map(json.loads, file.getvalue().splitlines())]
        )

    assert found == [
        [{"pod": "llama-0", "namespace": "prod", "node": "gpu-7"}] * 2,
        [dict.fromkeys(FROM_KUBERNETES)] * 2,
    ]


def test_a_name_cannot_forge_a_line_and_is_cut_at_the_longest_that_kubernetes_has() -> None:
    placed = placement_of({"POD_NAME": 'a\n{"level":"info"}', "NODE_NAME": "n" * 1000})

    assert "\n" not in placed["pod"]
    assert len(placed["node"]) <= 254


def test_the_variables_are_those_that_the_manifests_fill() -> None:
    assert {each["name"] for each in pod_of(documented("vllm")).sidecar["env"]} == set(FROM_KUBERNETES.values())
