"""Seconds that the Fleet dashboard's queries take on a real Prometheus, for many pods and lanes, with the rules for pictures and without.

Each series that a query of the dashboard reads is made for every pod, hours of it, and written through Prometheus' remote-write
receiver, with what `llm-dashboards.yml` would have recorded of it beside. All variables, panels and annotations are asked as Grafana
asks them: its step, its rate interval, six queries at a time, everything once before the clock runs. Without the rules means that the
names of recorded series are unknown. A second server then evaluates the file itself, on minutes of every series that it reads,
buckets included, one group after the other: the seconds of all groups together. As the usual pod has it, prompts of a lane fall into two of the buckets of
lengths, answers are streamed, and a phase has one source. It refuses to know whether the answers are right: tests are for that.
Histograms are classic ones, or native ones with `--native`. The server is the installed one, or a 3.x with `--newer` (`.ci/prometheus3`).
Run: `.venv/bin/python -m bench.query_time`; `--pods 64`, `--lanes 10`, `--hours 6`, `--rounds 3`, `--native`, `--newer`.
"""

import argparse
import re
import struct
import sys
import tempfile
import time
from collections import Counter as Counted
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import promql_parser as promql

from bench.machine import named
from bench.remote_write import (
    EVALUATE_SECONDS,
    SCRAPE_SECONDS,
    Durations,
    durations,
    encoded,
    evaluate_alone,
    field,
    prometheus,
    sample,
    send,
    varint,
)
from sidecar.commands.export.rules.dashboard_rules import GROUPS, MARK, RECORDED
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Counter, Histogram, Info, Label, Metric
from tests.alert_rules.syntax import FOLDER
from tests.drawn.asking import Look, filled_in, variables_of
from tests.grafana.boards import Json, board, panels, query_variables, switch, targets, with_durations
from tests.grafana.series import selectors


DASHBOARD = "llm-fleet"
LENGTHS = ("0-512", "512-4k")
"""The prompt buckets that the prompts of a usual lane fall into."""
AT_ONCE = 6
"""Grafana's queries at a time: a browser opens so many connections to one host."""
SCREEN_PIXELS, GRID_COLUMNS = 1584, 24
ROUND_STEPS = ((12.5, 10), (17.5, 15), (25.0, 20), (45.0, 30), (90.0, 60), (210.0, 120), (450.0, 300))
"""Grafana rounds seconds below the first number to the second."""
QUERIES_BOUND_SECONDS, FILE_BOUND_SECONDS = 2.0, 1.0
"""For 64 pods of 10 lanes and 6 hours, on two idle cores."""
WINDOW_SAMPLES, SERIES_AT_ONCE = 120, 2_000
"""Samples that go into one message for each series: half an hour, because Prometheus takes nothing older than its last hour."""
RECORDED_EVERY = 4
"""Scrapes in an interval of the rules whose series tables read: a minute."""
RULES_HISTORY_SAMPLES, EVALUATIONS, FIRST_WITHIN_SECONDS = 24, 5, 60.0
GROWTH = 0.5
"""A second's growth of everything that is counted; of a native histogram, of each of its buckets."""
NATIVE_SCHEMA, NATIVE_BUCKETS = 5, 48
"""Resolution of a native histogram, and its buckets that are not empty: 2 ** (1 / 32) apart, so samples within a factor of 2.8."""
DEAREST = 8
_KNOWN = {f"{metric.name}{suffix}": metric for metric in CATALOGUE for suffix in ("", "_bucket", "_sum", "_count")}


class Made(NamedTuple):
    """One series: its labels as a message has them, and its growth a second. A gauge stands still at `level`."""

    labels: bytes
    growth: float
    level: float = 0.0
    native: bool = False
    """A histogram; its growth is that of each bucket."""


# --- what is written -------------------------------------------------------------------------------------------------------


def names_read(expr: str) -> set[str]:
    """The series that an expression reads."""
    return {one.name or "" for one in selectors(promql.parse(with_durations(expr)))}


def children(metric: Metric, lanes: int) -> Iterator[dict[str, str]]:
    """The labels of the children that a usual pod has."""
    joined = len(metric.together[0]) if metric.together else 0
    at = len(metric.labels) - joined
    seen = set()
    one = isinstance(metric, Info)
    for free in product(*(_values(label, lanes)[: 1 if one else None] for label in metric.labels[:at])):
        for last in metric.together or ((),):
            own = {label.name: str(value) for label, value in zip(metric.labels, (*free, *last), strict=True)}
            kept = tuple(value for name, value in own.items() if name != "source")
            if own.get("streaming") != "false" and kept not in seen:
                seen.add(kept)
                yield own


