"""Least squares with few terms and no negative coefficient, from sums that fade. Pure; no numpy.

It knows sums of products. It refuses to know what its terms mean. A fit costs some tens of microseconds, whatever the
number of samples. Of the sets of terms whose coefficients are all at least 0, the one that explains most is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar

from sidecar.pod.usual.learner import Amount, Learner, Many


HALVED_AT = 8_192.0
"""When the samples weigh this much, all sums are halved: newer samples then count for more."""
SINGULAR = 1e-9
"""A pivot below this share of its own diagonal cannot be told from 0."""


class LeastSquares(Learner):
    """A linear model `y = c0 * x0 + c1 * x1 + ...`, fitted to the relative error of each sample."""

    KEPT: ClassVar = {"_squares": Many(Many(Amount())), "_products": Many(Amount()), "weight": Amount()}

    def __init__(self, terms: int) -> None:
        self._terms = terms
        self._squares = [[0.0] * terms for _ in range(terms)]
        self._products = [0.0] * terms
        self.weight = 0.0
        """Number of samples; halved with the sums."""

    def problem(self, found: Mapping[str, Any]) -> str | None:
        sizes = {len(row) for row in (*found["_squares"], found["_squares"], found["_products"])}
        return None if sizes == {self._terms} else f"not the sums of {self._terms} terms"

    def add(self, x: Sequence[float], y: float, expected: float) -> None:
        """One sample. `expected`: the size of `y` that its error is relative to; above 0."""
        weight = 1.0 / (expected * expected)
        for row, value in enumerate(x):
            self._products[row] += weight * value * y
            squares = self._squares[row]
            for column, other in enumerate(x):
                squares[column] += weight * value * other
        self.weight += 1.0
        if self.weight >= HALVED_AT:
            self.halve()

    def halve(self) -> None:
        """Halve the weight of all samples so far."""
        self.weight /= 2
        self._products = [each / 2 for each in self._products]
        self._squares = [[each / 2 for each in row] for row in self._squares]

    def solved(self) -> tuple[float, ...] | None:
        """The coefficients, all at least 0; None if the samples do not determine even one."""
        return next(iter(self.possible(0.0)), None)

    def possible(self, more: float) -> list[tuple[float, ...]]:
        """The coefficients of each set of terms whose mean squared relative error is larger than the least one by at most
        `more`; the best first.
        """
        found = [
            (sum(value * self._products[term] for term, value in by_term.items()), by_term) for by_term in self._fits()
        ]
        found.sort(key=itemgetter(0), reverse=True)
        return [
            tuple(by_term.get(term, 0.0) for term in range(self._terms))
            for explained, by_term in found
            if explained >= found[0][0] - more * self.weight
        ]

    def _fits(self) -> Iterator[dict[int, float]]:
        """The coefficients of each set of terms that explains anything and has none below 0."""
        for terms in self._choices():
            values = self._solve(terms)
            if values is not None and min(values) >= 0.0 < max(values):
                yield dict(zip(terms, values, strict=True))

    def _choices(self) -> Iterator[tuple[int, ...]]:
        """Every set of terms that may stay."""
        for size in range(self._terms, 0, -1):
            yield from combinations(range(self._terms), size)

    def _solve(self, terms: Sequence[int]) -> list[float] | None:
        """Gauss elimination; the matrix is positive definite or singular, so that no pivoting is needed."""
        rows = [[self._squares[row][column] for column in terms] + [self._products[row]] for row in terms]
        for at, row in enumerate(rows):
            if row[at] <= SINGULAR * self._squares[terms[at]][terms[at]]:
                return None
            for below in rows[at + 1 :]:
                factor = below[at] / row[at]
                for column in range(at, len(row)):
                    below[column] -= factor * row[column]
        found = [0.0] * len(rows)
        for at in reversed(range(len(rows))):
            known = sum(rows[at][column] * found[column] for column in range(at + 1, len(rows)))
            found[at] = (rows[at][-1] - known) / rows[at][at]
        return found
