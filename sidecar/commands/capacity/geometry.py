"""Bytes that one sequence keeps in the KV cache, computed from the layers and from what each layer keeps per token.

Three kinds of layers: keys and values of every KV head, the same within a sliding window, and one latent vector (MLA).
Query heads keep nothing. Not here: named models (`models.py`), config files (`model_config.py`), memory (`memory.py`).
"""

from dataclasses import dataclass

from sidecar.commands.capacity.answer import RefusedError


@dataclass(frozen=True, slots=True)
class Layers:
    """A group of layers that keep the same per token."""

    count: int
    elements: int
    """Numbers that one layer keeps for one token: 2 x KV heads x head dimension, or the latent's length."""
    heads: int
    """Parts into which tensor parallelism can split `elements`; 1 for a latent, which every GPU keeps whole."""
    window: int | None = None
    """The number of most recent tokens that are kept; None: all."""


def attention(count: int, kv_heads: int, head_dim: int, window: int | None = None) -> Layers:
    """Layers of grouped-query attention; with as many KV heads as query heads this is multi-head attention."""
    return Layers(count, 2 * kv_heads * head_dim, kv_heads, window)


def latent(count: int, rank: int, rope_dim: int) -> Layers:
    """Layers of multi-head latent attention: one compressed vector and one rotary key for all heads (DeepSeek-V2, section 2.1)."""
    return Layers(count, rank + rope_dim, 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A model's cache in blocks of `block` tokens, split over `gpus` GPUs by tensor parallelism."""

    layers: tuple[Layers, ...]
    bits: float = 16.0
    """Bits of one number in the cache."""
    block: int = 16
    gpus: int = 1

    def __post_init__(self) -> None:
        for group in self.layers:
            if group.heads > 1 and max(group.heads, self.gpus) % min(group.heads, self.gpus):
                raise RefusedError(
                    f"{group.heads} KV heads cannot be shared evenly by {self.gpus} GPUs of tensor parallelism, and engines"
                    " refuse to start so: choose a number that divides the heads, or a multiple of them"
                )

    @property
    def uniform(self) -> bool:
        """True if every layer keeps every token, so that each token costs the same at any position."""
        return all(group.window is None for group in self.layers)

    def copies(self, group: Layers) -> int:
        """How many times each number is stored. A head cannot be split, so more GPUs than heads keep copies."""
        return max(1, self.gpus // group.heads)

    def token_bytes(self, *, of_windows: bool = True) -> float:
        """Bytes per token over all GPUs. Without `of_windows`: the bytes of a token beyond all windows."""
        return sum(self._bytes(group) for group in self.layers if of_windows or group.window is None)

    def sequence_bytes(self, tokens: int) -> float:
        """Bytes reserved for a sequence of `tokens` tokens (prompt and output), in whole blocks, over all GPUs.

        A window of w tokens can span one block more than w tokens fill, if it does not start at the edge of a block.
        """
        reserved = 0.0
        for group in self.layers:
            kept = tokens if group.window is None else min(tokens, group.window)
            blocks = -(-kept // self.block) + (kept < tokens)
            reserved += min(blocks, -(-tokens // self.block)) * self.block * self._bytes(group)
        return reserved

    def read_bytes(self, tokens: int) -> float:
        """Bytes read to decode one more token of a sequence of `tokens`: the bytes kept, not rounded to blocks."""
        return sum(self._bytes(group) * min(tokens, group.window or tokens) for group in self.layers)

    def _bytes(self, group: Layers) -> float:
        return group.count * group.elements * self.bits / 8 * self.copies(group)