def _values(label: Label, lanes: int) -> tuple[str, ...]:
    if label.name == "lane":
        return tuple(f"lane-{number}" for number in range(lanes))
    return {"prompt_bucket": LENGTHS, "model": ("llama",)}.get(label.name, tuple(map(str, label.values)) or ("told",))


def target(pod: int) -> dict[str, str]:
    """The labels that a scrape adds."""
    return {"namespace": "bench", "job": "llm", "pod": f"llm-{pod}", "instance": f"10.0.0.{pod}:9901"}


def raw(names: set[str], pods: int, lanes: int, *, native: bool = False) -> Iterator[Made]:
    """Every series of these names that such pods have. `native`: the form of their histograms."""
    for name in sorted(names & set(_KNOWN)):
        if name.startswith("llm_kv_transfer"):
            continue  # only disaggregated engines have it
        metric = _KNOWN[name]
        if isinstance(metric, Histogram) and (name == metric.name) is not native:
            continue
        for pod, own in product(range(pods), children(metric, lanes)):
            labels = {"__name__": name, **target(pod), **own}
            if not isinstance(metric, Histogram):
                counted = isinstance(metric, Counter)
                yield Made(encoded(labels), GROWTH if counted else 0.0, 0.0 if counted else 0.5)
            elif native:
                yield Made(encoded(labels), GROWTH, native=True)
            elif name.endswith("_bucket"):
                edges = (*metric.buckets, float("inf"))
                for number, edge in enumerate(edges, 1):
                    yield Made(encoded({**labels, "le": _edge(edge)}), GROWTH * number / len(edges))
            else:
                yield Made(encoded(labels), GROWTH)


def _edge(edge: float) -> str:
    return "+Inf" if edge == float("inf") else str(edge)


def recorded(names: set[str], pods: int, lanes: int) -> Iterator[Made]:
    """The series that the rules would have recorded under these names. Tables of pods read sums over one process, and the mark, alone.

    Raises KeyError for a series of another kind: then this bench does not know its values.
    """
    for name in sorted(names & RECORDED):
        if name == MARK:
            for rule in (one for group in GROUPS for one in group.rules if one.name == MARK):
                yield Made(
                    encoded({"__name__": name, "namespace": "bench", "job": "llm", **rule.labels}), 0.0, float(pods)
                )
            continue
        part = name.removeprefix("instance:").removesuffix(":sum")
        kept = Counted(
            tuple((label, value) for label, value in own.items() if label != "prompt_bucket")
            for own in children(_KNOWN[part], lanes)
        )
        for pod, (own, lengths) in product(range(pods), kept.items()):
            yield Made(encoded({"__name__": name, **target(pod), **dict(own)}), GROWTH * lengths)


def write(url: str, some: list[Made], steps: range, began_ms: int) -> None:
    """The samples of these steps, one message after another."""
    blobs: dict[tuple[float, float, bool], bytes] = {}
    for at in range(0, len(some), SERIES_AT_ONCE):
        body = bytearray()
        for labels, growth, level, native in some[at : at + SERIES_AT_ONCE]:
            if (blob := blobs.get((growth, level, native))) is None:
                apart, one = SCRAPE_SECONDS * 1000, histogram if native else sample
                blob = b"".join(one(level + growth * step * SCRAPE_SECONDS, began_ms + step * apart) for step in steps)
                blobs[growth, level, native] = blob
            body += field(1, labels + blob)
        send(url, bytes(body))


def histogram(value: float, at_ms: int, first: int = 0) -> bytes:
    """One native histogram of a TimeSeries message, with so many samples in each bucket (`prompb.Histogram` of Prometheus 2.42).

    `first`: the number of the lowest bucket, 0 or more; 0 ends at 1.
    """
    many = round(value)
    span = field(11, b"\x08" + varint(first << 1) + b"\x10" + varint(NATIVE_BUCKETS))
    # Zigzag: the first bucket's count, then the differences, which are 0.
    deltas = varint(many << 1) + bytes(NATIVE_BUCKETS - 1)
    count, total = varint(many * NATIVE_BUCKETS), struct.pack("<d", 2.0 * many * NATIVE_BUCKETS)
    return field(
        4,
        b"\x08" + count + b"\x19" + total + b"\x20" + varint(NATIVE_SCHEMA << 1) + b"\x30\x00"
        + span + field(12, deltas) + b"\x78" + varint(at_ms),
    )  # fmt: skip


# --- what is asked ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """Seconds of one load of the dashboard. `parts`: of each panel's query, by its title and letter; infinite where no answer came within a minute."""

    variables: float
    queries: float
    parts: Mapping[str, float]

    @property
    def together(self) -> float:
        """Variables come first, one after another, because each needs the one before."""
        return self.variables + self.queries


