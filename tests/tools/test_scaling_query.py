"""Replicas are added for a queue and for no fault that they do not mend; while anything else burns, and while pods come or go, their number
stays as it is.

Played by a real Prometheus (promtool) and by the arithmetic of a HorizontalPodAutoscaler: hand-made stories, in one run, and incidents
of the bench in virtual time.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from bench.incidents.job import Job, engine_for, played
from bench.incidents.product import sampled
from bench.incidents.prometheus import ask
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import LEAN, READY
from sidecar.pod.causes import ROOT_PHASES
from tests.support import pod_autoscaler
from tests.support.kustomize import DEPLOY
from tests.support.tools import need_tool
from tools.scaling_query import SCALING_WINDOW, SETTLED_FOR, pods_of, scaling_ratio


ROOM = 32
"""Requests that one replica works on at once, in every story and in the manifests."""
WORKLOAD = "mistral-7b"
"""The workload of the manifests, and of every story: each story has a namespace of its own."""
STEP_SECONDS = 15.0
"""Between two scrapes, and between two looks of the autoscaler."""
BEGUN = 12
"""Scrapes from which on a story is looked at: the windows of the query are full."""


def at(minutes: float) -> int:
    return round(minutes * 60 / STEP_SECONDS)


END = at(26)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod by the scrapes at which it is there, is ready and can be scraped. It has the load of its story while it is ready.

    `phased`: scrapes at which kube-state-metrics knows it, of a story that has such; else those at which it is there.
    """

    name: str
    there: range = range(END)
    ready: range | None = None
    scraped: range = range(END)
    phased: range | None = None

    def is_ready(self, step: int) -> bool:
        return step in (self.there if self.ready is None else self.ready)


@dataclass(frozen=True, slots=True)
class Story:
    """The series of one workload's sidecars. `roots`: phase to the misses a minute that are decided for it.

    `running` and `waiting`: requests in each ready engine. `told`: whether the engine states them; else the sidecar's own count stands.
    `stated`: the replicas that kube-state-metrics says the workload states; None where there is none.
    """

    name: str
    pods: Sequence[Pod]
    replicas: int
    roots: Mapping[str, float] = field(default_factory=dict)
    undecided: float = 0.0
    running: float = 16.0
    waiting: float = 0.0
    told: bool = True
    allowed: float = 1.0
    with_up: bool = True
    with_state: bool = False

    every_seconds = STEP_SECONDS
    columns: Mapping[object, object] = field(default_factory=dict)

    def written(self, _edges: object) -> Iterator[tuple[str, str]]:
        """Each series in promtool's notation, as `Samples` writes them."""
        for pod in self.pods:
            yield from self._of_pod(pod)
        for name, a_minute in (
            ("llm_slo_misses_total{", sum(self.roots.values()) + self.undecided),
            ("llm_slo_allowed_misses_total{", self.allowed),
            *((f'llm_slo_root_cause_misses_total{{phase="{one}",', self.roots.get(one, 0.0)) for one in ROOT_PHASES),
        ):
            each = a_minute * STEP_SECONDS / 60
            yield f'{name}namespace="{self.name}",pod="{WORKLOAD}-0"}}', f"0+{each:g}x{END}"
        yield f'llm_slo_undecided_misses{{namespace="{self.name}",pod="{WORKLOAD}-0"}}', f"{self.undecided:g}+0x{END}"
        if self.with_state:
            named = f'namespace="{self.name}",deployment="{WORKLOAD}"'
            yield f"kube_deployment_spec_replicas{{{named}}}", f"{self.replicas}+0x{END}"

    def _of_pod(self, pod: Pod) -> Iterator[tuple[str, str]]:
        named = f'namespace="{self.name}",pod="{pod.name}"'
        scraped = range(max(pod.there.start, pod.scraped.start), min(pod.there.stop, pod.scraped.stop))

        def line(metric: str, steps: range, value: Callable[[int], float], labels: str = "") -> tuple[str, str]:
            words = (
                f"{value(step):g}" if step in steps else "stale" if step == steps.stop else "_" for step in range(END)
            )
            return f"{metric}{{{named}{labels}}}", " ".join(words)

        if self.with_up:
            yield line("up", pod.there, lambda step: step in scraped)
            yield line("up", pod.there, lambda step: step in scraped, ',container="engine"')
        if self.with_state:
            phased = pod.phased or pod.there
            yield line("kube_pod_status_phase", phased, lambda step: step not in pod.there, ',phase="Pending"')
            yield line("kube_pod_status_phase", phased, lambda step: step in pod.there, ',phase="Running"')
            yield line("kube_pod_status_phase", phased, lambda _step: 0, ',phase="Failed"')
        yield line("llm_sidecar_ready", scraped, pod.is_ready)
        for name, state, count in (("running", "streaming", self.running), ("waiting", "waiting", self.waiting)):
            counts = [count * pod.is_ready(step) for step in range(END)]
            if self.told:
                yield line(f"llm_engine_requests_{name}", scraped, counts.__getitem__)
            yield line("llm_requests_in_flight", scraped, counts.__getitem__, f',state="{state}"')

    def ready(self, step: int) -> int:
        return sum(pod.is_ready(step) for pod in self.pods)


