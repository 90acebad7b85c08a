"""The whole walk in memory: relay, observer, ledger, recorder and registry, with fake sockets and a fake clock.

`Walk().client()` is a client's socket, `walk.engine` the engine's end; `walk.accounts` are the closed accounts in
order, `walk.value(name, **labels)` reads a number from the page as prometheus_client parses it. `REQUEST` is a request, and
`HEAD`, `TOKEN` and `LAST` are vLLM's answer to it.
"""

import json
from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from sidecar.accounts.account_ring import AccountRing
from sidecar.config.schema import Config, ProxyConfig
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.logs.sanitise import allowed_headers
from sidecar.metrics.text_page import slices
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.instruments import Instruments
from sidecar.timeline.belief import LEARNED_FROM
from sidecar.wiring import metrics_of, observers_of
from tests.support.configs import section_of
from tests.support.memory import LIMITS, Road
from tests.support.threads import HeldThreads


AIMS = Aims(ttft=Aim(1.0, 0.9), tpot=Aim(0.25, 0.95), e2e=Aim(8.0, 0.99))
OBJECTIVES = Objectives({"interactive": dict.fromkeys(("0-512", "512-4k", "4k+", "unknown"), AIMS)})
BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "stream": True}).encode()
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nAccept: */*\r\nUser-Agent: curl/8\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"tiny","choices":'
    b'[{"index":0,"delta":{"content":" a"},"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n'
)
TOKEN = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
"""As vLLM 0.33 writes it."""
LAST = b"e\r\ndata: [DONE]\n\n\r\n"


class Walk(Road):
    """A road with the product's own observers. `states_no_usage`: a stream has shown already that the engine states no usage by itself. `lanes`: those beside `interactive`."""

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        include_usage: bool = True,
        mints: bool = False,
        any_engine: bool = False,
        objectives: Objectives | None = None,
        estimate: bool = False,
        limits: ProxyConfig = LIMITS,
        states_no_usage: bool = True,
        lanes: Sequence[str] = ("batch",),
    ) -> None:
        super().__init__(limits, lambda head: self.observers(head))  # noqa: PLW0108  the observers are made below
        self.minted = 0
        config = section_of(
            Config,
            {
                "engine": {"url": "http://engine:8000", "models": ("tiny",)},
                "lanes": {"default": "interactive", "header": "x-lane", "names": tuple(lanes)},
                "prompt_buckets": {"edges": (512, 4096)},
                "proxy": {"max_event_bytes": 4096, "include_usage": "auto" if include_usage else "never"},
                "spans": {"receive": mints, "any_engine": any_engine},
            },
        )
        self.metrics = metrics_of(config)
        self.instruments = Instruments.on(
            self.metrics, objectives or Objectives(), estimate=estimate, accounts=AccountRing(1 << 16)
        )
        self.slo = self.instruments.slo
        self.accounts: list[Account] = []
        engine = engine or Engine("vllm", ["tiny"])
        for api in ("openai_chat", "openai_completions") if states_no_usage else ():
            for _ in range(LEARNED_FROM):
                engine.asking.ended(api, 0.0, shows=False)
        self.observers = observers_of(
            config,
            self.instruments,
            engine,
            clock=self.clock,
            log=self.accounts.append,
            headers_for_log=lambda fields: allowed_headers(fields, {"x-team"}),
            unix=lambda: 1_800_000_000.0,
            random_hex=self._count_in_hex,
        )
        self.observers.beside.threads = HeldThreads(self._next_turn)
        self.settlement = self.observers.settlement

    def _count_in_hex(self, size: int) -> str:
        self.minted += 1
        return f"{self.minted:0{2 * size}x}"

    def page(self) -> str:
        """The page of metrics, now."""
        return b"".join(slices(self.metrics, openmetrics=False, at=self.clock.now)).decode()

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that have these labels."""
        lines = [line for line in self.page().splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        found = [
            sample.value
            for family in text_string_to_metric_families("".join(f"{line}\n" for line in lines))
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no sample {name} {labels}"
        return sum(found)
