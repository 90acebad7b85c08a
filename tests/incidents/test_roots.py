"""Roots are decided anew from what was recorded: by cache, weights, rules left out, and evidence."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.job import Job
from bench.incidents.request import Request, Run
from bench.incidents.world import Mode
from bench.roots.ablation import ALL, rules
from bench.roots.cache import Cache
from bench.roots.fit import Row, cost, fitted
from bench.roots.growth import by
from bench.roots.passage import ALLOWED, MISSES, REQUESTS, ROOTS, Scraped, scraped
from bench.roots.record import recorded, replayed
from bench.roots.verdicts import Told
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause, Unknown, root_of, unknown
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts
from sidecar.pod.reasons import Reason
from sidecar.pod.signs import Signs
from tests.incidents.made_up_cases import case_of, fired
from tests.incidents.made_up_runs import answered, run_of


LOADED = Signs(grown={Cause.LOAD: Factor(2.0, 1.9, 2.1)}, kv_full=True)


def told(number: int, phase: str) -> Told:
    """One run with one lane, which is broken by its queue and paged with this phase."""
    case = replace(case_of([fired(660.0, phase)]), kind=f"shape-{number}", seed=number)
    return Told(Job(f"shape-{number}", "engine", number), Mode.REPORTS, [case], [], frozenset({phase}), True, 0.0)


def test_a_decision_without_a_rule_is_made_from_the_others() -> None:
    roots = {}
    for name, make in rules().items():
        decision = make()
        decision.see(0.0, LOADED)
        weights = decision.weighed(Facts(waited_in=Blame.QUEUE)).weights
        roots[name] = max(weights, key=weights.__getitem__)

    assert roots[ALL] == roots["ratio of uncached"] == root_of(Cause.LOAD)
    assert {roots[f"reason {Reason.GROWN}"], roots["ratio of load"]} == {root_of(Cause.KV)}
    assert unknown(Unknown.UNCLEAR) not in roots.values()


JOB = Job("crash", "chunks-2048", 20, unkind=False)
SOURCES = {
    "bench/incidents/job.py": "from bench.incidents.play import play\nfrom sidecar.objectives import judge\n",
    "bench/incidents/play.py": "from sidecar.commands.simulator import physics\n",
    "bench/incidents/grade.py": "RIGHT = 1\n",
    "sidecar/commands/simulator/physics.py": "G = 9.81\n",
    "sidecar/objectives/judge.py": "KEPT = True\n",
    "sidecar/pod/weigh.py": "SURE = 1.0\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("product", "process", "samples", "loop_lag"):
        (tmp_path / f"checkout/bench/incidents/{name}.py").write_text("")
    (tmp_path / "checkout/bench/roots").mkdir()
    for name in ("passage", "record"):
        (tmp_path / f"checkout/bench/roots/{name}.py").write_text("")
    return tmp_path / "checkout"


def made(cache: Cache, *, samples: bool = False, evidence: bool = False) -> bool:
    """Whether the run, its samples, or what it was decided from had to be made."""
    calls: list[int] = []

    def make() -> int:
        calls.append(1)
        return 7

    keep = partial(cache.evidence, JOB, "blind") if evidence else partial(cache.samples, JOB, "blind")
    assert (keep(make) if samples or evidence else cache.run(JOB, make)) == 7
    return bool(calls)


@pytest.mark.parametrize(
    ("source", "plays"),
    [
        ("bench/incidents/play.py", True),
        ("sidecar/commands/simulator/physics.py", True),
        ("bench/incidents/grade.py", False),
        ("sidecar/objectives/judge.py", False),
    ],
)
def test_a_change_of_a_source_plays_again_only_if_playing_reads_it(
    tmp_path: Path, checkout: Path, source: str, plays: bool
) -> None:
    made(Cache(tmp_path / "cache", checkout))
    (checkout / source).write_text("changed = 1\n")

    assert made(Cache(tmp_path / "cache", checkout)) is plays


def row(injected: Cause | None, **reasons: Reason) -> Row:
    found = tuple((Cause(cause), ((reason, 1.0),)) for cause, reason in sorted(reasons.items()))
    return Row(found, () if injected is None else ((injected, 1.0),))


DIRECT = {"silence": Reason.FAULT, "load": Reason.GROWN}
ROWS = {row(Cause.SILENCE, **DIRECT): 9.0, row(Cause.LOAD, load=Reason.GROWN): 5.0, row(Cause.LOAD, **DIRECT): 1.0}


def test_the_reason_that_tells_the_cause_gets_the_larger_weight() -> None:
    weights = fitted(ROWS)

    assert weights[Reason.FAULT] > weights[Reason.GROWN] + 1.0
    assert cost(ROWS, weights)[0] < cost(ROWS, dict.fromkeys(weights, 2.0))[0]


def late(number: int, at: float, seconds: float) -> Request:
    """A request whose answer comes so much later than usual."""
    request = answered(number, at)
    request.reads = [each + seconds for each in request.reads]
    request.ended_at, request.flushed_at = (at + seconds + 1.0 for _ in range(2))
    return request


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of([late(number, 2.0 * number, 20.0 if number % 3 == 0 else 0.0) for number in range(40)])


def phases(found: Scraped) -> dict[str, float]:
    """The misses of each phase at the last scrape, of those that have any."""
    counts: dict[str, float] = {}
    for key, column in found.pods[0].items():
        if key[0] == ROOTS:
            phase = dict(key[1])["phase"]
            counts[phase] = counts.get(phase, 0.0) + (column[-1] or 0.0)
    return {phase: count for phase, count in counts.items() if count}


def test_the_recorded_misses_are_those_of_the_product(run: Run) -> None:
    product = phases(scraped(CHUNKS_2048, run, Mode.BLIND))
    again = phases(replayed(recorded(CHUNKS_2048, run, Mode.BLIND)))

    assert sum(product.values()) > 10
    assert sum(again.values()) == pytest.approx(sum(product.values()), rel=0.05)
    assert max(again, key=again.__getitem__) == max(product, key=product.__getitem__)


SCRAPES = 9
"""A run of two minutes has so many."""


def late_on_the_other_pod(number: int, at: float, seconds: float) -> Request:
    """A request of the second pod, whose answer comes so much later than usual."""
    request = answered(number, at, pod=1)
    request.reads = [each + seconds for each in request.reads]
    request.ended_at, request.flushed_at = (at + seconds + 1.0 for _ in range(2))
    return request


def test_a_pod_that_is_not_at_fault_counts_the_same_without_the_product() -> None:
    requests = [answered(number, 2.0 * number) for number in range(40)]
    requests += [
        late_on_the_other_pod(40 + number, 2.0 * number, 20.0 if number % 3 == 0 else 0.0) for number in range(40)
    ]
    run = run_of(requests, pods=2)

    slow, quick = (scraped(CHUNKS_2048, run, Mode.BLIND, quick=each).pods for each in (False, True))
    assert quick[0] == slow[0]
    for name in (REQUESTS, MISSES, ALLOWED):
        told = [
            {
                key: [growth.over(at, SCRAPES) for at in range(SCRAPES)]
                for key, growth in by(pod, name, "lane", "objective").items()
            }
            for pod in (slow[1], quick[1])
        ]
        busy = [{key: [round(each, 9) for each in grown] for key, grown in each.items() if any(grown)} for each in told]
        assert busy[0] == busy[1]
        assert "code" in {lane for lane, _ in busy[0]}