def fleet(count: int, **changed: Any) -> tuple[Pod, ...]:
    return tuple(Pod(f"{WORKLOAD}-{number}", **changed) for number in range(count))


LOADS, ENDS = at(1), 5
"""Scrapes for which a new pod loads its model, and for which an old one terminates: 70 s."""


def rolling(*, surge: int) -> tuple[Pod, ...]:
    """A rolling update of four pods, one after another from minute 2 on. `surge` 0: each new pod begins when the old one has gone, and is
    found by Prometheus a scrape later.
    """
    made, begins = [], at(2)
    for number in range(4):
        drains = begins + LOADS if surge else begins
        comes = begins if surge else drains + ENDS
        old, new = f"{WORKLOAD}-6f9c7d4b5-x2x4{number + 4}", f"{WORKLOAD}-7c8d9f5b6-z4z2{number + 4}"
        made.append(Pod(old, range(drains + ENDS), range(drains)))
        made.append(Pod(new, range(comes + 1, END), range(comes + LOADS, END), phased=range(comes, END)))
        begins = comes + LOADS
    return tuple(made)


def over(pods: Sequence[Pod]) -> int:
    """The scrape from which on nothing changes any more."""
    return max(
        step for pod in pods for step in (pod.there.start, pod.there.stop, (pod.ready or range(0)).start) if step < END
    )


SURGING, IN_PLACE = rolling(surge=1), rolling(surge=0)
QUEUE: Mapping[str, Any] = {"roots": {"queue": 30, "unattributed": 10}, "running": 32, "waiting": 32}
"""It needs twice the replicas."""
PREFILL: Mapping[str, Any] = {"roots": {"prefill": 40, "queue": 20}, "running": 32, "waiting": 32}
CALM: Mapping[str, Any] = {"running": 2}
LOADING = (*fleet(2), *(Pod(f"{WORKLOAD}-{number}", ready=range(at(8), END)) for number in (2, 3)))
LOST = (*fleet(2), *(Pod(f"{WORKLOAD}-{number}", scraped=range(BEGUN)) for number in (2, 3)))
PENDING = (*fleet(4), *(Pod(f"{WORKLOAD}-{number}", there=range(at(8), END), phased=range(END)) for number in (4, 5)))
SETTLED = at(int(SETTLED_FOR.removesuffix("m")))


def soon(begins: int) -> list[tuple[int, int]]:
    """Four replicas become eight, as fast as the objects allow: two a minute."""
    return [(begins, 6), (begins + at(1), 8)]


def slowly(begins: int) -> list[tuple[int, int]]:
    """Four replicas become one, a quarter of an hour after they were last wanted, one in five minutes."""
    return [(step, 3 - taken) for taken in range(3) if (step := begins + at(15 + 5 * taken)) < END]


