"""The canary's gate as arithmetic: are more of the new version's requests bad, and may one look at any time?

Two versions serve the same lane at the same time. A block is what both served within two minutes. Within a block the bad
requests of both sides are divided by each side's share of the requests: if the versions are alike, the canary's bad
requests are its part of them on average, whatever the hour and whatever the canary's share of the traffic. How far they
are above it, over their spread, is a t statistic. It is turned into a p value that stays valid however often one looks: the mixture likelihood ratio of a t test in closed form, with a normal
prior on the standardised effect (Lai and Xing 2009; Wang and Ramdas 2025, "Anytime-valid t-tests").

A block is weighted by the bad requests that are the canary's part in it: there may be as much spread per bad request at
noon as in the morning, but not per minute. The spread itself is taken from the blocks and never from a binomial law,
because misses come in clumps: one full queue makes many. It holds what clumps of up to some two minutes do; a clump that
is longer makes the evidence look stronger than it is.

Pure: counts in, a p value out. It knows nothing of metrics or PromQL; `gate_query.py` writes the same arithmetic as a
query.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import NamedTuple

from sidecar.commands.compare.gate_questions import BLOCK_MINUTES


NO_EVIDENCE = 0.5
"""The p value before any bad request: the test is one-sided."""
LOOKS = 60
"""Looks of a rollout, one a minute, for which false alarms and power are stated. More looks than blocks change nothing."""
HALF_A_REQUEST = 0.5
"""Taken off the excess, in requests: bad requests are whole ones, and of a handful, such as errors in a good week, all may be the
canary's by chance. It is nothing beside the excess of fifty."""
MOST_SHARE = 0.6
"""A block in which the canary has a larger share of the requests says nothing: nearly all bad requests are then the canary's by
chance, and the few others tell no spread. A share of one half may vary up to this."""
LEAST = 1e-9
"""Least divisor, so that a rollout without a single bad request has a p value, and not 0 / 0; and what is due only by a
rounding of sums is less."""


class Side(NamedTuple):
    """Requests of one side in one stretch of time; both numbers count from 0."""

    bad: float
    requests: float


class Block(NamedTuple):
    canary: Side
    baseline: Side


class Part(NamedTuple):
    """Bad requests of a block that are the canary's by its share of the requests, and those above them."""

    due: float
    excess: float


class Evidence(NamedTuple):
    """Sums over blocks: due, excess, and excess squared over due; and the number of blocks in which something is due.

    Bad requests may be the difference of two counters that are not read in the same instant: a block may then have less than none,
    and the next one more by as many. It tells no spread.
    """

    due: float = 0.0
    excess: float = 0.0
    squares: float = 0.0
    informative: int = 0

    def and_of(self, part: Part) -> "Evidence":
        return Evidence(
            self.due + part.due,
            self.excess + part.excess,
            self.squares + (part.excess**2 / part.due if part.due > LEAST else 0.0),
            self.informative + (part.due > LEAST),
        )

    @property
    def p(self) -> float:
        """The always-valid p value, above 0 and at most 1."""
        if not self.informative:
            return NO_EVIDENCE
        explained = max(self.excess - HALF_A_REQUEST, 0.0) ** 2 / max(self.due * self.squares, LEAST)
        left = 1 - explained * self.informative / (1 + self.informative)
        return min(1.0, NO_EVIDENCE * sqrt((1 + self.informative) * left**self.informative))


def blocks(minutes: Sequence[Block], length: int = BLOCK_MINUTES) -> Iterator[Block]:
    """Blocks from the counts of single minutes, one after the other, as far as they are whole."""
    for end in range(length, len(minutes) + 1, length):
        within = minutes[end - length : end]
        yield Block(*(Side(*map(sum, zip(*sides, strict=True))) for sides in zip(*within, strict=True)))


def part_of(block: Block) -> Part | None:
    """None if one of the sides had no request, or the canary too many of them: then nothing is compared."""
    (bad, requests), (other_bad, other_requests) = block
    share = requests / (requests + other_requests) if requests > 0 else 0.0
    if not 0 < share <= MOST_SHARE:
        return None
    due = (bad + other_bad) * share
    return Part(due, bad - due)


def always_valid_p(told: Iterable[Block]) -> float | None:
    """P value that the versions are alike, from all blocks since the rollout began; one-sided: only worse is evidence.

    Between 0 and 1. None if no block has requests of both sides, with at most MOST_SHARE on the canary. The probability that it is ever below `p` during
    a rollout of two versions that are alike is at most `p`, as far as blocks are independent of each other.
    """
    evidence, compared = Evidence(), False
    for block in told:
        if (part := part_of(block)) is not None:
            evidence, compared = evidence.and_of(part), True
    return evidence.p if compared else None
