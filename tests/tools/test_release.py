"""A release has one version everywhere, and needs an image."""

import re
from pathlib import Path

import pytest

import sidecar
from tools import image, release
from tools.image import ImageError
from tools.release import CHART, NAME, ReleaseError, files_of_tree


CHECKOUT = Path(__file__).parents[2]
VERSION = r"([0-9]+\.[0-9]+\.[0-9]+)"
PLACES = {
    "sidecar/__init__.py": rf'^__version__ = "{VERSION}"$',
    "CHANGELOG.md": rf"\A.*?^## {VERSION}",
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
