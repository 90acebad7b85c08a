"""The typed config: its defaults stand, its addresses parse, and a reload may not change what is baked in."""

import pytest

from sidecar.config.schema import NEEDS_RESTART, Config, restart_needed
from sidecar.config.values import Address, parse_address, parse_engine_url


URL = "http://127.0.0.1:8000"


def config(**sections: object) -> Config:
    return Config.model_validate({"engine": {"url": URL}, **sections})


def test_the_ports_are_those_of_the_design() -> None:
    """Traffic comes in on 8900, everything else on 9901."""
    assert config().proxy.address == Address("0.0.0.0", 8900)
    assert config().web.address == Address("0.0.0.0", 9901)
    assert config().engine.address == Address("127.0.0.1", 8000)


def test_the_declared_lanes_are_a_closed_set() -> None:
    """Rules in order, further names, the default and `other`, each once."""
    lanes = config(
        lanes={"default": "chat", "header": "X-Lane", "names": ["spare"], "rules": [{"lane": "b"}, {"lane": "chat"}]}
    ).lanes

    assert lanes.declared == ("b", "chat", "spare", "other")
    assert lanes.header == "x-lane"


def test_a_config_is_frozen() -> None:
    """Nobody can change a config that others hold."""
    with pytest.raises(ValueError, match="frozen"):
        config().log.level = "debug"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:8900", Address("0.0.0.0", 8900)),
        (":0", Address("", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("my_host.local:65535", Address("my_host.local", 65535)),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    """Names, IPv4, bracketed IPv6, and an empty host for every interface."""
    assert expected == parse_address(text)


@pytest.mark.parametrize(
    "text", ["", "8900", "host", "host:", "host:65536", "h:-1", "::1:80", "[h]:1", "a b:1", "h:\uff11"]
)
def test_what_is_no_address(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="has"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://engine", Address("engine", 80)),
        ("http://[::1]:8000/", Address("::1", 8000)),
        (URL, Address("127.0.0.1", 8000)),
    ],
)
def test_engine_urls(text: str, expected: Address) -> None:
    """A host, a port (80 if unsaid), and at most the root path."""
    assert expected == parse_engine_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8000",
        "https://a",
        "http://",
        "http://a:0",
        "http://u@a",
        "http://a/v1",
        "http://a?x",
        "http://a/#f",
        "http://[x]",
    ],
)
def test_what_is_no_engine_url(text: str) -> None:
    """Anything else is refused, saying what is wrong."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_engine_url(text)


def test_a_reload_names_what_it_may_not_change() -> None:
    """Lanes and logs may change; edges, listeners, the engine and constant labels may not."""
    old = config()
    lively = config(lanes={"rules": [{"lane": "batch", "streaming": False}]}, log={"level": "debug"})
    baked = Config.model_validate(
        {
            "engine": {"url": "http://127.0.0.1:8001"},
            "web": {"listen_address": ":1"},
            "labels": {"gpu_type": "H100"},
            "prompt_buckets": {"edges": [1]},
        }
    )

    assert restart_needed(old, old) == []
    assert restart_needed(old, lively) == []
    assert restart_needed(old, baked) == ["engine.url", "web.listen_address", "prompt_buckets.edges", "labels.gpu_type"]


def test_every_key_that_needs_a_restart_exists() -> None:
    """The list cannot go stale: each name is a key of the model."""
    for key in NEEDS_RESTART:
        section, name = key.split(".")
        assert name in type(getattr(config(), section)).model_fields
