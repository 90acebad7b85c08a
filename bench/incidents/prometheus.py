"""Asks a real Prometheus rule engine which alerts fire: promtool's unit tests, with an expectation that always fails.

promtool then prints the values that it got, and these are the answer; so it prints the pages with their annotations. It
knows the shipped rule files and loads them unchanged; it refuses to know which alerts should fire.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from bench.incidents.samples import Labels, Samples, edges_of
from sidecar.commands.export.rules.burn import WHO
from sidecar.commands.export.rules.root_rules import WAITED_IN
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import EVIDENCE_RATIO


Q = TypeVar("Q", bound=Hashable)
Question = tuple[str, float]
"""A PromQL expression, and the instant at which it is evaluated, in seconds."""
Answer = list[tuple[Labels, float]]
"""Labels and value of each sample."""

RULES = Path(__file__).parents[2] / "alert_rules"
RULE_FILES = (RULES / "llm-recording.yml", RULES / "llm-alerts.yml")
TIMEOUT_SECONDS = 5400
"""A fleet's day and two days of growth take ten minutes of the processor, and at idle priority several times as long."""
_NAME = re.compile(r"(?<![\w:])(?:llm_\w+|up|process_\w+)\b(?![:\w])")
_BUCKET = re.compile(r"(?<![\w:])(?P<name>llm_\w+_bucket)\b(?:\{(?P<matchers>[^{}]*)\})?")
_EDGE = re.compile(r'(?:^|,)\s*le="(?P<le>[^"]*)"')
_GOT = re.compile(r"(?P<name>[\w:]*)\{(?P<labels>[^{}]*)\} (?P<value>[-+.\dEeInfNa]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ALERT = re.compile(r"alertname: \w+, time: (?P<time>\w+),")
_NO_ANSWER = re.compile(
    r"$|FAILED:$|SUCCESS$|exp: nil$|Unit Testing:|alertname: |exp:\[|got:\[|\d+:$|Labels:|Annotations:|\],?$"
)
"""Lines that hold no answer to a question: headings, and the alerts that promtool got."""
_PART = re.compile(r"(\d+)(ms|[smhdwy])")
_UNIT_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
_NOT_THE_ALERTS = ("__name__", "alertstate")
"""Labels of the series ALERTS that the alert itself does not have."""
SPELLS_BEFORE_SECONDS = 60.0
"""From so many seconds before the fault on, the intervals of firing are recorded."""


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that began to fire, with the first instant of firing in the period that was asked for."""

    at: float
    labels: dict[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Confidence of the alerts that state one, and began after the fault."""

    @property
    def alert(self) -> str:
        return self.labels["alertname"]

    @property
    def lane(self) -> tuple[str, str] | None:
        """Lane and objective; None for alerts about a pod."""
        if "lane" in self.labels and "objective" in self.labels:
            return self.labels["lane"], self.labels["objective"]
        return None


class Spell(NamedTuple):
    """An interval in which one alert fired without a break."""

    labels: dict[str, str]
    """The alert's own labels, `alertname` included."""
    began_at: float
    """First evaluation at which it fired; the first one that was asked for if it fired already."""
    ended_at: float
    """First evaluation at which it no longer fired; the end of the run if it still did."""


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
    evidence: dict[str, tuple[float, float]]
    """Cause to the lowest and highest `llm_evidence_ratio` of any pod since the fault."""
    firing: list[Spell] = field(default_factory=list)
    """Every page and ticket from a minute before the fault to the end of the run, by its beginning."""


def names_in(rule_files: Iterable[Path] = RULE_FILES) -> frozenset[str]:
    """Names of all the sidecar's metrics that a rule or the words of an alert ask for, as written in the rules, or the bench itself."""
    rules = _rules(tuple(rule_files))
    texts = (text for rule in rules for text in (rule["expr"], *rule.get("annotations", {}).values()))
    return frozenset(name for text in (*texts, *_ASKED.values()) for name in _NAME.findall(text))


def edges_in(rule_files: Iterable[Path] = RULE_FILES) -> dict[str, frozenset[str]]:
    """Buckets of which the rules read single edges only: name to the values of `le`, as written in the rules."""
    edges: dict[str, set[str]] = {}
    whole: set[str] = set()
    for rule in _rules(tuple(rule_files)):
        for found in _BUCKET.finditer(rule["expr"]):
            edge = _EDGE.search(found["matchers"] or "")
            if edge is None:
                whole.add(found["name"])
            else:
                edges.setdefault(found["name"], set()).add(edge["le"])
    return {name: frozenset(values) for name, values in edges.items() if name not in whole}


@cache
def _rules(rule_files: tuple[Path, ...]) -> tuple[Mapping[str, Any], ...]:
    return tuple(rule for group in _groups(rule_files) for rule in group["rules"])


def hear(
    samples: Sequence[Samples],
    fault_at: float,
    quiet_at: float,
    ends_at: float,
    rule_files: Sequence[Path] = RULE_FILES,
) -> Heard:
    """Evaluate the rules on the samples of all pods every 15 s. Raises RuntimeError if promtool itself fails."""
    step = samples[0].every_seconds
    instants = [step * number for number in range(int(ends_at / step) + 1)]
    questions = {
        (about, at): (expr, at) for about, expr in _ASKED.items() for at in instants if about == FIRES or at >= fault_at
    }
    names = {rule["alert"] for rule in _rules(tuple(rule_files)) if CONFIDENCE in rule.get("annotations", {})}
    printed = _printed(
        samples,
        questions.values(),
        [(name, at) for name in sorted(names) for at in instants if at >= fault_at],
        rule_files,
    )
    got, said = read(printed, questions), annotations(printed)

    def told(about: str) -> list[tuple[float, dict[str, str], float]]:
        """Instant, labels and value of each answer since the fault, in order of time."""
        found = ((at, got[about, at]) for at in instants if at >= fault_at)
        return [(at, dict(labels), value) for at, answers in found for labels, value in answers]

    def first(about: str, label: str) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for _, labels, _ in told(about):
            found.setdefault((labels["lane"], labels["objective"]), labels.get(label, ""))
        return found

    looks = [(at, [labels for labels, _ in got[FIRES, at]]) for at in instants]
    began = [replace(each, annotations=said.get((each.at, _own(each.labels.items())), {})) for each in begun(looks)]
    spells_at = fault_at - SPELLS_BEFORE_SECONDS
    evidence: dict[str, list[float]] = {}
    for _, labels, value in told("evidence"):
        if not isnan(value):
            evidence.setdefault(labels["cause"], []).append(value)
    return Heard(
        _firsts(each for each in began if each.at < fault_at),
        _firsts(each for each in began if fault_at <= each.at <= quiet_at),
        _firsts(each for each in began if each.at > quiet_at) if ends_at - quiet_at > 4 * step else [],
        first("waited", "phase"),
        {name: (min(values), max(values)) for name, values in evidence.items()},
        [
            each
            for each in spells([look for look in looks if look[0] >= spells_at], ends_at)
            if each.labels["severity"] in ("page", "ticket")
        ],
    )


FIRES = "fires"
CONFIDENCE = "confidence"
"""Annotation of each alert that names a root: the confidence of the pods' incidents or, without one, the share of the decided misses, 0 to 1."""
_ASKED = {
    FIRES: 'ALERTS{alertstate="firing"}',
    "waited": f'topk by ({WHO}) (1, {WAITED_IN.name}) and on ({WHO}) ALERTS{{alertstate="firing",severity="page"}}',
    "evidence": EVIDENCE_RATIO.name,
}
"""Expressions that are evaluated at each step. One subquery instead would exceed promtool's limit of 10,000 samples."""

Look = tuple[float, Sequence[Labels]]
"""Instant of an evaluation, and the labels of all alerts that fire."""


def begun(looks: Iterable[Look]) -> list[Firing]:
    """Every beginning of an alert, in order of time."""
    found: list[Firing] = []
    before: set[Labels] = set()
    for at, firing in looks:
        now = {tuple(sorted(pair for pair in labels if pair[0] != "__name__")) for labels in firing}
        found += [Firing(at, dict(labels)) for labels in sorted(now - before)]
        before = now
    return found


def _firsts(began: Iterable[Firing]) -> list[Firing]:
    """The first beginning of each alert, by instant and name."""
    found: dict[Labels, Firing] = {}
    for each in began:
        found.setdefault(tuple(each.labels.items()), each)
    return sorted(found.values(), key=lambda each: (each.at, each.alert))


def spells(looks: Iterable[Look], ends_at: float) -> list[Spell]:
    """Intervals of firing, from the alerts that fired at each evaluation. `looks`: instant and labels, in order."""
    began: dict[Labels, float] = {}
    found: list[Spell] = []
    for at, firing in looks:
        now = {_own(labels) for labels in firing}
        found += [Spell(dict(labels), began.pop(labels), at) for labels in sorted(began.keys() - now)]
        began |= dict.fromkeys(now - began.keys(), at)
    found += [Spell(dict(labels), at, ends_at) for labels, at in began.items()]
    return sorted(found, key=lambda each: (each.began_at, each.ended_at, sorted(each.labels.items())))


def _own(labels: Iterable[tuple[str, str]]) -> Labels:
    """The alert's own labels, in order."""
    return tuple(sorted(pair for pair in labels if pair[0] not in _NOT_THE_ALERTS))


def ask(
    samples: Sequence[Samples], questions: Mapping[Q, Question], rule_files: Sequence[Path] = RULE_FILES
) -> dict[Q, Answer]:
    """Answers to PromQL expressions, each evaluated at its own instant (a multiple of the step)."""
    return read(_printed(samples, questions.values(), (), rule_files), questions)


def _printed(
    samples: Sequence[Samples],
    questions: Iterable[Question],
    alerts: Iterable[tuple[str, float]],
    rule_files: Sequence[Path],
) -> str:
    """The lines that promtool prints about these expressions, and about alerts at these instants (name and seconds).

    Groups of rules are evaluated in the order of their files: without an order, promtool shuffles them in each run.
    """
    step = f"{samples[0].every_seconds:g}s"
    edges = edges_of(samples) | edges_in(rule_files)
    series = [{"series": selector, "values": values} for each in samples for selector, values in each.written(edges)]
    test = {
        "rule_files": [str(path.resolve()) for path in rule_files],
        "evaluation_interval": step,
        "group_eval_order": [group["name"] for group in _groups(tuple(rule_files))],
        "tests": [
            {
                "interval": step,
                "input_series": series,
                "promql_expr_test": [
                    {"expr": expr, "eval_time": f"{at:g}s", "exp_samples": []} for expr, at in questions
                ],
                "alert_rule_test": [
                    {"alertname": name, "eval_time": f"{at:g}s", "exp_alerts": []} for name, at in alerts
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
    return judged.stdout + judged.stderr


def annotations(printed: str) -> dict[tuple[float, Labels], dict[str, str]]:
    """Annotations of each alert that promtool prints, by its instant and the alert's own labels."""
    found: dict[tuple[float, Labels], dict[str, str]] = {}
    at = 0.0
    labels: Labels = ()
    for line in printed.splitlines():
        words = line.strip()
        if alert := _ALERT.match(words):
            at = _seconds(alert["time"])
        elif words.startswith("Labels:{"):
            labels = _own(_LABEL.findall(words))
        elif words.startswith("Annotations:{"):
            found[at, labels] = {name: json.loads(f'"{text}"') for name, text in _LABEL.findall(words)}
    return found


def read(printed: str, questions: Mapping[Q, Question]) -> dict[Q, Answer]:
    """Answers by question. A question that promtool does not mention met its expectation: its answer is empty."""
    asked = {(expr, at): question for question, (expr, at) in questions.items()}
    answers: dict[Q, Answer] = {question: [] for question in questions}
    question: Q | None = None
    for line in printed.splitlines():
        words = line.strip()
        if words.startswith("expr: "):
            quoted, _, time = words.removeprefix("expr: ").rpartition(", time: ")
            if not time.endswith(","):
                raise RuntimeError(f"promtool could not evaluate it: {words}")
            question = asked.get((json.loads(quoted), _seconds(time)))
            if question is None:
                raise RuntimeError(f"promtool answers an expression that was not asked for: {words}")
        elif words.startswith("got: "):
            assert question is not None
            for sample in _GOT.finditer(words):
                labels = tuple(_LABEL.findall(sample["labels"]))
                answers[question].append((labels, float(sample["value"])))
        elif not _NO_ANSWER.match(words):
            raise RuntimeError(f"promtool says: {printed[:2000]}")
    return answers


@cache
def _groups(rule_files: tuple[Path, ...]) -> list[Mapping[str, Any]]:
    return [group for path in rule_files for group in read_yaml(path.read_text())["groups"]]


def _seconds(duration: str) -> float:
    """Seconds of a duration as promtool prints it, such as `1h2m15s`."""
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(duration))
