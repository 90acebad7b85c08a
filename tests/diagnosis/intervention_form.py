"""The form of the files of fixes (`sidecar/diagnosis/interventions.py` states it): every mistake, by file and fix."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sidecar.diagnosis.interventions import OF_A_CASE, File
from sidecar.diagnosis.levers import BOTH, Cost, Lever, LoadLevel, QualityRisk, Sign
from sidecar.diagnosis.measured import Regime
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import Cause


TARGETS = tuple(dict.fromkeys((*(str(cause) for cause in Cause), *(str(phase) for phase in Blame), SIDECAR)))
"""Causes and phases that a fix can work against."""
EVIDENCE = (*(str(sign) for sign in Sign), *(str(cause) for cause in Cause))
"""Signs of a case, and causes that are known and not only suspected."""
REQUIRED = ("name", "fix", "targets", "cost", "works_when")
OF_A_LEVER = ("needs", "conflicts", "synergies", "quality_risk", "load")
"""Keys that every fix with a lever has, even if it has an empty list to state."""
MUTUAL = ("conflicts", "synergies")
"""Keys that hold names of other fixes, and both fixes name each other."""
OF_SIGNS, OF_EVIDENCE = OF_A_CASE[:2], OF_A_CASE[2:]
LISTS = ("targets", "needs", *MUTUAL, *OF_SIGNS, *OF_EVIDENCE)
TEXTS = ("name", "same_as", "fix", "effect", "after", "depends", "source")
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "targets": TARGETS,
    **dict.fromkeys(OF_SIGNS, tuple(Sign)),
    **dict.fromkeys(OF_EVIDENCE, EVIDENCE),
    "cost": tuple(Cost),
    "works_when": (*Regime, BOTH),
    "lever": tuple(Lever),
    "load": (*LoadLevel, BOTH),
    "quality_risk": tuple(QualityRisk),
}
"""Key to its closed set of values; of a list, the values of its items."""


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
        if key == "targets" and isinstance(value, dict):
            yield from _of_gains(value)
        elif key in LISTS and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            yield f"{key}: {value!r} is no list of texts"
        elif key in texts and not (isinstance(value, str) and value):
            yield f"{key}: {value!r} is no text"
        elif key in ALLOWED:
            for item in value if key in LISTS else [value]:
                if item not in ALLOWED[key]:
                    yield f"{key}: {item!r} is none of {', '.join(ALLOWED[key])}"


def _of_gains(targets: Mapping[str, Any]) -> Iterator[str]:
    for target, gain in targets.items():
        if target not in TARGETS:
            yield f"targets: {target!r} is none of {', '.join(TARGETS)}"
        numbers = isinstance(gain, list) and len(gain) == 2 and all(isinstance(end, int | float) for end in gain)
        if not numbers or not 0 <= gain[0] <= gain[1] <= 1:
            yield f"targets: {target}: {gain!r} is no range of shares such as [0.2, 0.6]"


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
