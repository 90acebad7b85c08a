"""A page with objectives on it, and requests that meet or miss them: `SloHarness().comes().speaks(after=0.5).ends()`.

Instants are of a fake clock that begins at 100 s. Values on the page are read by label values; `remembered` counts what
is left of requests in every table that could keep them.
"""

from msgspec.structs import replace

from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.slo_counters import Slo
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


AIMS = Aims(ttft=Aim(1.0, 0.9), tpot=Aim(0.25, 0.95), e2e=Aim(8.0, 0.99))
LOOSE = Aims(ttft=Aim(10.0, 0.5))
CHAT = Objectives({"chat": {"0-512": AIMS, "512+": LOOSE, "unknown": AIMS}})
BUCKETS = ("0-512", "512+")


class SloHarness:
    """A registry with objectives, and a clock. Requests are of lane chat and bucket 0-512 unless said otherwise."""

    def __init__(self, objectives: Objectives = CHAT, models: tuple[str, ...] = ("llama",)) -> None:
        self.metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=BUCKETS, models=models)
        self.slo = Slo(self.metrics, objectives)
        self.now = 100.0

    def comes(self, *, lane: str = "chat", bucket: str = "0-512", streaming: bool | None = True) -> "Request":
        request = Request(self, lane, bucket, streaming)
        self.slo.received(
            request.key,
            self.now,
            request.labels,
            streaming=streaming,
            prompt_tokens=None if bucket == "unknown" else 100.0,
        )
        return request

    def later(self, seconds: float) -> None:
        self.now += seconds
        while self.slo.tick(self.now):
            pass

    def page(self) -> None:
        """Scrape the page."""
        self.metrics.refresh(self.now)

    def count(self, metric: Counter, *labels: str) -> float:
        """The sum of all children that have these label values."""
        children = self.metrics.counter(metric).children
        return sum(child.value for key, child in children.items() if {*labels} <= {*key})

    def burn(self, *labels: str) -> tuple[float, float, float]:
        """(requests, misses, allowed misses)."""
        families = (c.SLO_REQUESTS_TOTAL, c.SLO_MISSES_TOTAL, c.SLO_ALLOWED_MISSES_TOTAL)
        requests, misses, allowed = (self.count(metric, *labels) for metric in families)
        return requests, misses, round(allowed, 9)

    def votes(self) -> dict[tuple[str, str], float]:
        """(objective, phase) to votes, for those above 0."""
        children = self.metrics.counter(c.SLO_BLAMED_MISSES_TOTAL).children
        return {(key[2], key[3]): child.value for key, child in children.items() if child.value}

    def overdue(self, lane: str = "chat") -> float | None:
        self.page()
        return self.metrics.gauge(c.REQUESTS_OVERDUE).child("llama", lane).value

    def remembered(self) -> dict[str, int]:
        """Table to number of entries after the loop's next turn, for the tables that have any."""
        self.slo.tick(self.now)
        evidence = self.slo._evidence
        silence = evidence._silence
        tables = {
            "cases": range(len(self.slo._judge)),
            "due": self.slo._judge._due,
            "gaps": range(self.slo._judge.watched),
            "overdue": self.slo._judge.overdue,
            "waiting": range(evidence._work.waiting + evidence._work.streaming),
            "pending": silence._pending,
            "heard": silence._heard,
            "paused": silence._paused,
            "opaque": silence._opaque,
        }
        return {name: len(table) for name, table in tables.items() if table}


class Request:
    """One request of a harness, received whole and on its way to the engine."""

    def __init__(self, harness: SloHarness, lane: str, bucket: str, streaming: bool | None) -> None:
        self.key = RequestRecord()
        self.harness = harness
        self.streaming = streaming
        self.marks = Marks(accepted_at=harness.now, received_at=harness.now, choices=1)
        self.labels = RequestLabels("llama", lane, bucket)

    def speaks(self, *, after: float = 0.0, events: int = 1) -> "Request":
        self.harness.now += after
        now, first = self.harness.now, self.marks.first_token_at
        self.marks = replace(self.marks, first_token_at=now if first is None else first, last_token_at=now)
        self.harness.slo.output(self.key, events, now)
        return self

    def account(self, outcome: Outcome = Outcome.OK, *, tokens: int | None = None) -> Account:
        now = self.harness.now
        usage = Usage(prompt_tokens=100, completion_tokens=tokens)
        marks = replace(self.marks, ended_at=now, flushed_at=now, usage=usage)
        return Account(self.labels, self.streaming is True, outcome, marks, None, key=self.key)

    def ends(self, outcome: Outcome = Outcome.OK, *, after: float = 0.0, tokens: int | None = None) -> Account:
        """The request ends; its ledger stays open."""
        self.harness.now += after
        account = self.account(outcome, tokens=tokens)
        self.harness.slo.ended(self.key, account, self.harness.now)
        return account

    def settles(self, account: Account, report: EngineReport | None = None) -> None:
        """The request's ledger is closed."""
        ledger = close_ledger(account.marks, streaming=account.streaming, report=report)
        self.harness.slo.settled(self.key, replace(account, ledger=ledger), self.harness.now)
