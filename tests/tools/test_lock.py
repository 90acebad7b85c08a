"""The lock of the container image holds what pyproject.toml asks for, all that this needs, and nothing else."""

import re
import sysconfig
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.licences import installed, needed
from tools.lock import ARCHITECTURES, HEAD, LOCK, Pinned, text_of, wanted
from tools.wheels import image_python


def locked() -> Pinned:
    found: Pinned = {}
    for name, release, hashes in re.findall(
        r"^([a-z0-9-]+)==(\S+)((?: \\\n    --hash=\S+)+)$", LOCK.read_text(), re.MULTILINE
    ):
        found[name] = release, set(re.findall(r"--hash=sha256:([0-9a-f]{64})", hashes))
    return found


def test_every_requirement_is_locked_at_a_version_that_it_allows() -> None:
    """After a change of pyproject.toml `make lock` writes the lock anew."""
    versions = {name: release for name, (release, _) in locked().items()}
    asked = [Requirement(each) for each in wanted()]

    assert len(asked) > 10
    assert [
        str(each)
        for each in asked
        if Version(versions.get(str(canonicalize_name(each.name)), "0")) not in each.specifier
    ] == []


def test_what_the_requirements_need_is_locked_too() -> None:
    """pip would refuse a lock with a hole only when the image is built.

    A package that is installed here in another version than the locked one says nothing about what that one needs.
    """
    image, lock = {"python_version": image_python()}, locked()
    here = installed(Path(sysconfig.get_path("purelib")))
    alike = {name: of for name, of in here.items() if name in lock and of.version == lock[name][0]}
    found = needed(wanted(), alike, image)

    assert len(found) > len(wanted())
    assert found - lock.keys() == set()


def test_each_package_has_the_hash_of_a_wheel_for_each_platform() -> None:
    """One hash, where one wheel is for all platforms."""
    assert {len(hashes) for _, hashes in locked().values()} <= {1, len(ARCHITECTURES)}
    assert all(len(locked()[name][1]) == len(ARCHITECTURES) for name in ("httptools", "uvloop", "bcrypt", "grpcio"))


def test_the_committed_lock_is_what_the_tool_writes() -> None:
    """No line of it was written by hand."""
    assert text_of(locked()) == LOCK.read_text()
    assert LOCK.read_text().startswith(HEAD)
