"""Programs that tests need and pip cannot install: found, or skipped with a clear message.

By hand a missing tool skips its tests, with the command that would install it. In CI a skip would hide a check that no
longer runs, so there it fails.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


DEBIAN_PACKAGE = {
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "kubectl": "kubernetes-client",
    "vmalert": "victoria-metrics",
    "nginx": "nginx-light",
    "strace": "strace",
}
"""Tool to its Debian 12 package; `.ci/run` installs the same ones."""


def need_tool(name: str) -> Path:
    """The path of program `name`. Missing: skips the calling test, or fails it when `CI` is set in the environment."""
    found = shutil.which(name)
    if found is None:
        package = DEBIAN_PACKAGE.get(name, name)
        missing(f"{name} is not installed (Debian: apt-get install {package})")
    return Path(found)


def need_newer(name: str) -> Path:
    """Program `name` of a Prometheus 3.x, which stands beside the one that is installed. Missing: as `need_tool`."""
    found = Path(__file__).parents[2] / ".cache/prometheus3/usr/bin" / name
    if not found.exists():
        missing(f"there is no {name} of Prometheus 3.x (.ci/prometheus3 fetches it)")
    return found


def missing(what: str) -> NoReturn:
    """Skip the calling test for the reason `what`, or fail it when `CI` is set."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; under CI nothing may be skipped", pytrace=False)
    pytest.skip(what)
