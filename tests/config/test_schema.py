"""The typed config: its defaults stand, it is frozen, and a reload does not change the keys that need a restart."""

import pytest

from sidecar.config.schema import Config, restart_needed
from sidecar.config.values import Address
from tests.support.configs import section_of


URL = "http://127.0.0.1:8000"


def config(**sections: object) -> Config:
    return section_of(Config, {"engine": {"url": URL}, **sections})


def test_the_ports_are_those_of_the_design() -> None:
    """The traffic listener's port is 8900, the admin listener's 9901."""
    assert config().proxy.address == Address("", 8900)
    assert config().web.address == Address("", 9901)
    assert config().engine.address == Address("127.0.0.1", 8000)


def test_the_declared_lanes_are_a_closed_set() -> None:
    """Rules in order, further names, the default and `other`, each once."""
    lanes = config(
        lanes={"default": "chat", "header": "X-Lane", "names": ["spare"], "rules": [{"lane": "b"}, {"lane": "chat"}]}
    ).lanes

    assert lanes.declared == ("b", "chat", "spare", "other")
    assert lanes.header == "x-lane"


def test_a_config_is_frozen() -> None:
    """No part of the program can change the config that other parts hold."""
    with pytest.raises(AttributeError, match="immutable"):
        config().log.level = "debug"


def test_a_reload_names_what_it_may_not_change() -> None:
    """Lanes and logs may change; edges, listeners, the engine and constant labels need a restart."""
    old = config()
    lively = config(lanes={"rules": [{"lane": "batch", "streaming": False}]}, log={"level": "debug"})
    baked = section_of(
        Config,
        {
            "engine": {"url": "http://127.0.0.1:8001"},
            "web": {"listen_address": ":1"},
            "labels": {"gpu_type": "H100"},
            "prompt_buckets": {"edges": [1]},
        },
    )

    assert restart_needed(old, old) == []
    assert restart_needed(old, lively) == []
    assert restart_needed(old, baked) == ["engine.url", "web.listen_address", "prompt_buckets.edges", "labels.gpu_type"]
