"""Scenarios for promtool: what series do over some minutes, and which alerts and recorded values come of it.

A scenario is a namespace of its own, so that all scenarios of a suite are played in one run: the rules keep namespaces apart, or tests
fail. Knows promtool's notation for series, and nothing of what the rules say.
"""

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import yaml

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.promql import quoted
from sidecar.metrics.target_labels import CLUSTER
from tests.alert_rules.alert_table import alert
from tests.support.tools import need_tool


RULES = Path(__file__).parents[2] / "alert_rules"
RECORDING, ALERTS = "llm-recording.yml", "llm-alerts.yml"
CLOCK = "llm_sidecar_time_seconds"
TARGETS = {"up", "llm_sidecar_build_info", "process_start_time_seconds", "llm_engine_up", CLOCK}
"""Series that rules read target by target."""
JOB, POD, MODEL, LANE = "sidecar", "engine-0", "small", "interactive"
"""Labels of a scenario's subject, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Anew:
    """A counter that begins again at 0: its process is another."""

    per_minute: float


Rate = float | Anew | None
"""How a counter rises in one span, per minute; None: it is not scraped."""


@dataclass(slots=True)
class Scenario:
    """One namespace's. `spans`: the minutes of each part of it; whatever is told of a series has one value per span."""

    name: str
    promise: str
    spans: tuple[float, ...]
    step_seconds: int
    namespace: str | None
    """None: a Prometheus that adds neither namespace nor pod."""
    tell: Callable[["Scenario"], None] = field(repr=False)
    cluster: str = ""
    """The label of all series that are told from here on; empty: they have none."""
    series: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Expressions with what they must yield."""
    words: list[dict[str, Any]] = field(default_factory=list)
    """Alerts with their annotations, as promtool takes them."""

    def again(self, name: str = "") -> "Scenario":
        """The same scenario, told anew; with a name, in the namespace of that name."""
        own = name or self.name
        namespace = None if self.namespace is None else own
        other = Scenario(own, self.promise, self.spans, self.step_seconds, namespace, self.tell)
        self.tell(other)
        return other

    # --- what happens ----------------------------------------------------------------------------------------------------

    def counts(self, metric: str, *rates: Rate, pod: str = POD, **labels: str) -> None:
        """A counter, from 0 on. One rate: it holds for the whole scenario."""
        parts, value = ["0"], 0.0
        if all(rate == 0 for rate in rates):
            self.shows(metric, 0, pod=pod, **labels)
            return
        for steps, rate in self._each(rates):
            if rate is None:
                parts.append(_unseen(steps))
                continue
            if isinstance(rate, Anew):
                value = 0.0
            step = _short((rate.per_minute if isinstance(rate, Anew) else rate) * self.step_seconds / 60)
            parts.append(_run(value + step, step, steps))
            # Added up as promtool does it, or the last bit would be a fall of the counter.
            for _ in range(steps):
                value += step
        self._add(metric, pod, labels, parts)

    def shows(self, metric: str, *values: float | None, pod: str = POD, **labels: str) -> None:
        """A gauge. None: it is not scraped."""
        each = self._each(values)
        if len(values) == 1 and values[0] is not None:
            self._add(metric, pod, labels, [_run(values[0], 0, 1 + sum(steps for steps, _ in each))])
            return
        parts = ["_" if values[0] is None else _number(values[0])]
        parts += [_unseen(steps) if value is None else _run(value, 0, steps) for steps, value in each]
        self._add(metric, pod, labels, parts)

    def since(self, metric: str, began_seconds: float, *, pod: str = POD, **labels: str) -> None:
        """An age, which is scraped from this second of the scenario on."""
        before = ceil(began_seconds / self.step_seconds)
        left = 1 + sum(steps for steps, _ in self._each([None])) - before
        age = before * self.step_seconds - began_seconds
        self._add(metric, pod, labels, [_unseen(before), _run(age, self.step_seconds, left)])

    def began(self, *at_seconds: float | None, ahead_seconds: float = 0, pod: str = POD, **labels: str) -> None:
        """When the sidecar's process began, and its clock, which is ahead of Prometheus'. None: it is not scraped."""
        self.shows(
            "process_start_time_seconds",
            *(None if at is None else at + ahead_seconds for at in at_seconds),
            pod=pod,
            **labels,
        )
        steps = sum(steps for steps, _ in self._each([None]))
        self._add(CLOCK, pod, labels, [_run(ahead_seconds, self.step_seconds, 1 + steps)])

    # --- what comes of it ------------------------------------------------------------------------------------------------

    def alerts(self, minute: float, *expected: str, severity: str = "", **labels: str) -> None:
        """Exactly these alerts fire at this minute: each as `name severity` or `name severity phase`, with the scenario's own labels unless told."""
        chosen = f',severity="{severity}"' if severity else ""
        self.yields(
            f'ALERTS{{{self._mine(alertstate="firing")},alertname!="Watchdog"{chosen}}}',
            minute,
            *(("ALERTS", {"alertstate": "firing", **self._alert(one, labels)}, 1) for one in expected),
        )

    def pages(self, minute: float, *names: str, **labels: str) -> None:
        """Exactly these pages."""
        self.alerts(minute, *(f"{name} page" for name in names), severity="page", **labels)

    def tickets(self, minute: float, *names: str, **labels: str) -> None:
        """Exactly these tickets."""
        self.alerts(minute, *(f"{name} ticket" for name in names), severity="ticket", **labels)

    def records(self, name: str, minute: float, *expected: tuple[Mapping[str, str], float], **chosen: str) -> None:
        """A recorded series has exactly these values, to the third place: (labels beyond the namespace, value). `chosen`: only such."""
        own = {"job": JOB} if self.namespace is None else {"namespace": self.namespace, "job": JOB}
        samples = [("", {**own, **chosen, **labels}, value) for labels, value in expected]
        self.yields(f"round({name}{{{self._mine(**chosen)}}}, 0.001)", minute, *samples)

    def yields(self, expr: str, minute: float, *samples: tuple[str, Mapping[str, str], float]) -> None:
        """An expression yields exactly these samples: (metric or "", labels, value)."""
        wanted = [{"labels": f"{name}{{{_labels(labels)}}}", "value": value} for name, labels, value in samples]
        self.asked.append({"expr": expr, "eval_time": _at(minute), "exp_samples": wanted})

    def reads(self, minute: float, one: str, summary: str, description: str = "", **labels: str) -> None:
        """This alert, `name severity`, and no other of its name in what is played together, is firing at this minute, with these words.

        `description`: in full where it is a template; by default as it stands in the rules, with this alert's labels. So are
        the links. `labels` may also name annotations, such as `cause`.
        """
        stands = self._alert(one, labels)
        name, severity = stands.pop("alertname"), stands["severity"]
        told = {
            key: filled_in(labels.get(key, text), stands)
            for key, text in _annotations(name, severity, stands["phase"]).items()
        }
        # The link of a lane's alert ends with its worst pod, which is an annotation too; empty where there is none.
        worst = labels.get("worst_pod", "").replace("none", "")
        told["runbook_url"] = re.sub(r"{{\$m := .*{{ end }}$", worst, told["runbook_url"])
        told |= {"summary": summary} | ({"description": description} if description else {})
        entry = {"exp_labels": stands, "exp_annotations": told}
        for words in self.words:
            if (words["alertname"], words["eval_time"]) == (name, _at(minute)):
                words["exp_alerts"].append(entry)
                return
        self.words.append({"eval_time": _at(minute), "alertname": name, "exp_alerts": [entry]})

    # --- how it is written -----------------------------------------------------------------------------------------------

    def _each(self, values: Sequence[Any]) -> list[tuple[int, Any]]:
        each = [*values] * len(self.spans) if len(values) == 1 else values
        steps = [round(minutes * 60 / self.step_seconds) for minutes in self.spans]
        return list(zip(steps, each, strict=True))

    def _add(self, metric: str, pod: str, labels: Mapping[str, str], parts: Sequence[str]) -> None:
        target = {"instance": f"{pod}:9901", "job": JOB}
        if self.namespace is not None:
            # What tells targets of one pod apart is told where rules ask for it; it would be half of the file.
            instance = {"instance": target["instance"]} if metric in TARGETS else {}
            target = {"namespace": self.namespace, "job": JOB, "pod": pod} | instance
        target |= {CLUSTER: self.cluster} if self.cluster else {}
        name = f"{metric}{{{_labels({**target, **labels})}}}"
        assert name not in self.series, f"{self.name} tells {name} twice"
        self.series[name] = " ".join(parts)

    def _mine(self, **labels: str) -> str:
        own = {} if self.namespace is None else {"namespace": self.namespace}
        return _labels({**own, **labels})

    def _alert(self, one: str, told: Mapping[str, str]) -> dict[str, str]:
        name, severity, *phase = one.split()
        row = alert(name, severity, phase[0] if phase else told.get("phase"))
        usual = {
            CLUSTER: "",
            "job": JOB,
            "pod": POD,
            "model": MODEL,
            "lane": LANE,
            "objective": "ttft",
            "namespace": self.namespace or "",
        }
        labels = {label: value for label in row.labels if (value := told.get(label, usual[label]))}
        if self.namespace is None:
            labels = {label: value for label, value in labels.items() if label not in {"namespace", "pod"}}
        return {"alertname": name, "severity": severity, "phase": row.phase, **labels}


