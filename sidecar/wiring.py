"""Joins the components that measure with those that forward bytes. The app, the benches and the tests call it.

It contains which key of the config each component reads. It starts and stops nothing: `app.py` does.
"""

import secrets
import time
from collections.abc import Callable

from sidecar.budgets.budgets import Budgets, Kind, limits_of
from sidecar.budgets.machine import Machine
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import Config
from sidecar.engines.engine import NONE, Engine
from sidecar.engines.probe.where import unix_path
from sidecar.ledger.account import Account
from sidecar.metrics.catalogue import UNTOLD_BY_SPANS
from sidecar.metrics.registry import Metrics
from sidecar.metrics.vocabulary import BEGUN_LATE, BY_SPANS_ALONE
from sidecar.observe.instruments import Instruments
from sidecar.observe.request import Observers
from sidecar.observe.settlement import Settlement
from sidecar.proxy.headers import Fields
from sidecar.proxy.pool import EnginePool
from sidecar.proxy.road import Road


class RandomHex:
    """Random bytes in hex, from a pool: the kernel is asked once for 2,048 bytes, and not twice for each request."""

    POOL_BYTES = 2048

    def __init__(self) -> None:
        self._digits = ""
        self._used = 0

    def __call__(self, size: int) -> str:
        """`size` random bytes, at most POOL_BYTES; none of them is returned twice."""
        assert size <= self.POOL_BYTES
        begin, end = self._used, self._used + 2 * size
        if end > len(self._digits):
            self._digits, begin, end = secrets.token_hex(self.POOL_BYTES), 0, 2 * size
        self._used = end
        return self._digits[begin:end]


def metrics_of(config: Config) -> Metrics:
    """The registry, with the label values that the config states."""
    return Metrics(
        lanes=config.lanes.declared,
        prompt_buckets=PromptBuckets(config.prompt_buckets.edges).labels,
        models=config.engine.models,
        models_pending=not config.engine.models and config.engine.kind != NONE,
        constants={"quantization": config.labels.quantization, "gpu_type": config.labels.gpu_type},
        inter_token_by_prompt_bucket=config.metrics.inter_token_by_prompt_bucket,
        series_limit=config.metrics.series_limit,
        native_histograms=config.web.native_histograms,
        untold=[metric.name for metric in UNTOLD_BY_SPANS] if config.spans.without_proxy else (),
        unbegun=BEGUN_LATE if config.spans.without_proxy else (*BY_SPANS_ALONE, *BEGUN_LATE),
    )


def observers_of(
    config: Config,
    instruments: Instruments,
    engine: Engine,
    *,
    clock: Callable[[], float],
    log: Callable[[Account], None],
    headers_for_log: Callable[[Fields], dict[str, str]] = lambda _fields: {},
    unix: Callable[[], float] = time.time,  # noqa: TID251  exemplars carry wall-clock time; no duration is made from it
    random_hex: Callable[[int], str] | None = None,
) -> Observers:
    """The factory that makes an observer for each request. `log` is called with each account when it is closed."""
    settlement = Settlement(
        instruments,
        engine,
        log=log,
        clock=clock,
        unix=unix,
        random_hex=random_hex or RandomHex(),
        mints=config.spans.receive and not config.spans.without_proxy,
        any_engine=config.spans.any_engine,
    )
    instruments.slo.roots.unix_of = lambda at: unix() - (clock() - at)
    return Observers(settlement, config, headers_for_log)


def road_of(config: Config, observers: Observers, clock: Callable[[], float], budgets: Budgets) -> Road:
    """The road to the config's engine; each of its requests is observed."""
    recorder = observers.settlement.instruments.recorder
    observers.held = observers.beside.held = budgets.held
    address = config.engine.address
    pool = EnginePool(
        address.host,
        address.port,
        clock=clock,
        idle_seconds=config.engine.pool_idle_seconds,
        max_headers=config.proxy.max_headers,
        receive_buffer_bytes=config.proxy.client_buffer_bytes,
        unix_path=unix_path(config.engine.url),
    )
    return Road(
        config.proxy,
        config.engine,
        pool,
        budgets,
        clock=clock,
        observe=observers,
        dropped=recorder.dropped,
        refused=lambda failure: recorder.failed(failure.reason),
        overhead=recorder.overhead,
        resent=recorder.resent,
        via=via_of(config),
    )


def budgets_of(config: Config, machine: Machine) -> Budgets:
    """The budgets of a process on this machine."""
    return Budgets(_limits_of(config, machine))


def _limits_of(config: Config, machine: Machine) -> dict[Kind, int]:
    return limits_of(machine.memory_bytes, machine.files, config.proxy, config.accounts.ring_bytes)


def reload(config: Config, observers: Observers, road: Road, machine: Machine) -> None:
    """Apply another config to the settings that may change while the process runs."""
    road.endings.flush()
    observers.apply(config)
    road.budgets.apply(_limits_of(config, machine))
    road.limits = config.proxy
    road.engine_limits = config.engine
    road.via = via_of(config)
    road.pool.keep_for(config.engine.pool_idle_seconds)


def via_of(config: Config) -> bytes | None:
    """The Via value for requests to the engine (RFC 9110 7.6.3), or None."""
    return b"1.1 llm-phase-sidecar" if config.proxy.via == "on" else None
