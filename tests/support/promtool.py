"""Independent checks of a metrics page: prometheus_client's two parsers, and promtool where it is installed."""

import os
import shutil
import subprocess

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families


def check_metrics(page: bytes) -> None:
    """Fail unless `promtool check metrics` (Debian package prometheus) prints nothing about this text page."""
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing and CI is set: install the Debian package prometheus")
        pytest.skip("promtool is missing: install the Debian package prometheus")
    judged = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False, timeout=60)
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, b"", b"")


def families(page: bytes, *, openmetrics: bool) -> list[Metric]:
    """The page as prometheus_client reads it. Raises ValueError if it cannot, UnicodeDecodeError if it is no UTF-8."""
    parse = openmetrics_families if openmetrics else text_families
    return list(parse(page.decode()))


def samples(page: bytes, *, openmetrics: bool = False) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """(name, labels) to value, for every sample; no sample may occur twice."""
    read = [sample for family in families(page, openmetrics=openmetrics) for sample in family.samples]
    by_name = {(sample.name, frozenset(sample.labels.items())): float(sample.value) for sample in read}
    assert len(read) == len(by_name)
    return by_name
