"""Requests are sorted by the first rule that holds, and no value that a client invents becomes a lane."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.found import UNREAD_BODY, Peek
from sidecar.classify.lane import LaneRules, hash_api_key
from sidecar.config.schema import LanesConfig
from sidecar.proxy.headers import found_in
from tests.support.configs import section_of


CHAT = b"/v1/chat/completions"
KEY = "sk-CANARY"
KEY_HASH = hashlib.sha256(KEY.encode()).hexdigest()


def rules(*each: dict[str, object], **lanes: object) -> LaneRules:
    return LaneRules(section_of(LanesConfig, {"rules": list(each), **lanes}))


def test_first_rule_decides() -> None:
    """Rules are tried in order; the first whose conditions all hold decides, and the default lane takes the rest."""
    lanes = rules(
        {"lane": "code", "models": "coder-*", "streaming": True},
        {"lane": "batch", "streaming": False},
        {"lane": "long", "max_tokens_at_least": 4096},
    )

    assert [
        lanes.lane_of(CHAT, {}, Peek(whole=True, model="coder-7b", stream=True, max_tokens=9000), None),
        lanes.lane_of(CHAT, {}, Peek(whole=True, model="coder-7b"), None),
        lanes.lane_of(CHAT, {}, Peek(whole=True, model="m", stream=True, max_tokens=4096), None),
        lanes.lane_of(CHAT, {}, Peek(whole=True, model="m", stream=True, max_tokens=4095), None),
    ] == [
        "code",
        "batch",
        "long",
        "default",
    ]


@pytest.mark.parametrize(
    "condition",
    [
        {"headers": {"x-team": "*"}},
        {"models": "*"},
        {"streaming": True},
        {"streaming": False},
        {"api_keys": "k"},
        {"max_tokens_at_least": 1},
        {"max_tokens_at_most": 1000},
        {"service_tiers": "flex"},
        {"priority_at_least": -1000},
        {"priority_at_most": 1000},
    ],
    ids=str,
)
def test_silence_holds_no_condition(condition: dict[str, object]) -> None:
    """A value that the request does not state is unknown: no condition holds for it, not even one for false or zero."""
    lanes = rules({"lane": "taken", **condition}, api_keys={"k": KEY_HASH})

    assert lanes.lane_of(CHAT, {}, UNREAD_BODY, None) == "default"


def test_a_whole_body_without_stream_is_not_streamed() -> None:
    """A missing `stream` means the APIs' default, false, but only once the body was read whole."""
    lanes = rules({"lane": "batch", "streaming": False})

    assert lanes.lane_of(CHAT, {}, Peek(whole=True), None) == "batch"
    assert lanes.lane_of(CHAT, {}, Peek(whole=False), None) == "default"


def test_all_conditions_of_a_rule_must_hold() -> None:
    """A rule with every kind of condition takes the request that meets all, and no request that misses one."""
    lanes = rules(
        {
            "lane": "all",
            "headers": {"X-Team": ["search", "ads*"], "x-env": "*"},
            "paths": "/v1/*",
            "models": ["a", "b"],
            "streaming": True,
            "api_keys": "gateway",
            "max_tokens_at_least": 10,
            "max_tokens_at_most": 20,
            "service_tiers": "flex",
            "priority_at_least": 1,
            "priority_at_most": 2,
        },
        api_keys={"gateway": ["0" * 64, KEY_HASH]},
    )
    fields = [(b"x-TEAM", b" ads-7 "), (b"X-Env", b"")]
    headers = found_in(fields)
    said = {"model": "b", "stream": True, "max_tokens": 20, "priority": 1, "service_tier": "flex"}

    assert lanes.lane_of(CHAT + b"?x=1", headers, Peek(whole=True, **said), KEY_HASH) == "all"  # type: ignore[arg-type]  # a table of keywords
    for missing in said:
        less = {key: value for key, value in said.items() if key != missing}
        assert lanes.lane_of(CHAT, headers, Peek(**less), KEY_HASH) == "default", missing  # type: ignore[arg-type]  # as above
    assert lanes.lane_of(b"/v2/chat", headers, Peek(**said), KEY_HASH) == "default"  # type: ignore[arg-type]  # as above
    assert lanes.lane_of(CHAT, found_in(fields[:1]), Peek(**said), KEY_HASH) == "default"  # type: ignore[arg-type]  # as above
    assert lanes.lane_of(CHAT, headers, Peek(**said), "f" * 64) == "default"  # type: ignore[arg-type]  # as above


