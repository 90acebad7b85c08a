"""A lane rule that is called unreachable decides no request at all; and a rule behind a wider one is found."""

import hashlib
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sidecar.classify.found import Peek
from sidecar.classify.lane import LaneRules
from sidecar.config.checks import contradictions, takes_all_of
from sidecar.config.schema import Config, LaneRule, LanesConfig
from sidecar.config.section import keys_of
from tests.support.configs import URL, section_of


KEYS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("k", "l")}
TEXTS = ["".join(letters) for length in range(4) for letters in product("ab", repeat=length)]
AMOUNTS = (None, *range(6))

patterns = st.lists(st.sampled_from([*TEXTS[1:], *(f"{text}*" for text in TEXTS)]), min_size=1, max_size=3)
bounds = st.integers(1, 4)
GROUPS: tuple[dict[str, st.SearchStrategy[object]], ...] = (
    {"headers": st.dictionaries(st.sampled_from(["x", "X-Y"]), patterns, min_size=1)},
    {"paths": patterns.map(lambda several: [f"/{pattern}" for pattern in several])},
    {"models": patterns},
    {"streaming": st.booleans()},
    {"api_keys": st.lists(st.sampled_from([*KEYS]), min_size=1, unique=True)},
    {"max_tokens_at_least": bounds, "max_tokens_at_most": bounds},
    {"service_tiers": st.lists(st.sampled_from(["flex", "fle*", "scale"]), min_size=1, unique=True)},
    {"priority_at_least": bounds, "priority_at_most": bounds},
    {"prompt_tokens_from": bounds, "prompt_tokens_below": bounds},
)
"""Groups of conditions on the same part of a request."""
PARTS: tuple[Callable[[], Iterator[dict[str, Any]]], ...] = (
    lambda: ({"headers": {b"x": [x.encode()], b"x-y": [y.encode()]}} for x, y in product(TEXTS, TEXTS)),
    lambda: ({"path": f"/{text}".encode()} for text in TEXTS),
    lambda: ({"model": text} for text in (None, *TEXTS)),
    lambda: ({"stream": said} for said in (None, False, True)),
    lambda: ({"api_key_sha256": key} for key in (None, *KEYS.values())),
    lambda: ({"max_tokens": amount} for amount in AMOUNTS),
    lambda: ({"service_tier": tier} for tier in (None, "flex", "fle*", "fle", "scale")),
    lambda: ({"priority": amount} for amount in AMOUNTS),
    lambda: ({"prompt_tokens": amount} for amount in (None, 0, 0.5, *range(1, 6), 3.5)),
)
"""All values of each part of a request, in the same order as the groups."""


@st.composite
def rule_lists(draw: st.DrawFn) -> tuple[list[dict[str, object]], tuple[int, ...]]:
    """Two to five rules about one or two parts of a request, and the indexes of those parts."""
    parts = draw(st.sets(st.sampled_from(range(1, len(GROUPS))), min_size=1, max_size=2) | st.just({0}))
    conditions = {key: values for part in parts for key, values in GROUPS[part].items()}
    stated = st.sets(st.sampled_from([*conditions]), min_size=1, max_size=2)
    rules = []
    for index in range(draw(st.integers(2, 5))):
        keys = sorted(draw(stated))
        rules.append({"lane": f"rule-{index}"} | {key: draw(conditions[key]) for key in keys})
    return rules, tuple(parts)


def decided(lanes: LaneRules, parts: tuple[int, ...]) -> set[str]:
    """All lanes of the requests that differ in these parts only."""
    found = set()
    for said in product(*(PARTS[part]() for part in parts)):
        request: dict[str, Any] = {"path": b"/", "headers": {}, "api_key_sha256": None}
        request |= {key: value for part in said for key, value in part.items()}
        peek = {
            key: request.pop(key)
            for key in [*request]
            if key not in ("path", "headers", "api_key_sha256", "prompt_tokens")
        }
        found |= {lanes.lane_of(peek=Peek(whole=whole, **peek), **request) for whole in (False, True)}
    return found


