"""Fixtures of the tests that need a real engine: marker, time limit, and one engine of each kind for the whole session.

Building and starting are reported on the terminal, past pytest's capture: two minutes of silence look like a hang.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.dynamo_environment import DynamoBuild, dynamo_environment
from tests.real.dynamo_server import RunningDynamo, running_dynamo
from tests.real.environment import BuildError, Environment, Say, vllm_environment
from tests.real.llama_cpp_environment import LlamaCpp, llama_cpp_environment
from tests.real.llama_cpp_server import running_llama_cpp
from tests.real.server import RunningEngine, running_vllm, warm_up
from tests.support.tools import missing


FOLDER = Path(__file__).parent
PATIENCE_SECONDS = 1_800
"""Time limit of an engine's first test, which includes the engine's build: ten minutes of two idle cores for
llama.cpp."""
OF_BYTES = ("_bytes", "_recordings")
"""The ends of the names of those test files whose promises no late process can break."""
TOLD_CHARACTERS = 4_000
"""The end of a failure, which names its cause."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))
            if not item.path.stem.endswith(OF_BYTES):
                item.add_marker(pytest.mark.timed)


def pytest_exception_interact(report: pytest.TestReport) -> None:
    """Tell a failure when it happens, as well as at the end: a run of these tests may be stopped before its end."""
    print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext}"[-TOLD_CHARACTERS:], flush=True)  # noqa: T201  for a person


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Say:
    """Print a line on the real terminal."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)  # noqa: T201  progress for a person

    return say


@pytest.fixture(scope="session")
def vllm_built(say: Say) -> Environment:
    try:
        return vllm_environment(say)
    except BuildError as error:
        missing(f"no vLLM can be installed here: {error}")


@pytest.fixture(scope="session")
def vllm(vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """A warm vLLM with four slots that reports its timings in band."""
    with running_vllm(vllm_built, tmp_path_factory.mktemp("vllm"), say) as engine:
        warm_up(engine)
        yield engine


@pytest.fixture(scope="session")
def llama_cpp_built(vllm_built: Environment, say: Say) -> LlamaCpp:
    try:
        return llama_cpp_environment(vllm_built.model, say)
    except BuildError as error:
        missing(f"no llama.cpp can be built here: {error}")


@pytest.fixture(scope="session")
def llama_cpp(llama_cpp_built: LlamaCpp, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """A llama.cpp server with four slots."""
    with running_llama_cpp(llama_cpp_built, tmp_path_factory.mktemp("llama-cpp"), say) as engine:
        warm_up(engine)
        yield engine


@pytest.fixture(scope="session")
def dynamo_built(vllm_built: Environment, say: Say) -> DynamoBuild:
    try:
        return dynamo_environment(vllm_built.model, say)
    except BuildError as error:
        missing(f"no Dynamo can be installed here: {error}")


@pytest.fixture(scope="session")
def dynamo(dynamo_built: DynamoBuild, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDynamo]:
    """A Dynamo with one mocker of four slots, aggregated."""
    with running_dynamo(dynamo_built, tmp_path_factory.mktemp("dynamo"), say) as engine:
        yield engine