def step_of(span_seconds: float, width: int) -> int:
    """Seconds between two points of a panel, as Grafana rounds them; at least a scrape."""
    wanted = span_seconds * GRID_COLUMNS / SCREEN_PIXELS / width
    rounded = next((step for below, step in ROUND_STEPS if wanted < below), 600)
    return max(SCRAPE_SECONDS, rounded)


def without_recorded(expr: str) -> str:
    """The expression where the rules are not loaded: nothing has the names of what they record."""
    return re.sub(
        "|".join(map(re.escape, sorted(RECORDED, key=len, reverse=True))), lambda name: f"{name[0]}_absent", expr
    )


def loaded(url: str, dashboard: Json, began_at: int, ended_at: int) -> Asked:
    """Everything asked once, as a browser that opens the dashboard does."""
    look = Look(url, began_at, ended_at)
    before = time.perf_counter()
    _, chosen = variables_of(dashboard, look)
    variables = time.perf_counter() - before
    jobs = []
    for panel, one in targets(dashboard):
        step = step_of(ended_at - began_at, panel["gridPos"]["w"])
        jobs.append((f"{panel['title']} {one['refId']}", one["expr"], step, bool(one.get("instant"))))
    jobs += [(one["name"], one["expr"], 30, False) for one in dashboard["annotations"]["list"]]

    def timed(job: tuple[str, str, int, bool]) -> tuple[str, float]:
        name, expr, step, instant = job
        text = filled_in(expr, look, chosen)
        began = time.perf_counter()
        try:
            if instant:
                look.ask("query", query=text, time=ended_at)
            else:
                look.ask("query_range", query=text, start=began_at, end=ended_at, step=step)
        except TimeoutError:  # a browser has given up by then, and the other queries still count
            return name, float("inf")
        return name, time.perf_counter() - began

    before = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = dict(pool.map(timed, jobs))
    return Asked(variables, time.perf_counter() - before, parts)


def texts_of(dashboard: Json) -> list[str]:
    """All PromQL of the dashboard: panels, variables, annotations."""
    asked = [one["expr"] for one in (*(target for _, target in targets(dashboard)), *dashboard["annotations"]["list"])]
    series = [re.findall(r"llm_\w+", variable["definition"])[0] for variable in query_variables(dashboard)]
    return [*asked, *series, *(query for _, query, _ in switch(dashboard))]


