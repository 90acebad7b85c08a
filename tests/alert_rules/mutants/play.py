"""Scenarios played on rules with a mistake: which of the mistakes does promtool notice?

All mistakes of one rule are played in one run: each has a copy of the scenario in a namespace of its own, and a copy of the rule that
reads this namespace alone. Only those rules are played that the answers depend on, and only those questions are asked that depend on
the rule. Assumes that the scenario comes true with the rules as they are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import promql_parser as promql

from tests.alert_rules.mutants.mistakes import Mutant
from tests.alert_rules.mutants.reach import Place, above, reach
from tests.alert_rules.promtool import Scenario, Suite, run
from tests.alert_rules.syntax import KNOWN, Labels, rules, selectors


LONGEST_RUN_SECONDS = 900
"""The longest run of one file of scenarios: no time limit of a test stands above it, and a busy machine is no objection."""
COPIES = 16
"""Number of scenarios in one run: more share the work of starting it, fewer are played for mistakes that the next one would notice."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A scenario that may notice a mistake in the rule at `place`, because the answer to one of its questions depends on it."""

    place: Place
    suite: Suite
    scenario: Scenario

    @cached_property
    def played(self) -> frozenset[Place]:
        """The rules that those answers depend on; none: this scenario cannot notice anything."""
        return frozenset().union(*(reach(self.suite, question) for question in self._asked))

    @cached_property
    def alone(self) -> bool:
        """Nothing would keep two copies apart, so that each mistake has a run of its own."""
        return self.scenario.namespace is None or bool(self.scenario.words) or not _has_namespace(self.place)

    @cached_property
    def steps(self) -> int:
        """Between the rule and the nearest question that depends on it."""
        return min(reach(self.suite, question)[self.place] for question in self._asked)

    @cached_property
    def untold(self) -> tuple[int, int]:
        """The number of series that the scenario does not tell, of those that the rule reads itself, and of all that it depends on:
        without them it records nothing.
        """
        told = {name.partition("{")[0] for name in self.scenario.series}
        return len(_outside(frozenset({self.place})) - told), len(_outside(frozenset(above(self.place))) - told)

    @cached_property
    def cost(self) -> float:
        """Length of a run, in evaluations of rules, times the series that they read."""
        seconds = max(int(question["eval_time"].removesuffix("s")) for question in self._asked)
        return seconds / self.suite.evaluation_seconds * len(self.played) * len(self.scenario.series)

    @cached_property
    def _asked(self) -> list[dict[str, Any]]:
        questions = [*self.scenario.asked, *self.scenario.words]
        return [question for question in questions if self.place in reach(self.suite, question)]

    def copy(self, name: str = "") -> Scenario:
        """The scenario with those questions alone; with a name, in the namespace of that name."""
        copy = self.scenario.again(name)
        copy.asked = [question for question in copy.asked if self.place in reach(self.suite, question)]
        copy.words = [question for question in copy.words if self.place in reach(self.suite, question)]
        return copy


def candidates(suites: Sequence[Suite], place: Place) -> list[Candidate]:
    """All scenarios that may notice a mistake in this rule, the likeliest first, and among those the cheapest."""
    found = [Candidate(place, suite, scenario) for suite in suites for scenario in suite.scenarios]
    return sorted((one for one in found if one.played), key=lambda one: (one.alone, one.steps, one.untold, one.cost))


