"""`sidecar export`: writes what travels with the package into a folder, and says which command comes next.

Exit codes: 0 written; 1 a file cannot be written; 2 a wrong flag, or a file that has other content. It writes all files or none of
them, but for a disk that fails in between. This module knows flags, texts and folders; the files are made beside it.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from sidecar.commands.export.export_flags import export_parser, read_parameters
from sidecar.commands.export.manifests import (
    all_files,
    chart_files,
    kubernetes_files,
    placed_dashboards,
    route_texts,
    rule_texts,
)
from sidecar.commands.export.parameters import Parameters, errors
from sidecar.commands.export.rules.evaluation import told
from sidecar.commands.export.rules.rulers import RULERS, Ruler
from sidecar.commands.export.shipped_files import NothingShippedError
from sidecar.commands.export.substitution import UnmatchedError
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, folded, folded_command, width


@dataclass(frozen=True, slots=True)
class Exported:
    """One thing to export. `next_steps`: commands to type then; `{out}` is the folder, `{place}` its namespace. One that begins with
    _LOADS_RULES stands for the ruler's own commands.
    """

    texts: Callable[[Parameters], Mapping[str, str]]
    next_steps: tuple[str, ...]


_LOADS_RULES = "load the rules of "
_CHECK_RULES = "promtool check rules {0}/llm-recording.yml {0}/llm-alerts.yml {0}/llm-dashboards.yml"
EXPORTED = {
    "rules": Exported(
        rule_texts,
        (
            _CHECK_RULES.format("{out}"),
            f"{_LOADS_RULES}{{out}}",
        ),
    ),
    "routes": Exported(
        route_texts,
        (
            "amtool check-config {out}/alertmanager.yml",
            "kubectl apply{place} -f {out}/kubernetes/alertmanager-config.yaml",
        ),
    ),
    "dashboards": Exported(placed_dashboards, ("kubectl apply{place} -k {out}/dashboards",)),
    "chart": Exported(
        chart_files,
        (
            "helm lint {out}",
            "helm upgrade --install llm-phase-sidecar {out}{place}",
            f"{_LOADS_RULES}{{out}}/files",
        ),
    ),
    "kubernetes": Exported(
        kubernetes_files,
        (
            "kubectl apply{place} -k {out}/deploy/base",
            "kubectl apply{place} -k {out}/deploy/monitoring",
            "kubectl apply{place} -k {out}/deploy/alertmanager",
        ),
    ),
    "all": Exported(
        all_files,
        (
            _CHECK_RULES.format("{out}/alert_rules"),
            "amtool check-config {out}/alert_rules/alertmanager.yml",
            f"{_LOADS_RULES}{{out}}/alert_rules",
            "kubectl apply{place} -k {out}/deploy/monitoring",
            "kubectl apply{place} -k {out}/deploy/alertmanager",
        ),
    ),
}

_WITH_RULES = ("rules", "chart", "kubernetes", "all")


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    try:
        known = export_parser(tuple(EXPORTED)).parse_args(list(argv))
    except SystemExit as stop:  # help: 0; a wrong flag: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    given = read_parameters(known)
    if wrong := [*errors(given), *_not_for_kubernetes(known, given)]:
        return _refused(wrong)
    try:
        texts = EXPORTED[known.what].texts(given)
        other = _with_other_content(known.out, texts)
    except (NothingShippedError, UnmatchedError) as error:  # a package that was built wrongly
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}")
    if other and not known.force:
        return _refused([f"{path} is there, with other content; --force overwrites it" for path in other])
    try:
        _write(known.out, texts)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}")
    _say(known, given, texts)
    return OK


def _with_other_content(out: Path, texts: Mapping[str, str]) -> list[Path]:
    """Files that are there and differ: changed since they were written, or another project's."""
    paths = {out / name: text for name, text in texts.items()}
    return [path for path, text in paths.items() if path.exists() and path.read_text(errors="replace") != text]


def _write(out: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _say(known: argparse.Namespace, given: Parameters, texts: Mapping[str, str]) -> None:
    place = f" -n {given.namespace or 'NAMESPACE'}"
    lines = [str(known.out / name) for name in texts]
    if known.what in _WITH_RULES:
        costs = told(given.evaluated_by, given.interval_seconds, keep_firing=given.keeps_firing)
        lines += ["", *(line for cost in costs for line in folded(cost, width(), rest="  "))] if costs else []
    lines += ["", "next, to check them and to bring them in:"]
    for step in _steps(EXPORTED[known.what].next_steps, given.evaluated_by):
        words = [word.format(out=quote(str(known.out)), place=place) for word in step.split()]
        lines += folded_command(words, width(), "  ")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _steps(steps: Sequence[str], ruler: Ruler) -> Iterator[str]:
    for step in steps:
        folder = step.removeprefix(_LOADS_RULES)
        if folder == step:
            yield step
        # Beside manifests an object comes with the kustomization or the chart.
        elif folder == "{out}" or not ruler.reads_objects:
            yield from (load.replace("{rules}", folder) for load in ruler.load)


def _not_for_kubernetes(known: argparse.Namespace, given: Parameters) -> list[str]:
    if known.what != "kubernetes" or given.ruler not in RULERS or given.evaluated_by.reads_objects:
        return []
    return [
        f"--ruler: {given.evaluated_by.title} reads no object of Kubernetes: write `rules` or `all`, which have the rules as files"
    ]


def _refused(lines: Sequence[str]) -> int:
    end = "nothing is written; `sidecar export --help` explains every flag"
    sys.stderr.write(errors_text(f"sidecar export: {line}" for line in [*lines, end]))
    return MISUSED


def _failed(line: str) -> int:
    sys.stderr.write(errors_text([f"sidecar export: {line}"]))
    return FAILED
