"""Each coding is read whole and within a bound; what is broken is not read, and raises nothing."""

import gzip
import json
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest

from sidecar.classify.inflate import (
    INFLATED_PIECE_BYTES,
    MOST_BODY_MEMBERS,
    MOST_INFLATED_BYTES,
    coding_of,
    inflated,
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


def skippable(size: int) -> bytes:
    """A frame of zstd that holds nothing (RFC 8878 3.1.2)."""
    return b"\x50\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)


MEMBERS: dict[str, tuple[bytes, bytes]] = {
    "members of gzip": (b"gzip", gzip.compress(b"a")),
    "empty members of gzip": (b"gzip", gzip.compress(b"")),
    "frames of zstd": (b"zstd", ZSTD.compress(b"a")),
    "empty frames of zstd": (b"zstd", ZSTD.compress(b"")),
    "frames of zstd that are skipped": (b"zstd", skippable(3)),
    "frames of zstd that are skipped and have nothing to skip": (b"zstd", skippable(0)),
}


def read(body: bytes, coding: bytes | None) -> bytes | None:
    """The body that is inside; None if it is not read, or not within the bound."""
    found = inflated(body, coding, lambda: False)
    return None if found is None or len(found) > MOST_INFLATED_BYTES else found


@packed
@pytest.mark.parametrize("body", [PROMPT, b"{}", b"x" * INFLATED_PIECE_BYTES], ids=["long", "short", "one step"])
def test_a_body_comes_out_as_it_was(coding: bytes, pack: Callable[[bytes], bytes], body: bytes) -> None:
    assert read(pack(body), coding) == body


@packed
def test_a_body_that_ends_at_any_byte_is_not_read(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    """Half a prompt must not count as a whole one. A cut between two members or frames leaves a whole body."""
    body = b'{"model":"tiny","prompt":"some words and some more"}'
    whole = pack(body)
    for end in range(len(whole)):
        found = read(whole[:end], coding)
        assert found is None or (end == 0 and found == b"") or found == body[:5] or found == body, end


@packed
def test_a_bomb_is_given_up_at_the_bound(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    """One step behind it: the memory is that of the bound."""
    found = inflated(pack(bytes(8 * MOST_INFLATED_BYTES)), coding, lambda: False)

    assert found is not None
    assert MOST_INFLATED_BYTES < len(found) <= MOST_INFLATED_BYTES + 2 * INFLATED_PIECE_BYTES


@packed
def test_what_is_not_wanted_any_more_ends_at_the_next_step(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    asked = iter([False, False, True])
    found = inflated(pack(bytes(MOST_INFLATED_BYTES)), coding, lambda: next(asked))

    assert found is not None
    assert (len(found) <= 6 * INFLATED_PIECE_BYTES, list(asked)) == (True, [])


@pytest.mark.parametrize("coding", [*dict.fromkeys(coding for coding, _ in PACK.values()), b"compress", None])
@pytest.mark.parametrize("body", [b"", b"{}", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", bytes(100), b"\xff" * 100])
def test_bytes_of_another_kind_are_not_read(coding: bytes | None, body: bytes) -> None:
    assert read(body, coding) in (None, b"")


def test_the_coding_is_read_as_clients_write_it() -> None:
    assert coding_of([b"GZip"]) == b"gzip"
    assert coding_of([b"identity, zstd "]) == b"zstd"
    assert coding_of([b"identity"]) is None
    assert coding_of([b"gzip", b"br"]) is None
    assert coding_of([b"gzip, br"]) is None


@pytest.mark.parametrize(("coding", "member"), MEMBERS.values(), ids=list(MEMBERS))
def test_as_many_members_of_any_kind_are_read_and_no_more(coding: bytes, member: bytes) -> None:
    """For each a decoder is made, and all behind it is copied: a MiB of empty ones would take a minute."""
    one = read(member, coding)

    assert read(member * MOST_BODY_MEMBERS, coding) == (one or b"") * MOST_BODY_MEMBERS
    assert read(member * (MOST_BODY_MEMBERS + 1), coding) is None
