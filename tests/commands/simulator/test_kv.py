"""A block is held, idle or empty; a prefix lookup finds blocks that are held or idle."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sidecar.commands.simulator.kv import KvPool


CHAIN = [bytes([number]) for number in range(12)]


def computed(pool: KvPool, hashes: list[bytes]) -> None:
    """Reserve, publish and release these blocks, as a request that computes them and ends."""
    assert pool.reserve(len(hashes))
    for block in hashes:
        assert pool.publish(block)
    pool.release(hashes, 0)


def test_a_free_block_is_still_found_until_its_room_is_needed() -> None:
    pool = KvPool(4)
    computed(pool, CHAIN[:4])
    assert (pool.used, pool.available, pool.match(CHAIN)) == (0, 4, 4)

    assert pool.reserve(1)

    assert (pool.used, pool.match(CHAIN)) == (1, 3)


def test_the_tail_of_a_prefix_is_evicted_before_its_head() -> None:
    """The tail goes first, because the rest of a prefix cannot be used without its head."""
    pool = KvPool(3)
    computed(pool, CHAIN[:3])

    assert pool.reserve(2)

    assert pool.match(CHAIN[:1]) == 1
    assert pool.match(CHAIN) == 1


def test_the_least_recently_used_prefix_goes_first() -> None:
    pool = KvPool(4)
    computed(pool, CHAIN[:2])
    computed(pool, CHAIN[4:6])
    pool.claim(CHAIN[:2])
    pool.release(CHAIN[:2], 0)

    assert pool.reserve(2)

    assert (pool.match(CHAIN[:2]), pool.match(CHAIN[4:6])) == (2, 0)


def test_a_shared_block_counts_once() -> None:
    pool = KvPool(4)
    computed(pool, CHAIN[:2])
    pool.claim(CHAIN[:2])
    pool.claim(CHAIN[:2])

    assert pool.used == 2
    pool.release(CHAIN[:2], 0)
    assert pool.used == 2
    pool.release(CHAIN[:2], 0)
    assert pool.used == 0


def test_too_much_is_refused_and_changes_nothing() -> None:
    pool = KvPool(4)
    computed(pool, CHAIN[:4])

    assert not pool.reserve(5)

    assert (pool.used, len(pool._idle)) == (0, 4)


class AnyUse(RuleBasedStateMachine):
    """Holders come, share, publish and go in any order: the pool never holds more blocks than it has."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = KvPool(16)
        self.holders: list[tuple[list[bytes], int]] = []

    @rule(wanted=st.integers(0, 12), fresh=st.integers(0, 6))
    def come(self, wanted: int, fresh: int) -> None:
        shared = CHAIN[: self.pool.match(CHAIN[:wanted])]
        self.pool.claim(shared)
        if self.pool.reserve(fresh):
            self.holders.append((shared, fresh))
        else:
            self.pool.release(shared, 0)

    @precondition(lambda self: self.holders)
    @rule()
    def publish_next(self) -> None:
        shared, private = self.holders.pop()
        if private and len(shared) < len(CHAIN) and self.pool.publish(CHAIN[len(shared)]):
            shared, private = [*shared, CHAIN[len(shared)]], private - 1
        self.holders.append((shared, private))

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        self.pool.release(*self.holders.pop(data.draw(st.integers(0, len(self.holders) - 1))))

    @invariant()
    def blocks_are_neither_lost_nor_made(self) -> None:
        held = {block for shared, _ in self.holders for block in shared}
        private = sum(private for _, private in self.holders)
        assert self.pool.used == len(held) + private
        assert self.pool.used + len(self.pool._idle) <= 16
        assert all(self.pool.match([block]) == 1 for block in held)


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=40, stateful_step_count=30)
