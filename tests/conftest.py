"""Settings for all tests: Hypothesis draws fixed examples by default, and a warning belongs to the test that caused it.

Hypothesis has two profiles. `order`, the default, draws the same examples in every run: a red test stays red until it
is mended, and no change is refused for a chance find in code that it did not touch. `random` (`.ci/random`) draws other
examples, and more of them. Neither depends on wall time, because tests promise order and values: no deadline, no
complaint of slow generation. Neither keeps a database, because a run must not depend on the one before.
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

import sidecar
from tests.support.proved_package import wrong_package
from tests.support.timed import Timed


ORDERED_EXAMPLES = 40
"""Examples of a property in a run that draws the same ones as every other: what it noticed once it notices again. `.ci/random`, which
draws other ones, finds what is new."""

settings.register_profile(
    "order",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    derandomize=True,
    max_examples=ORDERED_EXAMPLES,
)
settings.register_profile(
    "random",
    settings.get_profile("order"),
    derandomize=False,
    max_examples=500,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],  # it prints a failing example, unexplained
)
settings.load_profile("order")

os.environ["COLUMNS"] = "80"  # commands fold their output: in tests to one width, on any terminal

PROPERTY_TIMEOUT_SECONDS = 900
"""Time limit of one property. Hypothesis tries a failing example again and again until it is small, and ends that
itself after 500 steps or five minutes. An earlier limit would show a stack of Hypothesis' own code in place of the
example. A property that lasts longer hangs."""


def pytest_sessionstart() -> None:
    package = Path(sidecar.__file__).parent
    wrong = wrong_package(Path(__file__).parents[1], package, is_compiled=sidecar.IS_COMPILED, prefix=sys.prefix)
    if wrong is not None:
        raise pytest.UsageError(wrong)


@pytest.hookimpl(trylast=True)  # after Hypothesis has loaded the profile that the command line names
def pytest_configure(config: pytest.Config) -> None:
    """Register the judge of timed tests, and stop Hypothesis from drawing the constants of all loaded modules, in the profile `order`.

    A change in any module, or another order of imports, would change the examples of every property.
    """
    config.pluginmanager.register(Timed(), "timed")
    if settings.get_current_profile_name() == "order":
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", Constants)


@pytest.hookimpl(trylast=True)  # after Hypothesis has marked its tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker(pytest.mark.timeout(PROPERTY_TIMEOUT_SECONDS))
    of_the_other_build = "reaches_in" if sidecar.IS_COMPILED else "compiled"
    left_out = [item for item in items if item.get_closest_marker(of_the_other_build)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker(of_the_other_build)]


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_nothing() -> Iterator[None]:
    """As `_test_leaves_nothing`, for resources that a fixture of the whole module opened.

    Objects that exist before belong to imports, caches and the session: they are frozen, so that the collector need not
    visit them after each test.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _test_leaves_nothing() -> Iterator[None]:
    """Collect after each test, so that the warning of a transport, file or coroutine left open comes in its own test.

    The frames of a failed test would keep its resources open until the next test begins. `last_exc` is kept since Python 3.12.
    """
    yield
    sys.last_type = sys.last_value = sys.last_traceback = None
    if sys.version_info >= (3, 12):
        sys.last_exc = None
    gc.collect()
