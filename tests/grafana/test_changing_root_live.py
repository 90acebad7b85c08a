"""The pods table while a pod's root changes, asked of a real Prometheus: for a moment both roots are there."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grafana.boards import board, panels
from tests.support.backfilled import backfilled, sample_line


pytestmark = pytest.mark.live

BEGAN_AT = 1_767_225_600
STEP_SECONDS = 15
TARGET = {"namespace": "serving", "job": "llm-phase-sidecar", "pod": "llama-70b-instruct-7d9f8c6b5d-x7k0p"}


def _lines() -> Iterator[str]:
    asked = TARGET | {"model": "m", "lane": "code", "objective": "ttft", "prompt_bucket": "le_512"}
    for step in range(20):
        yield sample_line("llm_slo_misses_total", asked, step, BEGAN_AT + step * STEP_SECONDS)
    for phase, cause in (("prefill", "prefill_cost"), ("decode", "decode_cost")):
        root = TARGET | {"phase": phase, "cause": cause}
        yield sample_line("llm_incident_age_seconds", root, 19 * STEP_SECONDS, BEGAN_AT + 19 * STEP_SECONDS)


_AGE_SECONDS = 19 * STEP_SECONDS
"""Age of the incident as it was scraped last, a second before the table is asked."""


def test_a_pod_whose_root_changes_has_one_row(tmp_path: Path) -> None:
    """Two series say when its incident began, until the former is stale: the table shows one of them and does not fail."""
    table = next(one for one in panels(board("llm-anatomy")) if one["title"] == "Pods, worst first")
    expr = next(one["expr"] for one in table["targets"] if "llm_incident_age" in one["expr"])
    for name in ("cluster", "namespace", "pod", "model", "lane", "prompt_bucket"):
        expr = expr.replace(f"${name}", ".*")
    lines = sorted(_lines(), key=lambda line: line.split("{")[0])

    with backfilled(tmp_path, lines) as url:
        at = urllib.parse.urlencode({"query": expr, "time": BEGAN_AT + _AGE_SECONDS + 1})
        with urllib.request.urlopen(f"{url}/api/v1/query?{at}", timeout=10) as answer:
            result = json.load(answer)["data"]["result"]

    assert [(one["metric"]["pod"], float(one["value"][1])) for one in result] == [(TARGET["pod"], _AGE_SECONDS)]
