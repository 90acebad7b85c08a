"""Hostile clients: each is a generator of what one connection sends, as fast as it is read; answers are thrown away.

All of it is bytes that a client on the network can send; no socket is known here. A writer that ends begins anew on another
connection.
"""

import time
from collections.abc import Iterator
from itertools import repeat

from bench.fairness.step import RESET, Step, library


HOST = b"Host: bench\r\n"
GET = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
SMALLEST_GET = b"GET / HTTP/1.1\r\nHost:a\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKED_INFERENCE = (
    b"POST /v1/completions HTTP/1.1\r\n"
    + HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST = b"0\r\n\r\n"
SENT = 65536
"""Bytes of one send, about."""
SMALL = 1000
"""Bytes of a send that a proxy may take for harmless."""
TOGETHER_SECONDS = 0.1
"""Interval of the instants at which all connections do the same."""


def filled(unit: bytes, size: int = SENT) -> bytes:
    return unit * max(1, size // len(unit))


def _post(body: bytes, path: bytes = b"/v1/completions") -> bytes:
    head = b"POST %b HTTP/1.1\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path, HOST, len(body)) + body


# --- chunks ------------------------------------------------------------------------------------------------------------


def two_byte_chunks() -> Iterator[Step]:
    """An upload without end in chunks of two bytes."""
    yield CHUNKED
    yield from repeat(filled(b"2\r\naa\r\n"))


def one_byte_chunks() -> Iterator[Step]:
    """An upload without end in chunks of one byte."""
    yield CHUNKED
    yield from repeat(filled(b"1\r\na\r\n"))


def five_byte_chunks_in_small_sends() -> Iterator[Step]:
    """Chunks that make up for their own framing, a kilobyte at a time."""
    yield CHUNKED
    yield from repeat(filled(b"5\r\naaaaa\r\n", SMALL))


def hundred_byte_chunks() -> Iterator[Step]:
    """An upload without end in chunks of a hundred bytes."""
    yield CHUNKED
    yield from repeat(filled(b"64\r\n" + b"a" * 100 + b"\r\n"))


def chunk_extensions() -> Iterator[Step]:
    """Each chunk of a byte carries a long extension."""
    yield CHUNKED
    yield from repeat(filled(b"1;" + b"x=y;" * 20 + b"\r\na\r\n"))


def small_posts_of_two_byte_chunks() -> Iterator[Step]:
    """One short chunked request after the other, with no wait between."""
    yield from repeat(filled(CHUNKED + b"2\r\naa\r\n" * 50 + LAST))


def inference_in_two_byte_chunks() -> Iterator[Step]:
    """A request that the sidecar looks into, in chunks of two bytes."""
    yield CHUNKED_INFERENCE
    yield from repeat(filled(b"2\r\n{}\r\n"))


def many_trailers() -> Iterator[Step]:
    """A short chunked request with a trailer of a thousand fields, again and again."""
    yield from repeat(CHUNKED + b"1\r\na\r\n0\r\n" + b"a:b\r\n" * 1000 + b"\r\n")


# --- heads -------------------------------------------------------------------------------------------------------------


def cr_flood() -> Iterator[Step]:
    """Carriage returns in the place of a request."""
    yield from repeat(filled(b"\r"))


def lf_flood() -> Iterator[Step]:
    """Empty lines in the place of a request."""
    yield from repeat(filled(b"\r\n"))


def empty_lines_before_each_request() -> Iterator[Step]:
    """A kilobyte of empty lines, then a request."""
    yield from repeat(b"\r\n" * 500 + GET)


def huge_head() -> Iterator[Step]:
    """One header field without end."""
    yield b"GET / HTTP/1.1\r\n" + HOST + b"X: "
    yield from repeat(b"x" * SENT)


def huge_target() -> Iterator[Step]:
    """A request target without end."""
    yield b"GET /"
    yield from repeat(b"a" * SENT)


def head_byte_by_byte() -> Iterator[Step]:
    """Each byte of a head is a segment of its own."""
    for byte in b"GET / HTTP/1.1\r\n" + HOST + b"X-Long: " + b"x" * 8000 + b"\r\n\r\n":
        yield bytes([byte])


def many_tiny_headers() -> Iterator[Step]:
    """Thousands of header fields of four bytes each."""
    yield b"GET / HTTP/1.1\r\n" + HOST
    yield from repeat(filled(b"a:\r\n"))


def many_tiny_headers_in_small_sends() -> Iterator[Step]:
    """The same, a kilobyte at a time."""
    yield b"GET / HTTP/1.1\r\n" + HOST
    yield from repeat(filled(b"a:\r\n", SMALL))


def unfinished_heads() -> Iterator[Step]:
    """A head that never ends; then a reset and another one."""
    yield b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n"
    yield 0.02
    yield RESET


def bodies_that_never_come() -> Iterator[Step]:
    """A whole head, and nothing behind it; then a reset."""
    yield b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n"
    yield 0.02
    yield RESET


def garbage() -> Iterator[Step]:
    """Bytes that are no HTTP, on one connection after the other."""
    yield b"\x16\x03\x01\x02\x00\x01\x00" * 500
    yield RESET


# --- many requests -----------------------------------------------------------------------------------------------------


def pipeline_of_gets() -> Iterator[Step]:
    """The shortest requests, back to back."""
    yield from repeat(filled(SMALLEST_GET))


def pipeline_of_gets_in_small_sends() -> Iterator[Step]:
    """The same, a kilobyte at a time."""
    yield from repeat(filled(SMALLEST_GET, SMALL))


def pipeline_of_posts() -> Iterator[Step]:
    """Short inference requests, back to back."""
    yield from repeat(filled(_post(b'{"model":"bench","prompt":"hi"}')))


def pipeline_of_large_posts() -> Iterator[Step]:
    """Inference requests of 100 KB, back to back."""
    yield from repeat(_post(b'{"model":"bench","prompt":"' + b"word " * 20_000 + b'"}'))


def upgrades_that_are_not_supported() -> Iterator[Step]:
    """Each request asks for h2c, which ends the parser's reading."""
    yield from repeat(filled(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"))


def requests_one_by_one() -> Iterator[Step]:
    """One short request a millisecond, each in a segment of its own."""
    while True:
        yield GET
        yield 0.001


def one_byte_writes() -> Iterator[Step]:
    """An upload whose every byte is a segment of its own."""
    yield b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 100000000\r\n\r\n"
    yield from repeat(b"a")


def aborting_clients() -> Iterator[Step]:
    """A request, then a reset at once."""
    yield _post(b'{"model":"bench","prompt":"1000 events 0.005 seconds","stream":true}')
    yield RESET


def aborting_in_mid_upload() -> Iterator[Step]:
    """Half an upload, then a reset."""
    yield b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2000000\r\n\r\n" + b"x" * SENT
    yield RESET


def until_all() -> float:
    """Seconds until the next instant that all connections share."""
    return TOGETHER_SECONDS - time.monotonic() % TOGETHER_SECONDS


def streams_that_leave_all_at_once() -> Iterator[Step]:
    """A stream that runs; then all connections are closed at the same instant."""
    yield _post(b'{"model":"bench","prompt":"1000 events 0.01 seconds","stream":true}')
    yield until_all()


def streams_that_are_reset_all_at_once() -> Iterator[Step]:
    """The same, with resets."""
    yield from streams_that_leave_all_at_once()
    yield RESET


def answers_that_end_all_at_once() -> Iterator[Step]:
    """Every connection asks at the same instant, for an answer of one read."""
    while True:
        yield until_all()
        yield _post(b'{"model":"bench","prompt":"1 events 0 seconds","stream":true}')


def connections_that_say_nothing() -> Iterator[Step]:
    """Connect and leave, as fast as that goes."""
    yield RESET


# --- bodies ------------------------------------------------------------------------------------------------------------


def full_speed_upload() -> Iterator[Step]:
    """A body without end, as fast as it is taken."""
    yield b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 100000000000\r\n\r\n"
    yield from repeat(b"x" * SENT)


def slow_bodies() -> Iterator[Step]:
    """A body of one byte in each ten milliseconds."""
    yield b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000\r\n\r\n"
    while True:
        yield b"x"
        yield 0.01


def cheap_bytes_then_small_heads() -> Iterator[Step]:
    """A long body that costs little, and right behind it hundreds of heads."""
    yield from repeat(_post(b"x" * 200_000, b"/x") + filled(SMALLEST_GET, 16384))


def deep_json() -> Iterator[Step]:
    """A megabyte of opened brackets, in an inference request."""
    yield from repeat(_post(b"[" * 1_000_000))


def two_byte_objects() -> Iterator[Step]:
    """3.4 MiB of JSON objects of two bytes, in an inference request."""
    yield from repeat(_post(b'{"prompt":[' + b"{}," * 1_100_000 + b"{}]}"))


def digits() -> Iterator[Step]:
    """A prompt of half a million one-digit tokens."""
    yield from repeat(_post(b'{"model":"bench","prompt":[' + b"1," * 500_000 + b"1]}"))


def escapes() -> Iterator[Step]:
    """A prompt of escaped characters only."""
    yield from repeat(_post(b'{"model":"bench","prompt":"' + b"\\u0041" * 150_000 + b'"}'))


def brackets_for_a_name() -> Iterator[Step]:
    """A model's name that is a list of 330,000 empty lists: to build them would take 45 ms."""
    yield from repeat(_post(b'{"model":[' + b"[]," * 330_000 + b"[]]}"))


def empty_strings() -> Iterator[Step]:
    """A batch of 340,000 empty prompts."""
    yield from repeat(_post(b'{"model":"bench","prompt":[' + b'"",' * 340_000 + b'""]}'))


def many_members() -> Iterator[Step]:
    """An object of 200,000 members."""
    yield from repeat(_post(b"{" + b'"":0,' * 200_000 + b'"":0}'))


CLIENTS = library(
    *(two_byte_chunks, one_byte_chunks, five_byte_chunks_in_small_sends, hundred_byte_chunks, chunk_extensions),
    *(small_posts_of_two_byte_chunks, inference_in_two_byte_chunks, many_trailers),
    *(cr_flood, lf_flood, empty_lines_before_each_request, huge_head, huge_target, head_byte_by_byte),
    *(many_tiny_headers, many_tiny_headers_in_small_sends, unfinished_heads, bodies_that_never_come, garbage),
    *(pipeline_of_gets, pipeline_of_gets_in_small_sends, pipeline_of_posts, pipeline_of_large_posts),
    *(upgrades_that_are_not_supported, requests_one_by_one, one_byte_writes, aborting_clients),
    *(aborting_in_mid_upload, connections_that_say_nothing, answers_that_end_all_at_once),
    *(streams_that_leave_all_at_once, streams_that_are_reset_all_at_once),
    *(full_speed_upload, slow_bodies, cheap_bytes_then_small_heads, deep_json, two_byte_objects, digits, escapes),
    *(brackets_for_a_name, empty_strings, many_members),
)
"""By name: what one hostile connection sends."""
