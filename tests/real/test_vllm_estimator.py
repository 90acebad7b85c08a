"""The estimator beside a real vLLM that reports: each estimate, made before the request's own report is read, is compared with
that report, which teaches the next ones.

One sidecar serves six loads one after the other, from nearly idle to more than four slots can serve, with new prompts
and with prompts whose first three quarters are in vLLM's prefix cache. Each log line holds both the estimate and vLLM's values. Arrivals are random (seeded) and do not wait for earlier answers. Rates
follow this machine's speed: the capacity is measured first.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.pod.costs.prompt_costs import FIRST_ANSWER_SAMPLES
from tests.real.environment import Say
from tests.real.server import RunningEngine
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.timed import not_measured


SEED = 2026
WORDS = ("la", "to", "mi", "re", "nu", "ka", "so", "ti", "be", "da", "vo", "an")
LOADS = (("low", 0.2, 100), ("medium", 0.45, 150), ("saturated", 1.4, 100))
"""Name, share of the capacity, requests."""
LOG_SECONDS = 2e-6
"""Two numbers that are each rounded to microseconds differ by less than this more or less than they did."""
ENOUGH = 30
"""Minimum number of slowest requests, over all loads, that can be judged: among fewer, a single one weighs too much."""
RUNS = 3
"""Maximum number of runs of each load. A run in which other processes took the processor proves little, and is
repeated."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request, to be sent `at` seconds after its load began."""

    at: float
    body: dict[str, object]


class Asker:
    """Makes requests of many lengths, with new prompts or with beginnings that earlier prompts had."""

    def __init__(self, model: str) -> None:
        self._rng = Random(SEED)
        self._model = model
        self._beginnings = [self._words(self._rng.randint(200, 1000)) for _ in range(6)]

    def _words(self, count: int) -> str:
        return " ".join(self._rng.choices(WORDS, k=count))

    def question(self, at: float, *, cached: bool) -> Question:
        rng = self._rng
        if cached and rng.random() < 0.6:
            beginning = rng.choice(self._beginnings)
            prompt = f"{beginning} {self._words(max(20, beginning.count(' ') // 3))}"
        else:
            prompt = self._words(int(min(2000, max(60, rng.lognormvariate(5.9, 0.8)))))
        body: dict[str, object] = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": rng.randint(5, 30),
            "ignore_eos": True,
            "stream": True,
            "temperature": 1,  # and no seed: vLLM 0.32 on a CPU dies of a seeded request whose prompt is cut into chunks
        }
        return Question(at, body)

    def load(self, rate: float, count: int, *, cached: bool) -> list[Question]:
        at, questions = 0.0, []
        for _ in range(count):
            at += self._rng.expovariate(rate)
            questions.append(self.question(at, cached=cached))
        return questions


async def ask(port: int, questions: Sequence[Question]) -> None:
    """Send each request at its time, even if others still wait for their answers."""
    idle: list[Connection] = []
    began = time.monotonic()

    async def one(question: Question) -> None:
        await asyncio.sleep(began + question.at - time.monotonic())
        connection = idle.pop() if idle else await Connection.open(port)
        answer = await connection.request(post("/v1/completions", question.body))
        assert answer.status == 200
        idle.append(connection)

    await asyncio.gather(*(one(question) for question in questions))
    for connection in idle:
        connection.close()


@dataclass(frozen=True, slots=True)
class Case:
    """One request: the values that vLLM reported, and the estimate made before them, with its interval."""

    ttft: float
    queue: float
    prefill: float
    first_token: float
    estimate: float | None
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """The interval holds the reported prefill."""
        return self.low <= self.prefill <= self.high

    @property
    def waited(self) -> bool:
        return self.queue > self.prefill

    @property
    def right(self) -> bool:
        assert self.estimate is not None
        return (self.ttft > 2 * self.estimate) == self.waited


