"""How fast decoding can be at best: each step reads the weights once and the cache of every sequence, and memory has a speed.

A bound and no forecast: real steps also launch kernels, talk between GPUs and compute, and memory is
not read at its peak (the share that is reached is the caller's to state; NVIDIA's aiconfigurator takes 0.8). Of a mixture of experts it counts one token's experts, which a larger batch exceeds: a bound still.
"""

from dataclasses import dataclass

from sidecar.capacity.geometry import Geometry


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One batch size."""

    batch: int
    step_seconds: float
    """The shortest time between two tokens of one user."""

    @property
    def user_tokens_per_second(self) -> float:
        """The most that one user sees."""
        return 1 / self.step_seconds

    @property
    def total_tokens_per_second(self) -> float:
        """The most that the replica makes."""
        return self.batch / self.step_seconds


@dataclass(frozen=True, slots=True)
class Decode:
    """A replica's memory, read at `bytes_per_second` over all its GPUs."""

    read_weights_bytes: float
    """Weights that every step reads; of a mixture of experts the active ones."""
    bytes_per_second: float
    geometry: Geometry

    def row(self, batch: int, tokens: int) -> DecodeRow:
        """`batch` sequences that have `tokens` tokens each; 0 tokens: the weights alone."""
        read = self.read_weights_bytes + batch * self.geometry.read_bytes(tokens)
        return DecodeRow(batch, read / self.bytes_per_second)

    def rows(self, tokens: int, most: int) -> list[DecodeRow]:
        """Batches 1, 2, 4, ... up to `most`, and `most` itself."""
        batches = [1 << power for power in range(most.bit_length()) if 1 << power < most]
        return [self.row(batch, tokens) for batch in (*batches, most)]

    def batch_within(self, tokens: int, step_seconds: float) -> int:
        """The largest batch whose bound is not above so many seconds a token; 0: not even one."""
        left = step_seconds * self.bytes_per_second - self.read_weights_bytes
        each = self.geometry.read_bytes(tokens)
        return max(0, int(left / each)) if each else 0
