"""`python -m bench.engine_page`: what `sidecar diagnose --prometheus.url` says where no sidecar runs, by the engine's page alone.

It plays drawn shapes of the incident bench (`incidents/shapes.py`) that an engine's page can tell, writes what the page of vLLM or SGLang
would have of each run, asks the command's own queries of promtool, and compares the phase that the diagnosis names with the phase of the
injected fault (S2 of `incidents/truth.py`). The question is asked ASKED_SECONDS after each lane burned that must page, of the page as it was
then, of all pods as one job; runs in which no lane must page ask nothing. An answer is right, wrong, or *not told*: no phase is named.

Forty shapes take some eight minutes on two cores, and give about a hundred questions. What was not looked at while the diagnosis was mended is
another draw: `--draw TEXT`.

It knows the two pages. It refuses to know how a diagnosis is made. The gaps of requests that are not streamed are missing on its pages.
"""

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from itertools import count as numbers
from math import inf
from multiprocessing import Pool

from bench.checkout import commit
from bench.incidents import shapes
from bench.incidents.job import played
from bench.incidents.prometheus import Answer as Answers
from bench.incidents.prometheus import ask
from bench.incidents.request import Request, Run
from bench.incidents.samples import Column, Labels, Samples
from bench.incidents.truth import Truth
from bench.score import todo
from sidecar.commands.simulator.vllm_metrics import FIRST_TOKEN, LATENCY, VLLM_INTER_TOKEN_EDGES
from sidecar.diagnosis import engine_series, promql
from sidecar.diagnosis.findings import Outcome
from sidecar.diagnosis.promql import Fleet
from sidecar.diagnosis.tree import contained
from sidecar.engines.kind import EngineKind
from sidecar.engines.probe.state_names import Count, PageTime, StateNames
from sidecar.metrics.registry import Metrics


