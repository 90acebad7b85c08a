"""`python -m tools.release`, or `make release`: all that a release publishes, in dist/release, built twice, compared, described and tried.

The compiled wheel and the pure one, the sdist, the chart of deploy/chart and the container image are built from two copies of this tree in
folders of different names. Wheels, sdist and chart must be the same bytes both times; the files in which the two images differ are
written beside them. Then come the SBOM and the licences of what the image installs on its base, and the checksums of it all. Last,
tests that are marked `release` take the artefacts and nothing else of the checkout.

It knows which builder makes what. It refuses to publish: it signs nothing, tags nothing and speaks to no registry.
"""

import argparse
import filecmp
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from sidecar import __version__
from tools import image, on_the_wheel
from tools.image import ImageError
from tools.licences import LicenceError, installed, licences, page
from tools.oci_archive import OciArchiveError, added, differences, entries_of
from tools.wheels import CHECKOUT, WheelError


OUT = CHECKOUT / "dist" / "release"
WORK = CHECKOUT / ".cache" / "release"
COPIES = ("one", "second-copy")
"""Names of different lengths: a path that has found its way into an artefact makes two of them differ."""
NAME = "llm-phase-sidecar"
CHART = "deploy/chart"
IMAGE = f"{NAME}-{__version__}.oci.tar"
IMAGE_DIFFERENCES = f"{NAME}-{__version__}.oci.differences.txt"
SBOM = f"{NAME}-{__version__}.cdx.json"
LICENCES = f"{NAME}-{__version__}.licences.txt"
SUMS = "SHA256SUMS"
_BYTECODE = re.compile(r"\.pyc: ")
_MB = 1e6


class ReleaseError(Exception):
    """The release is not whole; the message says why."""


def files_of_tree() -> list[Path]:
    """Every file that git has or would take, relative to the checkout."""
    told = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [Path(each) for each in told.split("\0") if each and (CHECKOUT / each).is_file()]


def copy_tree(folder: Path) -> None:
    """The tree in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in files_of_tree():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, folder / name)


def packages(copy: Path, out: Path, built_at: int) -> None:
    """The wheels, the sdist and, if the copy has one, the chart. `built_at`: seconds of Unix, which all files of an archive bear."""
    out.mkdir(parents=True)
    for build in ("compiled", "pure"):
        _build(copy, built_at, "tools/wheels.py", build, str(out))
    _build(copy, built_at, "-m", "hatchling", "build", "--target=sdist", f"--directory={out}")
    if (copy / CHART).is_dir():
        (out / f"{NAME}-{__version__}.tgz").write_bytes(chart(copy / CHART, built_at))


def _build(folder: Path, built_at: int, *words: str) -> None:
    env = os.environ | {"SOURCE_DATE_EPOCH": str(built_at), "PYTHONHASHSEED": "0"}
    _run(str(on_the_wheel.PYTHON), *words, cwd=folder, env=env)


def chart(folder: Path, built_at: int) -> bytes:
    """The chart, below a folder of its name, as `helm package` packs it, but with one time for all files: Helm's own archive differs each second."""
    name = yaml.safe_load((folder / "Chart.yaml").read_text("utf-8"))["name"]
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=built_at) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            told = tarfile.TarInfo(f"{name}/{path.relative_to(folder)}")
            content = path.read_bytes()  # of a link, that of its target
            told.size, told.mode, told.mtime = len(content), 0o644, built_at
            tar.addfile(told, io.BytesIO(content))
    return packed.getvalue()


def unequal(first: Path, second: Path) -> list[str]:
    """The names of the files that are not the same bytes in both folders, or are in one of them alone."""
    names = {each.name for folder in (first, second) for each in folder.iterdir()}
    _, other, absent = filecmp.cmpfiles(first, second, names, shallow=False)
    return sorted([*other, *absent])


def rebuilt(packages_of: Path, folder: Path, built_at: int) -> list[str]:
    """The pure wheel, if the sdist beside it makes one of other bytes."""
    (sdist,) = packages_of.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    _build(unpacked, built_at, "tools/wheels.py", "pure", str(folder / "wheel"))
    (wheel,) = (folder / "wheel").iterdir()
    return [] if filecmp.cmp(wheel, packages_of / wheel.name, shallow=False) else [wheel.name]


