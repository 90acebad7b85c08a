"""The KV cache as a scheduler sees it: a pool of equal blocks, some of them shared by prefix.

It knows how many blocks are held and which hashed blocks are still there to be found again, oldest use evicted first.
It refuses to know who holds them, what is in them, and when: it has no requests and no time.
A block is in one of three states: held (by one request privately, or by several through its hash), idle (hashed, held by
nobody, evictable) or empty. Only held blocks count as used, as in vLLM's `kv_cache_usage_perc`.
"""

from collections import OrderedDict
from collections.abc import Sequence


class KvPool:
    """A pool of `blocks` KV blocks with a prefix cache (after vLLM V1's block pool: idle blocks leave in LRU order)."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._private = 0
        self._held: dict[bytes, int] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()

    @property
    def used(self) -> int:
        """Blocks held by at least one request."""
        return self._private + len(self._held)

    @property
    def available(self) -> int:
        """Blocks that could be handed out now, idle ones included. Negative for a moment after the pool shrank."""
        return self.blocks - self.used

    @property
    def idle(self) -> int:
        """Hashed blocks that nobody holds: still found by `match`, first to be evicted."""
        return len(self._idle)

    def match(self, hashes: Sequence[bytes]) -> int:
        """How many leading blocks of this chain of hashes are in the cache."""
        for found, block in enumerate(hashes):
            if block not in self._held and block not in self._idle:
                return found
        return len(hashes)

    def claim(self, hashes: Sequence[bytes]) -> None:
        """Hold blocks that `match` has found."""
        for block in hashes:
            self._idle.pop(block, None)
            self._held[block] = self._held.get(block, 0) + 1

    def reserve(self, count: int) -> bool:
        """Hold `count` fresh blocks, evicting idle ones as needed; False, and nothing changed, if there are not enough."""
        if count > self.available:
            return False
        self._private += count
        self._evict()
        return True

    def publish(self, block: bytes) -> bool:
        """Give a privately held, fully computed block its hash; False if that hash is there already (the copy stays private)."""
        if block in self._held or block in self._idle:
            return False
        self._private -= 1
        self._held[block] = 1
        return True

    def release(self, shared: Sequence[bytes], private: int) -> None:
        """Let go. The tail of a prefix becomes the oldest idle block: heads are worth more to others."""
        self._private -= private
        for block in reversed(shared):
            if self._held[block] == 1:
                del self._held[block]
                self._idle[block] = None
            else:
                self._held[block] -= 1
        self._evict()

    def resize(self, blocks: int) -> None:
        """Change the size. `available` may be negative afterwards: the caller preempts until it is not."""
        self.blocks = blocks
        self._evict()

    def forget(self) -> None:
        """Drop every idle block: the cache is cold."""
        self._idle.clear()

    def _evict(self) -> None:
        while self._idle and self.used + len(self._idle) > self.blocks:
            self._idle.popitem(last=False)
