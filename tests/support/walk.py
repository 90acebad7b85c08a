"""The whole walk in memory: relay, watch, ledger, recorder and registry, between fake sockets, under a fake clock.

`Walk().client()` is a client's socket, `walk.engine` the engine's end; `walk.accounts` are the closed accounts in order,
`walk.value(name, **labels)` reads a number off the page as prometheus_client parses it.
"""

from prometheus_client.parser import text_string_to_metric_families

from sidecar.classify.lane import LaneRules
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import LanesConfig
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.logs.sanitise import allowed_headers
from sidecar.metrics.exposition import slices
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.observe.settlement import Watchers
from sidecar.observe.slo_counters import Slo
from sidecar.slo.objective import Objectives
from tests.support.memory import LIMITS, Road


class Walk(Road):
    """A road whose watches are the product's own."""

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        include_usage: bool = True,
        mints: bool = False,
        objectives: Objectives | None = None,
    ) -> None:
        super().__init__(LIMITS, lambda head: self.watchers.watch(head))  # noqa: PLW0108  the watchers are made below
        self.minted = 0
        lanes = LanesConfig(default="interactive", header="x-lane", names=("batch",))
        buckets = PromptBuckets((512, 4096))
        self.metrics = Metrics(lanes=lanes.declared, prompt_buckets=buckets.labels, models=["tiny"])
        self.slo = Slo(self.metrics, objectives or Objectives())
        self.accounts: list[Account] = []
        self.watchers = Watchers(
            rules=LaneRules(lanes),
            buckets=buckets,
            recorder=Recorder(self.metrics),
            in_flight=InFlight(self.metrics),
            slo=self.slo,
            engine=engine or Engine("vllm", ["tiny"]),
            log=self.accounts.append,
            headers_for_log=lambda fields: allowed_headers(fields, {"x-team"}),
            unix=lambda: 1_800_000_000.0,
            max_event_bytes=4096,
            include_usage=include_usage,
            clock=self.clock,
            random_hex=self._count_in_hex,
            mints=mints,
        )

    def _count_in_hex(self, size: int) -> str:
        self.minted += 1
        return f"{self.minted:0{2 * size}x}"

    def page(self) -> str:
        """The page of metrics, now."""
        return b"".join(slices(self.metrics, openmetrics=False, at=self.clock.now)).decode()

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name whose labels include these."""
        found = [
            sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no sample {name} {labels}"
        return sum(found)
