"""The gate as a query: a real Prometheus gives the p value that the Python gives, on the same series."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import NamedTuple

import pytest

from grafana.gate_arithmetic import Block, Side, always_valid_p
from grafana.gate_query import FAILED_OF_INNOCENT, FAILS_BELOW, Versions, gate_query
from sidecar.commands.compare.gate_questions import (
    BLOCK_MINUTES,
    CUT_ANSWERS,
    CUT_QUESTION,
    GATE_QUESTIONS,
    Asked,
    Question,
)
from sidecar.objectives.objective import Objective
from tests.support.backfilled import backfilled, sample_line


MINUTES = 60
SCRAPE_SECONDS = 30
EVERY_QUESTION: dict[str, Question] = {
    **{str(asks): question for asks, question in GATE_QUESTIONS.items()},
    CUT_ANSWERS: CUT_QUESTION,
}
STARTS_AT = 1_700_000_000 // 3600 * 3600


class Pod(NamedTuple):
    """A pod's counters at each scrape, None where there was none: of bad requests and of all."""

    name: str
    bad: list[float | None]
    requests: list[float | None]


def pod(name: str, chance: float, *, seed: int, begins: int = 0, restarts: int = 0, gap: range = range(0)) -> Pod:
    """Requests at random. It begins in a minute, restarts in another, and cannot be scraped in those of `gap`."""
    rng, bad, requests = Random(seed), 0, 0 if begins else 5000
    told = Pod(name, [], [])
    for scrape in range(MINUTES * 60 // SCRAPE_SECONDS + 1):
        minute = scrape * SCRAPE_SECONDS // 60
        if restarts and minute == restarts:
            bad = requests = restarts = 0
        came = rng.randrange(8)
        requests += came
        bad += sum(rng.random() < chance for _ in range(came))
        seen = minute >= begins and minute not in gap
        told.bad.append(bad if seen else None)
        told.requests.append(requests if seen else None)
    return told


def steady(name: str, bad: Callable[[int], int], a_scrape: int = 10) -> Pod:
    """So many requests a scrape, and at each scrape so many bad ones until then."""
    scrapes = range(MINUTES * 60 // SCRAPE_SECONDS + 1)
    return Pod(name, [bad(scrape) for scrape in scrapes], [a_scrape * (scrape + 1) for scrape in scrapes])


BLOCK_SCRAPES = BLOCK_MINUTES * 60 // SCRAPE_SECONDS
CALM = 10
"""A block in which the worse version has no bad request."""


def _worse(scrape: int) -> int:
    """Three bad requests in each block, but for one."""
    return 3 * (scrape // BLOCK_SCRAPES) - 3 * (scrape // BLOCK_SCRAPES >= CALM)


POD_SETS = {
    "alike": [pod("new-1", 0.1, seed=1), pod("old-1", 0.1, seed=2)],
    "three times as many": [pod("new-1", 0.3, seed=1), pod("old-1", 0.1, seed=2)],
    "better": [pod("new-1", 0.02, seed=1), pod("old-1", 0.2, seed=2)],
    "a late start, a restart and a gap in the scrapes": [
        pod("new-1", 0.25, seed=1, begins=12),
        pod("old-1", 0.1, seed=2, restarts=30),
        pod("old-2", 0.1, seed=3, gap=range(40, 50)),
    ],
    "not a bad request": [steady("new-1", lambda _: 0), steady("old-1", lambda _: 0)],
    # Good requests are counted a moment before all of them are: one reading has one more.
    "worse, and a good request that is read too early": [
        steady("new-1", _worse),
        steady("old-1", lambda scrape: -(scrape == CALM * BLOCK_SCRAPES)),
    ],
    "more than half of the traffic at first": [
        steady("new-1", _worse, a_scrape=10),
        pod("old-1", 0.02, seed=4, begins=20),
        pod("old-2", 0.02, seed=5, begins=20),
        pod("old-3", 0.02, seed=6),
        pod("old-4", 0.02, seed=7, begins=20),
    ],
}


def lines() -> Iterator[str]:
    """The counters of every set of pods, each set in a lane of its own."""
    for metric, values in COUNTERS.items():
        name, _, inside = metric.partition("{")
        yield f"# TYPE {name.removesuffix('_total')} counter"
        more = dict(re.findall(r'(\w+)="([^"]+)"', inside))
        for lane, pods in POD_SETS.items():
            for each in pods:
                labels = {"lane": lane, "pod": each.name, **more}
                for number, (bad, requests) in enumerate(zip(each.bad, each.requests, strict=True)):
                    if bad is not None and requests is not None:
                        yield sample_line(name, labels, values(bad, requests), STARTS_AT + number * SCRAPE_SECONDS)


COUNTERS: dict[str, Callable[[float, float], float]] = {
    **{f'llm_slo_requests_total{{objective="{one}"}}': lambda _, requests: requests for one in Objective},
    **{f'llm_slo_misses_total{{objective="{one}"}}': lambda bad, _: bad for one in Objective},
    'llm_requests_total{outcome="ok"}': lambda bad, requests: requests - bad,
    'llm_requests_total{outcome="engine_error"}': lambda bad, _: bad,
    "llm_good_requests_total": lambda bad, requests: requests - bad,
    # Ten answers for each request, of which two kinds are bad: the versions' shares of the answers are those of the requests.
    'llm_answers_total{finish_reason="stop"}': lambda bad, requests: 10 * requests - 2 * bad,
    'llm_answers_total{finish_reason="length"}': lambda bad, _: bad,
    'llm_answers_total{finish_reason="repetition"}': lambda bad, _: bad,
    "llm_empty_answers_total": lambda bad, _: bad,
}


def grown(series: Sequence[float | None], minute: int) -> float:
    """Growth within the block that ends at this minute, by hand: from reading to reading, and after a restart from 0."""
    a_minute = 60 // SCRAPE_SECONDS
    readings = []
    for at in (minute - BLOCK_MINUTES, minute):
        # A reading is the last scrape of five minutes.
        scraped = series[max(0, (at - 5) * a_minute) : at * a_minute + 1] if at >= 0 else []
        readings += [value for value in scraped if value is not None][-1:]
    return (readings[1] - (readings[0] if readings[1] >= readings[0] else 0.0)) if len(readings) == 2 else 0.0


def expected(pods: Sequence[Pod]) -> float | None:
    """The p value that the Python gives for these counters, block by block."""
    told = []
    for minute in range(0, MINUTES + 1, BLOCK_MINUTES):
        sides = [
            Side(*(sum(grown(series, minute) for series in each) for each in zip(*columns, strict=True)))
            for columns in (
                [(one.bad, one.requests) for one in pods if one.name.startswith("new")],
                [(one.bad, one.requests) for one in pods if one.name.startswith("old")],
            )
        ]
        told.append(Block(*sides))
    return always_valid_p(told)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with backfilled(tmp_path_factory.mktemp("prometheus"), lines()) as url:
        yield url


def asked(url: str, query: str) -> list[float]:
    told = urllib.parse.urlencode({"query": query, "time": STARTS_AT + MINUTES * 60}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", told, timeout=30) as answer:
        return [float(one["value"][1]) for one in json.load(answer)["data"]["result"]]


def versions(lane: str, both: str = "(new|old)-.+", canary: str = "new-.+") -> Versions:
    return Versions(f'pod=~"{both}"', f'pod=~"{canary}"', f'lane="{lane}"')


@pytest.mark.parametrize("asks", EVERY_QUESTION)
@pytest.mark.parametrize("lane", POD_SETS)
def test_prometheus_gives_the_value_that_python_gives(url: str, lane: str, asks: str) -> None:
    """Also for a pod that begins late, one that restarts, and one that is not scraped for ten minutes."""
    query = gate_query(EVERY_QUESTION[asks], versions(lane), f"{MINUTES}m")

    assert asked(url, query) == [pytest.approx(expected(POD_SETS[lane]), rel=1e-9)]


@pytest.mark.parametrize(
    ("both", "canary"),
    [("new-.+", "new-.+"), ("(new|gone)-.+", "new-.+"), ("(gone|old)-.+", "gone-.+")],
    ids=["a version with itself", "no old pods", "no new pods"],
)
def test_one_version_is_no_answer(url: str, both: str, canary: str) -> None:
    assert asked(url, gate_query(GATE_QUESTIONS[Asked.TTFT_MISSES], versions("alike", both, canary), "1h")) == []


def test_each_lane_has_its_own_answer(url: str) -> None:
    """`by` keeps lanes apart, as dashboards need it."""
    question, every = GATE_QUESTIONS[Asked.TTFT_MISSES], versions("")._replace(common="")
    alone = [asked(url, gate_query(question, versions(lane), "1h")) for lane in POD_SETS]

    assert sorted(asked(url, gate_query(question, every, "1h", by="lane"))) == sorted(chain(*alone))


def test_all_questions_together_fail_few_innocent_rollouts() -> None:
    """Each may fail its part of one in a hundred."""
    assert 0 < len(GATE_QUESTIONS) * FAILS_BELOW <= FAILED_OF_INNOCENT <= 0.01


def test_what_is_asked_tells_good_from_bad() -> None:
    """The sets of pods are on both sides of the gate; otherwise a query that always says 1 would pass here."""
    failed = {lane for lane, pods in POD_SETS.items() if (expected(pods) or 0) < FAILS_BELOW}

    assert failed == {
        "three times as many",
        "a late start, a restart and a gap in the scrapes",
        "worse, and a good request that is read too early",
        "more than half of the traffic at first",
    }


def test_a_canary_with_most_of_the_traffic_all_the_time_has_no_answer(url: str) -> None:
    """Nearly all bad requests are its own by chance; a person is asked."""
    most = versions("more than half of the traffic at first", "(new-1|old-3)", "new-1")

    assert asked(url, gate_query(GATE_QUESTIONS[Asked.TTFT_MISSES], most, "1h")) == []
