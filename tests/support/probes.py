"""The containers and the probes of the shipped manifest, as a test reads them. It knows the file, and nothing of the sidecar."""

from typing import Any

import yaml

from tests.support.imports import CHECKOUT


MANIFEST = (CHECKOUT / "deploy" / "kubernetes.yaml").read_text()
ABSENT_SECONDS = 30.0
"""The sidecar is stopped or killed, and is back after so long."""


def containers() -> dict[str, dict[str, Any]]:
    """Each container of the pod by its name."""
    (deployment,) = [each for each in yaml.safe_load_all(MANIFEST) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    return {each["name"]: each for each in (*pod["initContainers"], *pod["containers"])}


def probes() -> dict[str, dict[str, Any]]:
    """The liveness probe of each container."""
    return {name: container["livenessProbe"] for name, container in containers().items()}
