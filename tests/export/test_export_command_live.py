"""From a wheel alone, in an empty folder: everything is exported, Prometheus and Alertmanager take it, and the demo has its alerts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.export.written import texts_below
from tests.support.tools import need_tool


CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that pip alone made of the wheel and of nothing else, without the extra of the demo."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    pure = os.environ | {"SIDECAR_BUILD": "pure"}
    subprocess.run(
        [*pip, "wheel", "--no-deps", f"--wheel-dir={folder}", str(CHECKOUT)], env=pure, check=True, timeout=300
    )
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
    steps = [line.split() for line in said.partition("next,")[2].splitlines()[1:]]
    checks = [step for step in steps if step[0] in ("promtool", "amtool")]

    assert [told([str(need_tool(tool)), *words], tmp_path).count("SUCCESS") for tool, *words in checks] == [2, 1]


@pytest.mark.live
@pytest.mark.timeout(900)
def test_nothing_of_it_lies_at_the_top_of_site_packages(installed: Path) -> None:
    (packages,) = installed.glob("lib/python3*/site-packages")
    ours = {path.name for path in packages.iterdir()} & {"alert_rules", "grafana", "deploy", "tests", "bench", "tools"}

    assert ours == set()
    assert list(packages.glob("grafana_foundation_sdk*")) == []


@pytest.mark.live
@pytest.mark.timeout(900)
def test_the_installed_demo_runs_the_rules_under_the_projects_own_name(installed: Path, tmp_path: Path) -> None:
    """`uvx llm-phase-sidecar demo` looks for a script of this name."""
    need_tool("prometheus")
    need_tool("prometheus-alertmanager")
    ports = ["--port=0", "--admin-port=0", "--duration=3"]
    said = told([str(installed / "bin/llm-phase-sidecar"), "demo", "--incident=queue", *ports], tmp_path)

    assert "Prometheus   http://127.0.0.1:" in said
    assert "requests sent" in said