@dataclass(frozen=True, slots=True)
class Outcome:
    """All requests of one load."""

    cases: list[Case]

    @property
    def answered(self) -> list[Case]:
        return [case for case in self.cases if case.estimate is not None]

    @property
    def slowest(self) -> list[Case]:
        """The slowest tenth of all, with or without an estimate."""
        return sorted(self.cases, key=lambda case: -case.ttft)[: len(self.cases) // 10]

    @property
    def judged(self) -> list[Case]:
        """The requests with an estimate among the slowest tenth."""
        return [case for case in self.slowest if case.estimate is not None]

    @property
    def right(self) -> float | None:
        """Share of right verdicts among the slowest tenth's requests with an estimate; None if there are none."""
        return fmean(case.right for case in self.judged) if self.judged else None

    @property
    def constant(self) -> float:
        """Share of right verdicts of the better constant answer, for the slowest tenth."""
        waited = fmean(case.waited for case in self.slowest)
        return max(waited, 1 - waited)

    @property
    def starved(self) -> bool:
        """True if a fifth or more of the slowest tenth's TTFT is neither queue nor prefill: vLLM's API server lacks
        processor time."""
        return sum(case.first_token for case in self.slowest) > 0.2 * sum(case.ttft for case in self.slowest)

    def __str__(self) -> str:
        errors = [abs(case.estimate - case.prefill) for case in self.answered if case.estimate is not None]
        return (
            f"answered {len(self.answered)}/{len(self.cases)}"
            f", slowest tenth right {'-' if self.right is None else format(self.right, '.2f')} (constant {self.constant:.2f})"
            f", TTFT median {median(case.ttft for case in self.cases) * 1e3:.0f} ms"
            f", queue {median(case.queue for case in self.cases) * 1e3:.0f} ms"
            f", prefill {median(case.prefill for case in self.cases) * 1e3:.0f} ms"
            f", error median {median(errors) * 1e3 if errors else float('nan'):.1f} ms"
            f", inside {fmean(case.inside for case in self.answered) if self.answered else float('nan'):.2f}"
        )


@dataclass(frozen=True, slots=True)
class Study:
    outcomes: dict[tuple[str, bool], Outcome]
    in_order: list[Case]
    page: dict[str, list[tuple[dict[str, str], float]]]
    ready_before: float

    def value(self, name: str, **labels: str) -> float:
        return sum(value for found, value in self.page[name] if labels.items() <= found.items())


def case_of(line: dict[str, object]) -> Case:
    phases, estimate, ttft = line["phases"], line.get("estimated_prefill_seconds"), line["ttft_seconds"]
    assert isinstance(phases, dict)
    assert isinstance(ttft, float)
    assert estimate is None or isinstance(estimate, float)
    interval = line.get("estimated_prefill_interval_seconds", [0.0, 0.0])
    assert isinstance(interval, list)
    return Case(ttft, phases["queue"], phases["prefill"], phases["first_token"], estimate, *interval)


@pytest.fixture(scope="module")
def study(vllm: RunningEngine, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    asker = Asker(vllm.model)
    with running_sidecar(vllm.url, tmp_path_factory.mktemp("sidecar")) as sidecar:
        before = page_of(sidecar)["llm_estimator_ready"]
        outcomes, done = {}, 0
        for cached in (False, True):
            for name, share, count in LOADS:
                for _ in range(RUNS):
                    # Measured anew for each run: other processes use this machine too.
                    capacity = _capacity(vllm, asker, cached=cached)
                    asyncio.run(ask(sidecar.port, asker.load(capacity * share, count, cached=cached)))
                    lines = sidecar.wait_for_log_lines("request", done + count)[done:]
                    done += count
                    outcomes[name, cached] = Outcome([case_of(line) for line in lines])
                    if not outcomes[name, cached].starved:
                        break
                    say(
                        f"  {name}: vLLM's API server was starved; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
                    )
                say(f"  {name:10}{'cache hits' if cached else 'new':11} of {capacity:.1f}/s: {outcomes[name, cached]}")
        lines = sidecar.log_lines("request")
        yield Study(outcomes, [case_of(line) for line in lines], page_of(sidecar), sum(value for _, value in before))


def _capacity(engine: RunningEngine, asker: Asker, *, cached: bool) -> float:
    """Requests per second if all are sent at once. They go to vLLM directly: the sidecar's estimator must not learn
    from them. The lesser of two runs."""
    return min(_rate_at_once(engine, asker, cached=cached) for _ in range(2))


def _rate_at_once(engine: RunningEngine, asker: Asker, *, cached: bool) -> float:
    questions = [asker.question(0.0, cached=cached) for _ in range(30)]
    began = time.monotonic()
    asyncio.run(ask(engine.port, questions))
    return len(questions) / (time.monotonic() - began)


def page_of(sidecar: SidecarProcess) -> dict[str, list[tuple[dict[str, str], float]]]:
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(sidecar.page("/metrics")):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def test_it_is_not_ready_until_it_has_seen_enough_and_says_so(study: Study) -> None:
    """There is no estimate at first; within 100 requests, idle or not, the first one comes."""
    first = next(number for number, case in enumerate(study.in_order) if case.estimate is not None)

    assert study.ready_before == 0
    assert FIRST_ANSWER_SAMPLES <= first < 100
    assert study.value("llm_estimator_ready", model="tiny") == 1
    # The first request may come before the engine is known: then it counts under the model `other`, or for another reason.
    assert study.value("llm_estimator_answers_total", result="few_samples") >= first - 1


@pytest.mark.parametrize("cached", [False, True], ids=["new", "cache-hits"])
def test_it_answers_for_most_requests_at_medium_load(study: Study, cached: bool) -> None:
    outcome = study.outcomes["medium", cached]

    assert len(outcome.answered) >= 0.8 * len(outcome.cases), str(outcome)


def test_it_knows_who_waited_among_the_slowest(study: Study) -> None:
    """The verdict `queue > prefill` is right for 80 % of the slowest tenths of all loads together. Each load alone has
    only ten or fifteen such requests.

    If vLLM's API server was starved, the slowest requests waited neither in the queue nor in prefill, and cannot be
    judged: two cores that also run clients and sidecar may be too few. The result of each load is printed above in any
    case.
    """
    judged = [case.right for outcome in study.outcomes.values() if not outcome.starved for case in outcome.judged]
    if len(judged) < ENOUGH:
        not_measured(f"{len(judged)} of the slowest can be judged: this machine starves vLLM's API server")

    assert fmean(judged) >= 0.80, {name: str(outcome) for name, outcome in study.outcomes.items()}


def test_its_intervals_hold_the_truth_about_as_often_as_they_say(study: Study) -> None:
    """80 % is claimed: 72 to 90 % of all, and of each load no fewer than two thirds."""
    shares = {name: fmean(case.inside for case in outcome.answered) for name, outcome in study.outcomes.items()}
    answered = [case for outcome in study.outcomes.values() for case in outcome.answered]

    assert 0.72 <= fmean(case.inside for case in answered) <= 0.90, shares
    assert min(shares.values()) >= 0.66, shares


def test_there_was_something_to_tell_apart(study: Study) -> None:
    """Neither verdict is right for every load; otherwise a constant answer would pass the tests above."""
    waited = {name: fmean(case.waited for case in outcome.slowest) for name, outcome in study.outcomes.items()}

    assert min(waited.values()) < 0.5 < max(waited.values()), waited


def test_its_published_error_is_its_error(study: Study) -> None:
    """The error on the metrics page equals the error computed from estimates and reports in the log."""
    answered = [case for case in study.in_order if case.estimate is not None]
    errors = [case.estimate - case.prefill for case in answered if case.estimate is not None]
    over, under = [error for error in errors if error >= 0], [-error for error in errors if error < 0]

    # The log rounds to microseconds: an error of less is on either side.
    ties = sum(abs(error) < LOG_SECONDS for error in errors)
    counted = {side: study.value("llm_estimator_error_seconds_count", side=side) for side in ("over", "under")}
    assert sum(counted.values()) == len(errors)
    assert counted["over"] == pytest.approx(len(over), abs=ties)
    assert study.value("llm_estimator_error_seconds_sum", side="over") == pytest.approx(
        sum(over), abs=1e-5 * len(errors)
    )
    assert study.value("llm_estimator_error_seconds_sum", side="under") == pytest.approx(
        sum(under), abs=1e-5 * len(errors)
    )
    assert study.value("llm_estimator_verdicts_total", result="right") == pytest.approx(
        sum(case.right for case in answered), abs=2
    )
    assert study.value("llm_estimator_answers_total", result="answered") == len(answered)


def test_none_of_it_stands_in_a_ledger_that_vllm_reported_on(study: Study) -> None:
    assert study.value("llm_phase_attribution_total", source="estimated") == 0
    assert study.value("llm_phase_attribution_total", source="engine", reason="in_band") == len(study.in_order)
