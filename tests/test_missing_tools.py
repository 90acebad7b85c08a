"""A test whose tool is missing is skipped locally and fails under CI, so that a missing check is noticed."""

import re
from pathlib import Path

import pytest

from tests.support.tools import DEBIAN_PACKAGE, OLDEST_KUBECTL, need_helm, need_kubectl, need_tool


def test_a_tool_that_is_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "promtool"
    tool.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert need_tool("promtool") == tool


def test_the_package_of_each_tool_is_one_that_is_installed_for_the_tests() -> None:
    """util-linux is part of every Debian."""
    text = (Path(__file__).parents[1] / ".ci/install").read_text()
    installed = {name for line in re.findall(r"packages\+?=\(([^)]*)\)", text) for name in line.split()}

    assert set(DEBIAN_PACKAGE.values()) - installed == {"util-linux"}


def test_by_hand_a_missing_tool_skips_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="apt-get install prometheus"):
        need_tool("promtool")


def test_under_ci_a_missing_tool_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="apt-get install prometheus"):
        need_tool("promtool")


@pytest.mark.parametrize(("minor", "enough"), [(OLDEST_KUBECTL - 1, False), (OLDEST_KUBECTL, True), (100, True)])
def test_a_kubectl_that_is_too_old_is_none(
    minor: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kustomize knows no components, and would fail with words about something else."""
    tool = tmp_path / "kubectl"
    tool.write_text(f"#!/bin/sh\necho 'Client Version: v1.{minor}.3'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("tests.support.tools.UNPACKED_KUBECTL", tmp_path / "none")

    if enough:
        assert need_kubectl() == tool
    else:
        with pytest.raises(pytest.fail.Exception, match=f"no kubectl of 1.{OLDEST_KUBECTL} or newer"):
            need_kubectl()


def test_without_helm_its_tests_fail_under_ci_and_skip_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.tools.UNPACKED_HELM", tmp_path / "none")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"\.ci/helm fetches it"):
        need_helm()

    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=r"\.ci/helm fetches it"):
        need_helm()
