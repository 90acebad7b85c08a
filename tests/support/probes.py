"""The probes of the shipped pod, as a test reads them. It knows two files of deploy/, and nothing of the sidecar."""

from typing import Any

from sidecar.config.quick_yaml import read_yaml
from tests.support.imports import CHECKOUT


COMPONENTS = CHECKOUT / "deploy" / "components"
ABSENT_SECONDS = 30.0
"""The sidecar is stopped or killed, and is back after so long."""


def added(component: str, what: str) -> Any:
    """The value that a component's JSON patch adds to the engine's container as `what`."""
    for patch in read_yaml((COMPONENTS / component / "kustomization.yaml").read_text())["patches"]:
        for each in read_yaml(patch["patch"]):
            if isinstance(each, dict) and each["path"].endswith(f"/containers/0/{what}") and "value" in each:
                return each["value"]
    raise LookupError(f"{component} adds no {what}")


def probes() -> dict[str, dict[str, Any]]:
    """The liveness probe of each container; the engine's is that of the component."""
    pod = read_yaml((CHECKOUT / "deploy/base/pod.yaml").read_text())["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    return {"engine": added("engine-liveness", "livenessProbe"), "sidecar": sidecar["livenessProbe"]}