Happens = Callable[[Scenario], None]
Case = tuple[str, str, Happens, Mapping[float, str]]
"""Name, promise, what series do, and at some minutes the alerts that fire then: `LLMOne page, LLMOther ticket`."""


def of(*told: Callable[[Scenario], None]) -> Happens:
    """Several things happen."""

    def happens(scenario: Scenario) -> None:
        for tell in told:
            tell(scenario)

    return happens


def gauge(metric: str, *values: float | None, **labels: str) -> Happens:
    """As `Scenario.shows`."""
    return lambda scenario: scenario.shows(metric, *values, **labels)


def counter(metric: str, *rates: Rate, **labels: str) -> Happens:
    """As `Scenario.counts`."""
    return lambda scenario: scenario.counts(metric, *rates, **labels)


def other_target(metric: str, job: str, values: str) -> Happens:
    """Something else of the same pod is scraped too."""

    def happens(scenario: Scenario) -> None:
        labels = f'instance="{POD}:8000",job="{job}",namespace="{scenario.namespace}",pod="{POD}"'
        scenario.series[f"{metric}{{{labels}}}"] = values

    return happens


@dataclass(slots=True)
class Suite:
    """Scenarios that are played together. `rules`: the shipped files that they need; fewer is faster."""

    name: str
    rules: tuple[str, ...] = (RECORDING, ALERTS)
    step_seconds: int = 15
    """Between two samples of a series."""
    evaluation_seconds: int = 15
    plain: bool = False
    """Without namespace and pod, so that nothing but `apart` keeps two scenarios apart."""
    apart: bool = False
    """Each scenario is played alone: slower, but the words of its alerts can be compared."""
    scenarios: list[Scenario] = field(default_factory=list)

    def scenario(self, *spans: float) -> Callable[[Callable[[Scenario], None]], Callable[[Scenario], None]]:
        """A scenario by its function: the name says what happens, the docstring is the promise. `spans`: minutes."""

        def told(tell: Callable[[Scenario], None]) -> Callable[[Scenario], None]:
            name = re.sub("[_ ]", "-", tell.__name__)
            namespace = None if self.plain else name
            one = Scenario(name, (tell.__doc__ or "").strip(), spans, self.step_seconds, namespace, tell)
            tell(one)
            assert one.promise, f"{name} promises nothing"
            assert one.asked or one.words, f"{name} expects nothing"
            self.scenarios.append(one)
            return tell

        return told

    def cases(self, spans: tuple[float, ...], *rows: Case) -> None:
        """Scenarios of the same spans, a row each."""
        for name, promise, happens, expected in rows:

            def tell(scenario: Scenario, happens: Happens = happens, expected: Mapping[float, str] = expected) -> None:
                happens(scenario)
                for minute, names in expected.items():
                    scenario.alerts(minute, *filter(None, names.split(", ")))

            tell.__name__, tell.__doc__ = name, promise
            self.scenario(*spans)(tell)

    @property
    def file_name(self) -> str:
        """Name of its test file."""
        return f"llm-{self.name}_test.yml"

    @property
    def groups(self) -> list[str]:
        """Files of the shipped rules that are played, in their order."""
        return [group["name"] for name in self.rules for group in _groups(name)]

    def text(self) -> str:
        """The test file: all scenarios, held against the shipped rules."""
        document = self.document([str(RULES / name) for name in self.rules], self.groups, self.scenarios)
        promises = "".join(f"# {one.name}: {' '.join(one.promise.split())}\n" for one in self.scenarios)
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        return promises + yaml.dump(document, sort_keys=False, width=10_000, Dumper=dumper)

    def document(
        self, rule_files: Sequence[str], groups: Sequence[str], scenarios: Sequence[Scenario]
    ) -> dict[str, Any]:
        """Input of promtool: some scenarios, and the rule files with the groups in them."""
        together = [[one] for one in scenarios] if self.apart else [scenarios]
        tests = [
            {
                "name": self.name,
                "interval": f"{self.step_seconds}s",
                "input_series": [{"series": name, "values": text} for one in some for name, text in one.series.items()],
                "promql_expr_test": [question for one in some for question in one.asked],
                "alert_rule_test": [words for one in some for words in one.words],
            }
            for some in together
        ]
        return {
            "rule_files": list(rule_files),
            "evaluation_interval": f"{self.evaluation_seconds}s",
            # Else promtool draws an order for every run, and alerts see what was recorded one evaluation before.
            "group_eval_order": list(groups),
            "tests": tests,
        }


