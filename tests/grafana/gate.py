"""The canary's gate as it must stand in a dashboard, word for word.

Its blocks, offsets and raw counters would break the rules for all other queries; that the expression is right is shown
by tests/compare against a real Prometheus. A gate that differs from it in one character is judged by the other rules.
"""

from collections.abc import Iterable
from functools import cache

from sidecar.compare.gate_query import GATE_QUESTIONS, SENTINEL_QUESTIONS, Question, Versions, gate_query
from tests.grafana.boards import Json
from tests.grafana.series import VERSION


_OF_A_LANE = ("namespace", "pod", "model", "lane")


def _asked(questions: Iterable[Question], variables: tuple[str, ...]) -> frozenset[str]:
    chosen = ",".join(f'{name}=~"${name}"' for name in variables)
    versions = Versions(f'{VERSION}=~"$baseline|$canary"', f'{VERSION}="$canary"', chosen)
    by = "namespace, model, lane"
    return frozenset(gate_query(question, versions, "$__range", by) for question in questions)


@cache
def gates() -> frozenset[str]:
    """The questions that rollouts ask too."""
    return _asked(GATE_QUESTIONS.values(), (*_OF_A_LANE, "prompt_bucket"))


@cache
def sentinels() -> frozenset[str]:
    """The questions beside the gate, in the same form; answers are counted without their prompt's length."""
    return _asked(SENTINEL_QUESTIONS.values(), _OF_A_LANE)


def is_gate(target: Json) -> bool:
    return bool(target.get("instant")) and target["expr"] in gates()


def is_sequential(target: Json) -> bool:
    """The gate, or a sentinel beside it."""
    return is_gate(target) or (bool(target.get("instant")) and target["expr"] in sentinels())
