"""The fixture of all tests of logs: a tape of the written lines."""

from collections.abc import Iterator

import pytest

from tests.support.logs import Tape


@pytest.fixture
def tape() -> Iterator[Tape]:
    made = Tape()
    yield made
    made.logs.close()
