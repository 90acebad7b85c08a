"""A pod without a proxy, in memory: an engine's spans in, a page of metrics out: `SpanStory().calm(300).second(prefill=4)`.

The spans are vLLM's (`tests/spans/vllm-chat.json`), two a second, sent in batches as its exporter does, some seconds late. The clock is
fake, and the loop's once-a-second work is done after each second. What the engine's own page says is set by hand.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sidecar.accounts.account_ring import AccountRing
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.engines.span import Span
from sidecar.ledger.account import Account
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Gauge
from sidecar.metrics.text_page import slices
from sidecar.observe.instruments import Instruments
from sidecar.observe.span_requests import SpanRequests
from sidecar.wiring import metrics_of, observers_of
from tests.support.configs import section_of
from tests.support.memory import Clock
from tests.support.spans import fixture


(SPAN,) = fixture("vllm-chat").spans
ENGINE_BEGAN_UNIX = 1_795_000_000.0
BATCH_SECONDS = 5
"""`OTEL_BSP_SCHEDULE_DELAY`."""
QUEUE, PREFILL, FRONT_END, PACE, TOKENS = 0.01, 0.2, 0.03, 0.02, 21
"""Seconds of a usual request, its tokens, and the seconds of each after the first."""


def config(**more: Any) -> Config:
    """A vLLM of the model `tiny` without a proxy; the lane `chat` has TTFT 1 s and TPOT 50 ms."""
    aims = {"ttft": {"threshold_seconds": 1.0, "target": 0.9}, "tpot": {"threshold_seconds": 0.05, "target": 0.9}}
    return section_of(
        Config,
        {
            "engine": {"url": "http://engine:8000", "kind": "vllm", "models": ["tiny"]},
            "spans": {"without_proxy": True},
            "lanes": {"default": "chat", "span_attribute": "lane", "names": ["batch"]},
            "objectives": {"chat": {"preset": "none", **aims}},
            **more,
        },
    )


class SpanStory:
    """One process's instruments with an engine that is known from its spans alone."""

    def __init__(self, of: Config | None = None) -> None:
        self.config = of or config()
        self.clock = Clock()
        self.metrics = metrics_of(self.config)
        instruments = Instruments.on(
            self.metrics, objectives_of(self.config), accounts=AccountRing(1 << 20), by_spans=True
        )
        self.accounts: list[Account] = []
        self.engine = Engine(self.config.engine.kind, self.config.engine.models)
        observers = observers_of(
            self.config,
            instruments,
            self.engine,
            clock=self.clock,
            log=self.accounts.append,
            unix=lambda: ENGINE_BEGAN_UNIX + self.clock.now,
        )
        self.slo = instruments.slo
        self.engine_says(c.WITHOUT_PROXY, 1.0)
        self.settlement = observers.settlement
        self.settlement.on_span_report = SpanRequests(observers).take
        self._batch: list[Span] = []
        self._ids = 0

    # --- what happens ---------------------------------------------------------------------------------------------------

    def span(
        self,
        *,
        queue: float = QUEUE,
        prefill: float = PREFILL,
        front_end: float = FRONT_END,
        pace: float = PACE,
        tokens: int = TOKENS,
        said: Mapping[str, str | int | float | bool] = MappingProxyType({}),
    ) -> Span:
        """The span of a request that ends now, by the engine's clock. `said`: its further attributes."""
        decode, ttft = pace * (tokens - 1), queue + prefill + front_end
        e2e = ttft + decode + 0.001
        began = ENGINE_BEGAN_UNIX + self.clock.now - e2e
        self._ids += 1
        attributes: dict[str, str | int | float | bool] = {
            "gen_ai.latency.time_to_first_token": ttft,
            "gen_ai.latency.e2e": e2e,
            "gen_ai.latency.time_in_queue": queue,
            "gen_ai.latency.time_in_model_prefill": prefill,
            "gen_ai.latency.time_in_model_decode": decode,
            "gen_ai.latency.time_in_model_inference": prefill + decode,
            "gen_ai.usage.completion_tokens": tokens,
            "gen_ai.request.id": f"chatcmpl-{self._ids}",
        }
        return replace(
            SPAN,
            span_id=f"{self._ids:016x}",
            parent_span_id="",
            start_unix_nano=round(began * 1e9),
            attributes={**SPAN.attributes, **attributes, **said},
        )

    def second(self, **of: Any) -> "SpanStory":
        """A second with two requests that end in it, as `span` says; a full batch comes at its end."""
        for _ in range(2):
            self.clock.later(0.5)
            self._batch.append(self.span(**of))
        if round(self.clock.now) % BATCH_SECONDS == 0:
            for span in self._batch:
                assert self.settlement.span(span)
            self._batch.clear()
        while self.settlement.expire(self.clock()):
            pass
        return self

    def seconds(self, count: int, **of: Any) -> "SpanStory":
        for _ in range(count):
            self.second(**of)
        return self

    def engine_says(self, metric: Gauge, value: float | None) -> "SpanStory":
        """The engine's own page says this from now on."""
        self.metrics.gauge(metric).child().set(value)
        return self

    # --- what the page shows --------------------------------------------------------------------------------------------

    def page(self) -> str:
        """The page of metrics, now."""
        return b"".join(slices(self.metrics, openmetrics=False, at=self.clock.now)).decode()

    def samples(self, name: str, *by: str) -> dict[Any, float]:
        """The samples of this name that are not 0, by the values of these labels; of one label by its value alone."""
        found: dict[Any, float] = {}
        for family in text_string_to_metric_families(self.page()):
            for each in family.samples:
                if each.name == name and each.value:
                    key = tuple(each.labels[label] for label in by)
                    found[key if len(key) != 1 else key[0]] = found.get(key, 0.0) + each.value
        return found

    def names(self) -> set[str]:
        """The names of all samples on the page."""
        return {each.name for family in text_string_to_metric_families(self.page()) for each in family.samples}

    def roots(self) -> dict[tuple[str, str], float]:
        """Phase and cause to the misses whose root they are."""
        children = self.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).children
        return {(key[1], key[2]): round(child.value, 2) for key, child in children.items() if child.value}
