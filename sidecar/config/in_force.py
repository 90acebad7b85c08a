"""Shows a config with the source of each value, secrets masked: as rows for `check`, as YAML for `/config` of the admin listener.

Knows which parts of a secret may be shown in a config that is right: the names of API keys and headers, and a URL without user, password
and query. The YAML is a config again, but for what is masked. Refuses to know how either is sent or printed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from sidecar.config.origins import Source
from sidecar.config.schema import WHOLE_CONFIG, Config
from sidecar.config.section import Accepted, Path, Section, dotted, keys_of
from sidecar.config.values import MASK, USER_OF_URL, may_authenticate


DEFAULT = "default"
"""The source of a value that no flag, variable or line sets."""
_QUERY = re.compile(r"(?<==)[^&#]+")
_LONGEST_ROW_CHARACTERS = 100


class Row(NamedTuple):
    """One key that is set: its name, its value for a person, its source."""

    key: str
    value: str
    source: Source


def rows(config: Config) -> Iterator[Row]:
    """Every key that some source sets, in the order of the schema; a part of a lane's objectives stands below its lane."""
    for path in sorted(config.sources, key=_in_schema):
        value = _at(config, path)
        off = value is None and path[0] == "objectives"
        yield Row(dotted(path), _short("none" if off else _shown_at(path, value)), config.sources[path])


def _in_schema(path: Path) -> tuple[int, int, tuple[str, ...]]:
    sections, keys = [*WHOLE_CONFIG.keys], [*WHOLE_CONFIG.keys[str(path[0])].keys]
    key = keys.index(str(path[1])) if path[1:] and path[1] in keys else -1
    return sections.index(str(path[0])), key, tuple(map(str, path))


def source_words(source: Source) -> str:
    """`$SIDECAR__LOG__LEVEL, over sidecar.yml:7`."""
    return source.where + (f", over {', '.join(source.over)}" if source.over else "")


def as_yaml(config: Config) -> str:
    """The whole config with all defaults, each value with its source as a comment."""
    lines = [
        "# The configuration in force. Behind each value stands its source: a flag, a variable of the",
        f"# environment, a line of the file, or {DEFAULT}. {MASK} masks a secret.",
    ]
    for name in WHOLE_CONFIG.keys:
        value = getattr(config, name)
        keys = keys_of(type(value)) if isinstance(value, Section) else value
        lines += [f"{name}:", *_keys(config, name, keys)] if keys else [f"{name}: {{}}{_comment(config, (name,))}"]
    return "\n".join([*lines, ""])


def _keys(config: Config, name: str, keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        path = (name, key)
        value = _shown_at(path, _at(config, path))
        source = _comment(config, path)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"  {key}:{source}"
            yield from (f"    - {json.dumps(each, ensure_ascii=False)}" for each in value)
        else:
            yield f"  {key}: {json.dumps(value, ensure_ascii=False)}{source}"


def _comment(config: Config, path: Path) -> str:
    """The sources of a value and of its parts, on one line whatever a file is called."""
    found = [
        f"{dotted(at[len(path) :])} {source.where}".strip()
        for at, source in config.sources.items()
        if at[: len(path)] == path
    ]
    around = config.sources.get(path[:1]) if not found else None
    text = ", ".join(found) or (around.where if around is not None else DEFAULT)
    return f"  # {text if text.isprintable() else json.dumps(text)}"


def _at(config: Config, path: Path) -> Any:
    value: Any = config
    for step in path:
        value = value[step] if isinstance(value, Mapping) else getattr(value, str(step))
    return value


def _plain(value: Any) -> Any:
    """A value as a file would have it: `none` for an objective that is off, and nothing for a part that was not set."""
    if isinstance(value, Section):
        parts = {name: (getattr(value, name), shape.default) for name, shape in keys_of(type(value)).items()}
        return {
            name: "none" if part is None else _plain(part)
            for name, (part, default) in parts.items()
            if part is not UNSET and (part is not None or default is not None) and part not in ((), {})
        }
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _shown_at(path: Path, value: Any) -> Any:
    return _masked(WHOLE_CONFIG.at(path), str(path[-1]), _plain(value))


def _masked(accepted: Accepted | None, key: str, value: Any) -> Any:
    """A plain value of this kind, without its secrets."""
    assert accepted is not None
    if isinstance(value, dict):
        return {
            name: MASK
            if key == "headers" and may_authenticate(name)
            else _masked(accepted.keys[name] if accepted.section else accepted.parts[-1], name, each)
            for name, each in value.items()
        }
    if accepted.hidden:
        return value and MASK
    if isinstance(value, list):
        return [_masked(accepted.parts[0], key, each) for each in value]
    return _without_secrets(value) if isinstance(value, str) and "://" in value else value


def _without_secrets(url: str) -> str:
    address, question, query = USER_OF_URL.sub(f"{MASK}@", url).partition("?")
    return address + question + _QUERY.sub(MASK, query)


def _short(value: Any) -> str:
    """A value on one short line. What is longer is counted: `/config` has it whole."""
    plain = isinstance(value, str) and re.fullmatch(r"[!-~]+", value)
    text = value if plain else json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST_ROW_CHARACTERS:
        return str(text)
    if isinstance(value, dict | list):
        return f"{'a mapping' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return f"{text[:_LONGEST_ROW_CHARACTERS]}..."
