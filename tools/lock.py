"""`python -m tools.lock`, or `make lock`: writes requirements.lock, every package of the container image with its hashes.

Knows pip's resolver, which it asks once for each platform, and pyproject.toml. The packages are those of the image's Python, whatever
Python runs this. It refuses to write a lock whose platforms differ in a version, and it installs nothing.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.wheels import image_python


CHECKOUT = Path(__file__).parents[1]
LOCK = CHECKOUT / "requirements.lock"
ARCHITECTURES = ("x86_64", "aarch64")
MANYLINUX = ("2_28", "2_17")
"""Versions of glibc that a wheel may need at most: the image's Debian has them."""
HEAD = """\
# Every package of the container image, with the hashes of its wheels for amd64 and arm64. Written by `make lock`, which takes the
# newest releases that pyproject.toml allows; the Dockerfile installs nothing else.
"""
Pinned = dict[str, tuple[str, set[str]]]
"""Name to version and SHA-256 of its wheels."""


def wanted(pyproject: Mapping[str, object] | None = None) -> list[str]:
    """The requirements of the image: those of the project, of the extra that it includes, and of its build."""
    told: Mapping[str, object] = pyproject or tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    project, build = told["project"], told["build-system"]
    assert isinstance(project, dict)
    assert isinstance(build, dict)
    groups = told["dependency-groups"]
    assert isinstance(groups, dict)
    return [
        *project["dependencies"],
        *project["optional-dependencies"]["grpc"],
        *build["requires"],
        *groups["compilers"],
        *(each for each in groups["wheels"] if isinstance(each, str)),
    ]


def pinned(report: Mapping[str, object]) -> Pinned:
    """The packages of a report that `pip install --report` writes."""
    packages = report["install"]
    assert isinstance(packages, list)
    return {
        re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower(): (
            each["metadata"]["version"],
            {each["download_info"]["archive_info"]["hashes"]["sha256"]},
        )
        for each in packages
    }


def merged(platforms: Iterable[Pinned]) -> Pinned:
    """One lock for all platforms. Raises ValueError for a package whose versions differ, or that one of them lacks."""
    first, *others = platforms
    both = {name: (version, set(hashes)) for name, (version, hashes) in first.items()}
    for other in others:
        apart = {(name, version) for name, (version, _) in both.items()} ^ {(n, v) for n, (v, _) in other.items()}
        if apart:
            raise ValueError(f"the platforms differ: {sorted(apart)}")
        for name, (_, hashes) in other.items():
            both[name][1].update(hashes)
    return both


def text_of(packages: Pinned) -> str:
    """The lock, as pip reads it with --require-hashes."""
    lines = [
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{each}" for each in sorted(hashes))])
        for name, (version, hashes) in sorted(packages.items())
    ]
    return HEAD + "\n".join(lines) + "\n"


def resolved(architecture: str, python: str) -> Pinned:
    """The newest packages for one platform; asks the package index. Raises CalledProcessError with pip's words on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
            *("--only-binary=:all:", f"--target={folder}", f"--report={report}", f"--python-version={python}"),
            *("--implementation=cp", *(f"--platform=manylinux_{glibc}_{architecture}" for glibc in MANYLINUX)),
            f"--platform=manylinux2014_{architecture}",
            *wanted(),
        ]
        subprocess.run(command, check=True)  # noqa: S603  our own words and those of pyproject.toml
        return pinned(json.loads(report.read_text("utf-8")))


def main() -> None:
    """Write the lock."""
    LOCK.write_text(text_of(merged(resolved(each, image_python()) for each in ARCHITECTURES)), "utf-8")


if __name__ == "__main__":
    main()
