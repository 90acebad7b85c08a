"""The engines' own series where no sidecar is: PromQL that parses, and records without a number that no page stated."""

import math

import promql_parser as promql
import pytest

from sidecar.diagnosis.engine_past import Slice
from sidecar.diagnosis.engine_series import (
    NO_PREFILL,
    has_engines,
    kinds,
    measured,
    past_queries,
    queries,
    slice_seconds,
    slices,
)
from sidecar.diagnosis.promql import Fleet, Ranges, Samples
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


@pytest.mark.parametrize("name", KINDS_READ)
def test_every_query_of_the_past_is_promql_of_one_field_of_a_slice_by_engine(name: str) -> None:
    """By instance too: each engine of a job is decided alone."""
    asked = past_queries(KINDS_READ[name][1], Fleet("llm", None), None, 30.0)
    parsed = {field: promql.parse(query).prettify() for field, query in asked.items()}

    assert {"up", "restarts", "firsts", "first_seconds", "first_buckets", "gaps", "gap_buckets"} <= parsed.keys()
    assert parsed.keys() <= set(Slice.__slots__)
    assert all(
        "namespace, job, instance" in text and "[30s" in text
        for field, text in parsed.items()
        if field != "waiting_after"
    )


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


def test_answers_become_the_slices_of_each_engine_from_its_first_page_on() -> None:
    """A slice in which the engine was down has no number but that; one in which a number was no number has none."""
    one, other = {**OF, "instance": "a"}, {**OF, "instance": "b"}
    past: dict[str, Ranges] = {
        "firsts": [(one, {60.0: 20.0, 90.0: 30.0}), (other, {90.0: 5.0})],
        "first_buckets": [({**one, "le": "0.5"}, {90.0: 10.0}), ({**one, "le": "+Inf"}, {90.0: 30.0})],
        "up": [(one, {30.0: 1.0, 60.0: 1.0, 90.0: 1.0, 120.0: 0.0})],
        "kv_usage": [(one, {90.0: math.nan})],
    }

    assert slices(past, 30.0) == {
        ("llm", "llama"): [
            [
                Slice(seconds=30.0, firsts=20.0),
                Slice(seconds=30.0, firsts=30.0, first_buckets={0.5: 10.0, math.inf: 30.0}),
                Slice(seconds=30.0, up=False),
            ],
            [Slice(seconds=30.0, firsts=5.0)],
        ]
    }


def test_the_past_gives_the_record_a_verdict_and_the_page_says_what_it_lacks() -> None:
    """Nothing but first tokens that are late is told, and for no longer than the window: no cause is known."""
    now: dict[str, Samples] = {"started": [(OF, 300.0)], "ttft": [(OF, 4.0)], "pace": [(OF, 0.02)]}
    target = {**OF, "instance": "a"}
    past: dict[str, Ranges] = {
        "firsts": [(target, {30.0 * slot: 30.0 for slot in range(10)})],
        "first_buckets": [
            ({**target, "le": le}, {30.0 * slot: count for slot in range(10)})
            for le, count in (("1.5", 0.0), ("+Inf", 30.0))
        ],
    }

    (told,) = measured(kind_of("sglang"), now, None, 300.0, past)

    assert [str(verdict.phase) for verdict in told.verdicts.values()] == ["unattributed", "unattributed"]
    assert told.hints[0] == NO_PREFILL
    assert NO_PREFILL not in next(measured(kind_of("vllm"), now, None, 300.0, past)).hints
    assert (has_engines(now), has_engines({"started": [(OF, 0.0)]}), has_engines({})) == (True, False, False)


def test_a_slice_has_two_scrapes_of_each_engine() -> None:
    """A tenth of the window is too short where Prometheus asks once a minute, as it does unless told."""
    told = [
        slice_seconds({} if count is None else {"scrapes": [(OF, 20.0), (OF, count)]}, 300.0)
        for count in (None, 20.0, 10.0, 5.0)
    ]

    assert told == [30.0, 30.0, 60.0, 120.0]
