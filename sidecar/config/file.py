"""Reads a YAML file, flags and the environment into a Config, or into all errors at once, each with its place.

Knows the order of precedence: flags, then the variables `SIDECAR__SECTION__KEY` (`environment.py`), then the file, then two older
variables for labels, then the defaults. An unknown key, a duplicate or a contradiction is an error, and a config with an error is not
used at all.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from sidecar.config import environment as variables
from sidecar.config.checks import WRONG, contradictions, declared_lanes
from sidecar.config.config_document import Document, Place
from sidecar.config.describe import dotted, expected, is_secret, model_at
from sidecar.config.origins import Kind, Merged, Source
from sidecar.config.schema import Config
from sidecar.config.section import (
    KEY_MARK,
    MISSING_KEY,
    NO_TEXT,
    REFUSED,
    UNKNOWN_KEY,
    Mistake,
    Mistakes,
    Path,
    Section,
)
from sidecar.config.series_count import SeriesInUse, series_in_use, too_many
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import VARIABLE


ENVIRONMENT = {
    "SIDECAR_QUANTIZATION": ("labels", "quantization"),
    "SIDECAR_GPU_TYPE": ("labels", "gpu_type"),
}
"""Older variables, whose value a key takes if no other source has it."""
SHORT_FLAGS = (
    *("engine.url", "proxy.listen_address", "web.listen_address", "web.config_file", "log.level", "log.format"),
    "spans.without_proxy",
)
"""Keys that are flags too."""
_USUAL_FLAGS = {"web.config_file": "--web.config.file", "spans.without_proxy": "--no-proxy"}
"""Flags that are not called as their key is: the one has the name that every exporter gives it, the other takes no value."""
_LARGEST_FILE_BYTES = 4 << 20


def flag_of(key: str) -> str:
    """`--proxy.listen-address`."""
    return _USUAL_FLAGS.get(key) or f"--{key.replace('_', '-')}"


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
    draft = _Draft(file, document, flags or {}, environment or {})
    config, errors = draft.errors(series_in_use)
    if config is None:
        raise ConfigErrors(errors)
    return config


class _Draft:
    """The merged values, and the origin of each, before they are checked."""

    def __init__(
        self,
        file: str | None,
        document: Document,
        flags: Mapping[str, str | bool],
        environment: Mapping[str, str],
    ) -> None:
        self._file = file
        self._document = document
        # A section whose keys are all commented out is null in YAML and means its defaults.
        self._tree: dict[str, Any] = {key: value for key, value in document.tree.items() if value is not None}
        self._tree.setdefault("engine", {})  # so that engine.url is reported as missing, not the section
        self._merged = Merged(self._tree, self._of_file())
        self._misread: list[tuple[str, Path, str]] = []
        """Variables without a key or a value that can be read: name, path and error."""
        self._take_environment(environment)
        for key, value in flags.items():
            self._merged.set(tuple(key.split(".")), value, Source(Kind.FLAG, flag_of(key)))

    def _of_file(self) -> dict[Path, Source]:
        return {
            path: Source(Kind.FILE, f"{self._file}:{place.line}")
            for path, place in self._document.keys.items()
            if len(path) == 2  # a section's key, or a lane's objectives
        }

    def _take_environment(self, environment: Mapping[str, str]) -> None:
        for variable, path in ENVIRONMENT.items():
            section = self._tree.get(path[0])
            if environment.get(variable) and not (isinstance(section, dict) and path[1] in section):
                self._merged.set(path, environment[variable], Source(Kind.ENVIRONMENT, f"${variable}"))
        for setting in variables.settings(environment, self._lanes):
            source = Source(Kind.ENVIRONMENT, f"${setting.variable}", self._beaten(setting.path))
            if setting.error:
                self._misread.append((source.where, setting.path, setting.error))
            else:
                self._merged.set(setting.path, setting.value, source)

    def _beaten(self, path: Path) -> tuple[str, ...]:
        """The line of a value of the file that stands deeper than the keys whose sources are listed."""
        place = self._document.keys.get(path) if len(path) > 2 else None
        return () if place is None else (f"{self._file}:{place.line}",)

    def _lanes(self) -> list[str]:
        """The lanes that a variable may name: those declared so far, and those with objectives in the file."""
        objectives = self._tree.get("objectives")
        named = declared_lanes(_Values(self._tree, [])) or []
        return list(dict.fromkeys([*named, *(objectives if isinstance(objectives, dict) else ())]))

    def errors(self, series_in_use: SeriesInUse) -> tuple[Config | None, list[str]]:
        """The config, or None and all errors, in the order of the file and then of the other places."""
        found: list[tuple[Place | str, Path, str]] = [
            (complaint.place, complaint.path, complaint.text) for complaint in self._document.complaints
        ]
        unreadable = bool(found) and not self._document.tree
        config: Config | None = None
        wrong: list[Path] = [complaint.path for complaint in self._document.complaints]
        found += self._misread
        misread = [path for _, path, _ in self._misread if path]
        wrong += misread
        if not unreadable:
            try:
                config = Config.model_validate(self._tree)
            except Mistakes as mistakes:
                for each in mistakes.found:
                    path = each.path
                    wrong.append(path)
                    if any(path == complaint.path for complaint in self._document.complaints) or path in misread:
                        continue
                    place = self._place(path, at_key=each.kind == UNKNOWN_KEY or KEY_MARK in path)
                    found.append((place, path, say(each)))
            known = _Values(self._tree, wrong)
            found_wrong = [*contradictions(known), *(too_many(config, series_in_use) if config is not None else ())]
            for path, text in found_wrong:
                found.append((self._place(path, at_key=KEY_MARK in path), path, text))
        lines = [self._line(*each) for each in sorted(found, key=lambda each: _order(each[0]))]
        if config is None or lines:
            return None, lines
        return config.from_sources(self._merged.sources), lines

    def _place(self, path: Path, *, at_key: bool = False) -> Place | str:
        path = tuple(step for step in path if step != KEY_MARK)
        outside = self._merged.outside(path)
        if outside is None and path not in self._document.values:
            outside = self._merged.outside_below(path)
        nowhere = flag_of(dotted(path)) if self._file is None else Place(1, 1)
        return outside or self._document.place_of(path, at_key=at_key) or nowhere

    def _line(self, place: Place | str, path: Path, text: str) -> str:
        return line_of(place if isinstance(place, str) else f"{self._file}:{place.line}:{place.column}", path, text)


def line_of(where: str, path: Path, text: str) -> str:
    """One error of a config: place, dotted key, mistake."""
    where, key = (each if each.isprintable() else json.dumps(each) for each in (where, dotted(path)))
    return f"{where}: {key}: {text}" if key else f"{where}: {text}"


def _order(place: Place | str) -> tuple[int, int, int, str]:
    return (1, 0, 0, place) if isinstance(place, str) else (0, *place, "")


class _Values:
    """The values that are right in themselves: `checks.Known`."""

    def __init__(self, tree: Mapping[str, Any], wrong: list[Path]) -> None:
        self._tree = tree
        self._wrong = wrong

    def __call__(self, path: Path) -> object:
        # Rules are returned without their wrong keys, API keys with wrong hashes, and objectives with wrong values, so that
        # the others are still checked.
        if path == ("lanes", "rules"):
            return self._rules()
        if path == ("lanes", "api_keys") and isinstance(names := self._written(path), dict):
            return names
        if path == ("objectives",):
            return self._written(path)
        if len(path) == 1:
            return self._written(path) or {}
        if any(wrong[: len(path)] == path or path[: len(wrong)] == wrong for wrong in self._wrong):
            return WRONG
        if path[0] == "objectives":
            return self._written(path)
        if path[:2] == ("lanes", "rules"):
            return None
        said = self._written(path)
        if said is not None:
            return said
        model = model_at(path[:1])
        assert model is not None
        field = model.model_fields[str(path[1])]
        return None if field.is_required() else field.default

    def _written(self, path: Path) -> object:
        value: object = self._tree
        for step in path:
            value = value.get(str(step)) if isinstance(value, dict) else None
        return value

    def _rules(self) -> object:
        here: Path = ("lanes", "rules")
        if any(here[: len(wrong)] == wrong for wrong in self._wrong):
            return WRONG
        rules = self._written(here)
        if not isinstance(rules, list):
            return []
        return [
            {key: value for key, value in rule.items() if (*here, index, key) not in self._wrong}
            if isinstance(rule, dict)
            else None
            for index, rule in enumerate(rules)
        ]


def say(mistake: Mistake, root: type[Section] = Config) -> str:
    """The text for a mistake, with the allowed values. `root`: the shape of the whole file."""
    path, kind, value, message = mistake
    if kind == UNKNOWN_KEY:
        return _unknown_key(path, root)
    if kind == MISSING_KEY:
        return f"is required, and missing: must be {expected(path, root)}"
    if root is Config and isinstance(value, str) and VARIABLE.search(value):
        return _variable(path)
    secret = is_secret(path, root)
    quote = " (put it in quotes)" if kind == NO_TEXT and isinstance(value, int | float) else ""
    if kind == REFUSED:
        return f"{'' if secret else _shown(value) + ' '}{message}: must be {expected(path, root)}"
    return f"must be {expected(path, root)}" + ("" if secret else f"; it is {_shown(value)}{quote}")


def _unknown_key(path: Path, root: type[Section]) -> str:
    section, name = model_at(path[:-1], root), str(path[-1])
    allowed = list(section.model_fields) if section is not None else []
    near = _nested(path, root) if "." in name else did_you_mean(name, allowed)
    return f"unknown key{near}; allowed here: {', '.join(allowed)}"


def _nested(path: Path, root: type[Section]) -> str:
    """For a key that was written with dots, as a flag is: the same as YAML, its last step as it may have been meant."""
    *steps, last = (step.replace("-", "_") for step in str(path[-1]).split("."))
    section = model_at((*path[:-1], *steps), root)
    near = [] if section is None else difflib.get_close_matches(last, list(section.model_fields), n=1)
    if not near:
        return ""
    return f'; did you mean "{"{".join(f"{step}: " for step in steps)}{{{near[0]}: ...{"}" * len(steps)}"?'


def _variable(path: Path) -> str:
    """For a wrong value that names an environment variable, which is not repeated: it may stand for a secret."""
    key = dotted(path)
    instead = ["write the value itself", "fill the file in before the start (envsubst)"]
    if len(path) > 1:
        instead.insert(1, f"set the variable {variables.variable_of(path[:2])} instead")
    if key in SHORT_FLAGS:
        instead.insert(1, f'pass {flag_of(key)}="$NAME" in a shell, {flag_of(key)}=$(NAME) in a pod\'s args')
    return f"names an environment variable, and nothing expands it: must be {expected(path)}; {', or '.join(instead)}"


def _shown(value: object) -> str:
    """A value as in the file, on one short line. Containers are named by their kind, as they may hold anything."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