def run(test_file: Path, promtool: Path | None = None, *, timeout_seconds: float = 110) -> str:
    """The complaints of promtool about a test file: empty if all is as expected. Raises CalledProcessError where it judges nothing.

    `promtool`: the installed one unless told. `timeout_seconds`: below the limit of one test."""
    command = [str(promtool or need_tool("promtool")), "test", "rules", str(test_file)]
    # Its heap is small and its life is short: collecting takes a third of the time, and the other core has a run of its own.
    thrift = {**os.environ, "GOGC": "off", "GOMEMLIMIT": "160MiB", "GOMAXPROCS": "1"}
    judged = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_seconds, env=thrift)
    if judged.returncode not in {0, 1}:
        judged.check_returncode()
    return "" if judged.returncode == 0 else judged.stdout + judged.stderr


def complaints(suite: Suite, scenario: Scenario, folder: Path) -> list[str]:
    """Those of promtool about one scenario of a suite. A complaint that names none of its scenarios counts against each of them."""
    said = _judgement(suite, folder)
    found = re.split(r"\n(?=    \w+: )", re.sub(r" *\bname: [\w-]+,", "", said))[1:] or ([said] if said else [])
    return [text for text in found if (named := _named(suite, text)) is None or named == scenario.name]


def _judgement(suite: Suite, folder: Path) -> str:
    """The complaints about a whole suite. promtool is run once for all processes that share `folder`: the first runs it, the others wait."""
    answer = folder / f"{suite.name}.answer"
    with (folder / f"{suite.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            test_file = folder / suite.file_name
            test_file.write_text(suite.text())
            answer.write_text(run(test_file))
    return answer.read_text()


def _named(suite: Suite, complaint: str) -> str | None:
    """A rule that fails concerns each scenario: nothing was judged after it."""
    if " err: " in complaint:
        return None
    quoted = re.search(r'namespace=\\?"([\w-]+)\\?"', complaint)
    return quoted[1] if quoted and quoted[1] in {one.name for one in suite.scenarios} else None


@cache
def _groups(file: str) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = read_yaml((RULES / file).read_text())["groups"]
    return groups


def _annotations(name: str, severity: str, phase: str) -> Mapping[str, str]:
    """As they stand in the shipped file; a rule without a static phase has any."""
    found, *_ = [
        rule["annotations"]
        for group in _groups(ALERTS)
        for rule in group["rules"]
        if rule.get("alert") == name and rule["labels"]["severity"] == severity
        if rule["labels"].get("phase", phase) == phase
    ]
    return dict(found)


def filled_in(text: str, labels: Mapping[str, str]) -> str:
    """A template with these labels in their places; the words around a cluster are left out where there is none."""

    def one(match: re.Match[str]) -> str:
        value = labels.get(match[1], "")
        return quote_plus(value) if match[2] else value

    def of_cluster(match: re.Match[str]) -> str:
        before, how, after = match[2], match[3] or "", match[4]
        return f"{before}{{{{ $labels.{match[1]}{how} }}}}{after}" if labels.get(match[1]) else ""

    with_cluster = rf"{{{{ with \$labels\.({CLUSTER}) }}}}(.*?){{{{ \.( \| urlquery)? }}}}(.*?){{{{ end }}}}"
    return re.sub(
        r'{{ (?:\(or )?\$labels\.(\w+)(?: ""\))?( \| urlquery)? }}', one, re.sub(with_cluster, of_cluster, text)
    )


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={quoted(value)}" for name, value in labels.items())


def _at(minute: float) -> str:
    return f"{round(minute * 60)}s"


def _short(value: float) -> float:
    return float(f"{value:.10g}")


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _run(first: float, step: float, steps: int) -> str:
    """So many samples, from `first` on."""
    if step == 0:
        return f"{_number(first)}x{steps - 1}"
    return f"{_number(first)}{'+' if step >= 0 else '-'}{_number(abs(step))}x{steps - 1}"


def _unseen(steps: int) -> str:
    """A scrape that fails ends a series there and then."""
    return "stale" if steps == 1 else f"stale _x{steps - 1}"
