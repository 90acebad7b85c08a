"""Named substitutions in the committed files: each says what it changes, and one that finds nothing is an error.

A file that was rewritten so that a parameter no longer reaches it would else be exported unchanged, in silence. It knows text, and
no document.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


class UnmatchedError(Exception):
    """A substitution found nothing in any of its files."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """`name`: the parameter, for the error. `pattern`: a regular expression. `put`: the new text of each match."""

    name: str
    pattern: str
    put: Callable[[re.Match[str]], str]


def word(name: str, pattern: str, text: str) -> Substitution:
    """Another word in a YAML value, in quotes: what begins as a number or reads as a boolean must stay text, to every reader of YAML."""
    return Substitution(name, pattern, lambda match: match[0] if match[0] == text else json.dumps(text))


def same(name: str, found: str, put: str) -> Substitution:
    """A fixed text, which must not go on with a letter or digit, in place of another."""
    return Substitution(name, re.escape(found) + r"(?!\w)", lambda _match: put)


def substituted(texts: Mapping[str, str], changes: Iterable[Substitution]) -> dict[str, str]:
    """The files, path to text, with all changes made one after another. Raises UnmatchedError."""
    made = dict(texts)
    for change in changes:
        pattern = re.compile(change.pattern, re.MULTILINE)
        counts = {}
        for path, text in made.items():
            made[path], counts[path] = pattern.subn(change.put, text)
        if not any(counts.values()):
            raise UnmatchedError(f"{change.name}: no file of {', '.join(sorted(texts))} has {change.pattern!r}")
    return made
