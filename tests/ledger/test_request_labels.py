"""A further label of requests is a change of few files: here `tenant` is added to a copy of the product, and passes
through it.

Besides the files of `CHANGES` such a label needs a reader of it in classify/, its set in config/schema.py, its size
where series are counted (config/checks.py, config/file.py, cli.py), the set handed over in app.py, and docs/metrics.md:
about a dozen files.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sidecar
from sidecar.ledger.request_labels import UNLABELLED, RequestLabels
from sidecar.metrics.catalogue import catalogue


CHECKOUT = Path(__file__).parents[2]
PACKAGE = Path(sidecar.__file__).parent
CHANGES = {
    "ledger/request_labels.py": (
        ("    lane: str\n", "    lane: str\n    tenant: str\n"),
        ('RequestLabels("", "", "")', 'RequestLabels("", "", "", "")'),
    ),
    "metrics/catalogue.py": (
        ("PER_LANE = (MODEL, LANE)", 'TENANT = Label("tenant", told_by="x", most=9)\nPER_LANE = (MODEL, LANE, TENANT)'),
        ('*("lane",', '*("tenant", "lane",'),
    ),
    "metrics/declaration.py": (
        ("    models: int\n", "    models: int\n    tenants: int = 1\n"),
        ('return {"lane": self', 'return {"tenant": self.tenants, "lane": self'),
    ),
    "metrics/registry.py": (
        ("        models: Iterable[str] = (),\n", "        models: Iterable[str] = (),\n        tenants: Iterable[str] = ('acme',),\n"),
        ("self.lanes = ClosedSet(c.LANE, lanes)", "self.lanes = ClosedSet(c.LANE, lanes); self.tenants = ClosedSet(c.TENANT, tenants)"),
        ("shared = {", "shared = {c.TENANT.name: self.tenants, "),
    ),
    "observe/request.py": (("RequestLabels(model, lane, ", "RequestLabels(model, lane, 'acme', "),),
}  # fmt: skip
"""File to pairs of text and replacement."""
SCENARIO = """
import json
from prometheus_client.parser import text_string_to_metric_families
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.support.walk import Walk

aims = Aims(ttft=Aim(0.1, 0.9), tpot=Aim(1.0, 0.9))
walk = Walk(objectives=Objectives({"interactive": dict.fromkeys(("0-512", "512-4k", "unknown"), aims)}))
walk.metrics.tenants.admit(["globex"])
def asks(request):
    walk.client().send(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(request) + request)
    walk.engine.send(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n\\r\\n")
    walk.clock.later(0.5)
    for _ in range(2):
        walk.engine.send(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\\n\\n')
        walk.clock.later(0.5)
asks(b'{"model":"tiny","stream":true}')
walk.engine.send(b'data: {"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2}}\\n\\ndata: [DONE]\\n\\n')
walk.engine.end()
samples = [s for family in text_string_to_metric_families(walk.page()) for s in family.samples if {"model", "lane"} <= {*s.labels}]
print(json.dumps([[s.name, s.labels.get("tenant"), bool(s.value)] for s in samples]))
"""


@pytest.mark.reaches_in
def test_a_further_label_stands_on_every_metric_of_requests_that_declares_it(tmp_path: Path) -> None:
    """Five files of the product carry the label from the classification to the page; all others pass its value on
    unchanged."""
    shutil.copytree(PACKAGE, tmp_path / "sidecar", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name, pairs in CHANGES.items():
        path = tmp_path / "sidecar" / name
        for before, after in pairs:
            text = path.read_text()
            assert text.count(before) == 1, f"{name}: {before!r} is there {text.count(before)} times"
            path.write_text(text.replace(before, after))

    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"}
    told = subprocess.run(
        [sys.executable, "-c", SCENARIO], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert told.stderr == ""
    samples = json.loads(told.stdout)
    assert {tenant for _, tenant, counted in samples if counted} == {"acme"}
    assert {tenant for _, tenant, _ in samples} == {"acme", "globex"}
    assert {name for name, _, counted in samples if counted and name.endswith(("_total", "_count"))} == {
        *("llm_requests_received_total", "llm_requests_total", "llm_answers_total", "llm_request_seconds_count"),
        *("llm_request_phase_seconds_count", "llm_time_to_first_token_seconds_count", "llm_inter_token_seconds_count"),
        "llm_time_to_first_output_token_seconds_count",
        *("llm_time_per_output_token_seconds_count", "llm_prompt_tokens_count", "llm_output_tokens_count"),
        *("llm_slo_requests_total", "llm_slo_misses_total", "llm_slo_allowed_misses_total"),
        *("llm_slo_blamed_misses_total", "llm_token_deadlines_total", "llm_token_deadline_misses_total"),
        *("llm_slo_root_misses_total", "llm_slo_missed_phase_seconds_total"),
        *("llm_stated_prompts_total", "llm_stated_prompt_tokens_total"),
    }


def test_few_modules_name_a_label_of_requests() -> None:
    """All other modules pass the labels on as one value. The page and the history name a label because they draw one
    bar for each prompt length; commands and rules, because they ask a Prometheus for one length."""
    declares = {"ledger/request_labels.py", "metrics/catalogue.py", "metrics/declaration.py"}
    fills = {"observe/request.py"}
    objectives = {"objectives/objective.py", "observe/slo_counters.py"}
    draws = {f"admin/page/{name}.py" for name in ("anatomy", "failure_table", "phases", "picture")} | {
        "history/series.py",
        "diagnosis/confirming.py",
    }
    asks = {"commands/export/rules/page_facts.py"}

    named = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "prompt_bucket" in (text := path.read_text())  # parsing takes most of the time
        for node in ast.walk(ast.parse(text))
        if "prompt_bucket" in {getattr(node, field, None) for field in ("id", "attr", "arg", "value")}
    }

    assert named == declares | fills | objectives | draws | asks


def test_the_labels_of_requests_come_first_in_every_declaration() -> None:
    """`Family.of` puts them before the other values of a child."""
    names = [[label.name for label in metric.labels] for metric in catalogue(inter_token_by_prompt_bucket=True)]

    shown = [[name in RequestLabels._fields for name in each] for each in names]

    assert [each for each in shown if each != sorted(each, reverse=True)] == []
    assert UNLABELLED._fields == ("model", "lane", "prompt_bucket")
