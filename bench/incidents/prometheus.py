"""Asks a real Prometheus rule engine which alerts fire: promtool's unit tests, with an expectation that always fails.

promtool then prints the values that it got, and these are the answer. It knows the shipped rule files and loads them
unchanged; it refuses to know which alerts should fire.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.incidents.samples import Labels, Samples


RULES = Path(__file__).parents[2] / "alert_rules"
RULE_FILES = (RULES / "llm-recording.yml", RULES / "llm-alerts.yml")
TIMEOUT_SECONDS = 300
_NAME = re.compile(r"(?<![\w:])(?:llm_\w+|up)\b(?![:\w])")
_GOT = re.compile(r"(?P<name>[\w:]*)\{(?P<labels>[^{}]*)\} (?P<value>[-+.\dEeInfNa]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LANE = "namespace, model, lane, objective"


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that began to fire, with the first instant of firing in the period that was asked for."""

    at: float
    labels: dict[str, str]

    @property
    def alert(self) -> str:
        return self.labels["alertname"]

    @property
    def lane(self) -> tuple[str, str] | None:
        """Lane and objective; None for alerts about a pod."""
        if "lane" in self.labels and "objective" in self.labels:
            return self.labels["lane"], self.labels["objective"]
        return None


@dataclass(slots=True)
class Heard:
    """Alerts and verdicts of one run."""

    before: list[Firing]
    """Alerts that began before the fault."""
    during: list[Firing]
    """Alerts that began between the fault and the end of its consequences."""
    after: list[Firing]
    """Alerts that began later."""
    waited_in: dict[tuple[str, str], str]
    """Lane and objective to the phase in which most split misses had waited, at the first page (or once known)."""
    causes: dict[tuple[str, str], str]
    provisional: dict[tuple[str, str], float]
    """Lane and objective to the last instant at which the verdict was provisional while its page fired."""
    evidence: dict[str, tuple[float, float]]
    """Evidence to its lowest and highest ratio since the fault."""


def names_in(rule_files: Iterable[Path] = RULE_FILES) -> frozenset[str]:
    """Names of all the sidecar's metrics that a rule reads, as written in the rules."""
    names: set[str] = set()
    for path in rule_files:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                names.update(_NAME.findall(rule["expr"]))
    return frozenset(names)


def hear(
    samples: Samples, fault_at: float, quiet_at: float, ends_at: float, rule_files: Sequence[Path] = RULE_FILES
) -> Heard:
    """Evaluate the rules on these samples every 15 s. Raises RuntimeError if promtool itself fails."""
    step = samples.every_seconds
    firing = 'ALERTS{alertstate="firing"}'
    began = f"min_over_time(timestamp({firing} unless {firing} offset {step:g}s)"
    paged = f'and on ({_LANE}) ALERTS{{alertstate="firing",severity="page"}}'
    whole = f"[{ends_at - fault_at:g}s:{step:g}s]"
    questions = {
        "before": (f"{began}[{fault_at - step:g}s:{step:g}s])", fault_at - step),
        "during": (f"{began}[{quiet_at - fault_at:g}s:{step:g}s])", quiet_at),
        "waited": (
            f"min_over_time(timestamp(topk by ({_LANE}) (1, lane:llm_slo_waited_in:ratio) {paged}){whole})",
            ends_at,
        ),
        "cause": (f"min_over_time(timestamp(lane:llm_slo_verdict:cause == 1 {paged}){whole})", ends_at),
        "provisional": (f"max_over_time(timestamp(lane:llm_slo_verdict:provisional == 1 {paged}){whole})", ends_at),
        "low": (f"min_over_time(model:llm_evidence:ratio{whole})", ends_at),
        "high": (f"max_over_time(model:llm_evidence:ratio{whole})", ends_at),
    }
    if ends_at - quiet_at > 4 * step:
        questions["after"] = (f"{began}[{ends_at - quiet_at - step:g}s:{step:g}s])", ends_at)
    got = ask(samples, questions, rule_files)

    def firings(question: str) -> list[Firing]:
        found = [Firing(value, dict(labels)) for labels, value in got.get(question, [])]
        return sorted(found, key=lambda each: (each.at, each.alert))

    def first(question: str, label: str) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for labels, _ in sorted(got[question], key=lambda each: each[1]):
            named = dict(labels)
            found.setdefault((named["lane"], named["objective"]), named.get(label, ""))
        return found

    low = {dict(labels)["evidence"]: value for labels, value in got["low"]}
    return Heard(
        firings("before"),
        firings("during"),
        firings("after"),
        first("waited", "phase"),
        first("cause", "cause"),
        {(dict(labels)["lane"], dict(labels)["objective"]): value for labels, value in got["provisional"]},
        {dict(labels)["evidence"]: (low[dict(labels)["evidence"]], value) for labels, value in got["high"]},
    )


Answers = dict[str, list[tuple[Labels, float]]]


def ask(samples: Samples, questions: dict[str, tuple[str, float]], rule_files: Sequence[Path] = RULE_FILES) -> Answers:
    """Answers to PromQL expressions, each evaluated at its own instant (a multiple of the step)."""
    test = {
        "rule_files": [str(path.resolve()) for path in rule_files],
        "evaluation_interval": f"{samples.every_seconds:g}s",
        "tests": [
            {
                "interval": f"{samples.every_seconds:g}s",
                "input_series": [{"series": series, "values": values} for series, values in samples.written()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": f"{at:g}s", "exp_samples": []} for expr, at in questions.values()
                ],
            }
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yml"
        path.write_text(yaml.dump(test, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), width=1 << 20))
        judged = subprocess.run(
            ["promtool", "test", "rules", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
            # Go's garbage collector takes a quarter of promtool's time, and memory is plenty: let it run less often.
            env={"GOGC": "800", **os.environ},
        )
    return read(judged.stdout + judged.stderr, {question: expr for question, (expr, _) in questions.items()})


def read(printed: str, expressions: dict[str, str]) -> Answers:
    """Answers by question. A question that promtool does not mention met its expectation: its answer is empty."""
    by_expr = {expr: question for question, expr in expressions.items()}
    answers: Answers = {question: [] for question in expressions}
    question: str | None = None
    for line in printed.splitlines():
        words = line.strip()
        if words.startswith("expr: "):
            quoted = words.removeprefix("expr: ").rsplit(", time:", 1)[0]
            question = by_expr.get(yaml.safe_load(quoted))
            if question is None:
                raise RuntimeError(f"promtool answers an expression that was not asked for: {words}")
        elif words.startswith("got: "):
            assert question is not None
            for sample in _GOT.finditer(words):
                labels = tuple(_LABEL.findall(sample["labels"]))
                answers[question].append((labels, float(sample["value"])))
        elif not words or words in ("FAILED:", "SUCCESS", "exp: nil") or words.startswith("Unit Testing:"):
            continue
        else:
            raise RuntimeError(f"promtool says: {printed[:2000]}")
    return answers
