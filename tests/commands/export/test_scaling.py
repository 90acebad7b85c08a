"""Replicas are added for a queue and for no fault that they do not mend; while anything else burns their number stays as it is.

Played by a real Prometheus (promtool): hand-made stories, in one run, and incidents of the bench in virtual time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from bench.incidents.job import Job, engine_for, played
from bench.incidents.product import sampled
from bench.incidents.prometheus import ask
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from sidecar.commands.export.scaling import SCALING_WINDOW, pods_of, replicas_wanted
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import LEAN
from sidecar.pod.causes import ROOT_PHASES
from tests.support.kustomize import DEPLOY
from tests.support.tools import need_tool


ROOM = 32
"""Requests that one replica works on at once, in every story."""
STEP_SECONDS, LOOKS = 15.0, range(12, 25)
"""Scrapes of a story at which it is looked at: from three minutes on."""


@dataclass(frozen=True, slots=True)
class Story:
    """The series of one workload's sidecars over six minutes. `roots`: phase to the misses a minute that are decided for it."""

    name: str
    roots: Mapping[str, float] = field(default_factory=dict)
    undecided: float = 0.0
    waiting: float | None = 0.0
    """None: the engine does not tell."""
    in_flight: float = 40.0
    replicas: int = 2
    working: int = 2
    allowed: float = 1.0
    lost: int = 0
    """Replicas, the last ones, that are not scraped any more from the middle of the story on: of them `up` alone is left, at 0."""

    every_seconds = STEP_SECONDS
    columns: Mapping[object, object] = field(default_factory=dict)

    def written(self, _edges: object) -> Iterator[tuple[str, str]]:
        """Each series in promtool's notation, as `Samples` writes them."""
        steps = LOOKS.stop

        def counter(name: str, a_minute: float, labels: str = "") -> tuple[str, str]:
            each = a_minute * STEP_SECONDS / 60
            return f'{name}{{namespace="{self.name}",pod="p-0"{labels}}}', f"0+{each:g}x{steps}"

        def gauge(name: str, value: float, pod: int = 0, labels: str = "") -> tuple[str, str]:
            return f'{name}{{namespace="{self.name}",pod="p-{pod}"{labels}}}', f"{value:g}+0x{steps}"

        for pod in range(self.replicas - self.lost):
            yield gauge("up", 1, pod)
            yield gauge("up", 1, pod, ',container="engine"')
            yield gauge("llm_sidecar_build_info", 1, pod)
            yield gauge("llm_engine_up", int(pod < self.working), pod)
        scraped = LOOKS.start
        for pod in range(self.replicas - self.lost, self.replicas):
            yield f'up{{namespace="{self.name}",pod="p-{pod}"}}', f"1+0x{scraped} 0+0x{steps - scraped}"
            yield f'llm_sidecar_build_info{{namespace="{self.name}",pod="p-{pod}"}}', f"1+0x{scraped} stale"
            yield (
                f'llm_engine_up{{namespace="{self.name}",pod="p-{pod}"}}',
                f"{int(pod < self.working)}+0x{scraped} stale",
            )
        yield counter("llm_slo_misses_total", sum(self.roots.values()) + self.undecided)
        yield counter("llm_slo_allowed_misses_total", self.allowed)
        for phase in ROOT_PHASES:
            yield counter("llm_slo_root_cause_misses_total", self.roots.get(phase, 0.0), f',phase="{phase}"')
        yield gauge("llm_slo_undecided_misses", self.undecided)
        before = 10.0 if self.waiting is not None else 60.0
        yield gauge("llm_requests_in_flight", before, labels=',state="waiting"')
        yield gauge("llm_requests_in_flight", self.in_flight - before, labels=',state="streaming"')
        if self.waiting is not None:
            yield gauge("llm_engine_requests_waiting", self.waiting)


class WithoutUp(Story):
    """Scraped by what keeps no `up`."""

    def written(self, edges: object) -> Iterator[tuple[str, str]]:
        return (line for line in super().written(edges) if not line[0].startswith("up{"))


