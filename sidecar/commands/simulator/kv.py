"""The KV cache from the scheduler's point of view: a pool of equal blocks, some of them shared by prefix.

It counts the held blocks and keeps the hashed blocks that can be found again; the least recently used is evicted first.
It has no requests, no contents and no time.
A block is in one of three states: held (by one request privately, or by several through its hash), idle (hashed, not
held, evictable) or empty. Only held blocks count as used, as in vLLM's `kv_cache_usage_perc`.
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
        """Hashed blocks that no request holds: `match` still finds them, and they are evicted first."""

    @property
    def used(self) -> int:
        """Blocks held by at least one request."""
        return self._private + len(self._held)

    @property
    def available(self) -> int:
        """Blocks that could be given out now, idle ones included. Negative for a moment after the pool shrank."""
        return self.blocks - self.used

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
        """Hold `count` fresh blocks and evict idle ones as needed. If there are not enough: False, nothing changed."""
        if count > self.available:
            return False
        self._private += count
        self._evict()
        return True

    def publish(self, block: bytes) -> bool:
        """Give a privately held, fully computed block its hash. False if the hash exists: the copy stays private."""
        if block in self._held or block in self._idle:
            return False
        self._private -= 1
        self._held[block] = 1
        return True

    def release(self, shared: Sequence[bytes], private: int) -> None:
        """Release blocks. The tail of a prefix is evicted before its head: other prompts share the head more often."""
        self._private -= private
        for block in reversed(shared):
            if self._held[block] == 1:
                del self._held[block]
                self._idle[block] = None
            else:
                self._held[block] -= 1
        self._evict()

    def resize(self, blocks: int) -> None:
        """Change the size. If `available` is negative afterwards, the caller must preempt requests until it is not."""
        self.blocks = blocks
        self._evict()

    def forget(self) -> None:
        """Drop every idle block, so that the cache is cold."""
        self._idle.clear()

    def _evict(self) -> None:
        while self._idle and self.used + len(self._idle) > self.blocks:
            self._idle.popitem(last=False)
