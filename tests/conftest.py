"""What holds for every test: Hypothesis leaves nothing to chance, and a warning belongs to the test that caused it.

Hypothesis has two profiles. `order`, the default, draws the same examples in every run: a red test stays red until it is
mended, and no change is refused for a chance find in what it did not touch. `random` (`.ci/random`) draws others, and more
of them. Neither knows wall time, because tests promise order and values: no deadline, no complaint of slow generation.
Neither keeps a database, because a run must not depend on the one before.
"""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


settings.register_profile(
    "order", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None, derandomize=True
)
settings.register_profile(
    "random",
    settings.get_profile("order"),
    derandomize=False,
    max_examples=500,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],  # it prints a find, and does not explain it
)
settings.load_profile("order")

os.environ["COLUMNS"] = "80"  # what commands print is folded: in tests to one width, on any terminal

PROPERTY_TIMEOUT_SECONDS = 900
"""A property that fails is tried again and again until it is small. Hypothesis ends that itself, after 500 steps or five
minutes; cut off before, it would show a stack of its own insides in place of the example. What lasts longer hangs."""


@pytest.hookimpl(trylast=True)  # after Hypothesis has loaded the profile that the command line names
def pytest_configure() -> None:
    """Hypothesis also draws the constants of all modules that are loaded; `order` goes without them.

    A change in any module, or another order of imports, would change the examples of every property.
    """
    if settings.get_current_profile_name() == "order":
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", Constants)


@pytest.hookimpl(trylast=True)  # after Hypothesis has marked its tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker(pytest.mark.timeout(PROPERTY_TIMEOUT_SECONDS))


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
