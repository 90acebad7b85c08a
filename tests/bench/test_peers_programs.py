"""Engine and load of `make bench`, against each other: what one counts as sent, the other counts as read."""

import re
import shutil
import urllib.request
from collections.abc import Iterator

import pytest

from bench.peers.build import COMPILER, generator
from bench.peers.measure import Generator
from bench.peers.proxies import Running
from tests.support.tools import missing


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    if shutil.which(COMPILER) is None:
        missing(f"{COMPILER} is not installed (Debian: apt-get install g++)")
    started = Generator(generator(tmp_path_factory.mktemp("peers")))
    yield started
    started.close()


def sent(load: Generator) -> int:
    """Tokens that the engine has handed to the kernel, by its own page of metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{load.port}/metrics", timeout=10) as page:
        found = re.search(r"^vllm:generation_tokens_total\{.*\} (\d+)$", page.read().decode(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_every_token_that_the_engine_sends_is_read_and_later_than_it_was_sent(load: Generator) -> None:
    before = sent(load)
    window = load.play("streams", Running(load.port), {"n": 20, "settle_ms": 50, "window_ms": 400})
    added = window.said["added_ns"]
    assert isinstance(added, dict)
    assert (window.said["errors"], window.number("tokens_total")) == (0, sent(load) - before)
    assert window.number("tokens_total") == window.number("expected_total")
    assert 0 < added["p50"] <= added["p99"] <= added["max"]
    assert 0 < window.busy_share <= 1
