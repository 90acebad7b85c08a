"""The load on a replica: a mix of request shapes that arrive at random at a given rate.

It contains shares, lengths and lanes, and draws from the random generator that is passed in. It has no engine and no
clock: the same mix loads the simulation in virtual time and (`load.py`) a real socket.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Shape:
    share: float
    """Weight among the shapes of the mix."""
    prompt_tokens: int
    output_tokens: int
    lane: str = "interactive"
    spread: float = 0.0
    """Lengths are drawn uniformly from (1 - spread) to (1 + spread) times their value."""

    def lengths(self, rng: Random) -> tuple[int, int]:
        if not self.spread:
            return self.prompt_tokens, self.output_tokens
        low, high = 1 - self.spread, 1 + self.spread
        prompt, output = rng.uniform(low, high) * self.prompt_tokens, rng.uniform(low, high) * self.output_tokens
        return max(1, round(prompt)), max(1, round(output))


@dataclass(frozen=True, slots=True)
class Arrival:
    """One future request, `at` seconds after the load began."""

    at: float
    prompt_tokens: int
    output_tokens: int
    lane: str


@dataclass(frozen=True, slots=True)
class Workload:
    """A mix of shapes with Poisson arrivals. Open loop: the next request does not wait for earlier answers."""

    shapes: tuple[Shape, ...]

    def arrivals(self, rate: float, rng: Random) -> Iterator[Arrival]:
        """Endless arrivals, `rate` per second on average. The same seed at another rate stretches the same sequence."""
        shares = [shape.share for shape in self.shapes]
        at = 0.0
        while True:
            at += rng.expovariate(1.0) / rate
            shape = rng.choices(self.shapes, shares)[0]
            prompt_tokens, output_tokens = shape.lengths(rng)
            yield Arrival(at, prompt_tokens, output_tokens, shape.lane)
