"""What is asked of a replica: a mix of request shapes, arriving at random at a given rate.

It knows shares, lengths and lanes, and draws from the generator that it is handed. It refuses to know engines and clocks:
the same mix loads the simulation in virtual time and (`load.py`) a real socket.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of request."""

    share: float
    """Its weight among the shapes of the mix."""
    prompt_tokens: int
    output_tokens: int
    lane: str = "interactive"
    spread: float = 0.0
    """Lengths are drawn uniformly within this fraction of their value, on both sides."""

    def lengths(self, rng: Random) -> tuple[int, int]:
        """Prompt and output tokens of one request of this shape."""
        if not self.spread:
            return self.prompt_tokens, self.output_tokens
        low, high = 1 - self.spread, 1 + self.spread
        prompt, output = rng.uniform(low, high) * self.prompt_tokens, rng.uniform(low, high) * self.output_tokens
        return max(1, round(prompt)), max(1, round(output))


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request to come, `at` seconds after the load began."""

    at: float
    prompt_tokens: int
    output_tokens: int
    lane: str


@dataclass(frozen=True, slots=True)
class Workload:
    """A mix of shapes with Poisson arrivals: open loop, nobody waits for an answer before the next comes."""

    shapes: tuple[Shape, ...]

    def arrivals(self, rate: float, rng: Random) -> Iterator[Arrival]:
        """Arrivals without end, `rate` a second on average. The same seed at another rate is the same sequence, stretched."""
        shares = [shape.share for shape in self.shapes]
        at = 0.0
        while True:
            at += rng.expovariate(1.0) / rate
            shape = rng.choices(self.shapes, shares)[0]
            prompt_tokens, output_tokens = shape.lengths(rng)
            yield Arrival(at, prompt_tokens, output_tokens, shape.lane)
