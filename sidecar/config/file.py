"""Reads a YAML file, flags and the environment into a Config, or into all errors at once, each with its place.

Knows the order of precedence: flags, then the variables `SIDECAR__SECTION__KEY` (`environment.py`), then the file, then two older
variables for labels, then the defaults. An unknown key, a duplicate or a contradiction is an error, and a config with an error is not
used at all.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from sidecar.config import environment as variables
from sidecar.config.checks import contradictions, declared_lanes
from sidecar.config.origins import Document, Kind, Merged, Place, Source
from sidecar.config.schema import FLAGS, WHOLE_CONFIG, Config, LanesConfig, flag_of
from sidecar.config.section import (
    KEY_MARK,
    MISSING_KEY,
    NO_KEYS,
    NO_TEXT,
    REFUSED,
    TWICE,
    UNKNOWN_KEY,
    WRONG,
    Accepted,
    Mistake,
    Path,
    dotted,
)
from sidecar.config.series_count import SeriesInUse, series_in_use, too_many
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import VARIABLE, is_secret


ENVIRONMENT = {"SIDECAR_QUANTIZATION": ("labels", "quantization"), "SIDECAR_GPU_TYPE": ("labels", "gpu_type")}
"""Older variables, whose value a key takes if no other source has it."""
_LARGEST_FILE_BYTES = 4 << 20


class ConfigErrors(Exception):  # noqa: N818  there may be many
    """All errors of a config, one line each: place, dotted key, mistake, allowed values."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def text_of(file: str) -> bytes:
    """The bytes of a config file. Raises ConfigErrors for one that cannot be read or is above 4 MiB."""
    try:
        with FilePath(file).open("rb") as opened:
            text = opened.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigErrors([f"{file}: cannot be read: {error.strerror}"]) from error
    if len(text) > _LARGEST_FILE_BYTES:
        raise ConfigErrors([f"{file}: is above {_LARGEST_FILE_BYTES} bytes"])
    return text


def load(
    file: str | None = None,
    flags: Mapping[str, str | bool] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    series_in_use: SeriesInUse = series_in_use,
) -> Config:
    """Read a config. `flags` are values by dotted key (`engine.url`). Raises ConfigErrors with all errors at once."""
    document = Document()
    if file is not None:
        from sidecar.config.yaml import read  # noqa: PLC0415  PyYAML takes 20 ms, and flags need none

        document = read(text_of(file))
    return _Sources(file, document, flags or {}, environment or {}).config(series_in_use)


class Draft:
    """A config that is being read: its tree of values, and all errors, each with its place and its path."""

    def __init__(self, file: str | None, document: Document, whole: Accepted) -> None:
        self.tree: dict[str, Any] = document.tree
        self.wrong = [complaint.path for complaint in document.complaints]
        """The paths of all mistakes."""
        self._errors: list[tuple[Place | str, Path, str]] = [(at, path, text) for path, at, text in document.complaints]
        self._file, self._document, self._whole = file, document, whole

    def read(self, instead: Mapping[str, str] = NO_KEYS) -> Any:
        """The config, with WRONG for all that is wrong in it, whose errors are added. `instead`: other words, by dotted key."""
        misplaced, mistakes = [complaint.path for complaint in self._document.complaints], list[Mistake]()
        if misplaced and not self._document.tree:
            return WRONG
        config = self._whole.read(self.tree, (), mistakes)
        for each in mistakes:
            if each.path not in misplaced:
                text = instead.get(dotted(each.path)) or say(each, self._whole)
                self.add(each.path, text, at_key=each.kind == UNKNOWN_KEY)
        return self._whole.read(_spoilt(self.tree, misplaced), (), []) if misplaced else config

    def add(self, path: Path, text: str, *, at_key: bool = False) -> None:
        """Note an error."""
        bare = tuple(step for step in path if step != KEY_MARK)
        self._errors.append((self._place(bare, at_key=at_key or KEY_MARK in path), path, text))
        self.wrong.append(path)

    def refuse(self) -> None:
        """Raises ConfigErrors if there are any, in the order of the file and then of the other places."""
        if self._errors:
            raise ConfigErrors([self._line(*each) for each in sorted(self._errors, key=lambda each: _order(each[0]))])

    def _place(self, path: Path, *, at_key: bool) -> Place | str:
        return self._document.place_of(path, at_key=at_key) or Place(1, 1)

    def _line(self, place: Place | str, path: Path, text: str) -> str:
        return line_of(place if isinstance(place, str) else f"{self._file}:{place.line}:{place.column}", path, text)


