"""The components are joined by the config: label values to the registry, limits and addresses to the road."""

import pytest

from sidecar.budgets.machine import Machine
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.metrics.catalogue import DROPPED_TOTAL, FAILURES_TOTAL
from sidecar.objectives.objective import Objectives
from sidecar.observe.instruments import Instruments
from sidecar.proxy.errors import Failure
from sidecar.wiring import RandomHex, budgets_of, metrics_of, observers_of, reload, road_of, via_of
from tests.support.configs import section_of
from tests.support.memory import Clock


MACHINE = Machine(1 << 30, 4096)


def config(**sections: dict[str, object]) -> Config:
    engine = {"url": "http://[::1]:8000", "models": ("tiny",), **sections.pop("engine", {})}
    return section_of(Config, {"engine": engine, **sections})


def test_the_registry_has_the_label_values_that_the_config_states() -> None:
    metrics = metrics_of(
        config(
            lanes={"default": "interactive", "names": ("batch",)},
            prompt_buckets={"edges": (512, 4096)},
            labels={"gpu_type": "H100"},
            metrics={"series_limit": 30_000},
        )
    )

    assert {*metrics.lanes.shown()} == {"interactive", "batch", "other"}
    assert metrics.models.shown() == ("tiny", "other")
    assert {"0-512", "512-4k", "unknown"} <= {*metrics.prompt_buckets.shown()}
    assert metrics.constants["gpu_type"] == "H100"


def test_series_by_model_wait_for_the_engine_to_tell_its_models_where_the_config_does_not() -> None:
    """Unless no engine is ever asked: then all requests are of `other` from the start."""
    asked, never, stated = (
        metrics_of(config(engine=engine))
        for engine in (
            dict[str, object](models=()),
            dict[str, object](models=(), kind="none"),
            dict[str, object](models=("tiny",)),
        )
    )

    assert [each.models.expected() for each in (asked, never, stated)] == [(), ("other",), ("tiny",)]


def test_a_reload_changes_the_limits_of_a_running_road_and_not_its_engine() -> None:
    """Connections read the limits from the road each time, so those that are open get the new ones too."""
    first = config()
    instruments = Instruments.on(metrics_of(first), Objectives())
    observers = observers_of(first, instruments, Engine("vllm", ["tiny"]), clock=Clock(), log=lambda _account: None)
    road = road_of(first, observers, Clock(), budgets_of(first, MACHINE))
    assert (road.engine_authority, road.pool.idle_seconds, road.via) == (b"[::1]:8000", 3.0, None)

    second = config(
        engine={"pool_idle_seconds": 1.0, "gap_timeout_seconds": 7.0}, proxy={"max_in_flight": 5, "via": "on"}
    )
    reload(second, observers, road, MACHINE)

    assert (road.budgets.requests.limit, road.engine_limits.gap_timeout_seconds) == (5, 7.0)
    assert (road.pool.idle_seconds, road.via, road.engine_authority) == (1.0, via_of(second), b"[::1]:8000")


@pytest.mark.reaches_in
def test_a_refusal_and_a_request_that_cannot_be_observed_are_counted() -> None:
    """The relay reports both by name; the page has a counter for each."""
    of = config()
    metrics = metrics_of(of)
    observers = observers_of(
        of, Instruments.on(metrics, Objectives()), Engine("vllm", ["tiny"]), clock=Clock(), log=lambda _account: None
    )
    road = road_of(of, observers, Clock(), budgets_of(of, MACHINE))

    road.refused(Failure.TOO_MANY_IN_FLIGHT)
    road.observe(None)  # type: ignore[arg-type]  # no observer can be made of this

    refused, dropped = metrics.counter(FAILURES_TOTAL), metrics.counter(DROPPED_TOTAL)
    assert refused.child(Failure.TOO_MANY_IN_FLIGHT.reason).value == 1
    assert dropped.child("observer_error").value == 1


def test_random_ids_come_from_a_pool_and_never_twice() -> None:
    """Ids of two lengths, over several pools: each has its length, and no piece of the pool is in two ids."""
    ids = RandomHex()
    count = 3 * RandomHex.POOL_BYTES // 8

    found = [ids(size) for _ in range(count) for size in (16, 8)]

    assert [len(one) for one in found] == [32, 16] * count
    assert all(set(one) <= set("0123456789abcdef") for one in found)
    assert len({half for one in found for half in (one[:16], one[16:]) if half}) == 3 * count