def unreachable(each: list[dict[str, Any]]) -> set[int]:
    """Indexes of the rules that the config's check calls unreachable."""
    config = section_of(Config, {"engine": {"url": URL}, "lanes": {"rules": each, "api_keys": KEYS}})
    found = contradictions(config, (), ())
    return {int(path[2]) for path, text in found if text.startswith("can never be reached")}


@given(rule_lists())
def test_a_rule_that_is_called_unreachable_never_decides(drawn: tuple[list[dict[str, Any]], tuple[int, ...]]) -> None:
    """Compared with the rules that sort real requests, on every request of a small world."""
    rules, parts = drawn
    sorting = LaneRules(section_of(LanesConfig, {"rules": rules, "api_keys": KEYS}))
    called = {f"rule-{index}" for index in unreachable(rules)}
    event(f"{bool(called)=}")

    assert decided(sorting, parts) & called == set()


PAIRS: dict[str, list[tuple[object, object]]] = {
    "headers": [
        ({"x-team": "*"}, {"X-Team": "a"}),
        ({"x": ["a*", "b"]}, {"x": ["ab", "b"]}),
        ({"x": "a"}, {"x": "a", "y": "b"}),
    ],
    "paths": [("/v1/*", "/v1/completions"), ("/v1/*", ["/v1/a", "/v1/b*"]), (["/a", "/b"], "/a")],
    "models": [("llama*", "llama-3*"), ("*", "a"), (["a*", "b*"], ["b-1", "a-1"])],
    "api_keys": [(["k", "l"], "k")],
    "max_tokens_at_least": [(100, 200)],
    "max_tokens_at_most": [(200, 100)],
    "service_tiers": [(["flex", "scale"], "flex")],
    "priority_at_least": [(-1, 0)],
    "priority_at_most": [(0, -1)],
    "prompt_tokens_from": [(100, 200)],
    "prompt_tokens_below": [(200, 100)],
}
"""Condition to pairs of a wider and a narrower value."""
CASES = [(key, wide, narrow) for key, pairs in PAIRS.items() for wide, narrow in pairs]


@pytest.mark.parametrize(("key", "wide", "narrow"), CASES)
def test_a_rule_behind_a_wider_one_is_found_and_the_other_way_round_is_none(
    key: str, wide: object, narrow: object
) -> None:
    """A further condition on the later rule leaves it unreachable; one on the earlier rule makes the later rule
    reachable."""
    wider, narrower = {"lane": "wide", key: wide}, {"lane": "narrow", key: narrow}
    more = {"streaming": True}

    assert unreachable([wider, narrower]) == unreachable([wider, {**narrower, **more}]) == {1}
    assert unreachable([narrower, wider]) == unreachable([{**wider, **more}, narrower]) == set()
    assert unreachable([wider, {"lane": "narrow", **more}]) == set()


@pytest.mark.parametrize(
    ("key", "earlier", "later"),
    [
        ("models", "llama", "llama*"),
        ("models", ["a*", "c"], ["ab", "b"]),
        ("paths", "/v1/completions*", "/v1/*"),
        ("headers", {"x": "a", "y": "*"}, {"x": "a"}),
        ("headers", {"x": "a"}, {"x": ["a", "b"]}),
        ("service_tiers", "fle*", "flex"),
        ("api_keys", "k", ["k", "l"]),
    ],
)
def test_a_rule_that_still_gets_something_is_no_error(key: str, earlier: object, later: object) -> None:
    assert unreachable([{"lane": "a", key: earlier}, {"lane": "b", key: later}]) == set()


def test_every_kind_of_condition_is_told_apart() -> None:
    """Each kind of condition has its pair above, or has no wider and narrower values, as `streaming`."""
    assert {*keys_of(LaneRule)} == {"lane", "streaming", *PAIRS}
    one, other = (LaneRule(lane="a", streaming=streaming) for streaming in (True, False))
    assert [takes_all_of(one, one), takes_all_of(one, other), takes_all_of(other, one)] == [True, False, False]
    assert takes_all_of(LaneRule(lane="a"), one) is True
