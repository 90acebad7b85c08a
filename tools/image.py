"""`python -m tools.image FILE`: the container image of this checkout as an OCI archive, built from the Dockerfile without a daemon or a registry.

The public base cannot be had here: another one stands in, a minimal Debian 12 with its Python where the public one has it, below
/usr/local. On the Dockerfile's own base nothing is built or tried here. All commands of the Dockerfile run as they stand, by Debian's
buildah in a chroot. Three things come from this machine by mounts, and none of them is in the image: where packages of Debian come from
(/etc/apt), the locked wheels in place of the index, and the headers of Python, which the public base has. It needs root, buildah,
debootstrap, and a Debian 12 with python3-dev; it writes below .cache alone.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.wheels import CHECKOUT, WheelError, check_python


CACHE = CHECKOUT / ".cache" / "image"
LOCKED = CACHE / "locked"
"""The wheels of requirements.lock, as pip downloads them."""
STAND_IN = "llm-phase-sidecar-base"
BASE_LAYERS = 1
"""Layers of the stand-in; those of the Dockerfile come after them."""
RELEASE_OF_DEBIAN = "bookworm"
PROGRAMS = ("buildah", "debootstrap")
PACKAGES = "python3,python3-venv,ca-certificates"
_OFFLINE = "[global]\nno-index = true\nfind-links = /mnt\n"
_BASE = """\
FROM scratch
ADD rootfs.tar /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
"""


class ImageError(Exception):
    """The image cannot be built; the message says why."""


def lacking() -> str | None:
    """The reason why no image can be built here, and the way to change that; None if one can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} missing (Debian: apt-get install {' '.join(PROGRAMS)})"
    if os.geteuid() != 0:
        return "only root can make a base and build without a daemon"
    try:
        check_python()
    except WheelError as error:
        return str(error)
    absent = [str(folder) for folder in _headers() if not folder.is_dir()]
    return (
        f"Debian's headers of Python are missing: {', '.join(absent)} (apt-get install python3-dev)" if absent else None
    )


def build(checkout: Path, archive: Path) -> None:
    """Build the image of a checkout into this file. Raises ImageError."""
    reason = lacking()
    if reason is not None:
        raise ImageError(reason)
    download(checkout)
    _stand_in()
    offline = CACHE / "pip.conf"
    offline.write_text(_OFFLINE, "utf-8")
    mounts = {Path("/etc/apt"): "/etc/apt", LOCKED: "/mnt", offline: "/etc/pip.conf"}
    mounts |= {folder: str(folder) for folder in _headers()}
    volumes = (f"--volume={here}:{there}:ro" for here, there in mounts.items())
    name = f"llm-phase-sidecar:{archive.stem}"
    archive.unlink(missing_ok=True)
    try:
        _buildah(
            "bud",
            "--isolation=chroot",
            f"--build-arg=BASE=localhost/{STAND_IN}",
            "--pull-never",
            *volumes,
            "-t",
            name,
            str(checkout),
        )
        _buildah("push", name, f"oci-archive:{archive}")
    finally:
        _buildah("rmi", "--force", name, fails=True)


def download(checkout: Path) -> None:
    """The locked wheels into LOCKED, and no others. Raises ImageError."""
    lock = checkout / "requirements.lock"
    stamp = LOCKED / "lock"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return
    shutil.rmtree(LOCKED, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--only-binary=:all:")
    _run(*pip, "--require-hashes", f"--dest={LOCKED}", f"--requirement={lock}")
    shutil.copy(lock, stamp)


def _headers() -> list[Path]:
    """Folders of Debian's own Python, which python:3.11 has below /usr/local."""
    version = "python{}.{}".format(*sys.version_info)
    return [Path("/usr/include", version), Path("/usr/include/x86_64-linux-gnu", version)]


def _stand_in() -> None:
    """The base that stands in for the public one, made once."""
    if _buildah("images", "--quiet", STAND_IN, fails=True).strip():
        return
    folder = CACHE / "base"
    root = folder / "root"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mirror = _run("apt-get", "indextargets", "--format=$(REPO_URI)", f"Codename: {RELEASE_OF_DEBIAN}").split()[0]
    _run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE_OF_DEBIAN, str(root), mirror)
    # As in the public base: `python` and `pip` below /usr/local, and its packages apart from Debian's.
    _run("chroot", str(root), "python3", "-m", "venv", "/usr/local")
    # A mount needs a folder that is there.
    for place in _headers():
        (root / place.relative_to("/")).mkdir(parents=True, exist_ok=True)
    (root / "etc/pip.conf").touch()
    for name in ("etc/apt/sources.list", "etc/hostname", "etc/resolv.conf"):  # they tell of this machine
        (root / name).unlink(missing_ok=True)
    for name in ("var/lib/apt/lists", "var/cache/apt/archives", "var/log"):
        shutil.rmtree(root / name)
        (root / name).mkdir()
    with tarfile.open(folder / "rootfs.tar", "w") as tar:
        tar.add(root, arcname=".")
    (folder / "Dockerfile").write_text(_BASE, "utf-8")
    _buildah("bud", "--isolation=chroot", "-t", STAND_IN, str(folder))
    shutil.rmtree(folder)


def _buildah(*words: str, fails: bool = False) -> str:
    own = (f"--root={CACHE / 'storage'}", f"--runroot={CACHE / 'run'}", "--storage-driver=vfs")
    return _run("buildah", *own, *words, fails=fails)


def _run(*words: str, fails: bool = False) -> str:
    """The standard output of a program. Raises ImageError with what it said, unless it may fail."""
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode and not fails:
        raise ImageError(f"{' '.join(words)} failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("python -m tools.image FILE\n")
        return 2
    try:
        build(CHECKOUT, Path(sys.argv[1]).resolve())
    except ImageError as error:
        sys.stderr.write(f"tools/image.py: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