AFTER_A_ROLLOUT: tuple[tuple[str, Mapping[str, Any], Callable[[int], list[tuple[int, int]]]], ...] = (
    ("prefill", PREFILL, lambda _over: []),
    ("queue", QUEUE, lambda over: soon(over + SETTLED)),
    ("calm", CALM, lambda over: slowly(over + SETTLED - 1)),
)
"""Each load of a rolling update, with what changes once it is over."""

PLAYED: tuple[tuple[Story, list[tuple[int, int]]], ...] = (
    *(
        (Story(f"{name}_in_a_rolling_update_{way}", pods, 4, **load, with_state=stated), after(over(pods)))
        for way, pods, stated in (("surging", SURGING, False), ("in_place", IN_PLACE, False), ("stated", SURGING, True))
        for name, load, after in AFTER_A_ROLLOUT
    ),
    (Story("queue", fleet(4), 4, **QUEUE), soon(BEGUN)),
    (Story("queue_not_told", fleet(4), 4, **{**QUEUE, "told": False}), soon(BEGUN)),
    (Story("queue_without_up", fleet(4), 4, **QUEUE, with_up=False), soon(BEGUN)),
    (Story("queue_and_half_load", LOADING, 4, **QUEUE), soon(at(8) + SETTLED)),
    (
        Story("queue_and_two_without_a_node", PENDING, 6, **QUEUE, with_state=True),
        [(at(8 + taken) + SETTLED, 8 + 2 * taken) for taken in range(3)],
    ),
    (Story("queue_and_two_not_made", fleet(4), 6, **QUEUE, with_state=True), []),
    (Story("queue_and_none_ready", fleet(4, ready=range(0)), 4, **QUEUE), []),
    (Story("queue_and_not_scraped", LOST, 4, **QUEUE), []),
    (Story("calm", fleet(4), 4, **CALM), slowly(BEGUN)),
    (Story("calm_and_half_load", LOADING, 4, **CALM), slowly(at(8) + SETTLED - 1)),
    (Story("calm_and_not_scraped", LOST, 4, **CALM), []),
    (Story("busy_and_well", fleet(4), 4, {"queue": 0.2}, running=30, waiting=30), []),
    (Story("within_budget", fleet(4), 4, {"queue": 4}, allowed=4, running=30, waiting=30), []),
    (Story("undecided", fleet(4), 4, {"queue": 6}, undecided=30, running=32, waiting=32), []),
    *(
        (Story(f"root_{phase}_at_{load}", fleet(4), 4, {phase: 40, "queue": 20}, running=load, waiting=load), [])
        for phase in ROOT_PHASES
        if phase != "queue"
        for load in (1, 32)
        if load == 32 or phase in ("prefill", "engine")
    ),
)
"""Each story with the changes of its replicas, at which scrape to how many. Those without one are faults that replicas do not mend, at
night's few requests and at the day's many, a queue within the objectives, and pods that come, go or are not seen."""


def shipped(path: str) -> Any:
    """The `spec` of one object as it is shipped."""
    return read_yaml((DEPLOY / "components/scaling" / path).read_text())["spec"]


def shipped_hpa() -> Any:
    return shipped("hpa/horizontal-pod-autoscaler.yaml")


def shipped_keda() -> Any:
    return shipped("keda/scaled-object.yaml")


@pytest.mark.long
def test_the_autoscalers_change_the_replicas_at_these_instants() -> None:
    """Both objects, with a higher bound than they are shipped with."""
    need_tool("promtool")
    looks = range(BEGUN, END)
    asked = {(one.name, step): (wanted(one.name), step * STEP_SECONDS) for one, _ in PLAYED for step in looks}
    told = ask(as_samples([one for one, _ in PLAYED]), asked, ())

    def changes(story: Story, given: pod_autoscaler.Bounded) -> list[tuple[int, int]]:
        seen = [(told[story.name, step][0][1], story.ready(step)) for step in looks]
        made = pod_autoscaler.played(replace(given, most=12), story.replicas, seen)
        before = [story.replicas, *made]
        return [(step, now) for step, now, last in zip(looks, made, before, strict=False) if now != last]

    for given in (pod_autoscaler.of_hpa(shipped_hpa()), pod_autoscaler.of_keda(shipped_keda())):
        assert {story.name: changes(story, given) for story, _ in PLAYED} == {one.name: made for one, made in PLAYED}