RISES = (
    (Story("queue", {"queue": 30, "unattributed": 10}, waiting=48, in_flight=112), 2 + 48 / ROOM),
    (Story("no_gauge", {"queue": 30}, waiting=None, in_flight=112), 2 + 60 / ROOM),
)
"""With the number wanted; in the second the engine does not tell its queue, and requests without output stand for it."""
HOLDS = (
    *(
        Story(f"root_{phase}", {phase: 40, "queue": 20}, waiting=48, in_flight=112)
        for phase in ROOT_PHASES
        if phase != "queue"
    ),
    Story("one_engine_down", {"engine": 40, "queue": 20}, waiting=48, in_flight=20, working=1),
    Story("undecided", {"queue": 6}, undecided=30, waiting=48, in_flight=112),
    Story("engine_and_not_scraped", {"engine": 40}, in_flight=60, replicas=4, working=4, lost=2),
    Story("queue_and_not_scraped", {"queue": 40}, waiting=24, in_flight=60, replicas=4, working=3, lost=2),
    Story("busy_and_not_scraped", in_flight=128, replicas=4, working=4, lost=2),
    Story("being_added", {"queue": 30}, waiting=20, in_flight=90, replicas=3, working=2),
    Story("busy_and_well", {"queue": 0.2}, waiting=30, in_flight=112),
    Story("within_budget", {"queue": 4}, allowed=4, waiting=30, in_flight=112),
)
"""Faults that replicas do not mend, at night's few requests and at the day's many; replicas whose scrape fails; a replica that still
loads its model; a queue within the objectives."""
FALLS = (
    (Story("quiet", in_flight=20), 20 / ROOM),
    (Story("quiet_and_one_loads", in_flight=20, replicas=4, working=3), 20 / ROOM + 1),
)


def as_samples(stories: Sequence[Story]) -> list[Samples]:
    """The stories, which write themselves as samples do."""
    return cast("list[Samples]", list(stories))


def wanted(namespace: str) -> str:
    return replicas_wanted(f'namespace="{namespace}"', ROOM)


def test_replicas_are_added_for_a_queue_alone_and_taken_away_in_quiet_alone() -> None:
    """Below or at the target of 1 for each replica: none is added."""
    need_tool("promtool")
    stories = [*(story for story, _ in (*RISES, *FALLS)), *HOLDS]
    asked = {(story.name, look): (wanted(story.name), look * STEP_SECONDS) for story in stories for look in LOOKS}
    told = ask(as_samples(stories), asked, ())

    seen = {story.name: {round(told[story.name, look][0][1], 6) for look in LOOKS} for story in stories}
    assert {story.name: seen[story.name] for story in HOLDS} == {story.name: {story.replicas} for story in HOLDS}
    assert {story.name: seen[story.name] for story, _ in RISES} == {story.name: {value} for story, value in RISES}
    assert {story.name: seen[story.name] for story, _ in FALLS} == {story.name: {value} for story, value in FALLS}


def test_where_nothing_is_scraped_there_is_no_number() -> None:
    """So that an autoscaler keeps what it has: 0 would take all replicas away."""
    need_tool("promtool")

    assert ask(as_samples([Story("here")]), {"there": (wanted("there"), 180.0)}, ()) == {"there": []}


def test_the_manifests_ask_with_this_query() -> None:
    """Both autoscalers, of the same workload, which the example for vLLM has; a lean pod has all that it reads."""
    keda = read_yaml((DEPLOY / "components/scaling/keda/scaled-object.yaml").read_text())["spec"]
    (rule,) = read_yaml((DEPLOY / "components/scaling/hpa/prometheus-adapter.yml").read_text())["rules"]["external"]
    hpa = read_yaml((DEPLOY / "components/scaling/hpa/horizontal-pod-autoscaler.yaml").read_text())["spec"]
    query = replicas_wanted(f'namespace="default",pod=~"{pods_of("mistral-7b")}"', ROOM)

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


def test_without_up_the_sidecars_are_counted() -> None:
    need_tool("promtool")
    told = ask(
        as_samples([WithoutUp("queue", {"engine": 40}, replicas=3, working=3)]), {"": (wanted("queue"), 240.0)}, ()
    )

    assert [value for _, value in told[""]] == [3]


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
    query = replicas_wanted('pod=~"llm-.*"', play.engine.slots)
    names = frozenset(names_in(query)) - {"llm_sidecar_build_info"}
    samples: list[Samples] = sampled(play.engine, play.run, Mode.REPORTS, names)
    instants = [at * STEP_SECONDS for at in range(8, int(play.run.ends_at // STEP_SECONDS))]
    told = ask(samples, {at: (query, at) for at in instants}, ())
    most = max(value for answer in told.values() for _, value in answer)

    assert (most > play.run.pods) == (kind in MENDED), f"{SCALING_WINDOW} windows, {most} of {play.run.pods}"