def test_the_lane_header_names_declared_lanes_only() -> None:
    """The header comes before the rules; an unknown name, or two names, give `other`; without it the rules decide."""
    lanes = rules({"lane": "code", "models": "*"}, header="X-Lane", names="batch")
    peek = Peek(whole=True, model="m")

    assert lanes.lane_of(CHAT, found_in([(b"x-lane", b"batch ")]), peek, None) == "batch"
    assert lanes.lane_of(CHAT, found_in([(b"x-lane", b"batch"), (b"X-LANE", b"batch")]), peek, None) == "batch"
    assert lanes.lane_of(CHAT, found_in([(b"x-lane", b"batch"), (b"x-lane", b"code")]), peek, None) == "other"
    assert lanes.lane_of(CHAT, found_in([(b"x-lane", b"Batch")]), peek, None) == "other"
    assert lanes.lane_of(CHAT, found_in([(b"x-lane", b"a\xff")]), peek, None) == "other"
    assert lanes.lane_of(CHAT, {}, peek, None) == "code"


@given(
    path=st.binary(max_size=50),
    fields=st.lists(st.tuples(st.sampled_from([b"X-Lane", b"authorization", b"x-team", b""]), st.binary(max_size=40))),
    model=st.one_of(st.none(), st.text(), st.just("\ud800"), st.just("m" * 100_000)),
    max_tokens=st.one_of(st.none(), st.integers()),
)
def test_no_request_leaves_the_closed_set(
    path: bytes, fields: list[tuple[bytes, bytes]], model: str | None, max_tokens: int | None
) -> None:
    """For any bytes, the answer is a declared lane and nothing raises."""
    lanes = rules(
        {"lane": "a", "headers": {"x-team": "t*"}},
        {"lane": "b", "models": "m*", "paths": "/*"},
        {"lane": "c", "max_tokens_at_most": 5},
        header="x-lane",
    )

    headers = found_in(fields)
    assert lanes.lane_of(path, headers, Peek(model=model, max_tokens=max_tokens), hash_api_key(headers)) in lanes.lanes
    assert lanes.lanes == ("a", "b", "c", "default", "other")


def test_a_value_of_ten_megabytes_only_ever_matches_its_beginning() -> None:
    """Giant values are compared at their beginning only: a prefix matches, an exact text does not."""
    giant = b"m" * 10_000_000
    lanes = rules({"lane": "exact", "headers": {"x": "m"}}, {"lane": "prefix", "headers": {"x": "mm*"}})

    assert lanes.lane_of(CHAT, found_in([(b"x", giant)]), UNREAD_BODY, None) == "prefix"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"Authorization", b"Bearer " + KEY.encode())], KEY_HASH),
        ([(b"authorization", b"bearer   " + KEY.encode() + b" ")], KEY_HASH),
        ([(b"X-API-Key", KEY.encode())], KEY_HASH),
        ([(b"Authorization", b"Bearer " + KEY.encode()), (b"x-api-key", b"second")], KEY_HASH),
        ([(b"Authorization", b"Basic " + KEY.encode()), (b"x-api-key", KEY.encode())], KEY_HASH),
        ([(b"Authorization", b"Bearer a"), (b"Authorization", b"Bearer b")], None),
        ([(b"Authorization", b"Bearer "), (b"Host", b"h")], None),
        ([], None),
    ],
)
def test_which_key_a_request_carries(headers: list[tuple[bytes, bytes]], expected: str | None) -> None:
    """The bearer token, else x-api-key, hashed; two different ones count as none."""
    assert expected == hash_api_key(found_in(headers))


def test_keys_are_hashed_only_where_a_rule_asks() -> None:
    """A config without key rules says that no hash is needed."""
    assert rules({"lane": "a", "models": "m"}, api_keys={"k": KEY_HASH}).needs_api_key is False
    assert rules({"lane": "a", "api_keys": "k"}, api_keys={"k": KEY_HASH}).needs_api_key is True


def test_a_lane_by_length_takes_no_prompt_whose_length_is_not_known() -> None:
    """The fast and the slow lane of long prompts: each length is in one of them, and an unknown one in neither."""
    lanes = rules({"lane": "slow", "prompt_tokens_from": 4096}, {"lane": "fast", "prompt_tokens_below": 4096})
    found = {tokens: lanes.lane_of(CHAT, {}, Peek(whole=True), None, tokens) for tokens in (None, 0, 4095.9, 4096, 1e9)}

    assert found == {None: "default", 0: "fast", 4095.9: "fast", 4096: "slow", 1e9: "slow"}
    assert (lanes.needs_length, rules({"lane": "x", "streaming": True}).needs_length) == (True, False)
