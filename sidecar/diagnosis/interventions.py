"""The fixes that runbooks and diagnosis share, and the non-fixes: the texts of `interventions/*.yml`.

One file per runbook, of the same name. A fix is a mapping of

| key | holds |
|---|---|
| `name` | unique among all files; or `same_as`, the name of a fix that stands elsewhere (with `targets` of its own, if they differ) |
| `fix` | what to do, in one line |
| `targets` | the causes (`sidecar/pod/causes.py`) or phases that it works against |
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
with all mistakes at once: file, fix, key, and the values that are allowed (`errors`).

Knows the files and their form, and how fixes are ranked. Refuses to know what is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.levers import BOTH, TARGETS, Cost, Lever, LoadLevel, QualityRisk
from sidecar.diagnosis.measured import Regime
from sidecar.engines.kinds import KINDS
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import Cause


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

File = Mapping[str, Any]
"""One parsed file: `fixes` and `not_to_do`."""

REQUIRED = ("name", "fix", "targets", "cost", "works_when")
OF_A_LEVER = ("needs", "conflicts", "synergies", "quality_risk", "load")
"""Keys that every fix with a lever has, even if it has an empty list to state."""
MUTUAL = ("conflicts", "synergies")
"""Keys that hold names of other fixes, and both fixes name each other."""
LISTS = ("targets", "needs", *MUTUAL)
TEXTS = ("name", "same_as", "fix", "effect", "after")
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "targets": TARGETS,
    "cost": tuple(Cost),
    "works_when": (*Regime, BOTH),
    "lever": tuple(Lever),
    "load": (*LoadLevel, BOTH),
    "quality_risk": tuple(QualityRisk),
}
"""Key to its closed set of values; of a list, the values of its items."""


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


def chapters_of(said: Mapping[str, File]) -> Mapping[str, Chapter]:
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


def errors(said: Mapping[str, File], engines: Iterable[str]) -> list[str]:
    """Every mistake, by file and fix. `said`: runbook to its parsed file; `engines`: further keys that hold a flag."""
    texts = (*TEXTS, *engines)
    named = [fix for file in said.values() for fix in file.get("fixes", ()) if "name" in fix]
    by_name = {fix["name"]: fix for fix in named}
    seen: set[str] = set()
    found = []
    for runbook, file in said.items():
        found += [f"{runbook}.yml: {key}: is missing" for key in ("fixes", "not_to_do") if key not in file]
        for fix in file.get("fixes", ()):
            place = f"{runbook}.yml: fix {fix.get('name', fix.get('same_as'))!r}: "
            if "same_as" in fix:
                mistakes = [*_of_a_reference(fix, by_name)]
            else:
                mistakes = [*_of_keys(fix, texts), *_of_values(fix, texts), *_of_names(fix, by_name)]
                if fix.get("name") in seen:
                    mistakes.append("name: another fix has this name")
                seen.add(fix.get("name"))
            found += [place + mistake for mistake in mistakes]
        for item in file.get("not_to_do", ()):
            found += [f"{runbook}.yml: not_to_do {item.get('do')!r}: {mistake}" for mistake in _of_a_non_fix(item)]
    return found


def _of_a_reference(fix: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    if fix["same_as"] not in by_name:
        yield f"same_as: no fix is called {fix['same_as']!r}"
    for key in fix.keys() - {"same_as", "targets"}:
        yield f"{key}: a fix with same_as has nothing of its own but targets"
    yield from _of_values({"targets": fix.get("targets", [])}, ())


def _of_keys(fix: Mapping[str, Any], texts: Iterable[str]) -> Iterator[str]:
    known = (*texts, *LISTS, *ALLOWED)
    for key in fix:
        if key not in known:
            yield f"{key}: is no key; the keys are {', '.join(dict.fromkeys(known))}"
    for key in REQUIRED:
        if key not in fix:
            yield f"{key}: is missing"
    if "lever" in fix:
        for key in OF_A_LEVER:
            if key not in fix:
                yield f"{key}: is missing; a fix with a lever has {', '.join(OF_A_LEVER)}"


def _of_values(fix: Mapping[str, Any], texts: Iterable[str]) -> Iterator[str]:
    for key, value in fix.items():
        if key in LISTS and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            yield f"{key}: {value!r} is no list of texts"
        elif key in texts and not (isinstance(value, str) and value):
            yield f"{key}: {value!r} is no text"
        elif key in ALLOWED:
            for item in value if key in LISTS else [value]:
                if item not in ALLOWED[key]:
                    yield f"{key}: {item!r} is none of {', '.join(ALLOWED[key])}"


def _of_names(fix: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    """Names that no fix has, and pairs of which only one fix names the other."""
    for need in _items(fix, "needs"):
        if " " not in need and need not in by_name:
            yield f"needs: {need!r} is neither a sentence nor the name of a fix"
    for key in MUTUAL:
        for other in _items(fix, key):
            if other not in by_name:
                yield f"{key}: no fix is called {other!r}"
            elif fix.get("name") not in _items(by_name[other], key):
                yield f"{key}: {other!r} does not name this fix in turn"
            elif key == "synergies" and other in _items(fix, "conflicts"):
                yield f"{key}: {other!r} is among the conflicts too"


def _items(fix: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list. Empty where the key is absent or holds something else, which `_of_values` states."""
    value = fix.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _of_a_non_fix(item: Mapping[str, Any]) -> Iterator[str]:
    for key in ("do", "why"):
        if not (isinstance(item.get(key), str) and item[key]):
            yield f"{key}: {item.get(key)!r} is no text"
    for key in item.keys() - {"do", "why", "lever"}:
        yield f"{key}: is no key; the keys are do, why, lever"
    yield from _of_values({key: value for key, value in item.items() if key == "lever"}, ())


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
