"""Gzip from an untrusted sender is decompressed in bounded pieces, or refused."""

import gzip
import io
import random
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.otlp.inflation import PIECE_BYTES, Inflation
from sidecar.otlp.limits import MAX_DECODED_BYTES, MAX_GZIP_MEMBERS, MalformedError, RefusedError, TooLargeError


def bomb(size: int) -> Iterator[bytes]:
    """Gzipped zeros, made in pieces."""
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    for _ in range(size >> 20):
        yield packer.compress(zeros)
    yield packer.flush()


def inflate(segments: list[bytes]) -> bytes:
    inflation = Inflation()
    pieces = [piece for segment in segments for piece in inflation.feed(segment)]
    inflation.end()
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


@given(st.binary(max_size=2000), st.integers(1, 50), st.integers(1, 3))
def test_whatever_was_packed_comes_out_in_whatever_segments_it_came(body: bytes, segment: int, members: int) -> None:
    packed = gzip.compress(body) * members

    assert inflate([packed[at : at + segment] for at in range(0, len(packed), segment)]) == body * members


def test_a_large_body_comes_out_in_pieces() -> None:
    """The output includes the last bytes that zlib holds back."""
    body = random.Random(1).randbytes(200_000) * 3 + b"end"
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packing:
        packing.write(body)

    assert inflate([stream.getvalue()]) == body


def test_a_bomb_of_ten_gibibytes_is_refused_after_a_few_pieces() -> None:
    """10 MiB hold 10 GiB of zeros: less than half a mebibyte comes out before the refusal."""
    inflation = Inflation()
    pieces = (piece for segment in bomb(10 << 30) for piece in inflation.feed(segment))

    with pytest.raises(TooLargeError, match="100 to 1"):
        sum(map(len, pieces))
    assert inflation._bytes_out < 512 << 10


def test_a_body_that_packs_less_well_is_refused_at_the_bound() -> None:
    """A ratio of 50 to 1 is allowed; 16 MiB are not."""
    noise = random.Random(1)
    body = b"".join(noise.randbytes(60) + bytes(2440) for _ in range(7000))
    packed = gzip.compress(body)
    assert len(body) > MAX_DECODED_BYTES
    assert len(body) < 100 * len(packed)

    with pytest.raises(TooLargeError, match=str(MAX_DECODED_BYTES)):
        inflate([packed])


def test_members_without_end_are_refused() -> None:
    """Each member is 20 bytes, holds no data and costs a decompressor."""
    with pytest.raises(TooLargeError, match="members"):
        inflate([gzip.compress(b"") * (MAX_GZIP_MEMBERS + 1)])


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"not gzip", id="something else"),
        pytest.param(zlib.compress(b"spans"), id="zlib"),
        pytest.param(gzip.compress(b"spans")[:-1], id="cut short"),
        pytest.param(gzip.compress(b"spans") + b"rest", id="something behind it"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_not_gzip_is_refused(packed: bytes) -> None:
    with pytest.raises(MalformedError):
        inflate([packed])


@given(st.binary(max_size=200), st.integers(0, 100))
def test_random_bytes_are_refused_or_read_and_nothing_else(noise: bytes, cut: int) -> None:
    packed = gzip.compress(b"spans")[:cut] + noise
    try:
        inflate([packed])
    except RefusedError:
        out = b""
    else:
        out = gzip.decompress(packed)

    assert len(out) <= MAX_DECODED_BYTES
