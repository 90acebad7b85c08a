"""The messages of `alert_rules/templates` written into the fields that use them, so that a configuration needs no second file.

Alertmanager parses a field as a template of its own, and a template may define others. It knows the syntax of `define` and `template`,
and no receiver.
"""

import re
from collections.abc import Mapping
from typing import Any


_DEFINITION = re.compile(
    r'^\{\{ define "(?P<name>[\w.]+)" (?P<left>-?)\}\}(?P<body>.*?)\{\{(?P<right>-?) end \}\}\s*(?=\Z|^\{\{(?:/\*| define))',
    re.MULTILINE | re.DOTALL,
)
_USE = re.compile(r'\{\{-? template "([\w.]+)" (?:\.|\$\w*|[.\w]+) -?\}\}')
_FIELD = re.compile(r'\{\{ template "(?P<name>[\w.]+)" \. \}\}')


def definitions(text: str) -> dict[str, str]:
    """Name to body of each template of a file, with the white space that its marks leave, and without comments."""
    found = {}
    for match in _DEFINITION.finditer(text):
        body = match["body"].lstrip() if match["left"] else match["body"]
        found[match["name"]] = body.rstrip() if match["right"] else body
    return found


def inlined(value: Any, bodies: Mapping[str, str]) -> Any:
    """A receiver's entry: every field that is one named template becomes its text, with the templates that it uses before it."""
    if isinstance(value, dict):
        return {key: inlined(one, bodies) for key, one in value.items()}
    if isinstance(value, list):
        return [inlined(one, bodies) for one in value]
    if not isinstance(value, str) or (field := _FIELD.fullmatch(value)) is None:
        return value
    body = bodies[field["name"]]
    return "".join(f"{_defined(name, bodies[name])}\n" for name in _used(body, bodies)) + body


def _defined(name: str, body: str) -> str:
    """The definition of a template; the marks `-` take the line breaks around it, and leave those at the ends of its own body."""
    opened = '" }}' if body[:1].isspace() else '" -}}\n'
    closed = "{{ end -}}" if body[-1:].isspace() else "\n{{- end -}}"
    return f'{{{{- define "{name}{opened}{body}{closed}'


def _used(body: str, bodies: Mapping[str, str]) -> list[str]:
    """The templates that this one uses, those that they use before them, each once."""
    found: list[str] = []
    for name in _USE.findall(body):
        found += [one for one in (*_used(bodies[name], bodies), name) if one not in found]
    return found
