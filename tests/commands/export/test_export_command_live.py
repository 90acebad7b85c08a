"""From a wheel alone, in an empty folder: everything is exported, Prometheus and Alertmanager take it, and the demo has its alerts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.export.routes import ROUTES, ROUTES_OBJECT
from tests.commands.export.receiver_sets import NEEDS_NEWER, SHIPPED_AND_SETS, flags_of
from tests.commands.export.written import kustomizations, texts_below
from tests.support.kustomize import made
from tests.support.schemas import refused
from tests.support.tools import need_kubectl, need_newer, need_tool


CHECKOUT = Path(__file__).parents[3]
RULE_FILES = tuple(str(path.relative_to(CHECKOUT)) for path in sorted((CHECKOUT / "alert_rules").glob("llm-*.yml")))
ALERTMANAGER_FILE = f"alert_rules/{ROUTES}"
ROUTES_FILES = {ALERTMANAGER_FILE, f"alert_rules/{ROUTES_OBJECT}"} | {
    f"deploy/chart/files/{Path(path).name}" for path in (ALERTMANAGER_FILE, ROUTES_OBJECT)
}
"""The chart carries the same."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that pip alone made of the wheel and of nothing else, without the extra of the demo."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", f"--wheel-dir={folder}", str(CHECKOUT)], check=True, timeout=300)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    target = ["--python", str(folder / "venv/bin/python")]
    subprocess.run([*pip, *target, "install", str(wheel)], check=True, timeout=300)
    return folder / "venv"


def told(command: list[str], empty: Path) -> str:
    """The standard output of a command in this folder; nothing of the checkout is in its reach."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=empty, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.live
@pytest.mark.timeout(900)
def test_an_installed_wheel_exports_the_files_of_the_repository(installed: Path, tmp_path: Path) -> None:
    told([str(installed / "bin/sidecar"), "export", "all", "--out=."], tmp_path)
    texts = texts_below(tmp_path)

    assert {path.partition("/")[0] for path in texts} == {"alert_rules", "deploy", "grafana"}
    assert texts == {path: (CHECKOUT / path).read_text() for path in texts}


@pytest.mark.live
@pytest.mark.timeout(900)
def test_a_teams_own_files_are_taken_by_prometheus_and_alertmanager(installed: Path, tmp_path: Path) -> None:
    """The commands that it prints are those that check the files."""
    flags = ["--receivers=slack", "--severity.page=critical", "--severity.ticket=warning", "--namespace=inference"]
    said = told([str(installed / "bin/sidecar"), "export", "all", "--out=llm", *flags], tmp_path)
    whole = said.partition("next,")[2].replace("\\\n", " ")  # as a shell joins a command that is folded
    steps = [line.split() for line in whole.splitlines()[1:]]
    checks = [step for step in steps if step[0] in ("promtool", "amtool")]

    assert [told([str(need_tool(tool)), *words], tmp_path).count("SUCCESS") for tool, *words in checks] == [3, 1]


@pytest.fixture(scope="module")
def exports(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By set of receivers: the folder into which the installed command wrote everything for it."""
    folders = {}
    for name, kinds in SHIPPED_AND_SETS.items():
        folders[name] = tmp_path_factory.mktemp("empty")
        told([str(installed / "bin/sidecar"), "export", "all", "--out=.", *flags_of(kinds)], folders[name])
    return folders


@pytest.mark.live
@pytest.mark.timeout(900)
def test_each_set_of_receivers_writes_routes_of_its_own_and_all_else_alike(exports: dict[str, Path]) -> None:
    """So what is checked once below, rules, manifests and dashboards, is checked for every set."""
    texts = {name: texts_below(folder) for name, folder in exports.items()}
    shipped = texts.pop("shipped")
    templates = {path for path in shipped if path.startswith("alert_rules/templates/") or path.endswith("/llm.tmpl")}
    alike = {path: text for path, text in shipped.items() if path not in {*ROUTES_FILES, *templates}}
    own = {name: {path: text for path, text in each.items() if alike.get(path) != text} for name, each in texts.items()}

    assert {name: each.keys() for name, each in own.items()} == dict.fromkeys(texts, ROUTES_FILES)
    assert [name for name, each in texts.items() if not alike.keys() <= each.keys()] == []
    assert len({each[ALERTMANAGER_FILE] for each in own.values()}) == len(own)


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SHIPPED_AND_SETS)
def test_alertmanager_and_the_operator_take_the_routes_of_each_set(name: str, exports: dict[str, Path]) -> None:
    (routes,) = made(exports[name] / "deploy/alertmanager").values()

    amtool = need_newer("amtool") if NEEDS_NEWER in SHIPPED_AND_SETS[name] else need_tool("amtool")
    assert "SUCCESS" in told([str(amtool), "check-config", ALERTMANAGER_FILE], exports[name])
    assert (routes["kind"], refused(routes)) == ("AlertmanagerConfig", [])


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", [need_tool, need_newer], ids=["Prometheus 2.42", "Prometheus 3"])
def test_prometheus_takes_the_rules(tool: Any, exports: dict[str, Path]) -> None:
    said = told([str(tool("promtool")), "check", "rules", *RULE_FILES], exports["shipped"])

    assert said.count("SUCCESS") == len(RULE_FILES)