ASKED_SECONDS, APART_SECONDS = 240.0, 60.0
WINDOW_SECONDS, STEP_SECONDS = 300.0, 15.0
SLICE = engine_series.slice_seconds({}, WINDOW_SECONDS)
MOST_PODS = 2
SHAPES = 40
NOT_ON_THE_PAGE = frozenset({"hop", "slow-clients", "slow-network", "throttled-sidecar", "errors", "rejections"})
"""Faults that no engine's histograms show: a hop, a client and the sidecar are behind them, and what is refused has no first token."""
_WHOLE = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
PAGES: Mapping[str, Mapping[PageTime | str, Sequence[float]]] = {
    "vllm": {
        **dict.fromkeys((PageTime.QUEUE, PageTime.PREFILL, PageTime.DECODE, PageTime.WHOLE), LATENCY),
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
    at: float
    """Instant of the question, in seconds of the run."""
    phases: frozenset[str]
    """The phases of the injected fault."""
    said: str
    """A phase, or why none is named."""

    @property
    def grade(self) -> str:
        if self.said in self.phases:
            return "right"
        return "not told" if self.said in (*Outcome, "unattributed") else "wrong"


def answers(job_of: tuple[str, int]) -> list[Answer]:
    """The answers for shape `number` of a draw, by each page at each instant; none if no lane burned."""
    draw, number = job_of
    (job,) = todo(draw, number + 1)[number:]
    play = played(job, alone=True)
    return [
        Answer(page, job.kind, at, phases_of(play.truth), said)
        for page in PAGES
        for at, said in told(play.run, page, instants(play.run, play.truth)).items()
    ]


def phases_of(truth: Truth) -> frozenset[str]:
    """The phases of the injected fault."""
    return frozenset[str]().union(*(lane.phases for lane in truth.lanes.values()))


def instants(run: Run, truth: Truth) -> list[float]:
    """The instants of the questions: ASKED_SECONDS after each lane began to burn, at least APART_SECONDS apart, while the fault lasts."""
    found: list[float] = []
    for burned in sorted(
        lane.burns_at for lane in truth.lanes.values() if lane.must_page and lane.burns_at is not None
    ):
        at = SLICE * round((burned + ASKED_SECONDS) / SLICE)
        if at <= run.ends_at - SLICE and (not found or at >= found[-1] + APART_SECONDS):
            found.append(at)
    return found


def told(run: Run, page: str, asked: Sequence[float]) -> dict[float, str]:
    """Instant to the phase that the command names for this run, or why it names none."""
    if not asked:
        return {}
    kind, names = next((kind, names) for kind, names in engine_series.kinds() if kind.name == page)
    pods = [written(run, pod, names, PAGES[page], max(asked)) for pod in range(run.pods)]
    now, past = answered(pods, names, asked)
    return {at: named(kind, now[at], until(past, at)) for at in asked}


def named(kind: EngineKind, now: Mapping[str, promql.Samples], past: Mapping[str, promql.Ranges]) -> str:
    """The phase that the command names by these answers."""
    for one in engine_series.measured(kind, now, None, WINDOW_SECONDS, past):
        found = contained(one)
        return str(found.outcome if found.phase is None else found.phase)
    return str(Outcome.REFUSED)


def answered(
    pods: Sequence[Samples], names: StateNames, asked: Sequence[float]
) -> tuple[dict[float, dict[str, promql.Samples]], dict[str, promql.Ranges]]:
    """The answers to the command's queries: of now at each of these instants, and of the past at the end of each slice until the last."""
    queries = engine_series.queries(names, Fleet(), None, WINDOW_SECONDS)
    slices = engine_series.past_queries(names, Fleet(), None, SLICE)
    ends = [SLICE * number for number in range(1, round(max(asked) / SLICE) + 1)]
    questions = {(False, name, at): (query, at) for name, query in queries.items() for at in asked}
    questions |= {(True, name, at): (query, at) for name, query in slices.items() for at in ends}
    got = ask(pods, questions, ())
    now = {at: {name: _samples(got[False, name, at]) for name in queries} for at in asked}
    return now, {name: _ranges({at: got[True, name, at] for at in ends}) for name in slices}


def _samples(found: Answers) -> promql.Samples:
    return [(dict(labels), value) for labels, value in found]


def _ranges(found: Mapping[float, Answers]) -> promql.Ranges:
    series: dict[Labels, dict[float, float]] = {}
    for at, told in found.items():
        for labels, value in told:
            series.setdefault(tuple(sorted(labels)), {})[at] = value
    return [(dict(labels), values) for labels, values in series.items()]


def until(past: Mapping[str, promql.Ranges], at: float) -> dict[str, promql.Ranges]:
    """The past as it was known at this instant."""
    since = at - engine_series.past_seconds(SLICE)
    return {
        name: [(labels, {each: value for each, value in values.items() if since < each <= at}) for labels, values in of]
        for name, of in past.items()
    }


# --- the page ------------------------------------------------------------------------------------------------------------


def written(
    run: Run, pod: int, names: StateNames, edges: Mapping[PageTime | str, Sequence[float]], at: float
) -> Samples:
    """The scrapes of one pod's engine, from the run's beginning until `at`."""
    of = run.of_pod(pod)
    page = _Page(of, pod, [STEP_SECONDS * number for number in range(round(at / STEP_SECONDS) + 1)])
    gauges = ((names.waiting, "waiting"), (names.running, "running"), (names.kv_cache_usage, "kv_usage"))
    for gauge, field in gauges:
        if gauge is not None:
            page.shows(gauge.name, field)
    for count, field in _COUNTED.items():
        for name in names.counts.get(count, ()):
            page.shows(name.name, field)
    for time, seen in _observed(of.requests, queue_at_end=PageTime.PREFILL in names.times).items():
        histogram = names.times.get(time) if isinstance(time, PageTime) else names.paces[0]
        if histogram is not None:
            page.observes(histogram, edges[time], seen)
    page.is_up()
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

    def is_up(self) -> None:
        """The series that Prometheus adds to each target."""
        self.samples.columns["up", ()] = [float(state.up) for state in self._states]

    def observes(self, name: str, edges: Sequence[float], told: Sequence[tuple[float, float]]) -> None:
        """Buckets, count and sum: the observations since the process began that runs at the scrape. `told`: instant and seconds of each."""
        told = sorted(told)
        whole = [instant for instant, _ in told]
        sums = [0.0, *accumulate(seconds for _, seconds in told)]
        spans = [(bisect_left(whole, since), bisect_right(whole, until)) for since, until in self._spans]
        self._add(f"{name}_sum", (), [sums[last] - sums[first] for first, last in spans])
        self._add(f"{name}_count", (), [last - first for first, last in spans])
        for edge in (*edges, inf):
            up_to = [0, *accumulate(seconds <= edge for _, seconds in told)]
            values = [up_to[last] - up_to[first] for first, last in spans]
            self._add(f"{name}_bucket", (("le", "+Inf" if edge == inf else repr(float(edge))),), values)

    def _add(self, name: str, labels: Labels, values: Sequence[float]) -> None:
        column: Column = [value if state.up else None for state, value in zip(self._states, values, strict=True)]
        self.samples.columns[name, labels] = column


def _observed(requests: Sequence[Request], *, queue_at_end: bool) -> dict[PageTime | str, list[tuple[float, float]]]:
    """Histogram to (instant, seconds) of each observation. vLLM writes the times of a request at its end; SGLang writes its queue when it is
    scheduled (`set_forward_entry_time` in srt/observability/req_time_stats.py of 0.5.23).
    """
    found: dict[PageTime | str, list[tuple[float, float]]] = {time: [] for time in (*PageTime, "pace")}
    for request in requests:
        phases = request.phases
        if phases is None:
            continue
        ttft = phases.front_end + phases.queue + phases.prefill
        first_at = request.received_at + ttft
        found[PageTime.FIRST_TOKEN].append((first_at, ttft))
        found["pace"] += _gaps(request, first_at)
        if not queue_at_end:
            found[PageTime.QUEUE].append((first_at - phases.prefill, phases.queue))
        if request.ended_at is not None:
            end = first_at + phases.decode
            if queue_at_end:
                found[PageTime.QUEUE].append((end, phases.queue))
            found[PageTime.PREFILL].append((end, phases.prefill))
            found[PageTime.DECODE].append((end, phases.decode))
            found[PageTime.WHOLE].append((end, ttft + phases.decode))
    return found


def _gaps(request: Request, first_at: float) -> list[tuple[float, float]]:
    """Instant and length of the gap before each token: those of a read have the time since the read before it alike. A request that is not
    streamed has none: the simulation keeps no instants of its tokens.
    """
    if not request.reads:
        return []
    late = request.reads[0] - first_at
    return [
        (now - late, (now - last) / tokens)
        for (last, now), tokens in zip(pairwise(request.reads), request.events[1:], strict=True)
        for _ in range(tokens)
    ]


# --- what is told --------------------------------------------------------------------------------------------------------


def page(found: Sequence[Answer]) -> str:
    """The grades of all answers, by engine and by the phase that broke, with what was said where it was wrong."""
    lines = [_grades("all", found)]
    for engine in PAGES:
        of = [each for each in found if each.page == engine]
        lines.append(_grades(engine, of))
        kinds = sorted({tuple(sorted(each.phases)) for each in of})
        lines += (
            "  " + _grades(" or ".join(kind), [each for each in of if tuple(sorted(each.phases)) == kind])
            for kind in kinds
        )
    return "\n".join(lines)


def _grades(title: str, of: Sequence[Answer]) -> str:
    grades = Counter(each.grade for each in of)
    shares = ", ".join(f"{grades[grade]} {grade}" for grade in ("right", "wrong", "not told"))
    wrong = Counter(each.said for each in of if each.grade == "wrong")
    said = "".join(f"; said {phase} {count} times" for phase, count in wrong.most_common())
    runs = len({each.shape for each in of})
    return f"{title}: {shares}, of {len(of)} questions about {runs} runs{said}"


def chosen(draw: str, count: int, first: int = 0) -> list[int]:
    """The numbers of the first so many shapes of a draw, from `first` on, that an engine's page can tell and that are played in seconds: at
    most MOST_PODS pods, not over hours, and not a request a minute.
    """
    return list(islice((number for number in numbers(first) if _is_told(shapes.drawn(draw, number))), count))


def _is_told(shape: shapes.Shape) -> bool:
    slow = shape.onset is shapes.Onset.GROWTH or shape.traffic is shapes.Traffic.SPARSE
    return not (slow or shape.fleet[0] > MOST_PODS or {shape.fault, shape.other} & NOT_ON_THE_PAGE)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.engine_page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", nargs="+", help="texts that draw shapes and engines (default: the commit's hash)")
    parser.add_argument("--shapes", type=int, default=SHAPES, help=f"number of shapes of each draw (default: {SHAPES})")
    parser.add_argument("--first", type=int, default=0, help="number from which on they are drawn (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    asked = parser.parse_args()
    draws = [draw.replace("-", "_") for draw in asked.draw or [commit()]]
    todo_now = [(draw, number) for draw in draws for number in chosen(draw, asked.shapes, asked.first)]
    found: list[Answer] = []
    with Pool(asked.jobs) as pool:
        for some in pool.imap_unordered(answers, todo_now):
            found += some
            print(
                *(
                    f"{each.grade}: {each.page} {each.shape} at {each.at:g} s {sorted(each.phases)} {each.said}"
                    for each in some
                ),
                sep="\n",
                flush=True,
            )
    burned = len({each.shape for each in found})
    print(f"\n{page(found)}\n{len(todo_now)} shapes of {', '.join(draws)}, of which {burned} made a lane page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
