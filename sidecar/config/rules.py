"""Which lane rule can never be reached: an earlier rule takes every request that it would take.

Reports only what is certain: each condition of the earlier rule must follow from the same condition of the later rule. What
several earlier rules take together is not looked at. Pure.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sidecar.config.schema import LaneRule


def takes_all_of(earlier: LaneRule, later: LaneRule) -> bool:
    """Whether `earlier` holds for every request for which `later` holds."""
    for key in LaneRule.model_fields:
        condition, stated = getattr(earlier, key), getattr(later, key)
        if key == "lane" or condition is None:
            continue
        follows: Callable[[Any, Any], bool] = _FOLLOWS.get(key, operator.eq)
        if stated is None or not follows(stated, condition):
            return False
    return True


def _patterns(stated: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether every text that matches one of `stated` matches one of `wanted`."""
    return all(any(_narrower(one, other) for other in wanted) for one in stated)


def _narrower(one: str, other: str) -> bool:
    """A `*` at the end of a pattern matches any rest; without it only the whole text matches."""
    return one.removesuffix("*").startswith(other[:-1]) if other.endswith("*") else one == other


def _headers(stated: Mapping[str, Iterable[str]], wanted: Mapping[str, Iterable[str]]) -> bool:
    return all(name in stated and _patterns(stated[name], values) for name, values in wanted.items())


def _among(stated: Iterable[str], wanted: Iterable[str]) -> bool:
    return set(stated) <= set(wanted)


_FOLLOWS: Mapping[str, Callable[[Any, Any], bool]] = {
    "headers": _headers,
    "paths": _patterns,
    "models": _patterns,
    "api_keys": _among,
    "service_tiers": _among,
    "max_tokens_at_least": operator.ge,
    "max_tokens_at_most": operator.le,
    "priority_at_least": operator.ge,
    "priority_at_most": operator.le,
}
"""Condition to whether what a later rule states (first) implies what an earlier rule wants. Any other must be equal."""
