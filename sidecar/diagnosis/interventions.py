"""The fixes that runbooks and diagnosis share, and the non-fixes: the texts of `interventions/*.yml`.

One file per runbook, of the same name. A fix is a mapping of

| key | holds |
|---|---|
| `name` | unique among all files; or `same_as`, the name of a fix that stands elsewhere (with `targets` of its own, if they differ) |
| `fix` | what to do, in one line |
| `targets` | the causes (`sidecar/slo/causes.py`) or phases that it works against |
| `cost` | `minutes`, `restart`, `replicas` or `project` |
| `works_when` | `spike`, `steady` or `both` |
| a kind of engine (`ENGINES`) | the engine's own flag; absent: it has none, or the fix is made elsewhere |
| `effect` | how much to expect, and why. An expectation from how engines schedule, and no measurement |
| `after` | what must be so before it is worth doing |
| `lever` | the technique, by its name in the serving literature (`levers.py`). A fix with a lever has the keys below as well |
| `needs` | list: what must be there, in words; or the name of another fix |
| `conflicts` | list of fixes that undo it, or that it excludes. Mutual: each names the other |
| `synergies` | list of fixes that make it worth more. Mutual |
| `quality_risk` | `none`; or `check`: answers change, and must be compared with a quality floor |
| `load` | `low` (it works while the batch is small), `high` (while it is full) or `both` |

An entry of `not_to_do` has `do` and `why`, and `lever` where it is about one. A file that breaks this form is refused as a whole,
with all mistakes at once (`intervention_errors.py`).

Knows the files and their form, and how fixes are ranked. Refuses to know what is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.intervention_errors import errors
from sidecar.diagnosis.levers import BOTH, Cost, Lever, LoadLevel, QualityRisk
from sidecar.diagnosis.measured import Regime
from sidecar.engines.kinds import KINDS
from sidecar.slo.attribution import SIDECAR, Blame
from sidecar.slo.causes import Cause


ENGINES = tuple(
    sorted((name for name, kind in KINDS.items() if kind.flags_column), key=lambda name: KINDS[name].flags_column)
)
"""The engines whose flags are known, by their kind, in the order of the runbooks' columns."""

CHAPTERS: Mapping[str, str] = {
    Blame.QUEUE: "LLMQueueBurn",
    Blame.PREFILL: "LLMPrefillBurn",
    Blame.FIRST_TOKEN: "LLMFirstTokenBurn",
    Blame.UNATTRIBUTED: "LLMUnattributedBurn",
    Blame.DECODE: "LLMDecodeBurn",
    Blame.STREAM: "LLMStreamBurn",
    Blame.ENGINE: "LLMEngineBurn",
    SIDECAR: "LLMSidecarBurn",
}
"""Phase of a root to the runbook with its fixes."""


@dataclass(frozen=True, slots=True)
class Intervention:
    name: str
    fix: str
    targets: tuple[str, ...]
    cost: Cost
    works_when: str
    """A `Regime`, or `both`."""
    flags: Mapping[str, str]
    """Kind of engine to its flag."""
    effect: str | None
    after: str | None
    lever: Lever | None = None
    needs: tuple[str, ...] = ()
    """Conditions in words, or names of other fixes."""
    conflicts: tuple[str, ...] = ()
    synergies: tuple[str, ...] = ()
    """Names of other fixes, as in `conflicts`."""
    quality_risk: QualityRisk = QualityRisk.NONE
    load: str = BOTH
    """A `LoadLevel`, or `both`."""

    def works_in(self, regime: Regime | None) -> bool:
        """True if the fix helps for as long as the regime lasts. An unknown regime excludes no fix."""
        return regime is None or self.works_when in (BOTH, regime.value)

    def fits(self, load: LoadLevel | None) -> bool:
        """True if the fix works at this load level. An unknown level excludes no fix."""
        return load is None or self.load in (BOTH, load.value)

    def known_to(self, engine: str | None) -> bool:
        """Whether this engine can do it: False where others have a flag for it, and this one has none."""
        return engine is None or engine not in ENGINES or not self.flags or engine in self.flags


@dataclass(frozen=True, slots=True)
class Unhelpful:
    """A non-fix: a tempting change that does not help here."""

    do: str
    why: str
    lever: Lever | None = None


