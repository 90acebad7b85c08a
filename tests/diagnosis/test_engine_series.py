"""The engines' own series where no sidecar is: PromQL that parses, and records without a number that no page stated."""

import math

import promql_parser as promql
import pytest

from sidecar.diagnosis.engine_series import kinds, measured, queries
from sidecar.diagnosis.promql import Fleet, Samples
from sidecar.engines.kind import EngineKind
from sidecar.objectives.attribution import Blame


OF = {"namespace": "llm", "job": "llama"}
KINDS_READ = {kind.name: (kind, names) for kind, names in kinds()}


@pytest.mark.parametrize("name", KINDS_READ)
def test_every_query_is_promql_and_sums_over_all_but_the_engine(name: str) -> None:
    """By namespace and job: one engine is one job, and neither ranks nor models make two of it."""
    asked = queries(KINDS_READ[name][1], Fleet("llm", 'a"b'), "m", 300.0)
    parsed = {number: promql.parse(query).prettify() for number, query in asked.items()}

    assert {"ttft", "pace", "started", "waiting", "running", "kv", "queue"} <= parsed.keys()
    assert all(f"{name}:" in text and 'model_name="m"' in text and "namespace, job" in text for text in parsed.values())


def kind_of(name: str) -> EngineKind:
    return KINDS_READ[name][0]


def test_an_engine_is_a_record_of_what_its_page_states() -> None:
    told = {"started": 600.0, "ttft": 5.0, "pace": 0.04, "queue": 4.4, "waiting": 20.0, "preempted": 1.0}
    (one,) = measured(kind_of("vllm"), {name: [(OF, value)] for name, value in told.items()}, None, 300.0)

    assert (one.namespace, one.job, one.engine, one.ttft.p99_seconds, one.ttft.samples) == (
        "llm",
        "llama",
        "vllm",
        5.0,
        600,
    )
    assert {phase: time.p99_seconds for phase, time in one.phases.items()} == {Blame.QUEUE: 4.4}
    load = one.load
    assert (load.engine_arrivals_per_second, load.waiting, load.preempted, load.running, load.cached) == (
        2.0,
        20.0,
        0.5,
        None,
        None,
    )


def test_what_is_no_number_is_unknown_and_an_engine_without_requests_is_no_record() -> None:
    """A quantile of nothing is NaN, and another engine's value is not this one's."""
    other = {"namespace": "llm", "job": "other"}
    answers: dict[str, Samples] = {
        "started": [(OF, 10.0), (other, 0.0)],
        "ttft": [(OF, math.nan), (other, 1.0)],
        "pace": [(other, 0.1)],
    }
    (one,) = measured(kind_of("sglang"), answers, None, 300.0)

    assert (one.job, one.ttft.p99_seconds, one.inter_token.p99_seconds, dict(one.phases)) == ("llama", None, None, {})
