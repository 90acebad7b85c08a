"""A baseline as a document: the usual values of one engine, with what they hold for. Pure.

Usual values hold for the models, the product, the version, the flags and the accelerator that they were learned with:
these are the key. A document with another key is refused, with the part that differs. It knows mappings of numbers; it
refuses to know files (`observe/baselines.py`) and what the numbers mean (`learner.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

from sidecar.pod.usual.learner import LONGEST_TEXT, Learner


BASELINE_VERSION = 1
"""Version of the document. Another shape of any learner is refused by the learners themselves."""
MOST_BYTES = 4 << 20
"""A longer document is neither written nor read: ten lanes need some tens of kilobytes."""
MOST_MODELS = 1000


class RefusedError(ValueError):
    """Why a document is not used, in words."""


@dataclass(frozen=True, slots=True)
class Key:
    """The engine that usual values hold for; None: it does not say."""

    engine: str
    version: str | None
    models: tuple[str, ...]
    """Sorted, and without adapters, which come and go."""
    quantization: str | None
    """The only flag that an engine states."""
    gpu_type: str | None

    @property
    def digest(self) -> str:
        """A name of this key for a file: 16 hexadecimal digits."""
        return sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def differs(self, other: "Key") -> str | None:
        """The first part that differs, with both values; None if none does."""
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            if mine != its:
                return f"{each.name} {_said(its)}, and here it is {_said(mine)}"
        return None

    def replaces(self, other: "Key") -> bool:
        """Whether this is certainly another engine: both say a part, and differ in it. A model may come or go."""
        told = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self) if each.name != "models")
        if any(mine is not None and its is not None and mine != its for mine, its in told):
            return True
        return bool(self.models and other.models and not {*self.models} & {*other.models})


@dataclass(frozen=True, slots=True)
class Baseline:
    """A document that was read and checked."""

    saved_at_unix: float
    burning: bool
    """Objectives burned when it was saved. What it holds was learned while they did not."""
    provisional: bool
    """It was learned in the calmest moments of a burn."""
    learned: Mapping[str, Mapping[str, Any]]
    """Learner to its values by attribute."""


def head(key: Key, saved_at_unix: float, *, burning: bool, provisional: bool) -> dict[str, Any]:
    """A document without its learners."""
    return {
        "version": BASELINE_VERSION,
        "key": key.as_json(),
        "saved_at_unix": saved_at_unix,
        "burning": burning,
        "provisional": provisional,
    }


def checked(text: bytes, key: Key, learners: Mapping[str, Learner]) -> Baseline:
    """The baseline in this text, for this engine and these learners, which do not change. Raises RefusedError."""
    told = parsed(text)
    other = _key(told.get("key"))
    differs = key.differs(other)
    if differs is not None:
        raise RefusedError(f"it was saved for another engine: {differs}")
    states = told.get("learners")
    if not isinstance(states, dict) or states.keys() != learners.keys():
        raise RefusedError("its learners are not those of this version")
    try:
        learned = {name: learner.checked(states[name], name) for name, learner in learners.items()}
    except ValueError as odd:
        raise RefusedError(str(odd)) from odd
    return Baseline(told["saved_at_unix"], told["burning"], told["provisional"], learned)


def parsed(text: bytes) -> dict[str, Any]:
    """The document in this text, without a look at its key and its learners. Raises RefusedError."""
    if len(text) > MOST_BYTES:
        raise RefusedError(f"it is longer than {MOST_BYTES} bytes")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError("it is no JSON: was it cut short?") from error
    if not isinstance(told, dict) or told.get("version") != BASELINE_VERSION:
        raise RefusedError(f"it is no baseline of version {BASELINE_VERSION}")
    saved_at = told.get("saved_at_unix")
    if isinstance(saved_at, bool) or not isinstance(saved_at, int | float) or not 0 <= saved_at < 1e12:
        raise RefusedError("saved_at_unix is no Unix time")
    if not all(isinstance(told.get(name), bool) for name in ("burning", "provisional")):
        raise RefusedError("burning or provisional is neither true nor false")
    return told


def _key(told: Any) -> Key:
    names = {each.name for each in fields(Key)}
    if not isinstance(told, dict) or told.keys() != names:
        raise RefusedError("its key is not one of this version")
    models = told["models"]
    if not isinstance(models, list) or len(models) > MOST_MODELS or not all(map(_is_text, models)):
        raise RefusedError("its models are no list of names")
    parts = {name: told[name] for name in names - {"models"}}
    if not _is_text(parts["engine"]) or not all(part is None or _is_text(part) for part in parts.values()):
        raise RefusedError("its key holds what is no text")
    return Key(models=tuple(models), **parts)


def _is_text(told: Any) -> bool:
    return isinstance(told, str) and len(told) <= LONGEST_TEXT


def _said(part: Any) -> str:
    return "unknown" if not part else ", ".join(part) if isinstance(part, tuple) else str(part)