@dataclass(frozen=True, slots=True)
class Chapter:
    fixes: tuple[Intervention, ...]
    """Cheapest first, as the runbook has them."""
    not_to_do: tuple[Unhelpful, ...]


@cache
def chapters() -> Mapping[str, Chapter]:
    """Runbook to its fixes and non-fixes. Reads files: not on a loop that has traffic. Raises OSError; ValueError for wrong files."""
    folder = files("sidecar").joinpath("diagnosis", "interventions")
    return chapters_of(
        {
            file.name.removesuffix(".yml"): read_yaml(file.read_bytes())
            for file in sorted(folder.iterdir(), key=lambda file: file.name)
            if file.name.endswith(".yml")
        }
    )


def chapters_of(said: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Chapter]:
    """Chapters from parsed files, by runbook. Raises ValueError that names every mistake, one a line."""
    mistakes = errors(said, ENGINES)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    named = {fix["name"]: _intervention(fix) for one in said.values() for fix in one["fixes"] if "name" in fix}
    return {
        name: Chapter(
            tuple(_meant(fix, named) for fix in one["fixes"]),
            tuple(Unhelpful(item["do"], item["why"], _lever(item)) for item in one["not_to_do"]),
        )
        for name, one in said.items()
    }


def _meant(fix: Mapping[str, Any], named: Mapping[str, Intervention]) -> Intervention:
    if "name" in fix:
        return named[fix["name"]]
    same = named[fix["same_as"]]
    return replace(same, targets=tuple(fix.get("targets", same.targets)))


def _lever(said: Mapping[str, Any]) -> Lever | None:
    return Lever(said["lever"]) if "lever" in said else None


def _intervention(fix: Mapping[str, Any]) -> Intervention:
    return Intervention(
        name=fix["name"],
        fix=fix["fix"],
        targets=tuple(fix["targets"]),
        cost=Cost(fix["cost"]),
        works_when=fix["works_when"],
        flags={engine: fix[engine] for engine in ENGINES if engine in fix},
        effect=fix.get("effect"),
        after=fix.get("after"),
        lever=_lever(fix),
        needs=tuple(fix.get("needs", ())),
        conflicts=tuple(fix.get("conflicts", ())),
        synergies=tuple(fix.get("synergies", ())),
        quality_risk=QualityRisk(fix.get("quality_risk", QualityRisk.NONE)),
        load=fix.get("load", BOTH),
    )


def ranked(
    fixes: Iterable[Intervention],
    phase: str,
    causes: Iterable[Cause],
    *,
    regime: Regime | None,
    load: LoadLevel | None,
    engine: str | None,
    costs: Sequence[Cost] = tuple(Cost),
    not_grown: AbstractSet[str] = frozenset(),
) -> list[Intervention]:
    """The fixes that this engine can do, best first (`rank`). Fixes of equal rank stay in the order of the runbook.

    A fix against the phase as such counts as aimed at each of its causes. A fix that does not work in the regime is not left out,
    but comes last: a spike may turn out to stay.
    """
    wanted = {str(cause) for cause in causes}
    if wanted:
        wanted.add(phase)
    possible = [fix for fix in fixes if fix.known_to(engine)]
    return sorted(
        possible, key=lambda fix: rank(fix, wanted, regime=regime, load=load, costs=costs, not_grown=not_grown)
    )


def rank(
    fix: Intervention,
    wanted: set[str],
    *,
    regime: Regime | None,
    load: LoadLevel | None,
    costs: Sequence[Cost],
    not_grown: AbstractSet[str] = frozenset(),
) -> tuple[bool, bool, bool, bool, bool, int, bool]:
    """Sort key: not against what has not grown, in time, aimed, no project, at this load level, cheap, without a risk for answers.

    `wanted`: targets that are aimed at; empty where no cause is known, so that none comes before another. `not_grown`: causes
    whose number has not grown. `costs`: cheapest first.
    """
    targets = set(fix.targets)
    idle = targets <= not_grown - wanted
    beside = bool(wanted) and not wanted & targets
    project = fix.cost is Cost.PROJECT
    risky = fix.quality_risk is QualityRisk.CHECK
    return idle, not fix.works_in(regime), beside, project, not fix.fits(load), costs.index(fix.cost), risky