def as_samples(stories: Sequence[Story]) -> list[Samples]:
    """The stories, which write themselves as samples do."""
    return cast("list[Samples]", list(stories))


def wanted(namespace: str) -> str:
    return scaling_ratio(namespace, WORKLOAD, ROOM)


def test_where_nothing_is_scraped_there_is_no_number() -> None:
    """So that an autoscaler keeps what it has: 0 would take all replicas away."""
    need_tool("promtool")

    assert ask(as_samples([Story("here", fleet(1), 1)]), {"there": (wanted("there"), 180.0)}, ()) == {"there": []}


def test_the_manifests_ask_with_this_query() -> None:
    """Both autoscalers, of the same workload, which the example for vLLM has; a lean pod has all that it reads."""
    hpa, keda = shipped_hpa(), shipped_keda()
    (rule,) = read_yaml((DEPLOY / "components/scaling/hpa/prometheus-adapter.yml").read_text())["rules"]["external"]
    query = wanted("default")

    assert keda["triggers"][0]["metadata"]["query"] == rule["metricsQuery"] == query
    assert hpa["metrics"][0]["external"]["metric"]["name"] == rule["name"]["as"]
    assert hpa["scaleTargetRef"] == keda["scaleTargetRef"]
    assert hpa["behavior"] == keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert (keda["triggers"][0]["metadata"]["ignoreNullValues"], "fallback" in keda) == ("false", False)
    assert {name for name in names_in(query) if name not in {metric.name for metric in LEAN}} == set()


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        ("llama-6f9c7d4b5-x2x4z", True),
        ("llama-7-x2x4z", True),
        ("llama-0", True),
        ("llama-12", True),
        ("llama-large-6f9c7d4b5-x2x4z", False),
        ("llama-2-6f9c7d4b5-x2x4z", False),
        ("llama-large-0", False),
        ("llama-2-0", False),
        ("my-llama-0", False),
    ],
)
def test_the_pods_of_a_workload_are_not_those_of_another_one_whose_name_begins_alike(pod: str, counts: bool) -> None:
    assert (re.fullmatch(pods_of("llama"), pod) is not None) is counts


def names_in(query: str) -> set[str]:
    return {word.split("{")[0] for word in query.replace("(", " ").split() if word.startswith("llm_")}


MENDED = ("overload", "burst")
NOT_MENDED = ("crash", "hang", "decode-slow", "slow-clients", "hop", "tokeniser", "prefill-slow")


@pytest.mark.bench
@pytest.mark.parametrize("kind", [*MENDED, *NOT_MENDED])
def test_incidents_of_the_bench_ask_for_replicas_only_where_these_mend_them(kind: str) -> None:
    """One pod, whose engine reports: the whole product plays the incident, and its own page is asked."""
    need_tool("promtool")
    play = played(Job(kind, engine_for(kind, 13), 13, (Mode.REPORTS,), unkind=False))
    query = scaling_ratio("serving", "llm", play.engine.slots).replace(READY.name, "up")  # a run has no admin side
    names = frozenset(names_in(query))
    samples: list[Samples] = sampled(play.engine, play.run, Mode.REPORTS, names)
    instants = [at * STEP_SECONDS for at in range(8, int(play.run.ends_at // STEP_SECONDS))]
    told = ask(samples, {at: (query, at) for at in instants}, ())
    most = max(value for answer in told.values() for _, value in answer)

    assert (most > 1) == (kind in MENDED), f"{SCALING_WINDOW} windows, {most}"
