"""Each coding is read whole, within a bound, in steps; what is broken is not read, and raises nothing."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import brotli
import pytest

from sidecar.budgets.budgets import UNLIMITED, Budget, Kind
from sidecar.classify.inflate import (
    INFLATED_PIECE_BYTES,
    MOST_INFLATED_BYTES,
    coding_of,
    inflated_in_steps,
    zstd_library,
)


ZSTD = zstd_library()


def bare(body: bytes) -> bytes:
    """Deflate without a zlib header, as some clients send it."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


PACK: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "two members": (b"gzip", lambda body: gzip.compress(body[:5]) + gzip.compress(body[5:])),
    "x-gzip": (b"x-gzip", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "deflate without a header": (b"deflate", bare),
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", ZSTD.compress),
    "two frames": (b"zstd", lambda body: ZSTD.compress(body[:5]) + ZSTD.compress(body[5:])),
    "zstd without its length": (
        b"zstd",
        partial(ZSTD.compress, options={ZSTD.CompressionParameter.content_size_flag: 0}),
    ),
}
PROMPT = json.dumps(
    {"model": "tiny", "messages": [{"role": "user", "content": "a prompt of some words. " * 9_000}]}
).encode()
packed = pytest.mark.parametrize(("coding", "pack"), PACK.values(), ids=list(PACK))


def at_once(work: Callable[[], bool]) -> Iterator[bool | None]:
    """As a thread that is done after two steps."""
    yield None
    yield work()


def inflated(body: bytes, coding: bytes | None) -> tuple[bytes | None, int]:
    """The body, and the number of steps."""
    whole, budget = bytearray(), Budget(Kind.HELD_BYTES, UNLIMITED)
    steps = inflated_in_steps(body, coding, whole, budget, at_once)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            assert budget.used == len(whole)
            return bytes(whole) if done.value else None, count
        count += 1


def test_a_body_for_which_the_process_has_no_room_is_not_read() -> None:
    """Clients that compress zeros cannot fill the memory of the sidecar."""
    whole, budget = bytearray(), Budget(Kind.HELD_BYTES, 100_000)

    assert list(inflated_in_steps(gzip.compress(bytes(1_000_000)), b"gzip", whole, budget, at_once)) == [None]
    assert (len(whole), budget.used, budget.exceeded) == (131_072, 131_072, 1)


@packed
@pytest.mark.parametrize("body", [PROMPT, b"{}", b"x" * INFLATED_PIECE_BYTES], ids=["long", "short", "one step"])
def test_a_body_comes_out_as_it_was(coding: bytes, pack: Callable[[bytes], bytes], body: bytes) -> None:
    found, steps = inflated(pack(body), coding)

    assert found == body
    assert steps >= 1


@packed
def test_a_body_that_ends_at_any_byte_is_not_read(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    """Half a prompt must not count as a whole one. A cut between two members or frames leaves a whole body."""
    body = b'{"model":"tiny","prompt":"some words and some more"}'
    whole = pack(body)
    for end in range(len(whole)):
        found, _ = inflated(whole[:end], coding)
        assert found is None or (end == 0 and found == b"") or found == body[:5] or found == body, end


@packed
def test_a_bomb_is_given_up_at_the_bound(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    """In slices: the memory is that of the bound."""
    found, steps = inflated(pack(bytes(8 * MOST_INFLATED_BYTES)), coding)

    assert found is None
    if coding != b"br":  # beside the loop, whose steps only wait
        assert steps <= MOST_INFLATED_BYTES // INFLATED_PIECE_BYTES + 2


@pytest.mark.parametrize("coding", [*dict.fromkeys(coding for coding, _ in PACK.values()), b"compress", None])
@pytest.mark.parametrize("body", [b"", b"{}", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", bytes(100), b"\xff" * 100])
def test_bytes_of_another_kind_are_not_read(coding: bytes | None, body: bytes) -> None:
    assert inflated(body, coding)[0] in (None, b"")


def test_the_coding_is_read_as_clients_write_it() -> None:
    assert coding_of([b"GZip"]) == b"gzip"
    assert coding_of([b"identity, zstd "]) == b"zstd"
    assert coding_of([b"identity"]) is None
    assert coding_of([b"gzip", b"br"]) is None
    assert coding_of([b"gzip, br"]) is None


def test_a_body_of_very_many_members_is_given_up() -> None:
    """Each takes a copy of all behind it: a MiB of empty ones would hold the loop for a minute."""
    many = gzip.compress(b"") * 50_000

    assert inflated(many, b"gzip") == (None, 16)
    assert inflated(ZSTD.compress(b"a") * 1_000, b"zstd")[0] == b"a" * 1_000
