"""Whether what is attached is attached whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.doctor.doctor_command import main as doctor
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.audit import Audit, audited
from sidecar.commands.inject.manifest_text import read, written
from tests.support.attached import EVERY, again
from tests.support.kustomize import MANIFESTS


CANARY = (MANIFESTS / "canary-beside.yaml").read_text()
ONE = (MANIFESTS / "two-services.yaml").read_text()
TURNED = (MANIFESTS / "redis-beside.yaml").read_text()


def attached(text: str, **settings: Any) -> str:
    documents = read(text, "x")
    attach_all(documents, Settings(**settings))
    return written(documents)


def of(text: str) -> Audit:
    return audited(read(text, "x"))


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_what_inject_writes_has_no_fault(path: Any) -> None:
    """But a policy that lets nothing in that is known to scrape, which is named."""
    found = audited(again(path))
    closed = path.stem == "extra-init-container"

    assert [said for said, _ in found.faults] == [CLOSED] * closed
    assert found.attached


CLOSED = "Deployment lmdeploy: port 9901 is closed to what scrapes it, by NetworkPolicy lmdeploy"


def test_one_of_many_is_counted_by_its_pods() -> None:
    """Both workloads say how many they want. Under an autoscaler neither does, and no number is made up."""
    text = attached(CANARY)
    stated = text
    for name, many in (("vllm}", 9), ("vllm-canary,", 1)):
        at = stated.index("spec:\n  selector", stated.index(f"metadata: {{name: {name}"))
        stated = f"{stated[:at]}spec:\n  replicas: {many}\n{stated[at + 6 :]}"

    assert (of(stated).pods_attached, of(stated).pods) == (1, 10)
    assert (of(text).pods_attached, of(text).pods) == (None, None)
    assert (of(text).attached, of(text).without) == (["Deployment vllm-canary"], ["Deployment vllm"])


def test_a_label_without_a_sidecar() -> None:
    ((said, _),) = of(CANARY).faults

    assert said == "Deployment vllm-canary asks for a sidecar by llm-phase-sidecar/attach, and has none"


def test_a_service_that_leads_past_the_sidecar() -> None:
    """As it does between the two steps, and `inject` turns it then: all its pods have their sidecars."""
    between = attached(TURNED, every=True).replace("targetPort: 8900", "targetPort: 80")
    ((said, do),) = of(between).faults

    assert said == "Service tgi leads past the sidecar of Deployment tgi, to port 80"
    assert do == "let it lead to port 8900: `sidecar inject` of these manifests does, or says why not"
    assert of(attached(between, every=True)).faults == []


def test_a_turned_service_without_a_sidecar_behind_it() -> None:
    """As the five lines left a workload that they did not know."""
    told = [said for said, _ in of(ONE.replace("targetPort: 8000", "targetPort: 8900")).faults]

    assert told == ["Service trtllm-public leads to port 8900 of Deployment trtllm, which has no sidecar"]


def test_what_kubectl_prints_is_read_too() -> None:
    items = [
        json.loads(json.dumps(one)) for document in read(attached(ONE, every=True), "x") for one in document.objects
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{**one, "status": {}} for one in items]})

    assert (of(listed).attached, of(listed).faults) == (["Deployment trtllm"], [])


BY_NAME = """\
---
apiVersion: v1
kind: Service
metadata: {name: later}
spec: {selector: {app: one}, ports: [{port: 80, targetPort: http}]}
"""
ALONE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: one}
spec:
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: e, image: vllm/vllm-openai, args: [--model=m], ports: [{name: http, containerPort: 8000}]}]}
"""


def test_a_service_by_name_that_comes_later_leads_to_the_sidecar() -> None:
    """The sidecar has taken the engine's port, and the name stayed with that."""
    text = attached(ALONE, every=True) + BY_NAME

    assert of(text).faults == []
    assert attached(text, every=True) == text


def test_the_doctor_names_a_closed_port_and_a_file_of_an_odd_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that all is attached, and of an odd shape a traceback."""
    file, odd = tmp_path / "closed.yaml", tmp_path / "odd.yaml"
    text = attached((MANIFESTS / "extra-init-container.yaml").read_text(), every=True)
    file.write_text(text)
    odd.write_text(text.replace("ingress: [", "ingress: 3 # ["))
    asked = "--sidecar.url=http://127.0.0.1:1"
    doctor([f"--manifests={file}", asked])
    said = " ".join(capsys.readouterr().out.split())
    code = doctor([f"--manifests={odd}", asked])
    refused = " ".join(capsys.readouterr().err.split())

    assert f"broken attached {CLOSED}" in said
    assert (code, "NetworkPolicy lmdeploy: spec.ingress is 3, and a list is meant" in refused) == (2, True)
