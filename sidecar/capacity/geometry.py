"""What one sequence keeps in the KV cache: bytes, from the layers that keep something and what each keeps for a token.

It knows three ways to keep: keys and values of every KV head, the same within a sliding window, and one latent vector (MLA).
Query heads keep nothing. It refuses to know models (`models.py`), files (`model_config.py`) and memory (`memory.py`).
"""

from dataclasses import dataclass

from sidecar.capacity.answer import RefusedError


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers that keep the same."""

    count: int
    elements: int
    """Numbers that one layer keeps for one token: 2 x KV heads x head dimension, or the latent's length."""
    heads: int
    """Into how many parts tensor parallelism can cut that; 1 for a latent, which every GPU keeps whole."""
    window: int | None = None
    """Only the last so many tokens are kept; None: all."""


def attention(count: int, kv_heads: int, head_dim: int, window: int | None = None) -> Layers:
    """Layers of grouped-query attention (multi-head: as many KV heads as query heads)."""
    return Layers(count, 2 * kv_heads * head_dim, kv_heads, window)


def latent(count: int, rank: int, rope_dim: int) -> Layers:
    """Layers of multi-head latent attention: one compressed vector and one rotary key for all heads (DeepSeek-V2, section 2.1)."""
    return Layers(count, rank + rope_dim, 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A model's cache, laid over `gpus` GPUs of tensor parallelism in blocks of `block` tokens."""

    layers: tuple[Layers, ...]
    bits: float = 16.0
    """Of one number in the cache."""
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
        """Every layer keeps every token, so a token costs the same wherever it stands."""
        return all(group.window is None for group in self.layers)

    def copies(self, group: Layers) -> int:
        """How often the same numbers are kept: a head cannot be cut, so more GPUs than heads keep copies."""
        return max(1, self.gpus // group.heads)

    def token_bytes(self, *, of_windows: bool = True) -> float:
        """For one token that every layer keeps, over all GPUs; without `of_windows`, what it costs beyond all windows."""
        return sum(self._bytes(group) for group in self.layers if of_windows or group.window is None)

    def sequence_bytes(self, tokens: int) -> float:
        """Reserved for a sequence of so many tokens (prompt and output), in whole blocks, over all GPUs.

        A window of w tokens may lie across one block more than w fills.
        """
        reserved = 0.0
        for group in self.layers:
            kept = tokens if group.window is None else min(tokens, group.window)
            blocks = -(-kept // self.block) + (kept < tokens)
            reserved += min(blocks, -(-tokens // self.block)) * self.block * self._bytes(group)
        return reserved

    def read_bytes(self, tokens: int) -> float:
        """Read to decode one more token of a sequence of so many: what is kept, without the rounding."""
        return sum(self._bytes(group) * min(tokens, group.window or tokens) for group in self.layers)

    def _bytes(self, group: Layers) -> float:
        return group.count * group.elements * self.bits / 8 * self.copies(group)
