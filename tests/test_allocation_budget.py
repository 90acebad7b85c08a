"""Allocations of a token event and of a whole request, in memory: a budget that no noise of a machine changes.

Time is what counts, and it is measured by `make bench`; an allocation more for each token is seen here at once. Counted is what
stands between the sockets, the fake sockets' own lists and buffers included, with everything wired that the app wires. Budgets
are what was measured on CPython 3.11, for a request with 1 % more. Other versions have other free lists and other objects, so that their
counts say nothing about these budgets: there they are left out by hand, and fail in CI.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median_low

import pytest

from sidecar import IS_COMPILED
from tests.support.allocations import Counter
from tests.support.tools import missing
from tests.support.walk import HEAD, LAST, OBJECTIVES, REQUEST, TOKEN, Walk


EVENT_BUDGET, REQUEST_BUDGET = (23, 441) if IS_COMPILED else (31, 507)
"""Compiled, numbers within a function are no objects."""
WARM_UP = 900
"""Repetitions of 40 ms before any counts. After 256 of them the interpreter has no more small integers for the counts of the
walk, and after 30 s of its clock ids of old requests are forgotten as new ones come."""
COUNTED = 101
VERSION = (3, 11)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    return Counter(tmp_path_factory.mktemp("allocations"))


@pytest.fixture
def _of_this_version() -> None:
    if sys.version_info[:2] != VERSION:
        missing(
            f"the budgets of allocations are those of CPython {VERSION[0]}.{VERSION[1]}: measure them on this version"
        )


@contextmanager
def no_collection() -> Iterator[None]:
    """From empty free lists on, no run of the garbage collector frees or fills one."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def steady(counter: Counter, repeated: Callable[[], object], between: Callable[[], object]) -> int:
    """Allocations of one repetition. The median, because now and then a list or a table grows.

    The count is steady: that of the repetitions before is the same.
    """
    with no_collection():
        found = []
        for _ in range(WARM_UP + 2 * COUNTED):
            between()
            found.append(counter.of(repeated))
    before, after = median_low(found[WARM_UP:-COUNTED]), median_low(found[-COUNTED:])
    assert before == after, f"not steady: {before}, then {after}"
    return after


def token_allocations(counter: Counter, *, cut: bool) -> int:
    """Allocations of one read of one event with one token."""
    walk = Walk(include_usage=cut, objectives=OBJECTIVES, estimate=True)
    walk.client().send(REQUEST)
    walk.engine.send(HEAD)
    read = partial(walk.engine.protocol.data_received, TOKEN)
    found = steady(counter, read, lambda: walk.clock.later(0.03))
    assert walk.value("llm_inter_token_seconds_count") == WARM_UP + 2 * COUNTED - 1, "a token was not measured"
    assert cut == (b"include_usage" in walk.engine.taken)
    return found


@pytest.mark.usefixtures("_of_this_version")
@pytest.mark.parametrize("cut", [False, True], ids=["plain", "usage is cut"])
def test_a_token_takes_few_allocations(counter: Counter, *, cut: bool) -> None:
    """From the engine's socket to the last number that the token changes."""
    assert token_allocations(counter, cut=cut) <= EVENT_BUDGET


@pytest.mark.usefixtures("_of_this_version")
def test_the_whole_life_of_a_request_takes_few_allocations(counter: Counter) -> None:
    """A streamed request of one token, from its read to its closed ledger, on connections that are open."""
    walk = Walk(objectives=OBJECTIVES, estimate=True)
    client = walk.client()

    def request() -> None:
        client.send(REQUEST)
        walk.clock.later(0.03)
        walk.engine.send(HEAD + TOKEN + LAST + b"0\r\n\r\n")

    found = steady(counter, request, lambda: walk.clock.later(0.01))

    assert len(walk.accounts) == WARM_UP + 2 * COUNTED
    assert found <= REQUEST_BUDGET


def test_each_block_counts_and_nothing_outside_the_call(counter: Counter) -> None:
    """A bytearray is two blocks, itself and its bytes; what says True takes none."""
    calls = (partial(bytearray, 1000), partial(bytes, 1000), gc.isenabled)
    assert [counter.of(call) for call in calls] == [2, 1, 0]


def test_what_a_counted_call_raises_is_raised(counter: Counter) -> None:
    with pytest.raises(ZeroDivisionError):
        counter.of(partial(divmod, 1, 0))
    assert counter.of(partial(bytearray, 1000)) == 2
