"""Attacks by whole messages: bodies, pipelines, pauses, ends that come too early, great lengths; and random mixtures of all.

The mixtures change bytes of the other attacks from a seed, so that the same seed gives the same bytes on every machine.
Knows bytes only.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tests.garden.framing_tricks import ODD_BYTES
from tests.garden.sequence import (
    CANARY,
    SMUGGLED,
    SWALLOWING,
    Family,
    Trick,
    Tricks,
    chunked,
    has_mark,
    outside_marks,
    post,
)
from tests.garden.strict_reader import read_requests


_CODED = b"Transfer-Encoding: chunked"
_SPLICES = (
    *ODD_BYTES,
    *(b"\r\n", b"\n\n", b"\r\n\r\n", b" HTTP/1.1", b": ", b":", b";", b",", b"0", b"ffffffff", b"-1", b"0\r\n\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\n", b"Content-Length: 8\r\n", b"Connection: close\r\n"),
    *(b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"Host: other\r\n", b"\r\n "),
)


def body_tricks() -> Tricks:
    """Bodies of methods that seldom have one; each body is a request."""
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"PUT", b"PATCH", b"TRACE", b"POST", b"LINK", b"SUBSCRIBE"):
        start = method + b" /garden/GARDENID/attack HTTP/1.1"
        for body, name in ((SMUGGLED, "a request"), (SWALLOWING, "a request without end")):
            for shape, data in (
                ("length", post(b"Content-Length: %d" % len(body), body=body, start=start)),
                ("chunked", post(_CODED, body=chunked(body), start=start)),
                (
                    "many chunks",
                    post(_CODED, body=chunked(*(body[i : i + 7] for i in range(0, len(body), 7))), start=start),
                ),
                ("no framing", post(body=body, start=start)),
                ("encoded", post(b"Content-Encoding: gzip", b"Content-Length: %d" % len(body), body=body, start=start)),
            ):
                yield Trick(Family.BODIES, f"{method.decode()} with {name}, {shape}", data)


def pipeline_tricks() -> Tricks:
    """Many requests in one piece; a bad one among them ends the connection and none of those before it is lost."""
    get = b"GET /garden/GARDENID/one HTTP/1.1\r\nHost: garden\r\n\r\n"
    head = get.replace(b"GET", b"HEAD", 1)
    with_body = post(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED)
    in_chunks = post(_CODED, body=chunked(b"a", SMUGGLED))
    last = post(b"Connection: close", b"Content-Length: 2", body=b"ab")
    bad = {
        "both framings": post(b"Content-Length: 5", _CODED, body=chunked(b"")),
        "no host": b"GET /garden/GARDENID/bad HTTP/1.1\r\n\r\n",
        "garbage": b"\x00\x01\x02garbage\r\n\r\n",
        "bare LF": get.replace(b"\r\n", b"\n"),
    }
    for count in (2, 3, 8, 20, 60):
        for name, one in (("GET", get), ("HEAD", head), ("bodies", with_body), ("chunks", in_chunks)):
            yield Trick(Family.PIPELINES, f"{count} x {name}", one * count)
        yield Trick(Family.PIPELINES, f"{count} x all kinds", (get + with_body + head + in_chunks) * count)
        for name, wrong in bad.items():
            yield Trick(Family.PIPELINES, f"{name} behind {count}", get * count + wrong + get)
            yield Trick(Family.PIPELINES, f"{name} behind {count} bodies", with_body * count + wrong + get)
    for between in (b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\x00", b"x", b"\r\n" * 50):
        for one, name in ((with_body, "body"), (in_chunks, "chunks"), (get, "GET")):
            yield Trick(Family.PIPELINES, f"{between!r} between, {name}", one + between + get)
    yield Trick(Family.PIPELINES, "requests behind a close", last + get + with_body)


def pause_tricks() -> Tricks:
    """Requests cut in each interesting place, with a pause there."""
    requests = {
        "length": post(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED),
        "chunks": post(_CODED, body=chunked(b"hello", SMUGGLED)),
        "expects": post(b"Expect: 100-continue", b"Content-Length: 5", body=b"hello"),
        "two": post(b"Content-Length: 5", body=b"hello") + SMUGGLED,
        "both": post(b"Content-Length: 5", _CODED, body=b"0\r\n\r\n" + SMUGGLED),
        "upgrade": post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"hello") + SMUGGLED,
    }
    for name, data in requests.items():
        for place in range(3, len(data), 9):
            yield Trick(Family.PAUSES, f"{name} at {place}", data, (place,))


def truncated_tricks() -> Tricks:
    """Requests that end in every place; the canary behind them is then a part of them, or comes after a refusal."""
    for name, data in (
        ("length", post(b"X: y", b"Content-Length: 40", body=b"a" * 40)),
        ("chunks", post(_CODED, body=chunked(b"hello", b"a" * 20))),
        ("GET", b"GET /garden/GARDENID/attack HTTP/1.1\r\nHost: garden\r\nX: y\r\n\r\n"),
    ):
        for end in range(1, len(data)):
            if outside_marks(data, end) == end:
                yield Trick(Family.TRUNCATED, f"{name} of {end} bytes", data[:end])


def long_tricks() -> Tricks:
    """Lengths and numbers on both sides of usual limits: 8 KiB, 16 KiB, 64 KiB, 100 fields and 128."""
    for size in (1000, 4000, 8192, 16384, 33000, 65536, 70000, 140000):
        filler = b"a" * size
        yield Trick(Family.LONG, f"target of {size}", post(start=b"GET /garden/GARDENID/%b HTTP/1.1" % filler))
        yield Trick(Family.LONG, f"value of {size}", post(b"X: " + filler))
        yield Trick(Family.LONG, f"name of {size}", post(filler + b": y"))
        yield Trick(Family.LONG, f"method of {size}", post(start=filler + b" /garden/GARDENID/attack HTTP/1.1"))
        yield Trick(Family.LONG, f"extension of {size}", post(_CODED, body=b"5;%b\r\nhello\r\n0\r\n\r\n" % filler))
        yield Trick(Family.LONG, f"trailer of {size}", post(_CODED, body=b"5\r\nhello\r\n0\r\nX: %b\r\n\r\n" % filler))
        yield Trick(Family.LONG, f"body of {size}", post(b"Content-Length: %d" % size, body=filler))
        yield Trick(Family.LONG, f"chunk of {size}", post(_CODED, body=chunked(filler)))
        yield Trick(
            Family.LONG, f"zeros before a size, {size}", post(_CODED, body=b"0" * size + b"5\r\nhello\r\n0\r\n\r\n")
        )
    for count in (50, 99, 101, 127, 129, 1000, 5000):
        yield Trick(Family.LONG, f"{count} fields", post(*(b"X-%d: y" % number for number in range(count))))
        yield Trick(Family.LONG, f"{count} equal fields", post(*[b"X: y"] * count))
        yield Trick(Family.LONG, f"{count} trailers", post(_CODED, body=b"0\r\n" + b"X: y\r\n" * count + b"\r\n"))
        yield Trick(Family.LONG, f"{count} empty lines first", b"\r\n" * count + post(b"Content-Length: 0"))


def mixed_tricks(of: Sequence[Trick], seed: int, count: int) -> Tricks:
    """`count` random changes to random attacks: bytes put in, taken out, doubled, or another attack's end put behind."""
    draw = Random(seed)
    short = [trick for trick in of if len(trick.data) < 2000]
    number = 0
    while number < count:
        trick = draw.choice(short)
        data = trick.data
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            place = outside_marks(data, draw.randrange(len(data)))
            end = outside_marks(data, min(len(data), place + draw.choice((1, 1, 2, 5))))
            match draw.randrange(5):
                case 0 | 1:
                    data = data[:place] + draw.choice(_SPLICES) + data[place:]
                case 2:
                    data = data[:place] + data[end:]
                case 3:
                    data = data[:end] + data[place:end] + data[end:]
                case _:
                    other = draw.choice(short).data
                    data = data[:place] + other[outside_marks(other, draw.randrange(len(other))) :]
        sent = data + CANARY
        ends = [0, *(message.end for message in read_requests(sent).messages)]
        if all(has_mark(sent[start:end]) for start, end in pairwise(ends)):
            yield Trick(Family.MIXED, f"{seed}/{number}, from {trick.family} {trick.name}"[:160], data)
            number += 1
