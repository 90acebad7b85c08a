"""`sidecar export` writes what the repository holds, all of it or nothing, and says what to type next."""

import re
import shlex
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands.export import shipped_files
from sidecar.commands.export.rules.rulers import RULERS
from sidecar.commands.export.shipped_files import ALERT_RULES, DEPLOY, GRAFANA, shipped
from sidecar.config.quick_yaml import read_yaml
from tests.commands.export.written import export, texts_below


KINDS = (".yml", ".yaml", ".json", ".tmpl")
FOLDERS = (ALERT_RULES, GRAFANA, DEPLOY)


def committed() -> dict[str, str]:
    """The files of the repository that a team takes: path to text."""
    return {
        f"{folder}/{name}": text
        for folder in FOLDERS
        for name, text in texts_below(shipped(folder), KINDS).items()
        if not name.startswith("smoke/")
    }


def test_without_flags_all_is_the_repository_byte_by_byte(tmp_path: Path) -> None:
    texts = export(tmp_path, "all")

    assert len(texts) > 20
    assert {name: text for name, text in texts.items() if name.endswith(KINDS)} == committed()


@pytest.mark.parametrize(
    ("what", "folder", "some"),
    [
        (
            "rules",
            ALERT_RULES,
            {"llm-recording.yml", "llm-alerts.yml", "llm-dashboards.yml", "kubernetes/prometheus-rule.yaml"},
        ),
        ("routes", ALERT_RULES, {"alertmanager.yml", "templates/llm.tmpl", "kubernetes/alertmanager-config.yaml"}),
        ("dashboards", GRAFANA, {"dashboards/llm-anatomy.json", "provisioning/dashboards/llm.yml"}),
        ("chart", f"{DEPLOY}/chart", {"Chart.yaml", "templates/NOTES.txt", "files/prometheus-rule.yaml"}),
    ],
)
def test_one_thing_alone_lies_in_the_folder_itself(what: str, folder: str, some: set[str], tmp_path: Path) -> None:
    texts = export(tmp_path, what)

    assert some <= texts.keys()
    assert texts == {name: (shipped(folder) / name).read_text() for name in texts}


def test_it_prints_each_file_and_then_the_commands_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = export(tmp_path, "rules", "--namespace=llm")
    before, _, after = capsys.readouterr().out.partition("\n\nnext")
    objects = tmp_path / "kubernetes"

    assert sorted(before.splitlines()) == sorted(str(tmp_path / name) for name in texts)
    assert [" ".join(line.split()) for line in after.replace("\\\n", "").splitlines()[1:]] == [
        f"promtool check rules {tmp_path}/llm-recording.yml {tmp_path}/llm-alerts.yml {tmp_path}/llm-dashboards.yml",
        f"kubectl apply -n llm -f {objects}/prometheus-rule.yaml",
    ]


def test_for_another_ruler_it_says_what_that_costs_and_how_to_load_the_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    texts = export(tmp_path, "rules", "--ruler=azure")
    files, costs, steps = capsys.readouterr().out.split("\n\n")

    assert sorted(files.splitlines()) == sorted(str(tmp_path / name) for name in texts)
    assert [name for name in texts if "kubernetes" in name] == []
    assert [line.partition(":")[0].partition(" ")[0] for line in costs.splitlines()] == [
        "Azure",
        "Without",
        "Texts",
        "az-prom-rules-converter",
        "Watchdog",
    ]
    assert [line.split()[0] for line in steps.splitlines()[1:]] == [
        "promtool",
        *["az-prom-rules-converter"] * 2,
        "az",
        "az",
    ]


@pytest.mark.parametrize(
    ("what", "name"), [("all", "mimir"), ("all", "azure"), ("all", "gmp"), ("chart", "amp"), ("chart", "prometheus")]
)
def test_rules_that_no_object_brings_in_are_loaded_by_the_rulers_own_commands(
    what: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an object they come with the chart or the kustomization, and are not loaded a second time."""
    ruler, below = RULERS[name], {"all": "alert_rules", "chart": "files"}[what]
    texts = export(tmp_path, what, f"--ruler={name}")
    shown = capsys.readouterr().out.partition("\n\nnext")[2].replace("\\\n", "")
    steps = [" ".join(line.split()) for line in shown.splitlines()]
    loads = [command.replace("{rules}", f"{tmp_path}/{below}") for command in ruler.load]
    loaded = [step for step in steps if step in loads]

    assert loaded == ([] if ruler.reads_objects else loads)
    assert {file for step in loaded for file in re.findall(rf"{tmp_path}/(\S+)", step)} <= texts.keys()
    values = read_yaml(texts["values.yaml" if what == "chart" else f"{DEPLOY}/chart/values.yaml"])
    assert values["rules"]["as"] == ("PrometheusRule" if ruler.reads_objects else "none")


def test_objects_for_a_ruler_that_reads_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "kubernetes", f"--out={tmp_path}", "--ruler=amp"]) == 2
    assert "reads no object of Kubernetes: write `rules` or `all`" in " ".join(capsys.readouterr().err.split())


def test_the_commands_to_type_hold_for_a_folder_with_a_blank_in_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(tmp_path / "my rules", "rules")
    shown = capsys.readouterr().out.partition("\n\nnext")[2].partition("\n")[2].replace("\\\n", "")

    (check, _) = map(shlex.split, shown.splitlines())
    assert [Path(word).is_file() for word in check if word.endswith(".yml")] == [True, True, True]


def test_a_file_that_was_changed_is_not_overwritten_unless_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files may be written twice; one with other content stops the command before it writes any."""
    monkeypatch.setenv("COLUMNS", "400")
    first = export(tmp_path, "rules")
    assert export(tmp_path, "rules") == first
    (tmp_path / "llm-alerts.yml").write_text("mine")
    (tmp_path / "llm-recording.yml").unlink()

    refused = main(["export", "rules", f"--out={tmp_path}"])
    said = capsys.readouterr().err

    assert refused == 2
    assert f"{tmp_path / 'llm-alerts.yml'} is there, with other content; --force overwrites it" in said
    assert "nothing is written" in said
    assert not (tmp_path / "llm-recording.yml").exists()
    assert export(tmp_path, "rules", "--force") == first


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("mine")

    assert export(tmp_path, "rules")["mine.yml"] == "mine"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")

    assert main(["export", "rules", f"--out={tmp_path / 'file'}"]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize("line", [["export"], ["export", "runbook", "--out=x"], ["export", "rules"]])
def test_a_wrong_command_line_is_refused_with_the_words_that_it_takes(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    assert "sidecar export {rules,routes,dashboards,chart,kubernetes,all}\n" in capsys.readouterr().err


def test_a_package_without_its_files_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path / "inside")
    monkeypatch.setattr(shipped_files, "AROUND", tmp_path)

    assert main(["export", "dashboards", f"--out={tmp_path}"]) == 1
    assert "was built without its files" in capsys.readouterr().err
