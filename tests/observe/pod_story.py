"""One pod under one request a second: all are well until something breaks: `calm_pod().waits(60)`.

Requests come, speak and end through `Slo`; what other observers would count (the engine's own numbers, usage, the lateness
of the loop) is set on the page. The clock is fake, and ticks after each step.
"""

from copy import deepcopy
from functools import cache

from sidecar import IS_COMPILED
from sidecar.ledger.account import Reason, Source
from sidecar.ledger.report import EngineReport
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Gauge
from tests.support.slo_harness import Request, SloHarness


CALM_SECONDS = 300
"""By then the usual values are known."""
STEP_SECONDS = 0.2
PROMPT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS = 100, 40, 3


class PodStory:
    """A pod with the objectives of `SloHarness`: TTFT 1 s, TPOT 0.25 s, E2E 8 s."""

    def __init__(self) -> None:
        self.harness = SloHarness()
        self.metrics = self.harness.metrics
        self._long = self.harness.comes().speaks(after=0.1)
        """A stream that speaks in every step and never ends."""

    @property
    def now(self) -> float:
        return self.harness.now

    # --- what happens ---------------------------------------------------------------------------------------------------

    def calm(self, seconds: int = CALM_SECONDS) -> "PodStory":
        for _ in range(seconds):
            self.second()
        return self

    def second(
        self,
        *,
        prefill: float = 1.0,
        decode: float = 1.0,
        events: int = 1,
        cached: int = CACHED_TOKENS,
        answered: Request | None = None,
        queue_seconds: float = 0.0,
    ) -> None:
        """Five steps with one answer of three tokens in them; a second if nothing is dearer.

        `prefill`, `decode`: cost over the usual one; `events`: output events in a read; `cached`: prompt tokens
        from the cache; `answered`: a request that has waited for `queue_seconds`, and not one that comes now.
        """
        prefill_seconds = STEP_SECONDS * prefill
        request = answered or self.harness.comes()
        self._step(prefill_seconds, request, events)
        self._step(STEP_SECONDS * decode, request, events)
        self._step(STEP_SECONDS * decode, request, events)
        request.settles(request.ends(tokens=OUTPUT_TOKENS), EngineReport(queue_seconds, prefill_seconds))
        self.metrics.histogram(c.PROMPT_TOKENS).child("llama", "chat").observe(PROMPT_TOKENS)
        self.metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child("llama", "chat").inc(cached)
        self.metrics.histogram(c.OUTPUT_TOKENS).child("llama", "chat").observe(OUTPUT_TOKENS)
        self.metrics.counter(c.PHASE_ATTRIBUTION_TOTAL).child("chat", Source.ENGINE, Reason.IN_BAND).inc()
        self._step(STEP_SECONDS * decode)
        self._step(STEP_SECONDS * decode)

    def _step(self, seconds: float, request: Request | None = None, events: int = 1) -> None:
        """A step of the engine: each stream speaks at its end."""
        self._long.speaks(after=seconds, events=events)
        if request is not None:
            request.speaks(events=events)
        self.metrics.histogram(c.STREAM_EVENTS_PER_READ).child("chat").observe(events)
        for number in range(events):
            self.metrics.histogram(c.INTER_TOKEN_SECONDS).child("unknown", "chat").observe(0.0 if number else seconds)
        self.harness.later(0.0)

    def steps(self, seconds: float, *, decode: float) -> "PodStory":
        """No answer ends, and one request comes each second and waits."""
        until, next_at = self.now + seconds, self.now
        while self.now < until:
            while next_at <= self.now:
                self.harness.comes()
                next_at += 1.0
            self._step(STEP_SECONDS * decode)
        return self

    def waits(self, seconds: int, *, each_second: int = 1) -> "PodStory":
        """Requests come and get no output."""
        for _ in range(seconds):
            for _ in range(each_second):
                self.harness.comes()
            self.harness.later(1.0)
        return self

    def alone(self) -> "PodStory":
        """The stream that never ends has ended."""
        self._long.ends()
        return self

    def set(self, metric: Gauge, value: float | None) -> None:
        self.metrics.gauge(metric).child().set(value)

    # --- what the page shows --------------------------------------------------------------------------------------------

    def misses(self, *labels: str) -> float:
        return self.harness.count(c.SLO_MISSES_TOTAL, *labels)

    def roots(self, *labels: str) -> dict[str, float]:
        """Phase to misses, for those above 0, of the children with these label values."""
        self.harness.page()
        found: dict[str, float] = {}
        for key, child in self.metrics.counter(c.SLO_ROOT_MISSES_TOTAL).children.items():
            if child.value and {*labels} <= {*key}:
                found[key[3]] = found.get(key[3], 0.0) + child.value
        return found

    def causes(self) -> dict[tuple[str, str], float]:
        """Phase and cause to misses, for those above 0."""
        self.harness.page()
        children = self.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).children
        return {(key[1], key[2]): child.value for key, child in children.items() if child.value}

    def undecided(self, *labels: str) -> float:
        self.harness.page()
        children = self.metrics.gauge(c.SLO_UNDECIDED_MISSES).children
        return sum(child.value or 0.0 for key, child in children.items() if {*labels} <= {*key})


@cache
def _calm() -> PodStory:
    return PodStory().calm()


def calm_pod() -> PodStory:
    """`PodStory().calm()`, lived once in a process and copied: for stories that change nothing of the product before it.

    Objects of compiled classes cannot be copied: there it is lived anew.
    """
    return PodStory().calm() if IS_COMPILED else deepcopy(_calm())


def leader(votes: dict[str, float]) -> str:
    return max(votes, key=votes.__getitem__)


def decodes_dearly(pod: PodStory) -> None:
    pod.second(decode=3.0)