def describe(out: Path) -> None:
    """The SBOM and the licences of what the image installs on its base: the compiled wheel with gRPC, and the locked packages."""
    environment = WORK / "shipped"
    shutil.rmtree(environment, ignore_errors=True)
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet")
    sources = (f"--find-links={image.LOCKED}", f"--find-links={out}")
    _run(*pip, "--no-index", "--no-compile", *sources, f"{NAME}[grpc]=={__version__}")
    (site,) = environment.glob("lib/python*/site-packages")
    found = installed(site)
    (out / LICENCES).write_text(page(licences(found, found)), "utf-8")
    cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--short-PURLs")
    told = json.loads(_run(*cyclonedx, "--pyproject=pyproject.toml", str(python)))
    # pyproject.toml names the file of the version, which cyclonedx-bom does not read.
    told["metadata"]["component"]["version"] = __version__
    (out / SBOM).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", "utf-8")


def sums(folder: Path) -> str:
    """The SHA-256 of each file of the folder, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(each for each in folder.iterdir() if each.name != SUMS):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def summary(first: Path, second: Path) -> str:
    """How two images differ: the counts, then a line for each path."""
    lines = differences(first, second)
    bytecode = sum(_BYTECODE.search(line) is not None for line in lines)
    head = f"# {len(lines)} differences between two builds of {IMAGE}, {bytecode} of them in Python's byte code."
    return "\n".join([f"{head} Times of files are not compared.", *lines, ""])


def size(archive: Path) -> str:
    """The size of the image, and of what the Dockerfile adds to its base."""
    whole, own = (
        sum(each.size for each in entries.values()) / _MB
        for entries in (entries_of(archive), added(archive, image.BASE_LAYERS))
    )
    return f"{archive.stat().st_size / _MB:.0f} MB packed, {whole:.0f} MB unpacked, of which the Dockerfile adds {own:.0f} MB to the base"


def make(out: Path, *, with_image: bool) -> None:
    """Build everything into this folder. Raises ReleaseError, ImageError, LicenceError, OciArchiveError or WheelError."""
    reason = image.lacking() if with_image else None
    if reason is not None:
        raise ReleaseError(
            f"no image can be built here: {reason}; ARGS=--no-image leaves it out, and what is made is no release"
        )
    built_at = int(_run("git", "log", "-1", "--format=%ct"))
    on_the_wheel.make_environment()
    image.download(CHECKOUT)
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in COPIES:
        say(f"building in .cache/release/{name}")
        copy_tree(WORK / name)
        packages(WORK / name, WORK / "packages" / name, built_at)
    first, second = (WORK / "packages" / name for name in COPIES)
    if names := unequal(first, second):
        raise ReleaseError(f"two builds differ: {', '.join(names)} ({first}, {second})")
    if names := rebuilt(first, WORK / "from-sdist", built_at):
        raise ReleaseError(f"the sdist makes another wheel: {', '.join(names)}")
    for each in first.iterdir():
        shutil.copy2(each, out)
    if with_image:
        both = [WORK / f"{name}.tar" for name in COPIES]
        for name, archive in zip(COPIES, both, strict=True):
            say(f"building the image of .cache/release/{name}")
            image.build(WORK / name, archive)
        (out / IMAGE_DIFFERENCES).write_text(summary(*both), "utf-8")
        shutil.move(both[0], out / IMAGE)
    describe(out)
    (out / SUMS).write_text(sums(out), "utf-8")


def report(out: Path) -> Iterator[str]:
    """A line for each artefact, and what has to be said of them."""
    if not (out / SUMS).exists():
        raise ReleaseError("dist/release is not whole: make release")
    for path in sorted(out.iterdir()):
        yield f"{path.stat().st_size:12,} bytes  {path.name}"
    if (out / IMAGE).exists():
        yield f"image: {size(out / IMAGE)}; that base stands in for the Dockerfile's own, on which nothing is tried"
        yield f"image, built twice: {(out / IMAGE_DIFFERENCES).read_text().partition(chr(10))[0][2:]}"
    if uncommitted := _run("git", "status", "--porcelain"):
        yield f"NO RELEASE: {len(uncommitted.splitlines())} files of this tree are not committed"


def check() -> int:
    """Play the tests of the artefacts; returns pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-n0", "-rP", "-m", "release", "tests"]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode  # noqa: S603  our own words


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(*words: str, cwd: Path = CHECKOUT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)} failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="build nothing: play the tests on what dist/release has")
    parser.add_argument(
        "--no-image",
        action="store_true",
        help="leave the image out, where it cannot be built; its tests are not played",
    )
    asked = parser.parse_args()
    try:
        if not asked.check:
            make(OUT, with_image=not asked.no_image)
        for line in report(OUT):
            say(line)
    except (ReleaseError, ImageError, LicenceError, OciArchiveError, WheelError) as error:
        sys.stderr.write(f"tools/release.py: {error}\n")
        return 1
    return check()


if __name__ == "__main__":
    sys.exit(main())
