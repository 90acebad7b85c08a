"""The memory left for the KV cache, and what fits into it: how many sequences of a length, or how long a context.

The memory left is known in two ways: the engine states it (blocks, from its metrics), or it is GPU memory x utilisation
less weights and reserve. Pure arithmetic, always rounded to whole blocks and down. A reserve that the caller did not
state is not guessed.
"""

from dataclasses import dataclass

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.geometry import Geometry


def left_for_cache(memory_bytes: float, utilisation: float, weights_bytes: float, reserve_bytes: float) -> float:
    """Bytes left for the cache of one replica, summed over its GPUs. Raises RefusedError if nothing is left.

    `utilisation`: share of the memory that the engine may take, 0 to 1 (vLLM: --gpu-memory-utilization).
    `reserve_bytes`: activations, graphs, communication buffers: all memory that is neither weights nor cache.
    """
    left = memory_bytes * utilisation - weights_bytes - reserve_bytes
    if left <= 0:
        raise RefusedError(
            f"the weights and the reserve ask for {(weights_bytes + reserve_bytes) / 1e9:.4g} GB of the"
            f" {memory_bytes * utilisation / 1e9:.4g} GB that the engine may take: nothing is left for the KV cache."
            " More GPUs, a smaller reserve or quantised weights would change that"
        )
    return left


@dataclass(frozen=True, slots=True)
class Room:
    """A KV cache of a known size for sequences of a known geometry."""

    geometry: Geometry
    cache_bytes: float

    def sequences(self, tokens: int) -> int:
        return int(self.cache_bytes // self.geometry.sequence_bytes(tokens))

    def fits(self, users: int, tokens: int) -> bool:
        return users * self.geometry.sequence_bytes(tokens) <= self.cache_bytes

    def longest(self, users: int, most: int) -> int:
        """Tokens (prompt and output) that each of `users` may have at once, in whole blocks, up to `most`; 0: none."""
        low, high = 0, -(-most // self.geometry.block)
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(users, middle * self.geometry.block):
                low = middle
            else:
                high = middle - 1
        return min(low * self.geometry.block, most)


def room_of_blocks(blocks: int, geometry: Geometry) -> Room:
    """The cache of an engine that states its blocks. Raises RefusedError if layers keep different numbers of tokens."""
    if not geometry.uniform:
        raise RefusedError(
            "this model's layers keep different numbers of tokens. Engines count the blocks of such caches differently, so the"
            " memory behind num_gpu_blocks is unknown. Give --gpu.memory instead"
        )
    return Room(geometry, blocks * geometry.block * geometry.token_bytes())
