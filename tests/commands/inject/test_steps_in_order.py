"""The folders of `--out`, and the refusals where there is no order: through the command, a real shell and kustomize."""

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.cli import main
from sidecar.commands.inject.steps_in_order import WAVE
from tests.support.kustomize import MANIFESTS, keyed, made


IMAGE = "--image=r.example.com/s:1"
TURNED = (MANIFESTS / "redis-beside.yaml").read_text()
"""TGI's port is 80, so that its Service is turned."""
Streams = pytest.CaptureFixture[str]


def run(argv: Sequence[str], capsys: Streams, monkeypatch: pytest.MonkeyPatch, given: str) -> tuple[int, str, str]:
    """Exit code, output and error output, of which no line is folded."""
    monkeypatch.setenv("COLUMNS", "9999")
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    code = main(argv)
    said = capsys.readouterr()
    return code, said.out, said.err


def folder(tmp_path: Path, text: str, *flags: str, command: str = "inject") -> Path:
    """The folder that the command writes for these manifests."""
    (tmp_path / "given.yaml").write_text(text)
    words = [IMAGE, "--all", *flags] if command == "inject" else [*flags]
    assert main([command, *words, f"--out={tmp_path / 'out'}", str(tmp_path / "given.yaml")]) == 0
    return tmp_path / "out"


