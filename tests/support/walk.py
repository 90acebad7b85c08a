"""The whole walk in memory: relay, observer, ledger, recorder and registry, with fake sockets and a fake clock.

`Walk().client()` is a client's socket, `walk.engine` the engine's end; `walk.accounts` are the closed accounts in
order, `walk.value(name, **labels)` reads a number from the page as prometheus_client parses it.
"""

from prometheus_client.parser import text_string_to_metric_families

from sidecar.config.proxy_section import ProxyConfig
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.logs.sanitise import allowed_headers
from sidecar.metrics.exposition import slices
from sidecar.observe.instruments import Instruments
from sidecar.slo.objective import Objectives
from sidecar.wiring import metrics_of, observers_of
from tests.support.memory import LIMITS, Road


class Walk(Road):
    """A road with the product's own observers."""

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        include_usage: bool = True,
        mints: bool = False,
        objectives: Objectives | None = None,
        estimate: bool = False,
        limits: ProxyConfig = LIMITS,
    ) -> None:
        super().__init__(limits, lambda head: self.observers(head))  # noqa: PLW0108  the observers are made below
        self.minted = 0
        config = Config.model_validate(
            {
                "engine": {"url": "http://engine:8000", "models": ("tiny",)},
                "lanes": {"default": "interactive", "header": "x-lane", "names": ("batch",)},
                "prompt_buckets": {"edges": (512, 4096)},
                "proxy": {"max_event_bytes": 4096, "include_usage": "auto" if include_usage else "never"},
                "spans": {"receive": mints},
            }
        )
        self.metrics = metrics_of(config)
        self.instruments = Instruments.on(self.metrics, objectives or Objectives(), estimate=estimate)
        self.slo = self.instruments.slo
        self.accounts: list[Account] = []
        self.observers = observers_of(
            config,
            self.instruments,
            engine or Engine("vllm", ["tiny"]),
            clock=self.clock,
            log=self.accounts.append,
            headers_for_log=lambda fields: allowed_headers(fields, {"x-team"}),
            unix=lambda: 1_800_000_000.0,
            random_hex=self._count_in_hex,
        )
        self.settlement = self.observers.settlement

    def _count_in_hex(self, size: int) -> str:
        self.minted += 1
        return f"{self.minted:0{2 * size}x}"

    def page(self) -> str:
        """The page of metrics, now."""
        return b"".join(slices(self.metrics, openmetrics=False, at=self.clock.now)).decode()

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that have these labels."""
        found = [
            sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no sample {name} {labels}"
        return sum(found)
