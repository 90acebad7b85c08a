"""0 requests smuggled or split, 0 bytes changed: thousands of hostile sequences through the sidecar alone, nginx and HAProxy.

`make garden` sends all of them; the suite sends a sample. The origin behind keeps every byte that it gets, and other parsers
than the relay's read these bytes again.
"""

from pathlib import Path

import pytest

from tests.garden.chains import CHAINS, NOT_FOR
from tests.garden.garden import request_sequences
from tests.garden.hostile_answers import hostile_answers
from tests.garden.rounds import Round, answers_round, garden_round


FEWEST_SEQUENCES = 5000
FEWEST_ANSWERS = 200
SAMPLE = 20
"""The suite sends one of so many sequences."""


def faults(played: Round) -> list[str]:
    return [f"{one.attack}: {one.fault}" for one in played.findings]


@pytest.mark.long
def test_the_suite_sends_a_sample(tmp_path: Path) -> None:
    """Some sequences of every family, straight to the sidecar: none is smuggled, and three readers agree."""
    played = garden_round("direct", list(request_sequences())[::SAMPLE], tmp_path)

    assert (faults(played), played.disagreeing, played.garbage) == ([], [], [])
    assert played.requests > played.attacks / 5


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", CHAINS)
def test_nothing_is_smuggled_or_split(chain: str, tmp_path: Path) -> None:
    """Each accepted request reaches the origin once, the canary behind it separately, with its own bytes; or it is
    refused, and the connection ends."""
    played = garden_round(chain, list(request_sequences()), tmp_path)

    assert played.attacks >= FEWEST_SEQUENCES
    assert (faults(played), played.disagreeing, played.garbage) == ([], [], [])
    assert played.requests > played.attacks / 3


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", CHAINS)
def test_hostile_answers_harm_no_client(chain: str, tmp_path: Path) -> None:
    """A client gets a valid message or a visible end, and never a byte of another answer."""
    assert len(hostile_answers()) >= FEWEST_ANSWERS
    played = answers_round(chain, tmp_path, without=NOT_FOR.get(chain, ()))

    assert played.attacks > 2 * FEWEST_ANSWERS
    assert (faults(played), played.disagreeing, played.garbage) == ([], [], [])
