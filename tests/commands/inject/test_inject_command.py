"""`sidecar inject`, `uninject` and `bypass` as a user types them: streams, flags, errors and exit codes."""

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands.inject.inject_command import COMMANDS
from sidecar.commands.inject.manifest_text import read
from tests.support.kustomize import IMAGE


MANIFESTS = Path(__file__).parent / "manifests"
DEPLOYMENT, REDIS = MANIFESTS / "deployment.yaml", MANIFESTS / "redis-beside.yaml"
Streams = pytest.CaptureFixture[str]


def run(
    argv: Sequence[str], capsys: Streams, monkeypatch: pytest.MonkeyPatch, given: str | None = None
) -> tuple[int, str, str]:
    """Exit code, output and error output. Lines of errors are not folded."""
    monkeypatch.setenv("COLUMNS", "999")
    if given is not None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    code = main([*argv, IMAGE] if argv[0] == "inject" else argv)
    said = capsys.readouterr()
    return code, said.out, said.err


def _objects(text: str) -> list[dict[str, Any]]:
    return [one for document in read(text, "x") for one in document.objects]


def test_nothing_asked_changes_nothing_and_says_how_to_ask(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, said = run(["inject", str(DEPLOYMENT)], capsys, monkeypatch)

    assert (code, out) == (0, DEPLOYMENT.read_text())
    assert (
        said
        == 'sidecar inject: no workload asks for a sidecar: label it llm-phase-sidecar/attach: "true", or say --all or --selector\n'
    )


@pytest.mark.parametrize(("selector", "named"), [("app=tgi", 1), ("app=tgi,tier=gpu", 0), ("app=other", 0)])
def test_a_selector_chooses_by_the_workloads_labels(
    selector: str, named: int, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run(["inject", "--diff", f"--selector={selector}", str(REDIS)], capsys, monkeypatch)

    assert out.count("llm-phase-sidecar: attached") == named


def test_several_files_are_one_stream(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    other = MANIFESTS / "stateful-set.yaml"
    code, out, _ = run(["inject", "--all", str(DEPLOYMENT), str(other)], capsys, monkeypatch)

    assert code == 0
    assert len(_objects(out)) == len(_objects(DEPLOYMENT.read_text())) + len(_objects(other.read_text()))


def test_a_diff_shows_what_would_change_and_no_more(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run(["inject", "--all", "--diff", str(DEPLOYMENT)], capsys, monkeypatch)

    removed = [line[1:].strip() for line in out.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert out.startswith(f"--- {DEPLOYMENT}\n+++ {DEPLOYMENT} with the sidecar\n")
    assert "port: 8000" in removed
    assert len(removed) < 6
    assert run(["inject", "--diff", str(DEPLOYMENT)], capsys, monkeypatch)[1] == ""


def test_one_refusal_and_nothing_is_written(capsys: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    two = tmp_path / "two.yaml"
    two.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: vllm/a}, {name: b, image: vllm/b}]}\n"
    )
    code, out, said = run(["inject", "--all", str(two), str(DEPLOYMENT)], capsys, monkeypatch)

    assert (code, out) == (2, "")
    assert said.startswith("sidecar inject: Pod p: it has several engines (a, b)")
    assert said.endswith("sidecar inject: nothing is written; `sidecar inject --help` explains every flag\n")


@pytest.mark.parametrize("flag", [[], ["--image="], ["--image=Not/An Image"]])
def test_an_image_that_no_cluster_can_pull_is_refused(flag: list[str], capsys: Streams) -> None:
    """Pods would wait for an image that is in no registry, and the Service would lead to them."""
    assert main(["inject", "--all", *flag, str(DEPLOYMENT)]) == 2
    said = capsys.readouterr()

    assert (said.out, "registry" in said.err.lower()) == ("", True)


LLM_INFERENCE_SERVICE = """\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen, labels: {llm-phase-sidecar/attach: "true"}}
spec:
  model: {uri: "hf://Qwen/Qwen3-0.6B"}
  labels: {team: a}
  template: {containers: [{name: main, image: "vllm/vllm-openai:v0.25.0", args: [--port=8000]}]}
"""


def test_the_hint_for_a_kind_that_is_not_known_leads_to_a_label_that_is_read(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KServe's operator puts `spec.labels` and `spec.annotations` on the pods; a pod's spec itself has neither."""
    code, _, said = run(["inject"], capsys, monkeypatch, LLM_INFERENCE_SERVICE)
    (flag,) = re.findall(r"--pod-spec-path=\S+", said)
    assert (code, flag) == (2, "--pod-spec-path=LLMInferenceService=spec.template")

    code, out, _ = run(["inject", flag], capsys, monkeypatch, LLM_INFERENCE_SERVICE)
    (one,) = _objects(out)
    assert (code, one["spec"]["labels"]) == (0, {"team": "a", "llm-phase-sidecar": "attached"})
    assert {"labels", "annotations", "metadata"} & one["spec"]["template"].keys() == set()
    assert _objects(run(["uninject"], capsys, monkeypatch, out)[1]) == _objects(LLM_INFERENCE_SERVICE)


def test_all_wrong_flags_and_files_are_told_at_once(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = ["--selector=app", "--engine-port=0", "--pod-spec-path=X"]
    code, _, said = run(["inject", *flags, str(DEPLOYMENT)], capsys, monkeypatch)
    assert (code, len(said.splitlines())) == (2, 4)

    wrong, gone = tmp_path / "wrong.yaml", tmp_path / "gone.yaml"
    wrong.write_text("a: [\n")
    code, out, said = run(["inject", "--all", str(gone), str(wrong)], capsys, monkeypatch)
    assert (code, out) == (1, "")
    assert f"{gone}: No such file or directory" in said
    assert f"{wrong}:" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_manifest_is_refused(command: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, said = run([command], capsys, monkeypatch, "just: text\n")

    assert (code, out) == (2, "")
    assert "no object of Kubernetes was given: a manifest has `kind`" in said


def test_what_was_changed_since_is_not_taken_out_by_halves(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    _, injected, _ = run(["inject", "--all", str(DEPLOYMENT)], capsys, monkeypatch)
    for was, now in (
        ("name: sidecar\n", "name: renamed\n"),
        ("port: 18000", "port: 9000"),
        ("GracePeriodSeconds: 70", "GracePeriodSeconds: 9"),
    ):
        assert was in injected
        code, out, said = run(["uninject"], capsys, monkeypatch, injected.replace(was, now))

        assert (code, out) == (2, "")
        assert "is no longer what was put there: it was changed after `sidecar inject`" in said


def test_what_was_added_beside_since_stays(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """An init container before ours, as another tool puts it."""
    _, injected, _ = run(["inject", "--all", str(DEPLOYMENT)], capsys, monkeypatch)
    other = injected.replace(
        "      initContainers:\n", "      initContainers:\n      - name: other\n        image: x\n"
    )
    assert other != injected
    _, out, _ = run(["uninject"], capsys, monkeypatch, other)

    assert "name: other" in out
    assert "llm-phase-sidecar" not in out


@pytest.mark.parametrize(
    "since", [["--first", "--model=m"], ["--model=m", "--last"], ["--a=18000", "--b", "--c"], ["--d"]]
)
def test_ours_is_found_in_a_list_that_others_changed_since(
    since: list[str], capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flag that moves the engine is one word among its arguments. An empty map or list that ours stood in is gone, as it is to Kubernetes."""
    container: dict[str, Any] = {"name": "e", "image": "vllm/vllm-openai", "args": ["-v", "--model=m"]}
    given = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{**container, "lifecycle": {}}], "volumes": []},
    }
    (one,) = _objects(run(["inject", "--all"], capsys, monkeypatch, json.dumps(given))[1])
    args = one["spec"]["containers"][0]["args"]
    assert args == ["-v", "--model=m", "--port=18000"]
    args[:] = [since[0], args[2], *since[1:]]
    code, back, said = run(["uninject"], capsys, monkeypatch, json.dumps(one))

    assert code == 0, said
    assert _objects(back) == [given | {"spec": {"containers": [{**container, "args": since}]}}]


