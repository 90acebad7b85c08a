"""The numbers that `sidecar compare` sets beside each other: shares of requests and means, each one sum over another.

It knows which counters each number is made of, its unit, and which direction is worse. It refuses to know windows,
pods and Prometheus' answers.
"""

from enum import StrEnum
from typing import NamedTuple

from sidecar.commands.compare.gate_questions import (
    CUT_ANSWERS,
    CUT_QUESTION,
    GATE_QUESTIONS,
    STALL_MISSES,
    STALL_QUESTION,
    Asked,
    Counted,
    Question,
)
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import PHASE
from sidecar.metrics.declaration import Histogram


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
    rare: bool = False
    """True for what most engines never do: no row where neither side has any."""

    @property
    def more_is_worse(self) -> bool:
        return self.question.more_is_worse


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
    Measure(Asked.E2E_MISSES, "E2E misses", Unit.SHARE, GATE_QUESTIONS[Asked.E2E_MISSES]),
    Measure(STALL_MISSES, "stall misses", Unit.SHARE, STALL_QUESTION),
    Measure(Asked.ERRORS, "errors", Unit.SHARE, GATE_QUESTIONS[Asked.ERRORS]),
    Measure(Asked.GOODPUT, "good requests", Unit.SHARE, GATE_QUESTIONS[Asked.GOODPUT]),
    Measure(CUT_ANSWERS, "answers cut", Unit.SHARE, CUT_QUESTION),
    Measure(Asked.EMPTY_ANSWERS, "empty answers", Unit.SHARE, GATE_QUESTIONS[Asked.EMPTY_ANSWERS]),
    Measure(Asked.REPEATED_ANSWERS, "repeated answers", Unit.SHARE, GATE_QUESTIONS[Asked.REPEATED_ANSWERS], rare=True),
    _mean("ttft", "mean TTFT", Unit.SECONDS, c.TIME_TO_FIRST_TOKEN_SECONDS),
    _mean("tpot", "mean TPOT", Unit.SECONDS, c.TIME_PER_OUTPUT_TOKEN_SECONDS),
    _mean("request", "mean whole request", Unit.SECONDS, c.REQUEST_SECONDS, _STREAMED),
    *map(_phase, PHASE.values),
    _mean("prompt-tokens", "mean prompt tokens", Unit.TOKENS, c.PROMPT_TOKENS, judged=False),
    _mean("output-tokens", "mean output tokens", Unit.TOKENS, c.OUTPUT_TOKENS, judged=False),
)
ENGINE_MEASURES = (
    Measure(
        "draft-acceptance",
        "drafts accepted",
        Unit.SHARE,
        Question(
            Counted(c.ENGINE_ACCEPTED_DRAFT_TOKENS_TOTAL.name),
            Counted(c.ENGINE_DRAFT_TOKENS_TOTAL.name),
            more_is_worse=False,
        ),
    ),
)
"""The engine counts these for all its lanes together."""
OF_ENGINE = frozenset(one.name for one in ENGINE_MEASURES)
BY_NAME = {one.name: one for one in (*MEASURES, *ENGINE_MEASURES)}