@pytest.mark.live
@pytest.mark.timeout(900)
def test_kustomize_makes_every_folder_and_the_schemas_refuse_no_object_of_it(exports: dict[str, Path]) -> None:
    """Those that the guide lists among them."""
    root = exports["shipped"]
    objects = {str(folder.relative_to(root)): made(folder) for folder in kustomizations(root)}
    refusals = {
        (folder, *key): found
        for folder, each in objects.items()
        for key, one in each.items()
        if (found := refused(one))
    }

    assert {"deploy/base", "deploy/monitoring", "deploy/alertmanager"} <= objects.keys()
    assert refusals == {}


MISTAKES = {
    "promtool 2.42": (RULE_FILES[0], "expr: ", "expr: sum by ("),
    "promtool 3": (RULE_FILES[0], "expr: ", "expr: sum by ("),
    "amtool": (ALERTMANAGER_FILE, "receiver: default-page", "receiver: no-such-page"),
    "kustomize": ("deploy/monitoring/kustomization.yaml", "- pod-monitor", "- pod-monitors"),
    "the schemas": ("deploy/base/admin-service.yaml", "publishNotReadyAddresses", "publishNotReadyAddress"),
}
"""Check to a file, a text in it, and the mistake in its place."""


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", MISTAKES)
def test_a_mistake_in_what_was_exported_is_found(check: str, exports: dict[str, Path], tmp_path: Path) -> None:
    """Each check of this file alone, on a copy with one mistake; without the mistake it finds nothing."""
    root = tmp_path / "copy"
    shutil.copytree(exports["shipped"], root)
    before = found_by(check, root)
    file, right, wrong = MISTAKES[check]
    text = (root / file).read_text()
    (root / file).write_text(text.replace(right, wrong, 1))

    assert right in text
    assert (before, bool(found_by(check, root))) == ("", True)


def found_by(check: str, root: Path) -> str:
    """Errors that this check prints; empty if it finds none."""
    rules = ["check", "rules", *RULE_FILES]
    commands = {
        "promtool 2.42": lambda: [need_tool("promtool"), *rules],
        "promtool 3": lambda: [need_newer("promtool"), *rules],
        "amtool": lambda: [need_tool("amtool"), "check-config", ALERTMANAGER_FILE],
        "kustomize": lambda: [need_kubectl(), "kustomize", "deploy/monitoring"],
    }
    if check in commands:
        command = list(map(str, commands[check]()))
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
        return "" if done.returncode == 0 else done.stdout + done.stderr
    found = [refused(one) for one in made(root / "deploy/base").values()]
    return "".join(map(str, filter(None, found)))


@pytest.mark.live
@pytest.mark.timeout(900)
def test_nothing_of_it_lies_at_the_top_of_site_packages(installed: Path) -> None:
    (packages,) = installed.glob("lib/python3*/site-packages")
    ours = {path.name for path in packages.iterdir()} & {"alert_rules", "grafana", "deploy", "tests", "bench", "tools"}

    assert ours == set()
    assert list(packages.glob("grafana_foundation_sdk*")) == []


@pytest.mark.live
@pytest.mark.timed
@pytest.mark.timeout(900)
def test_the_installed_demo_runs_the_rules_under_the_projects_own_name(installed: Path, tmp_path: Path) -> None:
    """From an empty folder the demo pages the fault's phase, with a link to the runbook of its own sidecar.

    `uvx llm-phase-sidecar demo` looks for a script of this name; uvx itself is not run, because nothing is published.
    """
    need_tool("prometheus")
    need_tool("prometheus-alertmanager")
    # The fault comes after some 20 s, and its first page within 60 s of the command.
    command = [str(installed / "bin/llm-phase-sidecar"), "demo", "--incident=queue", "--duration=60"]
    said = told([*command, "--port=0", "--admin-port=0"], tmp_path)
    admin = re.search(r"^status page  (\S+)/$", said, re.MULTILINE)
    pages = [line.split() for line in said.splitlines() if line.startswith("FIRING page")]

    assert "Prometheus   http://127.0.0.1:" in said
    assert ["FIRING", "page", "phase", "queue", "LLMQueueBurn"] in pages
    assert admin
    assert f"runbook {admin[1]}/runbooks/LLMQueueBurn?" in " ".join(said.split())