def objects_in(path: Path) -> list[Any]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def test_in_a_pipe_it_is_refused_with_the_reason_and_both_commands(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, said = run(["inject", IMAGE, "--all"], capsys, monkeypatch, TURNED)

    assert (code, out) == (2, "")
    assert "Service tgi leads to port 8900 only behind new pods: no ordinary user may listen on port 80" in said
    assert f"sidecar inject --out=DIR {IMAGE} --all\n" in said
    assert "sh DIR/apply.sh, which is kubectl apply -f of each folder of DIR in its order" in said


def test_a_service_that_comes_to_pods_that_have_a_sidecar_is_turned_in_its_step_too(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the manifests have it does not say that the pods of the cluster do."""
    pods, service = (yaml.safe_dump_all(each) for each in parted_by_kind(TURNED, "Service"))
    code, attached, _ = run(["inject", IMAGE, "--all", "--no-service"], capsys, monkeypatch, pods)
    assert code == 0

    code, out, said = run(["inject", IMAGE, "--all"], capsys, monkeypatch, f"{attached}---\n{service}")
    assert (code, out) == (2, "")
    assert "Service tgi leads to port 8900 only behind new pods: Deployment tgi has its sidecar there" in said


def parted_by_kind(text: str, kind: str) -> tuple[list[Any], list[Any]]:
    every = [one for one in yaml.safe_load_all(text) if one]
    return [one for one in every if one["kind"] != kind], [one for one in every if one["kind"] == kind]


def test_what_would_change_may_be_looked_at(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(["inject", IMAGE, "--all", "--diff"], capsys, monkeypatch, TURNED)

    assert (code, "targetPort: 8900" in out) == (0, True)


def test_two_folders_and_what_is_said_of_the_way_back(tmp_path: Path, capsys: Streams) -> None:
    there = folder(tmp_path, TURNED)
    files = sorted(path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file())
    said = " ".join(capsys.readouterr().err.split())

    assert files == ["1-pods/manifests.yaml", "2-traffic/manifests.yaml", "apply.sh", "flux.yaml", "kustomization.yaml"]
    assert [one["metadata"]["name"] for one in objects_in(there / "2-traffic/manifests.yaml")] == ["tgi"]
    assert [one["kind"] for one in objects_in(there / "1-pods/manifests.yaml")] == [
        "Deployment",
        "Deployment",
        "Service",
    ]
    assert "`kubectl rollout undo` alone is not safe here" in said
    assert "the way back is `sidecar uninject --out=OTHER DIR/*/manifests.yaml`" in said


@pytest.mark.parametrize("name", ["two-services", "redis-beside", "two-models"])
def test_kustomize_makes_of_the_folder_all_objects(name: str, tmp_path: Path) -> None:
    """This is the folder as Argo CD reads it."""
    there = folder(tmp_path, (MANIFESTS / f"{name}.yaml").read_text())
    every = [one for path in there.glob("*/manifests.yaml") for one in objects_in(path)]
    single = [each for one in every for each in (one["items"] if one["kind"] == "List" else [one])]

    assert made(there) == keyed(json.loads(json.dumps(single)))


PLAYED = "1-pods/manifests.yaml", "2-traffic/manifests.yaml"
BACK = "1-traffic/manifests.yaml", "2-pods/manifests.yaml"
RUNS = "--field-selector=status.phase!=Failed,status.phase!=Succeeded"


def played(there: Path, tmp_path: Path, *words: str, old: Sequence[str] = ()) -> list[list[str]]:
    """The calls of kubectl that the script makes, in a real shell. `old`: what each question for pods without a sidecar gives before there are none."""
    kubectl, noted = tmp_path / "bin" / "kubectl", tmp_path / "noted"
    kubectl.parent.mkdir(exist_ok=True)
    kubectl.write_text(
        '#!/bin/sh\nfor each in "$@"; do printf "%s\\037" "$each"; done >> "$NOTED"\necho >> "$NOTED"\n'
        'if [ "$1" = get ] && read -r line < "$OLD"; then sed -i 1d "$OLD"; $line; fi\n'
    )
    (kubectl.parent / "sleep").write_text("#!/bin/sh\n")
    for each in kubectl.parent.iterdir():
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    noted.write_text("")
    (tmp_path / "old").write_text("".join(f"{line}\n" for line in old))
    env = {"PATH": f"{kubectl.parent}:{os.environ['PATH']}", "NOTED": str(noted), "OLD": str(tmp_path / "old")}
    subprocess.run(["sh", str(there / "apply.sh"), *words], env=env, check=True, timeout=20)
    return [line.split("\x1f")[:-1] for line in noted.read_text().splitlines()]


def test_the_script_waits_for_the_pods_between_the_folders_and_goes_back_in_the_other_order(tmp_path: Path) -> None:
    there = folder(tmp_path, TURNED)
    text = "---\n".join(path.read_text() for path in sorted(there.glob("*/manifests.yaml")))
    (tmp_path / "back").mkdir()
    back = folder(tmp_path / "back", text, command="uninject")

    assert played(there, tmp_path, "-n", "llm") == [
        ["apply", "-n", "llm", "-f", PLAYED[0]],
        ["rollout", "status", "deployment/tgi", "-n", "llm"],
        ["get", "pods", "-n", "llm", RUNS, "-o", "name", "-l", "app=tgi,llm-phase-sidecar!=attached"],
        ["wait", "-n", "llm", RUNS, "--for=condition=Ready", "--timeout=60s", "pod", "-l", "app=tgi"],
        ["apply", "-n", "llm", "-f", PLAYED[1]],
    ]
    assert played(back, tmp_path) == [["apply", "-f", BACK[0]], ["apply", "-f", BACK[1]]]


def changed(change: Callable[[list[Any]], object]) -> str:
    objects = [one for one in yaml.safe_load_all(TURNED) if one]
    change(objects)
    return yaml.safe_dump_all(objects)


def test_a_name_that_a_shell_would_read_is_a_word(tmp_path: Path) -> None:
    def name_it(objects: list[Any]) -> None:
        objects[0]["metadata"] |= {"name": "a; touch b", "namespace": "$(touch c)"}
        objects[1]["metadata"]["namespace"] = "$(touch c)"

    calls = played(folder(tmp_path, changed(name_it)), tmp_path)

    assert calls[1] == ["rollout", "status", "deployment/a; touch b", "-n", "$(touch c)"]


def test_no_answer_of_the_cluster_ends_the_wait_but_that_there_is_no_pod_of_before(tmp_path: Path) -> None:
    """Kubernetes lets a question fail now and then, and nothing was printed then."""
    calls = played(folder(tmp_path, TURNED), tmp_path, old=["false", "echo pod/tgi-1", "false", "echo pod/tgi-1"])

    assert [each[0] for each in calls] == ["apply", "rollout", *["get"] * 5, "wait", "apply"]


def on_delete(objects: list[Any]) -> None:
    objects[0].update(kind="StatefulSet")
    objects[0]["spec"]["updateStrategy"] = {"type": "OnDelete"}


def partition(objects: list[Any]) -> None:
    objects[0].update(kind="StatefulSet")
    objects[0]["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 1}}


def replica_set(objects: list[Any]) -> None:
    objects[0].update(kind="ReplicaSet")


def clone_set(objects: list[Any]) -> None:
    objects[0].update(kind="CloneSet", apiVersion="apps.kruise.io/v1alpha1")


@pytest.mark.parametrize("change", [on_delete, partition, replica_set, clone_set])
def test_pods_whose_owner_does_not_say_that_all_are_new_are_asked_themselves_and_by_no_other_way(
    change: Callable[[list[Any]], object], tmp_path: Path, capsys: Streams
) -> None:
    """Their owner is healthy for Argo CD and Flux while pods of before are there, and `kubectl rollout status` ends or fails."""
    there = folder(tmp_path, changed(change))
    said = " ".join(capsys.readouterr().err.split())

    assert [each[0] for each in played(there, tmp_path, old=["echo pod/tgi-0"])] == [
        "apply",
        "get",
        "get",
        "wait",
        "apply",
    ]
    assert sorted(path.name for path in there.iterdir()) == ["1-pods", "2-traffic", "apply.sh"]
    assert "neither Argo CD nor Flux can tell when all pods of" in said


@pytest.mark.parametrize(("stated", "wave"), [(None, "1"), ("3", "4"), ("-2", "1"), ("first", "1")])
def test_a_wave_of_argo_cd_comes_behind_that_of_the_pods(stated: str | None, wave: str, tmp_path: Path) -> None:
    """The redis has none, which is 0."""

    def state(objects: list[Any]) -> None:
        objects[0]["metadata"]["annotations"] = {WAVE: stated} if stated else {}

    there = folder(tmp_path, changed(state))
    (service,) = objects_in(there / PLAYED[1])

    assert service["metadata"]["annotations"][WAVE] == wave


def test_flux_has_a_kustomization_for_each_folder_and_the_second_waits_for_the_first(tmp_path: Path) -> None:
    first, second = objects_in(folder(tmp_path, TURNED) / "flux.yaml")

    assert [one["spec"]["path"].rpartition("/out")[2] for one in (first, second)] == ["/1-pods", "/2-traffic"]
    assert [one["spec"]["wait"] for one in (first, second)] == [True, True]
    assert ("dependsOn" in first["spec"], second["spec"]["dependsOn"]) == (False, [{"name": first["metadata"]["name"]}])


def test_a_list_is_parted_between_the_folders(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [one for one in yaml.safe_load_all(TURNED) if one]}
    for text in (json.dumps(listed), yaml.safe_dump(listed)):
        (tmp_path / text[0]).mkdir()
        there = folder(tmp_path / text[0], text)
        assert [one["metadata"]["name"] for one in objects_in(there / PLAYED[1])] == ["tgi"]
        assert len(objects_in(there / PLAYED[0])) == 3


def test_a_folder_of_others_and_steps_of_another_time_are_left_alone(tmp_path: Path, capsys: Streams) -> None:
    there = folder(tmp_path, TURNED)
    again = ["inject", "--all", IMAGE, f"--out={there}"]
    assert main([*again, str(tmp_path / "given.yaml")]) == 0, "the same steps are written anew"
    (tmp_path / "one-step.yaml").write_text((MANIFESTS / "two-services.yaml").read_text())
    assert main([*again, str(tmp_path / "one-step.yaml")]) == 2
    assert f"{there / PLAYED[1]} is there" in " ".join(capsys.readouterr().err.split())
    (there / "kustomization.yaml").write_text("resources: [mine.yaml]\n")

    assert main([*again, str(tmp_path / "given.yaml")]) == 2
    assert f"{there / 'kustomization.yaml'} is there" in " ".join(capsys.readouterr().err.split())
    assert (there / "kustomization.yaml").read_text() == "resources: [mine.yaml]\n"


# --- the way back ------------------------------------------------------------------------------------------------------


EARLIER = (Path(__file__).parent / "attached_before" / "deployment.yaml").read_text()
"""Its Service was turned at once."""


def parted(text: str) -> tuple[str, str]:
    """The Deployment, and its Service."""
    deployment, service, *_ = [each for each in text.split("---\n") if "kind:" in each]
    return deployment, service


def test_pods_without_what_leads_to_them_are_taken_back_where_that_is_said_to_lead_elsewhere(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, _ = parted(EARLIER)
    code, out, said = run(["uninject"], capsys, monkeypatch, deployment)
    assert (code, out) == (2, "")
    assert "what leads to port 8900 of Deployment mistral-7b in default is not in these manifests" in said

    code, out, _ = run(["uninject", "--no-service"], capsys, monkeypatch, deployment)
    assert (code, "sidecar" in out) == (0, False)


def test_a_service_that_was_turned_by_hand_is_the_owners_to_lead_back(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, service = parted(EARLIER)
    by_hand = {**yaml.safe_load(service)}
    del by_hand["metadata"]["annotations"]
    code, out, said = run(["uninject"], capsys, monkeypatch, f"{deployment}---\n{yaml.safe_dump(by_hand)}")

    assert (code, out) == (2, "")
    assert "leads to port 8900, and `sidecar inject` did not write that: let it lead to port 8000 before" in said


def test_pods_whose_second_step_never_came_go_back_in_one(tmp_path: Path, capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The Service of these manifests leads to the engines still."""
    out = folder(tmp_path, TURNED)
    given = {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(TURNED) if one}
    pods = {f"{one['kind']} {one['metadata']['name']}": one for one in objects_in(out / "1-pods/manifests.yaml")}
    capsys.readouterr()
    code, back, _ = run(["uninject"], capsys, monkeypatch, yaml.safe_dump_all([*{**given, **pods}.values()]))

    assert code == 0
    assert keyed([*yaml.safe_load_all(back)]) == keyed([*given.values()])


def test_what_was_led_past_a_moved_engine_is_led_back_before(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patch of `bypass` names a port on which the engine of before does not listen."""
    given = (MANIFESTS / "deployment.yaml").read_text()
    attached = run(["inject", IMAGE, "--all"], capsys, monkeypatch, given)[1]
    patch = run(["bypass"], capsys, monkeypatch, attached)[1]
    objects = [one for one in yaml.safe_load_all(attached) if one]
    (service,) = [one for one in objects if one["kind"] == "Service"]
    service["spec"]["ports"][0]["targetPort"] = json.loads(patch.split("'")[1])[0]["value"]
    code, out, said = run(["uninject"], capsys, monkeypatch, yaml.safe_dump_all(objects))

    assert (code, out) == (2, "")
    assert "leads to port 18000, past the sidecar, and the engine goes back to 8000: let it lead there before" in said


def test_a_policy_stays_open_until_the_last_pod_has_lost_its_sidecar(tmp_path: Path) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
    }  # fmt: skip
    there = folder(tmp_path, f"{TURNED}\n---\n{yaml.safe_dump(policy)}")
    (tmp_path / "back").mkdir()
    text = "---\n".join(path.read_text() for path in sorted(there.glob("*/manifests.yaml")))
    back = folder(tmp_path / "back", text, command="uninject")

    assert [one["kind"] for one in objects_in(there / PLAYED[0])][-1] == "NetworkPolicy"
    assert [one["metadata"]["name"] for one in objects_in(back / "3-policies/manifests.yaml")] == ["p"]
    assert played(back, tmp_path)[2] == ["rollout", "status", "deployment/tgi"]
