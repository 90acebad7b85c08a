"""`python -m bench.engine_page`: what `sidecar diagnose --prometheus.url` says where no sidecar runs, by the engine's page alone.

It plays drawn shapes of the incident bench (`incidents/shapes.py`), writes what the page of vLLM or SGLang would have of each run, asks the
command's own queries of promtool, and compares the phase that the diagnosis names with the phase of the injected fault (S2 of
`incidents/truth.py`). The question is asked ASKED_SECONDS after the first lane burned, over the five minutes before it, of all pods as one
job; runs in which no lane burns ask nothing. It says how often the answer is right, wrong, or none, and of which phases.

It knows the two pages. It refuses to know how a diagnosis is made. Gaps between the tokens of a request are all its mean, which hides a stall.
"""

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from multiprocessing import Pool

from bench.checkout import commit
from bench.incidents.job import Played, played
from bench.incidents.prometheus import ask
from bench.incidents.request import Request, Run
from bench.incidents.samples import Column, Labels, Samples
from bench.score import SHAPES, todo
from sidecar.commands.simulator.vllm_metrics import FIRST_TOKEN, LATENCY, VLLM_INTER_TOKEN_EDGES
from sidecar.diagnosis import engine_series, promql
from sidecar.diagnosis.findings import Outcome
from sidecar.diagnosis.promql import Fleet
from sidecar.diagnosis.tree import contained
from sidecar.engines.probe.state_names import Count, PageTime, StateNames
from sidecar.metrics.registry import Metrics


ASKED_SECONDS, WINDOW_SECONDS, STEP_SECONDS = 240.0, 300.0, 15.0
SCRAPES = round(WINDOW_SECONDS / STEP_SECONDS) + 2
TOLD_BY_ENGINES = frozenset({"queue", "prefill", "first_token", "decode"})
"""Phases that an engine's page can show. A hop, a client and the sidecar are behind it, and an engine that is down has no page."""
_WHOLE = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
PAGES: Mapping[str, Mapping[PageTime | str, Sequence[float]]] = {
    "vllm": {
        **dict.fromkeys((PageTime.QUEUE, PageTime.PREFILL, PageTime.WHOLE), LATENCY),
        PageTime.FIRST_TOKEN: FIRST_TOKEN,
        "pace": VLLM_INTER_TOKEN_EDGES,
    },
    "sglang": {
        PageTime.FIRST_TOKEN: _WHOLE,
        PageTime.WHOLE: (*_WHOLE, 600, 1200, 1800, 2400),
        PageTime.QUEUE: (0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, *range(20, 101, 10), 200),
        "pace": (
            *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1),
            *(0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
        ),
    },
}
"""The edges of each histogram: vLLM's as in `sidecar demo`, SGLang's of srt/observability/metrics_collector.py at 016d8605."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one run by the page of one engine."""

    page: str
    shape: str
    phases: frozenset[str]
    """The phases of the injected fault."""
    said: str
    """A phase, or why none is named."""

    @property
    def grade(self) -> str:
        if self.said in self.phases:
            return "right"
        return "none" if self.said in (*Outcome, "unattributed") else "wrong"


def answers(job_of: tuple[str, int]) -> list[Answer]:
    """The answers for shape `number` of a draw; none if no lane burned."""
    draw, number = job_of
    (job,) = todo(draw, number + 1)[number:]
    play = played(job)
    burned = [lane.burns_at for lane in play.truth.lanes.values() if lane.must_page and lane.burns_at is not None]
    if not burned:
        return []
    phases = frozenset[str]().union(*(lane.phases for lane in play.truth.lanes.values()))
    at = STEP_SECONDS * round(min(min(burned) + ASKED_SECONDS, play.run.ends_at - STEP_SECONDS) / STEP_SECONDS)
    return [Answer(kind.name, job.kind, phases, said(play, kind.name, at)) for kind, _ in engine_series.kinds()]


def said(play: Played, page: str, at: float) -> str:
    """The phase that the command names for this run at this instant, or why it names none."""
    kind, names = next((kind, names) for kind, names in engine_series.kinds() if kind.name == page)
    pods = [written(play.run, pod, names, PAGES[page], at) for pod in range(play.run.pods)]
    for one in engine_series.measured(kind, answered(pods, names), None, WINDOW_SECONDS):
        found = contained(one)
        return str(found.outcome if found.phase is None else found.phase)
    return str(Outcome.REFUSED)


def answered(pods: Sequence[Samples], names: StateNames) -> dict[str, promql.Samples]:
    """The answers to the command's queries at the last scrape."""
    queries = engine_series.queries(names, Fleet(), None, WINDOW_SECONDS)
    got = ask(pods, {name: (query, STEP_SECONDS * (SCRAPES - 1)) for name, query in queries.items()}, ())
    return {name: [(dict(labels), value) for labels, value in found] for name, found in got.items()}


# --- the page ------------------------------------------------------------------------------------------------------------