def seek(suites: Sequence[Suite], mutants: Sequence[Mutant]) -> list[tuple[Mutant, Scenario | None]]:
    """Each of one rule's mutants with the scenario that notices it; None: no scenario of the suites does."""
    seen: list[tuple[Mutant, Scenario | None]] = []
    left = list(mutants)
    queue = candidates(suites, rules().index(left[0].rule))
    while left and queue:
        first = queue[0]
        like_it = [one for one in queue if (one.suite, one.alone, one.steps) == (first.suite, first.alone, first.steps)]
        together = like_it[: 1 if first.alone else max(1, COPIES // len(left))]
        queue = [one for one in queue if one not in together]
        found = noticed(together, left)
        seen += [(left[at], scenario) for at, scenario in found.items()]
        left = [mutant for at, mutant in enumerate(left) if at not in found]
    return [*seen, *((mutant, None) for mutant in left)]


def noticed(some: Sequence[Candidate], mutants: Sequence[Mutant]) -> dict[int, Scenario]:
    """Those of one rule's mutants, by index, that one of these scenarios of one suite notices.

    A mutant is noticed when promtool has anything against the scenario, be it that the rule cannot be evaluated.
    """
    return {
        at: one.scenario for one, at in _complained([(one, at) for one in some for at in range(len(mutants))], mutants)
    }


Pair = tuple[Candidate, int]
"""A scenario, and the index of the mistake that it is played with."""


def _complained(pairs: Sequence[Pair], mutants: Sequence[Mutant]) -> list[Pair]:
    """Those that promtool has anything against. They are played together; where it does not say which, each half of them is."""
    if len(pairs) == 1:
        ((one, at),) = pairs
        return [*pairs] if _said([one], [one.copy()], [{**mutants[at].rule.fields, "expr": mutants[at].expr}]) else []
    if not any(one.alone for one, _ in pairs):
        copies = {f"{one.scenario.name}--{at}": (one, at) for one, at in pairs}
        said = _said(
            [one for one, _ in pairs],
            [one.copy(name) for name, (one, _) in copies.items()],
            [_confined(mutants[at], name) for name, (_, at) in copies.items()],
        )
        named = set(re.findall(r'namespace=\\?"([\w-]+)\\?"', said))
        # After a rule that cannot be evaluated nothing is judged, and a complaint that names no copy is about all of them.
        if " err: " not in said and bool(named) == bool(said):
            return [pair for name, pair in copies.items() if name in named]
    half = len(pairs) // 2
    return [*_complained(pairs[:half], mutants), *_complained(pairs[half:], mutants)]


def _confined(mutant: Mutant, namespace: str) -> dict[str, Any]:
    """The mistaken rule, reading one namespace alone."""
    matcher = f'{{namespace="{namespace}",'
    written = str(promql.parse(mutant.expr))  # every selector with braces
    expr = re.sub(r'"(?:[^"\\]|\\.)*"|\{', lambda found: matcher if found[0] == "{" else found[0], written)
    return {**mutant.rule.fields, "expr": expr}


def _said(some: Sequence[Candidate], scenarios: Sequence[Scenario], instead: Sequence[Mapping[str, Any]]) -> str:
    """The complaints of promtool about the scenarios, with `instead` in the place of the rule, and no more rules than needed."""
    suite, place = some[0].suite, some[0].place
    in_words = any(scenario.words for scenario in scenarios)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in sorted(frozenset().union(*(candidate.played for candidate in some))):
        fields = instead if one == place else [rules()[one].fields]
        # The queries of annotations take time, and only a scenario of words reads what comes of them.
        kept = [{key: each[key] for key in each if in_words or key != "annotations"} for each in fields]
        groups.setdefault(rules()[one].group, []).extend(kept)
    with TemporaryDirectory() as folder:
        rule_file, test_file = Path(folder) / "rules.yml", Path(folder) / "test.yml"
        rule_file.write_text(json.dumps({"groups": [{"name": name, "rules": them} for name, them in groups.items()]}))
        test_file.write_text(json.dumps(suite.document([rule_file.name], list(groups), scenarios)))
        said = run(test_file, timeout_seconds=LONGEST_RUN_SECONDS)
    assert "parse error" not in said, f"a mutant that is no rule: {said}"
    return said


@cache
def _outside(places: frozenset[Place]) -> frozenset[str]:
    """The series that these rules read and no rule records."""
    names = {node.name or "" for one in places for node in selectors(promql.parse(rules()[one].expr))}
    return frozenset(name for name in names if ":" not in name)


@cache
def _has_namespace(place: Place) -> bool:
    return "namespace" in Labels(KNOWN).of(promql.parse(rules()[place].expr))
