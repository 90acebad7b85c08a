"""The mutants that no scenario can notice, each with its reason, and the judgement on a whole search.

A mutant with an excuse must stay unnoticed, or the excuse is wrong; one without must be noticed, or a scenario is missing.
"""

import re
from collections.abc import Sequence

from tests.alert_rules.mutants.mistakes import Mutant
from tests.alert_rules.promtool import Scenario


_ALWAYS = "its value does not matter: it always fires"
EQUIVALENT = {
    ("Watchdog", r"x2 in"): _ALWAYS,
    ("Watchdog", r"x0\.5 in"): _ALWAYS,
}
"""(rule, pattern of the mistake) to the reason why it changes nothing that a scenario could ask for."""


def excuse(mutant: Mutant) -> tuple[str, str] | None:
    """The key of the excuse that fits this mutant, or None."""
    return next((key for key in EQUIVALENT if key[0] == mutant.rule.name and re.search(key[1], mutant.mistake)), None)


def objections(found: Sequence[tuple[Mutant, Scenario | None]]) -> list[str]:
    """Everything that is wrong with a search through all mutants, a line each: empty if it is good."""
    unnoticed = [
        f"no scenario notices {mutant}" for mutant, scenario in found if scenario is None and excuse(mutant) is None
    ]
    wrong = [
        f"{scenario.name} notices {mutant}, which has an excuse"
        for mutant, scenario in found
        if scenario is not None and excuse(mutant) is not None
    ]
    idle = [f"the excuse {key} fits no mutant" for key in sorted(set(EQUIVALENT) - {excuse(one) for one, _ in found})]
    return [*unnoticed, *wrong, *idle]
