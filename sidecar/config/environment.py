"""Reads the variables `SIDECAR__SECTION__KEY` of the environment: the key that each one names, and its value as written.

Knows how keys are spelled as variables, and how values are: text as it stands, all else as YAML. Refuses to know which values are
right, and which source wins (`file.py`). A name that no key has is an error, because it was meant for this program, and so is a key behind
almost the prefix; other names with a single underscore are not, because Kubernetes sets such ones in every pod beside a Service named
`sidecar`.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sidecar.config.schema import WHOLE_CONFIG
from sidecar.config.section import Path
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import is_secret


PREFIX = "SIDECAR__"
_BETWEEN = "__"
_PREFIXES, _LIKENESS = ("SIDECAR", "LLMSIDECAR", "LLMPHASESIDECAR"), 0.85
"""Prefixes without underscores, and the likeness to one of them from which on a variable was meant for this program: 0 to 1, as difflib has it."""
_ANY_LANE = "LANE"
_MAPPINGS = {("objectives",): "a lane"}
"""Mappings whose keys may be a part of a variable's name. All others are given whole, as YAML."""
_LINK = re.compile(r"(?:tcp|udp|sctp)://")
"""The value of the variables that Kubernetes sets for a Service: `SIDECAR_ENGINE_METRICS_PORT` of one named sidecar-engine-metrics."""
_FLAG_ONLY = {"CONFIG__FILE": "--config.file"}
"""Names that stand for a flag which is no key."""


class Setting(NamedTuple):
    """A variable that names a key. `error`: why its value cannot be read, with no value then."""

    path: Path
    value: Any
    variable: str
    error: str = ""


def variable_of(path: Path) -> str:
    """`SIDECAR__ENGINE__URL`."""
    return PREFIX + _tail(path)


def _tail(path: Path) -> str:
    return _BETWEEN.join(_spelled(str(step)) for step in path)


def _spelled(name: str) -> str:
    """A name in the letters of a variable's: upper case, with an underscore for all that is no letter and no digit."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def names() -> Iterator[str]:
    """Every variable, without the prefix; `LANE` stands for a lane's name."""
    for section in WHOLE_CONFIG.keys:
        if (section,) in _MAPPINGS:
            yield _tail((section,))
            yield from _below((section, _ANY_LANE))
        else:
            yield from _below((section,))


def _below(path: Path) -> Iterator[str]:
    for key in _keys(path):
        yield _tail((*path, key))
        yield from _below((*path, key))


def _keys(path: Path) -> Iterable[str]:
    """The keys of the section at a path; none if another kind of value stands there, or nothing."""
    shape = WHOLE_CONFIG.at(path)
    return () if shape is None else shape.keys


def settings(environment: Mapping[str, str], lanes: Callable[[], Iterable[str]]) -> Iterator[Setting]:
    """The settings of all variables, a whole mapping before its parts; those that name a lane come last.

    `lanes`: asked after all others were yielded, because those may declare lanes.
    """
    ours = sorted(
        (name for name in environment if name.upper().startswith(PREFIX)), key=lambda name: (name.count("__"), name)
    )
    of_lanes = [name for name in ours if name.startswith(f"{PREFIX}{_tail(('objectives',))}{_BETWEEN}")]
    yield from _misspelt(environment)
    for name in ours:
        if name not in of_lanes:
            yield _setting(name, environment[name], ())
    declared = tuple(lanes()) if of_lanes else ()
    for name in of_lanes:
        yield _setting(name, environment[name], declared)


