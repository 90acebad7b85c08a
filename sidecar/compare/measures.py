"""The numbers that `sidecar compare` sets beside each other: shares of requests and means, each one sum over another.

It knows which counters each number is made of, its unit, and which direction is worse. It refuses to know windows,
pods and Prometheus' answers.
"""

from enum import StrEnum
from typing import NamedTuple

from sidecar.compare.gate_query import CUT_ANSWERS, CUT_QUESTION, GATE_QUESTIONS, Asked, Counted, Question, misses
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.vocabulary import PHASE
from sidecar.slo.objective import Objective


class Unit(StrEnum):
    SHARE = "share"
    SECONDS = "seconds"
    TOKENS = "tokens"


class Measure(NamedTuple):
    name: str
    """As flags and JSON have it, such as `ttft-misses`."""
    title: str
    unit: Unit
    question: Question
    judged: bool = True
    """False for what describes the traffic: more prompt tokens are neither better nor worse."""

    @property
    def more_is_worse(self) -> bool:
        return self.question.more_is_worse


class Tail(NamedTuple):
    """A p99, which only native histograms can give with an interval."""

    name: str
    title: str
    histogram: str
    unit: Unit = Unit.SECONDS
    judged: bool = True
    more_is_worse: bool = True


_STREAMED = 'streaming="true"'


def _mean(
    name: str, title: str, unit: Unit, histogram: Histogram, matchers: str = "", *, judged: bool = True
) -> Measure:
    sums = Question(Counted(f"{histogram.name}_sum", matchers), Counted(f"{histogram.name}_count", matchers))
    return Measure(name, title, unit, sums, judged)


def _phase(phase: str) -> Measure:
    """Mean seconds of a phase of all streamed requests, so that phases add up to the mean of the whole request."""
    seconds = Counted(f"{c.REQUEST_PHASE_SECONDS.name}_sum", f'{_STREAMED},phase="{phase}"')
    return Measure(
        phase, f"  {phase}", Unit.SECONDS, Question(seconds, Counted(f"{c.REQUEST_SECONDS.name}_count", _STREAMED))
    )


MEASURES = (
    Measure(Asked.TTFT_MISSES, "TTFT misses", Unit.SHARE, GATE_QUESTIONS[Asked.TTFT_MISSES]),
    Measure(Asked.TPOT_MISSES, "TPOT misses", Unit.SHARE, GATE_QUESTIONS[Asked.TPOT_MISSES]),
    Measure("e2e-misses", "E2E misses", Unit.SHARE, misses(Objective.E2E)),
    Measure(Asked.ERRORS, "errors", Unit.SHARE, GATE_QUESTIONS[Asked.ERRORS]),
    Measure(Asked.GOODPUT, "good requests", Unit.SHARE, GATE_QUESTIONS[Asked.GOODPUT]),
    Measure(CUT_ANSWERS, "answers cut", Unit.SHARE, CUT_QUESTION),
    Measure(Asked.EMPTY_ANSWERS, "empty answers", Unit.SHARE, GATE_QUESTIONS[Asked.EMPTY_ANSWERS]),
    _mean("ttft", "mean TTFT", Unit.SECONDS, c.TIME_TO_FIRST_TOKEN_SECONDS),
    _mean("tpot", "mean TPOT", Unit.SECONDS, c.TIME_PER_OUTPUT_TOKEN_SECONDS),
    _mean("request", "mean whole request", Unit.SECONDS, c.REQUEST_SECONDS, _STREAMED),
    *map(_phase, PHASE.values),
    _mean("prompt-tokens", "mean prompt tokens", Unit.TOKENS, c.PROMPT_TOKENS, judged=False),
    _mean("output-tokens", "mean output tokens", Unit.TOKENS, c.OUTPUT_TOKENS, judged=False),
)
TAILS = (
    Tail("ttft-p99", "p99 TTFT", c.TIME_TO_FIRST_TOKEN_SECONDS.name),
    Tail("tpot-p99", "p99 TPOT", c.TIME_PER_OUTPUT_TOKEN_SECONDS.name),
)
BY_NAME: dict[str, Measure | Tail] = {one.name: one for one in MEASURES} | {one.name: one for one in TAILS}
