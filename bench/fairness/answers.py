"""Hostile answers: each is a generator of what the engine sends to one request, head first, as fast as it is taken.

A client of the attacker asks for each by its number; no socket is known here. A writer that ends closes its connection.
"""

from collections.abc import Iterator
from functools import cache
from itertools import repeat

from bench.fairness.clients import SENT, SMALL, filled
from bench.fairness.step import RESET, Step, library


SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NDJSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"


@cache  # else the engine of the bench would be busy with this, and send no victim's token
def _chunks(data: bytes, size: int) -> bytes:
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in cut)


def _flood(head: bytes, unit: bytes, chunk: int = 8192, sent: int = SENT) -> Iterator[Step]:
    yield head
    yield from repeat(_chunks(filled(unit, sent), chunk))


def carriage_returns() -> Iterator[Step]:
    """A stream of carriage returns."""
    return _flood(SSE, b"\r")


def line_feeds() -> Iterator[Step]:
    """A stream of line feeds."""
    return _flood(SSE, b"\n")


def mixed_line_ends() -> Iterator[Step]:
    """A stream of line ends of all kinds."""
    return _flood(SSE, b"\n\r\r\n\r")


def two_byte_chunks_of_events() -> Iterator[Step]:
    """Short events in chunks of two bytes."""
    return _flood(SSE, b"data:x\n\n", 2)


def one_byte_chunks_of_line_ends() -> Iterator[Step]:
    """Line ends, each in a chunk of its own."""
    return _flood(SSE, b"\n", 1)


def short_events() -> Iterator[Step]:
    """Events of one character."""
    return _flood(SSE, b"data:x\n\n")


def short_events_in_small_sends() -> Iterator[Step]:
    """The same, a kilobyte at a time."""
    return _flood(SSE, b"data:x\n\n", sent=SMALL)


def data_lines() -> Iterator[Step]:
    """Data lines of one event that never ends."""
    return _flood(SSE, b"data:\n")


def comments() -> Iterator[Step]:
    """Comments of two bytes."""
    return _flood(SSE, b":\n")


def unknown_fields() -> Iterator[Step]:
    """Lines of a field that no event has."""
    return _flood(SSE, b"x\n")


def endless_line() -> Iterator[Step]:
    """One line that never ends."""
    return _flood(SSE, b"data: " + b"x" * 8000)


def tokens_at_full_speed() -> Iterator[Step]:
    """Real tokens, as fast as they are taken."""
    return _flood(SSE, b'data: {"id":"x","choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n', 75)


def brackets_in_lines() -> Iterator[Step]:
    """Opened brackets, one a line."""
    return _flood(NDJSON, b"{\n")


def empty_lines_of_json() -> Iterator[Step]:
    """Empty lines in the place of JSON."""
    return _flood(NDJSON, b"\n")


def blank_lines_of_json() -> Iterator[Step]:
    """Lines of one space in the place of JSON."""
    return _flood(NDJSON, b" \n")


def json_in_two_byte_chunks() -> Iterator[Step]:
    """Short values in chunks of two bytes."""
    return _flood(NDJSON, b"{}\n", 2)


def hundred_megabytes() -> Iterator[Step]:
    """A long answer of plain bytes."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000000\r\n\r\n"
    yield from repeat(b"x" * SENT, 1526)


def endless_head() -> Iterator[Step]:
    """A head without end, in fields of four bytes."""
    yield b"HTTP/1.1 200 OK\r\n"
    yield from repeat(filled(b"a:\r\n"))


def interim_answers() -> Iterator[Step]:
    """100 Continue without end."""
    yield from repeat(filled(b"HTTP/1.1 100 Continue\r\n\r\n"))


def early_hints() -> Iterator[Step]:
    """103 Early Hints without end, which go on to the client."""
    yield from repeat(filled(b"HTTP/1.1 103 Early Hints\r\n\r\n"))


def trailers_of_an_answer() -> Iterator[Step]:
    """A short answer with a trailer of thousands of fields."""
    yield SSE + b"1\r\na\r\n0\r\n" + b"a:b\r\n" * 10_000 + b"\r\n"
    yield RESET


def extensions_of_chunks() -> Iterator[Step]:
    """Each chunk of a byte carries a long extension."""
    yield SSE
    yield from repeat(filled(b"1;" + b"x=y;" * 20 + b"\r\na\r\n"))


def answers_byte_by_byte() -> Iterator[Step]:
    """A stream whose every byte is a segment of its own."""
    yield SSE
    while True:
        for byte in b"a\r\ndata: xyz\r\r\r\n":
            yield bytes([byte])


def answers_that_break_off() -> Iterator[Step]:
    """The beginning of a stream, then a reset."""
    yield SSE + b"8\r\ndata: a\n\r\n"
    yield RESET


def answers_behind_the_answer() -> Iterator[Step]:
    """A whole answer, and more answers behind it."""
    yield filled(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    yield RESET


ANSWERS = library(
    *(carriage_returns, line_feeds, mixed_line_ends, two_byte_chunks_of_events, one_byte_chunks_of_line_ends),
    *(short_events, short_events_in_small_sends, data_lines, comments, unknown_fields, endless_line),
    *(tokens_at_full_speed, brackets_in_lines, empty_lines_of_json, blank_lines_of_json, json_in_two_byte_chunks),
    *(hundred_megabytes, endless_head, interim_answers, early_hints, trailers_of_an_answer, extensions_of_chunks),
    *(answers_byte_by_byte, answers_that_break_off, answers_behind_the_answer),
)
"""By name: what the engine sends to one request."""
