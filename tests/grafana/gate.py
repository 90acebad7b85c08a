"""The canary's gate as it must stand in a dashboard, word for word.

Its blocks, offsets and raw counters would break the rules for all other queries; that the expression is right is shown
by tests/commands/compare against a real Prometheus. A gate that differs from it in one character is judged by the other rules.
"""

from functools import cache

from grafana.gate_query import Versions, gate_query
from sidecar.commands.compare.gate_questions import CUT_QUESTION, GATE_QUESTIONS, Question
from tests.grafana.boards import Json
from tests.grafana.series import VERSION, known


_CHOICES = ("cluster", "namespace", "pod", "model", "lane", "prompt_bucket")


def choice_of(question: Question) -> str:
    """The dashboard's choices, as far as the series of the question have their labels: answers have no prompt's length."""
    return ",".join(f'{name}=~"${name}"' for name in _CHOICES if name in known()[question.of.metric])


def _asked(question: Question) -> str:
    versions = Versions(f'{VERSION}=~"$baseline|$canary"', f'{VERSION}="$canary"', choice_of(question))
    return gate_query(question, versions, "$__range", "cluster, namespace, model, lane")


@cache
def gates() -> frozenset[str]:
    """The questions that rollouts ask too."""
    return frozenset(map(_asked, GATE_QUESTIONS.values()))


@cache
def sentinel() -> str:
    """The question beside the gate, in the same form."""
    return _asked(CUT_QUESTION)


def is_gate(target: Json) -> bool:
    return bool(target.get("instant")) and target["expr"] in gates()


def is_sequential(target: Json) -> bool:
    """The gate, or the question beside it."""
    return is_gate(target) or (bool(target.get("instant")) and target["expr"] == sentinel())
