"""One incident as a Prometheus would have scraped and recorded it, kept in a file: played once, because playing takes minutes.

    python -m tests.drawn.recording [NAME...]

writes `recorded/NAME.json.xz` anew: the series that dashboards and rules read, and those that the rules record, as promtool evaluates
the shipped files. Do it after a metric, a rule or an incident has changed. Knows the file's form; refuses to know Grafana.
"""

import hashlib
import json
import lzma
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.incidents.grade import pod_name as bench_pod_name
from bench.incidents.product import sampled
from bench.incidents.prometheus import Question, ask, names_in
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from sidecar.engines.kinds import KINDS
from tests.alert_rules.syntax import rules as shipped_rules
from tests.drawn.incidents import INCIDENTS, LOOK_AFTER_SECONDS, PODS, played, pod_name
from tests.grafana.boards import UIDS, board, targets


RECORDED = Path(__file__).parent / "recorded"
STEP_SECONDS = 15
_NAME = re.compile(r"(?<![\w:])(?:llm_\w+|process_\w+)")
_RULE = re.compile(r"(?<![\w:])(?:lane|pod):[\w:]+")
VERSIONS = ("v2", "v1")
"""`app_version` of the pods; the first, which every incident hits, is the newer."""
STARTED = "process_start_time_seconds"
OLDER_BY_SECONDS = 60.0
"""The pods of the older version started so long before the recording, and the others with it."""

Series = tuple[str, dict[str, str], list[float | None]]
"""Name, labels, and a value for each step; None where there is none."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One incident as Prometheus saw it. Instants are seconds from the first step."""

    fault_at: float
    looked_at: float
    series: list[Series]
    rules: str
    """Digest of the rules that were evaluated."""


def digest() -> str:
    """SHA-256, in hexadecimal, of all that the shipped rules ask and when. Their texts for readers are left out."""
    asked = [{name: value for name, value in rule.fields.items() if name != "annotations"} for rule in shipped_rules()]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _queries() -> str:
    dashboards = [board(uid) for uid in UIDS]
    return " ".join(
        [
            *(target["expr"] for one in dashboards for _, target in targets(one)),
            *(variable.get("definition", "") for one in dashboards for variable in one["templating"]["list"]),
            *(annotation["expr"] for annotation in dashboards[0]["annotations"]["list"]),
        ]
    )


def record(name: str) -> Recording:
    """Play one incident. Takes a minute or two."""
    engine, run = played(name)
    asked = _queries()
    samples = sampled(engine, run, Mode.REPORTS, names_in() | frozenset(_NAME.findall(asked)))
    for each in samples:
        _add_what_stands_still(each)
    count = int((run.fault_at + LOOK_AFTER_SECONDS) // STEP_SECONDS)
    rules = [*dict.fromkeys(_RULE.findall(asked)), "ALERTS"]
    questions: dict[tuple[str, int], Question] = {
        (rule, step): (rule, float(step * STEP_SECONDS)) for rule in rules for step in range(count)
    }
    answers = ask(samples, questions)
    made: dict[tuple[str, tuple[tuple[str, str], ...]], list[float | None]] = {}
    for (rule, step), answer in answers.items():
        for labels, value in answer:
            own_labels = tuple(pair for pair in labels if pair[0] != "__name__")
            made.setdefault((rule, own_labels), [None] * count)[step] = value
    own = [one for number, each in enumerate(samples) for one in _own(each, number, count)]
    recorded = [(rule, _renamed(dict(labels)), column) for (rule, labels), column in made.items()]
    return Recording(run.fault_at, run.fault_at + LOOK_AFTER_SECONDS, [*own, *recorded], digest())


def _renamed(labels: dict[str, str]) -> dict[str, str]:
    """The bench's pods, by the names that are drawn."""
    if "pod" not in labels:
        return labels
    names = {bench_pod_name(number): pod_name(number) for number in range(PODS)}
    return labels | {"pod": names[labels["pod"]]}


def _add_what_stands_still(samples: Samples) -> None:
    """Series that the bench's process lacks: its engine's version, and that all is as it should be."""
    kind = next(iter(KINDS))
    samples.add_constant("llm_engine_info", {"engine": kind, "version": "1.0"}, 1.0)
    samples.add_constant("llm_sidecar_ready", {}, 1.0)
    samples.add_constant("llm_sidecar_draining", {}, 0.0)
    samples.add_constant("llm_sidecar_config_last_reload_successful", {}, 1.0)


def _own(samples: Samples, number: int, count: int) -> Iterator[Series]:
    target = {"namespace": "serving", "pod": pod_name(number), "job": "llm-phase-sidecar"}
    target |= {"instance": f"{pod_name(number)}:9901", "app_version": VERSIONS[number % len(VERSIONS)]}
    older = target["app_version"] != VERSIONS[0]
    for (name, labels), column in samples.columns.items():
        values = [*column, *[None] * (count - len(column))][:count]
        if name == STARTED and older:
            values = [None if value is None else value - OLDER_BY_SECONDS for value in values]
        yield name, target | dict(labels), values


def keep(recording: Recording, path: Path) -> None:
    """Write it, packed: a value that repeats the one before is a count."""
    series = [(name, labels, _packed(column)) for name, labels, column in recording.series]
    said = {"fault_at": recording.fault_at, "looked_at": recording.looked_at, "rules": recording.rules}
    text = json.dumps(said | {"series": series})
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def kept(path: Path) -> Recording:
    """Read it again."""
    said = json.loads(lzma.decompress(path.read_bytes()))
    series = [(name, labels, _unpacked(column)) for name, labels, column in said["series"]]
    return Recording(said["fault_at"], said["looked_at"], series, said["rules"])


def _packed(column: Iterable[float | None]) -> list[list[float | int | None]]:
    runs: list[list[float | int | None]] = []
    for value in column:
        rounded = None if value is None else float(f"{value:.9g}")
        if runs and runs[-1][0] == rounded:
            runs[-1][1] += 1  # type: ignore[operator]
        else:
            runs.append([rounded, 1])
    return runs


def _unpacked(runs: Iterable[tuple[float | None, int]]) -> list[float | None]:
    return [value for value, times in runs for _ in range(times)]


def main(names: list[str]) -> None:
    """Record these incidents, or all."""
    RECORDED.mkdir(exist_ok=True)
    for name in names or INCIDENTS:
        path = RECORDED / f"{name}.json.xz"
        keep(record(name), path)
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
