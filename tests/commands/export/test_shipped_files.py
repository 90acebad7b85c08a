"""Rules, dashboards and manifests are found in a checkout and in an installed package, and never elsewhere."""

from pathlib import Path

import pytest

from hatch_build import CARRIED_TO, carried
from sidecar.commands.export import shipped_files
from sidecar.commands.export.shipped_files import ALERT_RULES, DEPLOY, GRAFANA, NothingShippedError, shipped


CHECKOUT = Path(__file__).parents[3]


def test_a_checkout_has_the_folders_at_its_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path)

    assert [shipped(name) for name in (ALERT_RULES, GRAFANA, DEPLOY)] == [
        CHECKOUT / name for name in ("alert_rules", "grafana", "deploy")
    ]


def test_an_installed_package_takes_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path)
    (tmp_path / ALERT_RULES).mkdir()

    assert shipped(ALERT_RULES) == tmp_path / ALERT_RULES


def test_a_package_without_files_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path / "inside")
    monkeypatch.setattr(shipped_files, "AROUND", tmp_path / "around")

    with pytest.raises(NothingShippedError, match=r"inside/deploy nor .*around/deploy .* install the wheel"):
        shipped(DEPLOY)


def test_folders_of_other_projects_around_an_installed_package_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path / "inside")
    monkeypatch.setattr(shipped_files, "AROUND", tmp_path)
    (tmp_path / GRAFANA).mkdir()

    with pytest.raises(NothingShippedError):
        shipped(GRAFANA)


def test_a_wheel_carries_every_file_that_a_team_takes_and_no_code() -> None:
    """The package looks for them in the place to which the build writes them."""
    places = carried()
    texts = {path for folder in (ALERT_RULES, GRAFANA, DEPLOY) for path in (CHECKOUT / folder).rglob("*")}
    files = {path for path in texts if not path.is_symlink()}  # the chart's links: their targets are carried
    taken = {path.relative_to(CHECKOUT) for path in files if path.suffix in (".yml", ".yaml", ".json", ".tmpl")}

    assert {path for path in taken if "smoke" not in path.parts} - places.keys() == set()
    assert [path for path in places if path.suffix == ".py"] == []
    assert shipped_files.CARRIED.relative_to(CHECKOUT) == CARRIED_TO