class _Sources(Draft):
    """The same from a file, flags and the environment, with the source of each value."""

    def __init__(
        self, file: str | None, document: Document, flags: Mapping[str, str | bool], environment: Mapping[str, str]
    ) -> None:
        super().__init__(file, document, WHOLE_CONFIG)
        # A section whose keys are all commented out is null in YAML and means its defaults.
        self.tree = {key: value for key, value in document.tree.items() if value is not None}
        self.tree.setdefault("engine", {})  # so that engine.url is reported as missing, not the section
        of_file: dict[Path, Source] = {
            path: Source(Kind.FILE, f"{file}:{place.line}")
            for path, place in document.keys.items()
            if len(path) == 2  # a section's key, or a lane's objectives
        }
        self._merged = Merged(self.tree, of_file)
        self._take_environment(environment)
        for key, value in flags.items():
            self._merged.set(tuple(key.split(".")), value, Source(Kind.FLAG, flag_of(key)))

    def _take_environment(self, environment: Mapping[str, str]) -> None:
        for variable, path in ENVIRONMENT.items():
            section = self.tree.get(path[0])
            if environment.get(variable) and not (isinstance(section, dict) and path[1] in section):
                self._merged.set(path, environment[variable], Source(Kind.ENVIRONMENT, f"${variable}"))
        misread: list[tuple[Path, Source]] = []
        for setting in variables.settings(environment, self._lanes):
            source = Source(Kind.ENVIRONMENT, f"${setting.variable}", self._beaten(setting.path))
            if setting.error:
                self._errors.append((source.where, setting.path, setting.error))
                misread.append((setting.path, source))
            else:
                self._merged.set(setting.path, setting.value, source)
        for wrong, source in misread:
            if wrong:
                self._merged.set(wrong, WRONG, source)
                self.wrong.append(wrong)

    def _beaten(self, path: Path) -> tuple[str, ...]:
        """The line of a value of the file that stands deeper than the keys whose sources are listed."""
        place = self._document.keys.get(path) if len(path) > 2 else None
        return () if place is None else (f"{self._file}:{place.line}",)

    def _lanes(self) -> list[str]:
        """The lanes that a variable may name: those declared so far, and those with objectives in the file."""
        objectives = self.tree.get("objectives")
        named = declared_lanes(Accepted(LanesConfig).read(self.tree.get("lanes", {}), (), []))
        right = [lane for lane in named if lane is not WRONG]
        return list(dict.fromkeys([*right, *(objectives if isinstance(objectives, dict) else ())]))

    def config(self, series_in_use: SeriesInUse) -> Config:
        """Raises ConfigErrors."""
        sources = self._merged.sources
        config: Config = self.read()
        for path, text in [*contradictions(config, {path[:2] for path in sources}, self.wrong)]:
            self.add(path, text)
        self.refuse()
        for path, text in too_many(config, series_in_use):
            self.add(path, text)
        self.refuse()
        return config.from_sources(sources)

    def _place(self, path: Path, *, at_key: bool) -> Place | str:
        outside = self._merged.outside(path)
        if outside is None and path not in self._document.values:
            outside = self._merged.outside_below(path)
        nowhere = flag_of(dotted(path)) if self._file is None else Place(1, 1)
        return outside or self._document.place_of(path, at_key=at_key) or nowhere


def _spoilt(tree: Any, paths: Iterable[Path]) -> Any:
    """A copy of the tree with WRONG at these paths."""
    if () in paths:
        return WRONG
    below: dict[str | int, list[Path]] = {}
    for step, *rest in paths:
        below.setdefault(step, []).append(tuple(rest))
    if isinstance(tree, list):
        return [_spoilt(each, below[at]) if at in below else each for at, each in enumerate(tree)]
    if isinstance(tree, dict):
        return {key: _spoilt(each, below[key]) if key in below else each for key, each in tree.items()}
    return tree  # another source has written over what was wrong


def line_of(where: str, path: Path, text: str) -> str:
    """One error of a config: place, dotted key, mistake."""
    where, key = (each if each.isprintable() else json.dumps(each) for each in (where, dotted(path)))
    return f"{where}: {key}: {text}" if key else f"{where}: {text}"


def _order(place: Place | str) -> tuple[int, int, int, str]:
    return (1, 0, 0, place) if isinstance(place, str) else (0, *place, "")


def say(mistake: Mistake, root: Accepted) -> str:
    """The text for a mistake, with the allowed values. `root`: the shape of the whole file."""
    path, kind, value, message = mistake
    if kind == UNKNOWN_KEY:
        return _unknown_key(path, root)
    if kind == TWICE:
        return "stands twice: header names have no case"
    expected = root.at(path)
    if kind == MISSING_KEY:
        return f"is required, and missing: must be {expected}"
    if root is WHOLE_CONFIG and isinstance(value, str) and VARIABLE.search(value):
        return _variable(path)
    secret = is_secret(path, root)
    quote = " (put it in quotes)" if kind == NO_TEXT and isinstance(value, int | float) else ""
    if kind == REFUSED:
        return f"{'' if secret else _shown(value) + ' '}{message}: must be {expected}"
    return f"must be {expected}" + ("" if secret else f"; it is {_shown(value)}{quote}")


def _unknown_key(path: Path, root: Accepted) -> str:
    section, name = root.at(path[:-1]), str(path[-1])
    allowed = [] if section is None else [*section.keys]
    near = _nested(path, root) if "." in name else did_you_mean(name, allowed)
    return f"unknown key{near}; allowed here: {', '.join(allowed)}"


def _nested(path: Path, root: Accepted) -> str:
    """For a key that was written with dots, as a flag is: the same as YAML, its last step as it may have been meant."""
    *steps, last = (step.replace("-", "_") for step in str(path[-1]).split("."))
    section = root.at((*path[:-1], *steps))
    near = [] if section is None else difflib.get_close_matches(last, [*section.keys], n=1)
    if not near:
        return ""
    return f'; did you mean "{"{".join(f"{step}: " for step in steps)}{{{near[0]}: ...{"}" * len(steps)}"?'


def _variable(path: Path) -> str:
    """For a wrong value that names an environment variable, which is not repeated: it may stand for a secret."""
    key = dotted(path)
    instead = ["write the value itself", "fill the file in before the start (envsubst)"]
    if len(path) > 1:
        instead.insert(1, f"set the variable {variables.variable_of(path[:2])} instead")
    if key in FLAGS:
        instead.insert(1, f'pass {flag_of(key)}="$NAME" in a shell, {flag_of(key)}=$(NAME) in a pod\'s args')
    return f"names an environment variable, and nothing expands it: must be {WHOLE_CONFIG.at(path)}; {', or '.join(instead)}"


def _shown(value: object) -> str:
    """A value as in the file, on one short line. Containers are named by their kind, as they may hold anything."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