def queries_measured(
    pods: int, lanes: int, hours: float, rounds: int, *, native: bool = False, newer: bool = False
) -> tuple[dict[str, list[Asked]], int]:
    """Loads with the rules and without, the first of each not counted, and the number of series."""
    dashboard = board(DASHBOARD)
    bare = board(DASHBOARD)
    for panel in panels(bare):
        for one in panel["targets"]:
            one["expr"] = without_recorded(one["expr"])
    for variable in bare["templating"]["list"]:
        if isinstance(variable.get("query"), dict):
            variable["query"]["query"] = without_recorded(variable["query"]["query"])
    names = {name for text in texts_of(dashboard) for name in names_read(text)}
    scraped, stored = list(raw(names, pods, lanes, native=native)), list(recorded(names, pods, lanes))
    samples = round(hours * 3600 / SCRAPE_SECONDS) + 2
    found: dict[str, list[Asked]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder, prometheus(Path(folder), (), newer=newer) as url:
        now_at = int(datetime.now(UTC).timestamp()) // SCRAPE_SECONDS * SCRAPE_SECONDS  # noqa: TID251  samples carry the time of day
        began_at = now_at - samples * SCRAPE_SECONDS
        for at in range(0, samples + 1, WINDOW_SAMPLES):
            ended = min(at + WINDOW_SAMPLES, samples + 1)
            write(url, scraped, range(at, ended), began_at * 1000)
            write(url, stored, range(at, ended, RECORDED_EVERY), began_at * 1000)
        ask = {
            "with": partial(loaded, url, dashboard, now_at - round(hours * 3600), now_at),
            "without": partial(loaded, url, bare, now_at - round(hours * 3600), now_at),
        }
        for number in range(rounds + 1):
            for kind, load in ask.items():
                one = load()
                if number:
                    found[kind].append(one)
    return found, len(scraped) + len(stored)


def evaluation_measured(
    pods: int, lanes: int, *, native: bool = False, newer: bool = False
) -> tuple[dict[str, float], dict[str, float], int]:
    """Median seconds of each group and of each rule of the file, and the number of series that it reads.

    One group after the other: with a minute between two evaluations they seldom meet, and here they would wait for each other.
    """
    names = {name for group in GROUPS for rule in group.rules for name in names_read(rule.expr)}
    some = list(raw(names, pods, lanes, native=native))
    groups: dict[str, float] = {}
    rules: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, prometheus(Path(name), (), newer=newer) as url:
        now_ms = int(datetime.now(UTC).timestamp()) * 1000  # noqa: TID251  as above
        # Also the minutes to come, so that nothing is written while rules are evaluated.
        ahead = 32
        write(url, some, range(RULES_HISTORY_SAMPLES + ahead), now_ms - RULES_HISTORY_SAMPLES * SCRAPE_SECONDS * 1000)
        for group in read_yaml((FOLDER / DASHBOARD_RULES).read_text())["groups"]:
            evaluate_alone(url, Path(name), group)
            found = evaluations(url, group["name"])
            groups[group["name"]] = median(one.groups[group["name"]] for one in found)
            rules |= {rule: median(one.rules[rule] for one in found) for rule in found[0].rules}
    return groups, rules, len(some)


def evaluations(url: str, group: str) -> list[Durations]:
    """EVALUATIONS of the group that is loaded alone, without the first. Raises TimeoutError after FIRST_WITHIN_SECONDS without one."""
    ends_at = time.monotonic() + FIRST_WITHIN_SECONDS
    while not durations(url).groups.get(group):
        if time.monotonic() > ends_at:
            raise TimeoutError(f"group {group} was not evaluated within {FIRST_WITHIN_SECONDS:g} s")
        time.sleep(1)
    found = []
    for _ in range(EVALUATIONS):
        time.sleep(2 * EVALUATE_SECONDS)  # an evaluation and more
        found.append(durations(url))
    return found


# --- what is told ----------------------------------------------------------------------------------------------------------


def main() -> None:
    """Print the medians of the dearest queries and rules and of their sums; exit 1 if a sum is above its bound."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.query_time",
        description="Seconds of all queries of the Fleet dashboard, with llm-dashboards.yml and without, and of one evaluation of the"
        " file, on a real Prometheus. Exit code 1: the queries with the file, or its evaluation, take longer than their bound. A query is `inf` if no answer came within a minute.",
    )
    parser.add_argument("--pods", type=int, default=64, help="pods (default %(default)s)")
    parser.add_argument("--lanes", type=int, default=10, help="lanes of each pod (default %(default)s)")
    parser.add_argument("--hours", type=float, default=6.0, help="the time shown, in hours (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="loads whose median counts (default %(default)s)")
    parser.add_argument("--native", action="store_true", help="native histograms; without it they are classic ones")
    parser.add_argument("--newer", action="store_true", help="ask the Prometheus 3.x of .ci/prometheus3")
    given = parser.parse_args()
    forms = {"native": given.native, "newer": given.newer}
    groups, rules, read = evaluation_measured(given.pods, given.lanes, **forms)
    lines = [
        named(),
        f"{'native' if given.native else 'classic'} histograms, Prometheus {'3.x' if given.newer else 'as installed'}, {given.pods} pods x {given.lanes} lanes; seconds",
        f"{read} series that {DASHBOARD_RULES} reads (median of {EVALUATIONS} evaluations)",
        *(f"{rules[name]:.3f}  {name}" for name in sorted(rules, key=rules.__getitem__, reverse=True)[:DEAREST]),
        *(f"{seconds:.3f}  group {name}" for name, seconds in groups.items()),
        f"{sum(groups.values()):.3f}  one evaluation of the file; the bound is {FILE_BOUND_SECONDS:g}",
    ]
    print("\n".join(lines), flush=True)
    found, many = queries_measured(given.pods, given.lanes, given.hours, given.rounds, **forms)
    together = {kind: median(one.together for one in loads) for kind, loads in found.items()}
    lines = [f"{many} series of the dashboard, {given.hours:g} h (median of {given.rounds} loads)"]
    for kind, loads in found.items():
        parts = {name: median(one.parts[name] for one in loads) for name in loads[0].parts}
        lines += [f"{parts[name]:.3f}  {name}" for name in sorted(parts, key=parts.__getitem__, reverse=True)[:DEAREST]]
        lines.append(f"{median(one.variables for one in loads):.3f}  the variables")
        bound = f"; the bound is {QUERIES_BOUND_SECONDS:g}" if kind == "with" else ""
        lines.append(f"{together[kind]:.3f}  all queries {kind} {DASHBOARD_RULES}{bound}")
    print("\n".join(lines))
    sys.exit(together["with"] > QUERIES_BOUND_SECONDS or sum(groups.values()) > FILE_BOUND_SECONDS)


if __name__ == "__main__":
    main()