def written(
    run: Run, pod: int, names: StateNames, edges: Mapping[PageTime | str, Sequence[float]], at: float
) -> Samples:
    """The scrapes of one pod's engine, from a little before the window until `at`."""
    of = run.of_pod(pod)
    page = _Page(of, pod, [at - STEP_SECONDS * back for back in range(SCRAPES - 1, -1, -1)])
    gauges = ((names.waiting, "waiting"), (names.running, "running"), (names.kv_cache_usage, "kv_usage"))
    for gauge, field in gauges:
        if gauge is not None:
            page.shows(gauge.name, field)
    for count, field in _COUNTED.items():
        for name in names.counts.get(count, ()):
            page.shows(name.name, field)
    for time, told in _observed(of.requests).items():
        histogram = names.times.get(time) if isinstance(time, PageTime) else names.paces[0]
        if histogram is not None:
            page.observes(histogram, edges[time], told)
    return page.samples


_COUNTED = {
    Count.PREEMPTIONS: "preemptions",
    Count.PREFIX_CACHE_QUERIES: "prefix_queries",
    Count.PREFIX_CACHE_HITS: "prefix_hits",
}


class _Page:
    """The page of one engine at each scrape; while it is down there is none."""

    def __init__(self, run: Run, pod: int, scrapes: Sequence[float]) -> None:
        self.samples = Samples(Metrics(lanes=[], prompt_buckets=[], models=[]), frozenset(), STEP_SECONDS, pod=pod)
        instants = [state.at for state in run.states]
        self._states = [run.states[max(0, bisect_right(instants, each) - 1)] for each in scrapes]
        born = {state.process: state.at for state in reversed(run.states)}
        self._spans = [(born[state.process], each) for state, each in zip(self._states, scrapes, strict=True)]
        for _ in scrapes:
            self.samples.take()

    def shows(self, name: str, field: str) -> None:
        """A gauge or a counter that the engine's state has under this name."""
        self._add(name, (), [getattr(state, field) for state in self._states])

    def observes(self, name: str, edges: Sequence[float], told: Sequence[tuple[float, float]]) -> None:
        """Buckets and count: the observations since the process began that runs at the scrape. `told`: instant and seconds of each."""
        for edge in (*edges, inf):
            instants = sorted(instant for instant, seconds in told if seconds <= edge)
            values = [bisect_right(instants, until) - bisect_left(instants, since) for since, until in self._spans]
            self._add(f"{name}_bucket", (("le", "+Inf" if edge == inf else repr(float(edge))),), values)
        self._add(f"{name}_count", (), values)

    def _add(self, name: str, labels: Labels, values: Sequence[float]) -> None:
        column: Column = [value if state.up else None for state, value in zip(self._states, values, strict=True)]
        self.samples.columns[name, labels] = column


def _observed(requests: Sequence[Request]) -> dict[PageTime | str, list[tuple[float, float]]]:
    """Histogram to (instant, seconds) of each observation. Times of whole requests come at the end, as engines write them."""
    found: dict[PageTime | str, list[tuple[float, float]]] = {
        time: [] for time in (PageTime.FIRST_TOKEN, PageTime.QUEUE, PageTime.PREFILL, PageTime.WHOLE, "pace")
    }
    for request in requests:
        phases = request.phases
        if phases is None:
            continue
        ttft = phases.front_end + phases.queue + phases.prefill
        first_at = request.received_at + ttft
        found[PageTime.FIRST_TOKEN].append((first_at, ttft))
        gaps = request.output_tokens - 1
        if gaps > 0:
            each = phases.decode / gaps
            found["pace"] += [(first_at + each * number, each) for number in range(1, gaps + 1)]
        if request.ended_at is not None:
            end = first_at + phases.decode
            found[PageTime.QUEUE].append((end, phases.queue))
            found[PageTime.PREFILL].append((end, phases.prefill))
            found[PageTime.WHOLE].append((end, ttft + phases.decode))
    return found


# --- what is told --------------------------------------------------------------------------------------------------------


def page(found: Sequence[Answer]) -> str:
    """The shares by engine, of the phases that engines can tell and of the others, then each answer."""
    lines = []
    for engine in PAGES:
        of = [each for each in found if each.page == engine]
        for title, told in (("a phase of the engine", True), ("a phase behind or of no engine's page", False)):
            chosen = [each for each in of if bool(each.phases & TOLD_BY_ENGINES) is told]
            grades = Counter(each.grade for each in chosen)
            shares = ", ".join(f"{grades[grade]} {grade}" for grade in ("right", "wrong", "none"))
            lines.append(f"{engine}, {title} broke: {shares}, of {len(chosen)} runs")
        for phase in sorted({phase for each in of for phase in each.phases}):
            chosen = [each for each in of if phase in each.phases]
            lines.append(f"  {phase}: {Counter(each.said for each in chosen).most_common()}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.engine_page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", help="text that draws shapes and engines (default: the commit's hash)")
    parser.add_argument("--shapes", type=int, default=SHAPES, help=f"number of shapes (default: {SHAPES})")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    asked = parser.parse_args()
    draw = (asked.draw or commit()).replace("-", "_")
    found: list[Answer] = []
    with Pool(asked.jobs) as pool:
        for some in pool.imap_unordered(answers, [(draw, asked.first + number) for number in range(asked.shapes)]):
            found += some
            print(
                *(f"{each.page}: {each.shape} {sorted(each.phases)} {each.said}" for each in some), sep="\n", flush=True
            )
    print(f'\n{page(found)}\n{asked.shapes} shapes of "{draw}"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