def test_no_way_out_of_what_has_no_sidecar(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, said = run(["bypass", str(DEPLOYMENT)], capsys, monkeypatch)

    assert (code, out) == (2, "")
    assert "no workload of these manifests has a sidecar" in said


def test_an_engine_on_loopback_has_no_way_past_the_sidecar(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DEPLOYMENT.read_text().replace("--trust-remote-code", "--host=127.0.0.1")
    _, injected, said = run(["inject", "--all"], capsys, monkeypatch, text)
    assert "the engine listens on 127.0.0.1 alone: `sidecar bypass` cannot lead traffic past the sidecar" in said

    code, out, said = run(["bypass"], capsys, monkeypatch, injected)
    assert (code, out) == (2, "")
    assert "the sidecar is the only way to it" in said


def test_a_file_without_a_last_line_end_does_not_melt_into_the_next(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.yaml"
    first.write_text('{"kind": "A", "metadata": {"name": "a"}}')
    second.write_bytes(b"kind: B\r\nmetadata:\r\n  name: b")
    code, out, _ = run(["inject", "--all", str(first), str(second), str(first)], capsys, monkeypatch)

    assert code == 0
    assert (
        out
        == '{"kind": "A", "metadata": {"name": "a"}}\n---\nkind: B\r\nmetadata:\r\n  name: b\n---\n{"kind": "A", "metadata": {"name": "a"}}'
    )
    assert [one["kind"] for one in _objects(out)] == ["A", "B", "A"]


def test_the_way_out_of_a_canary_behind_a_shared_service_is_right_for_all_its_pods(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name each pod's own engine is on the number that it had; by number the canary's has moved, and that would lead the others to nothing."""
    text = (MANIFESTS / "canary-beside.yaml").read_text()
    _, by_name, said = run(["inject"], capsys, monkeypatch, text)
    assert "has its sidecar already" not in said
    _, by_number, _ = run(["inject"], capsys, monkeypatch, text.replace("targetPort: http", "targetPort: 8000"))

    code, out, _ = run(["bypass"], capsys, monkeypatch, by_name)
    assert (code, '"path": "/spec/ports/0/targetPort", "value": 8000' in out) == (0, True)
    assert '"value": "http"' in run(["bypass", "--back"], capsys, monkeypatch, by_name)[1]
    code, out, said = run(["bypass"], capsys, monkeypatch, by_number)
    assert (code, out) == (2, "")
    assert (
        "Service vllm: it leads to Deployment vllm too, which has no sidecar and whose engine listens elsewhere" in said
    )


def test_a_sidecar_that_was_put_in_by_hand_is_no_riddle(
    capsys: Streams, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its engine stands in a config file, so that its port is not in the manifest."""
    _, injected, _ = run(["inject", "--all", str(DEPLOYMENT)], capsys, monkeypatch)
    by_hand = tmp_path / "by-hand.yaml"
    by_hand.write_text(
        injected.replace("--engine.url=http://127.0.0.1:18000", "--config.file=/etc/sidecar/sidecar.yml")
    )

    code, _, said = run(["inject", "--all", str(by_hand)], capsys, monkeypatch)
    assert (code, "which engine it stands before is not in its flags" in said) == (0, True)
    code, _, said = run(["bypass", str(by_hand)], capsys, monkeypatch)
    assert (code, "is not in its flags" in said) == (2, True)
