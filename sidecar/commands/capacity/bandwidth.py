"""The best possible speed of decoding: each step reads the weights once and the cache of every sequence from memory.

This is a bound, not a forecast: real steps also launch kernels, communicate between GPUs and compute, and memory is
not read at its peak bandwidth (the caller states the share that is reached; NVIDIA's aiconfigurator takes 0.8). For a
mixture of experts it counts the experts of one token; a larger batch reads more, so the result is still a bound.
"""

from dataclasses import dataclass

from sidecar.commands.capacity.geometry import Geometry


@dataclass(frozen=True, slots=True)
class DecodeRow:
    batch: int
    step_seconds: float
    """The shortest time between two tokens of one user."""
    user_tokens_per_second: float
    """Upper bound of the output rate of one user."""
    total_tokens_per_second: float
    """Upper bound of the output rate of the whole replica."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Decoding on one replica. Its memory is read at `bytes_per_second`, summed over its GPUs."""

    read_weights_bytes: float
    """Weights that every step reads; for a mixture of experts, the active ones."""
    bytes_per_second: float
    geometry: Geometry

    def row(self, batch: int, tokens: int) -> DecodeRow:
        """The bound for `batch` sequences of `tokens` tokens each; 0 tokens counts the weights alone."""
        read = self.read_weights_bytes + batch * self.geometry.read_bytes(tokens)
        seconds = read / self.bytes_per_second
        return DecodeRow(batch, seconds, 1 / seconds, batch / seconds)

    def rows(self, tokens: int, most: int) -> list[DecodeRow]:
        """The bounds for batches 1, 2, 4, ... below `most`, and for `most` itself."""
        batches = [1 << power for power in range(most.bit_length()) if 1 << power < most]
        return [self.row(batch, tokens) for batch in (*batches, most)]

    def batch_within(self, tokens: int, step_seconds: float) -> int:
        """The largest batch with a bound of at most `step_seconds` per token; 0: not even one sequence."""
        left = step_seconds * self.bytes_per_second - self.read_weights_bytes
        each = self.geometry.read_bytes(tokens)
        return max(0, int(left / each)) if each else 0
