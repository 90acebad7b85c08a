"""Rules with one mistake in them: a flipped comparison, a number twice or half as large, a guard that is gone.

Knows how expressions are written, and nothing of what they mean.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import promql_parser as promql

from sidecar.commands.export.rules.pages import BURN_ALERTS
from sidecar.objectives.attribution import Blame
from tests.alert_rules.syntax import Shipped, inside, operator, rules


FLIPPED = {">=": "<", "<=": ">", ">": "<=", "<": ">=", "==": "!=", "!=": "=="}
_TOKEN = re.compile(
    r"""
    (?P<skip> "(?:[^"\\]|\\.)*" | \{[^}]*\} | \[[^\]]*\] | (?:offset\ )\S+ | [A-Za-z_:][\w:]* )
  | (?P<comparison> >= | <= | == | != | > | < )
  | (?P<number> \d+(?:\.\d+)? )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule with one mistake."""

    rule: Shipped
    mistake: str
    expr: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.mistake}"


@cache
def mutants() -> tuple[Mutant, ...]:
    """All of them, in the order of the rules. Of the alerts of eight phases, which one function writes, those of two, the engine's page and the pod's."""
    return tuple(
        Mutant(rule, mistake, expr)
        for rule in rules()
        if rule.name not in BURN_ALERTS.values()
        or rule.name in {BURN_ALERTS[Blame.QUEUE], BURN_ALERTS[Blame.UNATTRIBUTED]}
        or (rule.name, rule.labels["severity"]) == (BURN_ALERTS[Blame.ENGINE], "page")
        for mistake, expr in dict(mistakes(rule.expr)).items()
    )


def mistakes(text: str) -> Iterator[tuple[str, str]]:
    """Each mistake that an expression can have, in words, with the expression that has it."""
    tree = promql.parse(text)
    written = str(tree)
    for found in _TOKEN.finditer(written):
        before, token, after = written[: found.start()], found[0], written[found.end() :]
        near = f"...{before[-40:]}[{token}]{after[:40]}..."
        if found["comparison"]:
            yield f"{FLIPPED[token]} in {near}", f"{before}{FLIPPED[token]}{after}"
        elif found["number"] and float(token):
            for factor in (2, 0.5):
                yield f"x{factor} in {near}", f"{before}{float(token) * factor:g}{after}"
    for node in inside(tree):
        if isinstance(node, promql.BinaryExpr) and operator(node) in {"and", "unless", "or"}:
            whole, left = str(node), str(node.lhs)
            at = written.index(whole)
            before, after = written[:at], written[at + len(whole) :]
            yield f"without {whole[len(left) :].strip()[:110]}", f"{before}{left}{after}"
            if operator(node) == "unless":
                kept = whole[len(left) :].replace("unless", "and", 1)
                yield f"and for {whole[len(left) :].strip()[:110]}", f"{before}{left}{kept}{after}"
