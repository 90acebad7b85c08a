"""The garden of request sequences: all attacks on the reading of requests, in one order, from one seed.

Knows which tricks there are and gives each its number. The same seed gives the same sequences, byte by byte.
"""

from collections.abc import Collection, Iterator
from itertools import chain

from tests.garden.chunk_tricks import chunk_tricks, trailer_tricks
from tests.garden.framing_tricks import framing_tricks, length_tricks
from tests.garden.head_tricks import (
    connection_tricks,
    expectation_tricks,
    line_tricks,
    name_tricks,
    upgrade_tricks,
)
from tests.garden.message_tricks import (
    body_tricks,
    long_tricks,
    mixed_tricks,
    pause_tricks,
    pipeline_tricks,
    truncated_tricks,
)
from tests.garden.request_line_tricks import host_tricks, target_tricks, version_tricks
from tests.garden.sequence import AttackSequence, Family, Trick, sequence_of


SEED = 11
MIXED_SEQUENCES = 1000
"""Random mixtures in one garden."""


def request_sequences(seed: int = SEED, families: Collection[Family] = tuple(Family)) -> Iterator[AttackSequence]:
    """All sequences of these families. A sequence's number does not depend on the chosen families."""
    for number, trick in enumerate(_tricks(seed)):
        if trick.family in families:
            yield sequence_of(trick, number)


def _tricks(seed: int) -> list[Trick]:
    known = list(
        chain(
            framing_tricks(),
            length_tricks(),
            chunk_tricks(),
            trailer_tricks(),
            line_tricks(),
            name_tricks(),
            connection_tricks(),
            target_tricks(),
            host_tricks(),
            expectation_tricks(),
            upgrade_tricks(),
            version_tricks(),
            body_tricks(),
            pipeline_tricks(),
            pause_tricks(),
            truncated_tricks(),
            long_tricks(),
        )
    )
    every = (*known, *mixed_tricks(known, seed, MIXED_SEQUENCES))
    first: dict[tuple[bytes, tuple[int, ...]], Trick] = {}
    for trick in every:
        first.setdefault((trick.data, trick.cuts), trick)  # some spellings are in two lists
    return list(first.values())
