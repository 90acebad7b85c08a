"""A release has one version everywhere, and says what is not the same in two builds."""

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

import sidecar
from tools import image, release
from tools.image import ImageError
from tools.release import CHART, NAME, SUMS, ReleaseError, chart, files_of_tree, sums, unequal


CHECKOUT = Path(__file__).parents[2]
VERSION = r"([0-9]+\.[0-9]+\.[0-9]+)"
PLACES = {
    "sidecar/__init__.py": rf'^__version__ = "{VERSION}"$',
    "CHANGELOG.md": rf"\A.*?^## {VERSION}",
    "docs/upgrading.md": rf"\A# From \S+ to {VERSION}$",
    "docs/doctor.md": rf"sidecar +version {VERSION} answers",
    "docs/inject.md": rf"docker push \S+/{NAME}:{VERSION}$",
    "docs/releases.md": rf"{NAME.replace('-', '_')}-{VERSION}",
    f"{CHART}/Chart.yaml": rf'^(?:version|appVersion): "?{VERSION}"?$',
}
"""Each place that states the version, with the pattern of it. The first is the source: hatchling reads it, and so does the program."""


@pytest.mark.parametrize("place", [place for place in PLACES if (CHECKOUT / place).exists()])
def test_each_place_states_the_version_of_the_package(place: str) -> None:
    told = re.findall(PLACES[place], (CHECKOUT / place).read_text(), re.MULTILINE | re.DOTALL)

    assert set(told) == {sidecar.__version__}


def test_no_other_file_names_an_image_or_a_wheel_of_a_version() -> None:
    """A tag or a file name with a version stands in PLACES, so that a release changes it; README.md may have one too."""
    stated = re.compile(rf"\b(?:{NAME}|{NAME.replace('-', '_')})[-:]{VERSION}")
    folders = ("README.md", "alert_rules", "deploy", "docs", "grafana", "sidecar")
    paths = [path for path in files_of_tree() if path.parts[0] in folders and path.suffix not in (".png", ".jpg")]
    found = {str(path): versions for path in paths if (versions := set(stated.findall((CHECKOUT / path).read_text())))}

    assert len(paths) > 400
    assert found.keys() - {*PLACES, "README.md"} == set()
    assert {version for versions in found.values() for version in versions} == {sidecar.__version__}


def test_the_chart_is_the_same_bytes_whenever_its_files_were_written(tmp_path: Path) -> None:
    """All below one folder of its name, as Helm wants it; a link is the file that it leads to."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("name: x\n")
    (tmp_path / "templates/a.yaml").symlink_to(tmp_path / "Chart.yaml")
    packed = chart(tmp_path, 1_700_000_000)
    (tmp_path / "Chart.yaml").write_text("name: x\n")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        told = {(each.name, each.mtime, each.mode, each.isreg()) for each in tar}

    assert told == {(f"x/{name}", 1_700_000_000, 0o644, True) for name in ("Chart.yaml", "templates/a.yaml")}
    assert chart(tmp_path, 1_700_000_000) == packed
    (tmp_path / "Chart.yaml").write_text("name: y\n")
    assert chart(tmp_path, 1_700_000_000) != packed


def test_each_file_that_differs_or_is_in_one_build_alone_is_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "same").write_text("same")
        (folder / "other").write_text(f"of {folder.name}")
    (one / "first").touch()
    (two / "second").touch()

    assert unequal(one, two) == ["first", "other", "second"]


def test_the_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / SUMS).write_text(sums(tmp_path))
    check = ["sha256sum", "--check", "--strict", SUMS]

    assert len(sums(tmp_path).splitlines()) == 2
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "b").write_bytes(b"b")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_without_an_image_there_is_no_release_and_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        ReleaseError, match=r"buildah, debootstrap missing \(Debian: apt-get install buildah debootstrap\)"
    ):
        release.make(tmp_path / "out", with_image=True)
    with pytest.raises(ImageError, match="missing"):
        image.build(tmp_path, tmp_path / "image.tar")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="make release"):
        list(release.report(tmp_path))
