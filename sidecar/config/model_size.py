"""Reads the size of a model out of its name, or takes the one that the config states, in billions of parameters.

What counts is the parameters that a token passes. A name states the whole size, unless it states the active part of a mixture of
experts (`30B-A3B`, `17B-16E`); one of `gpt-oss-120b` does not say that it is a mixture, so the config has a key for it. Refuses to
guess: a name without a size has none, and neither has `8x7b`, which states neither the whole nor the active part.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from sidecar.objectives.presets import SMALL_BILLIONS


_BEGIN = r"(?<![a-z0-9.])"
"""The number begins here: `a3b` and `e4b` are no sizes of their own."""
_END = r"(?![a-z0-9])"
_SIZE = r"([0-9]{1,4}(?:\.[0-9]{1,3})?)"
_ACTIVE = re.compile(rf"{_BEGIN}a{_SIZE}b{_END}")
"""`-A3B` of Qwen's mixtures of experts."""
_EXPERTS = re.compile(rf"{_BEGIN}[0-9]{{1,3}}x{_SIZE}b{_END}")
"""`8x7b` of Mixtral: its experts share the attention, and a token passes two of them."""
_WHOLE = re.compile(rf"{_BEGIN}{_SIZE}(b|m){_END}")
"""`70b`, `0.5b`, `500m`; also `17B` of Llama 4's `17B-16E`, where it is the active part."""


class ModelSize(NamedTuple):
    """Billions of parameters, and the key or the name that states them."""

    billions: float
    source: str


def named_billions(name: str) -> float | None:
    """The size that a model's name states, the active part of a mixture of experts if it states that; None if it states neither."""
    text = name.lower().replace("_", "-")
    if active := _ACTIVE.findall(text):
        return max(map(float, active))
    if _EXPERTS.search(text):
        return None
    sizes = [float(number) / (1 if unit == "b" else 1000) for number, unit in _WHOLE.findall(text)]
    return max(sizes, default=None)


def model_size(stated_billions: float | None, models: Iterable[str]) -> ModelSize | None:
    """The size that `engine.model_size_billions` states, else that of the largest listed model; None if it is not known.

    A listed name without a size may be of any: beside it, a small one does not count, because it would tighten objectives.
    """
    if stated_billions is not None:
        return ModelSize(stated_billions, "engine.model_size_billions")
    found = {name: named_billions(name) for name in models}
    sizes = [ModelSize(billions, f"the name {name}") for name, billions in found.items() if billions is not None]
    largest = max(sizes, default=None)
    if largest is None or (len(sizes) < len(found) and largest.billions <= SMALL_BILLIONS):
        return None
    return largest
