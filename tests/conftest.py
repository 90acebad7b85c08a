"""What holds for every test: Hypothesis has no deadline, and a warning belongs to the test that caused it."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings


settings.register_profile("order", deadline=None)
settings.load_profile("order")


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_nothing() -> Iterator[None]:
    """As below, for what a fixture of the whole module opened.

    What is there before belongs to imports, caches and the session: the collector need not look at it after each test.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _test_leaves_nothing() -> Iterator[None]:
    """Collect after each test, so that the warning of a transport, file or coroutine left open is raised in its own test.

    A failed test's frames would keep what it opened until the next test begins.
    """
    yield
    sys.last_type = sys.last_value = sys.last_traceback = None
    gc.collect()
