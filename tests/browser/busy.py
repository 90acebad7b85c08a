"""A sidecar whose status page is as full as it gets: many lanes, a name of 60 letters, all buckets, phases and
failures.

It knows how to make requests of every kind. It refuses to know how they are drawn.
"""

from itertools import cycle

from sidecar.admin.page.page import Facts
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Budgets, limits_of
from sidecar.config.schema import ProxyConfig
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.slo_counters import Slo
from sidecar.pod.liveness.progress import Progress, State
from sidecar.shutdown import Drained
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


LONG = "a-lane-whose-name-is-as-long-as-a-config-lets-it-be-and-has-no-blank"
LANES = ("interactive", "batch", "code", LONG)
BUCKETS = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+")
MODEL = "small-chat-1b"
AIMS = Aims(ttft=Aim(1.0, 0.95), tpot=Aim(0.05, 0.9), e2e=Aim(30.0, 0.99))


class BusyApp:
    """Supplies everything that the admin listener asks for. The test sets the clock, `now`."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.metrics = Metrics(lanes=LANES, prompt_buckets=BUCKETS, models=[MODEL])
        self.recorder = Recorder(self.metrics)
        self.inside = InFlight(self.metrics)
        self.recent_failures = RecentFailures(lambda: self.now)
        self.budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))
        objectives = {lane: dict.fromkeys((*BUCKETS, "unknown"), AIMS) for lane in LANES if lane != "code"}
        self.slo = Slo(self.metrics, Objectives(objectives))
        self.slo.on_blamed = self.recent_failures.missed
        self.text = "127.0.0.1:8000 (vLLM 0.33.0)"

    def ready(self) -> tuple[bool, str]:
        return True, ""

    def healthy(self) -> tuple[bool, str]:
        return True, ""

    def engine_progress(self) -> Progress:
        return Progress(State.FINE, "")

    async def settle(self) -> None:
        pass

    async def drain(self) -> Drained:
        return Drained(drained=True, in_flight=0, waited_seconds=0.0)

    async def reload(self) -> list[str]:
        return []

    def facts(self) -> Facts:
        hint = "none of <20> answers said how many tokens were cached: --enable-prompt-tokens-details"
        return Facts("0.1", self.text, 90.0, "as loaded", source="in the answer, 100 % of requests", hints=(hint,))

    def request(
        self, lane: str = "interactive", bucket: str = "0-512", *, queue: float = 0.1, outcome: Outcome = Outcome.OK
    ) -> None:
        """Play one request from start to end, with `queue` seconds in the queue; the clock stands at its end."""
        key = RequestRecord()
        at = self.now
        first = at + queue + 0.25
        labels = RequestLabels(MODEL, lane, bucket)
        self.slo.received(key, at, labels, streaming=True, prompt_tokens=900.0)
        marks = Marks(at, at, at, at, first, first + 1.0, first + 1.0, first + 1.5, choices=1, usage=Usage(900, 40))
        self.slo.output(key, 1, first)
        self.now = first + 1.5
        account = Account(labels, True, outcome, marks, None, key=key, notes={"error": "engine_refused"})
        self.recorder.ended(account)
        self.slo.ended(key, account, self.now)
        if outcome is not Outcome.OK:
            self.recent_failures.closed(account)
            return
        ledger = close_ledger(marks, streaming=True, report=EngineReport(queue, 0.2, 1.0))
        settled = Account(labels, True, outcome, marks, ledger, key=key)
        self.recorder.settled(settled)
        self.slo.settled(key, settled, self.now)

    def fill(self) -> None:
        """Play requests until the page is as full as possible."""
        gap = self.recorder.gaps[RequestLabels(MODEL, "interactive", "0-512")].observe
        for _ in range(200):
            gap(0.0123)
        for lane in LANES:
            for bucket, queue in zip(BUCKETS, cycle((0.002, 8.0, 123.4)), strict=False):
                for _ in range(6):
                    self.request(lane, bucket, queue=queue)
            self.request(lane, outcome=Outcome.ENGINE_UNREACHABLE)
            for number in range(8):
                key = RequestRecord()
                self.inside.enter(key, RequestLabels(MODEL, lane, "unknown"), self.now - 10.0 * number)
                if number % 3:
                    self.inside.streaming(key)
                if number % 3 == 2:
                    key.is_held = True
        for gauge, value in (
            (c.ENGINE_UP, 1.0),
            (c.ENGINE_REQUESTS_WAITING, 1234.0),
            (c.ENGINE_REQUESTS_RUNNING, 256.0),
            (c.ENGINE_KV_CACHE_USAGE_RATIO, 0.987),
            (c.ENGINE_TRAFFIC_SEEN_RATIO, 0.42),
        ):
            self.metrics.gauge(gauge).child().set(value)