def _setting(variable: str, text: str, lanes: Iterable[str]) -> Setting:
    path: Path = ()
    if not variable.startswith(PREFIX):
        return Setting((), None, variable, _no_key(variable))
    for step in variable.removeprefix(PREFIX).split(_BETWEEN):
        if path in _MAPPINGS:
            found = [lane for lane in lanes if _spelled(lane) == step]
            if len(found) != 1:
                return Setting((), None, variable, _no_lane(step, found, lanes))
            path = (*path, found[0])
            continue
        if step != step.upper() or step.lower() not in _keys(path):
            return Setting((), None, variable, _no_key(variable))
        path = (*path, step.lower())
    if len(path) == 1 and path not in _MAPPINGS:
        keys = ", ".join(_tail((key,)) for key in _keys(path))
        return Setting((), None, variable, f"names a section: set its keys, {variable}__KEY with KEY out of: {keys}")
    return _read(path, text, variable)


def _read(path: Path, text: str, variable: str) -> Setting:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return Setting(path, None, variable, "is not UTF-8")
    shape = WHOLE_CONFIG.at(path)
    assert shape is not None
    if shape.type is str or shape.words:
        return Setting(path, text, variable)
    if not text.strip():
        return Setting(path, None, variable, "is empty: write a value, or unset the variable")
    from sidecar.config.yaml import read_value  # noqa: PLC0415  PyYAML takes 20 ms, and text needs none

    value, complaints = read_value(encoded)
    if complaints:
        first = complaints[0]
        text = (
            "is not YAML, or no value of a config" if is_secret(path, WHOLE_CONFIG) else first.text
        )  # YAML's own words repeat parts of it
        where = f" (line {first.place.line}, column {first.place.column} of the value)"
        return Setting(path, None, variable, f"{text}{where}")
    if shape.type is tuple and isinstance(value, str) and "," in value:
        return Setting(path, None, variable, 'is one text with a comma: write a list as YAML, ["one", "two"]')
    return Setting(path, value, variable)


def _no_key(variable: str) -> str:
    tail = variable[len(PREFIX) :]
    if tail.upper() in _FLAG_ONLY:
        return f"names no key of the config: pass {_FLAG_ONLY[tail.upper()]}"
    first, *rest = tail.upper().split(_BETWEEN)
    lane = rest[0] if rest and (first.lower(),) in _MAPPINGS else _ANY_LANE
    known = (name.replace(f"{_BETWEEN}{_ANY_LANE}{_BETWEEN}", f"{_BETWEEN}{lane}{_BETWEEN}") for name in names())
    near = did_you_mean(tail.upper(), known, PREFIX)
    return f"names no key of the config{near or f'; variables are named {PREFIX}SECTION__KEY'}"


def _no_lane(step: str, found: list[str], lanes: Iterable[str]) -> str:
    whole = variable_of(("objectives",))
    if found:
        return f"may mean {' or '.join(found)}: set {whole}, as YAML"
    spelled = {_spelled(lane): lane for lane in lanes}
    allowed = ", ".join(spelled.values())
    return f"names no declared lane{did_you_mean(step, spelled)}; declared: {allowed}"


def _misspelt(environment: Mapping[str, str]) -> Iterator[Setting]:
    """The variables that name a key or `--config.file` behind almost the prefix; no value is looked at but for a link."""
    instead = {_flat(name): PREFIX + name for name in names() if _ANY_LANE not in name.split(_BETWEEN)}
    instead |= {_flat(name): flag for name, flag in _FLAG_ONLY.items()}
    for name, value in environment.items():
        head, _, tail = name.upper().partition(_BETWEEN)
        parts = _flat(name.upper()).split("_")
        likely = {"_".join(parts[:at]): instead.get("_".join(parts[at:])) for at in range(1, len(parts))}
        if tail.split(_BETWEEN)[0].lower() in WHOLE_CONFIG.keys:
            likely[head] = PREFIX + tail
        right = next((right for prefix, right in likely.items() if right and _is_near(prefix)), None)
        if right and f"{head}{_BETWEEN}" != PREFIX and not _LINK.match(value):
            yield Setting((), None, name, f'is not read; did you mean "{right}"?')


def _is_near(prefix: str) -> bool:
    return bool(difflib.get_close_matches(prefix.replace("_", ""), _PREFIXES, cutoff=_LIKENESS))


def _flat(name: str) -> str:
    return re.sub("_+", "_", name)
