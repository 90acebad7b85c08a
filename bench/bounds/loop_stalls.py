"""Work that may hold the event loop: a scrape of 10,000 series, the longest step in which a request body of 1 MiB is read,
the first MiB of a longer body (read in one call), and an upload in tiny chunks.

Measured by the thread's own CPU clock, which a busy machine does not falsify; the wall clock is printed beside it. The
bodies are the kinds that clients send at that size, and those that were found to cost the most.
"""

import asyncio
import json
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from statistics import median

from bench.bounds.bound import Bound, spread
from bench.bounds.full_page import OPENMETRICS, QuietApp, filled, scraped
from sidecar.admin.listener import AdminListener
from sidecar.classify.body import AT_ONCE_BYTES, peek, peek_in_steps
from sidecar.classify.found import Peek
from sidecar.classify.long_body import LongBody
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.negotiation import Format
from sidecar.observe.usage_chunk import ask_for_usage
from sidecar.proxy.upload import LONG_BODY_BYTES
from sidecar.timeline.outline import OUTLINED_AT_ONCE_BYTES
from tests.support.origin import Origin, Visit
from tests.support.proxy import running


SERIES = 10_000
SCRAPES = 7
BOUND_MS = 2.0
BODY_BYTES = 1 << 20
LOOKS = 31
FIRST_LOOKS = 3
DEAREST = 5
"""Hostile bodies that took longest in a few looks, and so are looked at as often as others."""
UPLOADS = 5
UPLOAD_BYTES = 8 << 20
UPLOAD_HEAD = b"POST /x HTTP/1.1\r\nHost: bench\r\nTransfer-Encoding: chunked\r\n\r\n"
_LONG_PROMPTS: dict[str, object] = {
    "one long text": "long text. ",
    "code": 'def f(x):\n    return x["key"] + "abc"\n',
    "JSON in JSON": json.dumps({"name": "find", "arguments": json.dumps({"key": 'a "quoted" word', "n": [1, 2]})}),
    "backslashes": '\\"',
    "brackets": [[]],
    "messages with quotes": [{"type": "text", "text": 'He said "yes" and went. ' * 8}],
}
"""Repeated until the body is twice as long as what is read of it."""
_HOSTILE: dict[str, tuple[bytes, bytes, bytes]] = {
    "an array of empty texts": (b'{"prompt":[', b'"",', b"1]}"),
    "an array of short arrays": (b'{"prompt":[', b"[0],", b"[1]]}"),
    "a role of digits": (b'{"messages":[{"role":[', b"0,", b"1]}]}"),
    "a role of empty arrays": (b'{"messages":[{"role":[', b"[],", b"1]}]}"),
    "short messages": (b'{"messages":[', b'{"role":"user","content":"' + b"x" * 40 + b'"},', b'{"role":"user"}]}'),
    "empty messages behind a long one": (b'{"messages":[{"content":"' + b"x" * 5000 + b'"},', b"{},", b"{}]}"),
    "a batch of empty texts": (b'{"prompt":["",', b"1,", b"1]}"),
    "a model of empty arrays": (b'{"model":[', b"[],", b"1]}"),
    "the model again and again": (b"{", b'"model":[' + b"[]," * 1300 + b"1],", b'"a":1}'),
    "a model of escapes": (b'{"model":"', b"\\n", b'"}'),
    "blanks before a batch": (b'{"prompt":[', b" ", b'"a"]}'),
    "blanks in a form": (b'{"response_format":{"type":', b" ", b"0}}"),
    "empty messages": (b'{"messages":[', b'{"role":"u"},', b'{"role":"u"}]}'),
    "members without a name": (b"{", b'"":0,', b'"a":1}'),
    "one member again and again": (b"{", b'"prompt":0,', b'"a":1}'),
    "members of eighteen letters": (b"{", b'"bbbbbbbbbbbbbbbbbb":0,', b'"a":1}'),
    "blanks": (b'{"messages":[{"role":', b" ", b"0}]}"),
    "escapes": (b'{"messages":[{"content":"', b"\\n", b'"}]}'),
    "names of media without end": (b'{"messages":[{"role":"', b"_url", b'","x":0}]}'),
    "strings longer than one look": (b'{"prompt":[', b'"' + b"x" * 1025 + b'",', b"1]}"),
    "long strings in the second prompt": (b'{"prompt":["",[', b'"' + b"x" * 1025 + b'",', b"1]]}"),
    "long strings behind a null": (b'{"stream":true,"stream_options":null,"a":[', b'"' + b"x" * 1025 + b'",', b"1]}"),
    "empty strings behind a null": (b'{"stream":true,"stream_options":null,"a":[', b'"",', b"1]}"),
    "escapes at the ends of strings": (b'{"prompt":[', b'"' + b"x" * 170 + b'\\"",', b"1]}"),
    "backslashes in strings": (b'{"prompt":[', b'"' + b"\\\\" * 80 + b'",', b"1]}"),
    "numbers near the end of their range": (b'{"user":[', b"9e300,", b"1]}"),
    "options of such numbers": (b'{"stream_options":[', b"9e300,", b"1]}"),
    "deep arrays": (b'{"a":', b"[", b"}"),
}
"""Before, again and again, after."""


SCRAPED: Sequence[tuple[str, NativeForm, str, str]] = (
    ("plain", "off", OPENMETRICS, "identity"),
    ("gzip", "off", OPENMETRICS, "gzip"),
    ("protobuf", "beside", Format.PROTOBUF, "identity"),
)
"""Words, the form of histograms, Accept and Accept-Encoding of a scrape."""


async def scrape_stalls() -> list[Bound]:
    """The longest turn of a loop while the page is scraped; everything except the client is in this process."""
    bounds = []
    for words, form, accept, encoding in SCRAPED:
        metrics = filled(SERIES, native_histograms=form)
        listener = AdminListener(QuietApp(metrics), metrics, time.monotonic)
        ((_, port),) = await listener.start("127.0.0.1", 0)
        try:
            idle = [await scraped(metrics, port, "", "", 0) for _ in range(3)]
            turns = [await scraped(metrics, port, accept, encoding, 1) for _ in range(SCRAPES)]
        finally:
            await listener.stop()
        floor = f"{median(cpu for _, cpu in idle) * 1e3:.3f} ms without a scrape"
        cpu = [cpu * 1e3 for _, cpu in turns]
        name = f"longest turn while {SERIES:,} series are scraped, {words}"
        spread_words = f"{spread(cpu)}; wall clock {median(wall for wall, _ in turns) * 1e3:.3f}"
        bounds.append(Bound(name, BOUND_MS, median(cpu), "ms", spread_words, floor))
    return bounds


def _chat(content: object) -> bytes:
    body = {"model": "bench", "stream": True, "max_tokens": 100, "messages": [{"role": "user", "content": content}]}
    return json.dumps(body).encode()


def _bodies() -> dict[str, bytes]:
    turns = [{"role": "user", "content": "What is the queue for? " * 8} for _ in range(BODY_BYTES // 220)]
    many = json.dumps({"model": "bench", "stream": True, "messages": turns}).encode()
    image = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * (BODY_BYTES // 8 - 40)}}
    ]
    ids = json.dumps(
        {"model": "bench", "stream": True, "prompt": [10_000 + n % 100_000 for n in range(BODY_BYTES // 8)]}
    )
    digits = b'{"model":"bench","stream":true,"prompt":[' + b"1," * (BODY_BYTES // 2 - 40) + b"1]}"
    return {
        "one long text": _chat("long text. " * (BODY_BYTES // 11 - 20)),
        "many messages": many,
        "an image": _chat(image),
        "token ids": ids.encode(),
        "digits": digits,
    }


def _members(value: bytes) -> bytes:
    """A short body of many small values, whose null has to be found."""
    return b"{" + (b'"a":%b,' % value) * 250 + b'"stream":true,"stream_options":null}'


def _filled(before: bytes, unit: bytes, after: bytes, size: int) -> bytes:
    return before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def _hostile_bodies() -> Iterator[tuple[str, bytes]]:
    """Little in every byte, just below and above each length from which on a body is read in another way."""
    lengths = (LONG_BODY_BYTES, AT_ONCE_BYTES, 2 * AT_ONCE_BYTES, 4 * AT_ONCE_BYTES, 6 * AT_ONCE_BYTES, BODY_BYTES)
    for name, parts in _HOSTILE.items():
        for length in lengths:
            yield name, _filled(*parts, length - 100)
    for depth in (1, 10, 40):
        short = _members(b"[" * depth + b"]" * depth)
        yield f"250 arrays of depth {depth}", short
        yield f"250 arrays of depth {depth} and a prompt", short[:-1] + b',"prompt":"' + b"x" * 600_000 + b'"}'
    yield from _plain_messages()
    yield (
        "short arrays before a long one",
        _filled(b"{" + b'"a":[],' * 200 + b'"prompt":[', b'["",[[]]],', b"1]}", BODY_BYTES),
    )


def _plain_messages() -> Iterator[tuple[str, bytes]]:
    """Nearly as many short messages behind a long one as are taken apart, with what makes each condition dear; and such messages, the last of
    which is not plain, so that they are taken apart in vain.
    """
    short = b'{"role":"u","content":""},'
    full = b'{"role":"","content":"","name":"","tool_call_id":""},'
    for length, message in ((LONG_BODY_BYTES, short), (AT_ONCE_BYTES, full), (6 * AT_ONCE_BYTES, full)):
        messages = message * 950
        dense = b";" * 64 + b"\\n" * ((length - len(messages) - 1000) // 4)
        text = dense + b"x" * (length - len(messages) - len(dense) - 400)
        assert len(text) > 5000
        others = b"".join(b'"%04d":0,' % number for number in range(30))
        for name, last in (("950 messages", b'{"role":"u"}'), ("950 messages and a part", b'{"content":[]}')):
            yield name, b'{%b"messages":[{"content":"%b"},%b%b]}' % (others, text, messages, last)


def body_peek_stalls() -> list[Bound]:
    """Read a body of 1 MiB in steps and insert the request for usage, as the sidecar does in turns of the loop; the same for
    hostile bodies of all lengths, of which the dearest is told; and read the first MiB of a longer one."""
    bounds = []
    for name, body in _bodies().items():
        words = f"longest step of a body of {len(body) / (1 << 20):.2f} MiB: {name}"
        bounds.append(_bound(words, BOUND_MS, [_longest_step(body) for _ in range(LOOKS)]))
    for words, how in (
        ("longest step of", _longest_step),
        ("longest step, without their last byte, of", lambda body: _longest_step(body[:-1])),
        ("loop held by the beginning, as of a longer body, of", _beginning),
        (f"loop held by {OUTLINED_AT_ONCE_BYTES >> 10} KiB, as of a body that passes, of", _longest_piece),
        (f"loop held by those of up to {LONG_BODY_BYTES >> 10} KiB of", _at_once),
    ):
        hostile = list(_hostile_bodies())
        seemed = sorted(hostile, key=lambda each: median(how(each[1]) for _ in range(FIRST_LOOKS)))[-DEAREST:]
        looks = [([how(body) for _ in range(LOOKS)], name, len(body)) for name, body in seemed]
        took, name, length = max(looks, key=lambda each: median(each[0]))
        dearest = f"{spread(took)}; {name}, {length / (1 << 20):.2f} MiB"
        said = f"{words} {len(hostile)} hostile bodies"  # the same in each report, whichever is the dearest
        bounds.append(Bound(said, BOUND_MS, median(took), "ms", dearest, "nothing to compare with"))
    for name, text in _LONG_PROMPTS.items():
        repeats = 2 * BODY_BYTES // len(json.dumps(text))
        beginning = _chat(text * repeats)[:BODY_BYTES]  # type: ignore[operator]
        words = f"loop held by the first {len(beginning) / (1 << 20):.2f} MiB of a longer body: {name}"
        bounds.append(_bound(words, BOUND_MS, [_beginning(beginning) for _ in range(LOOKS)]))
    return bounds


async def upload_stalls() -> list[Bound]:
    """The longest turn while a thread uploads 8 MiB in the smallest allowed chunks; for comparison, in large chunks.

    A token of another request waits this long for the upload. Engine and relay share the loop.
    """

    async def reads(visit: Visit) -> None:
        await visit.until_left()

    tiny, large = b"5\r\naaaaa\r\n", b"10000\r\n" + b"a" * 65536 + b"\r\n"
    async with Origin(reads).listening() as origin, running(origin.port) as relay:
        turns = {chunk: [await _longest_turn(relay.port, chunk) for _ in range(UPLOADS)] for chunk in (large, tiny)}
    floor = f"{median(turns[large]):.3f} ms in chunks of 64 KiB"
    words = f"longest turn while {UPLOAD_BYTES >> 20} MiB are uploaded in chunks of five bytes"
    return [Bound(words, BOUND_MS, median(turns[tiny]), "ms", spread(turns[tiny]), floor)]


async def _longest_turn(port: int, chunk: bytes) -> float:
    """Longest CPU milliseconds between two turns of this task while the upload arrives."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        upload = UPLOAD_HEAD + chunk * (UPLOAD_BYTES // len(chunk))
        sending = asyncio.get_running_loop().run_in_executor(None, client.sendall, upload)
        longest, before = 0.0, time.thread_time()
        while not sending.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
    return longest * 1e3


def _longest_piece(body: bytes) -> float:
    """CPU milliseconds of the dearest piece of a body that is read while it passes, and of the look into its outline."""
    long, longest = LongBody(), 0.0
    for at in range(0, len(body), OUTLINED_AT_ONCE_BYTES):
        before = time.thread_time()
        long.feed(body[at : at + OUTLINED_AT_ONCE_BYTES])
        longest = max(longest, time.thread_time() - before)
    before = time.thread_time()
    long.peek()
    return max(longest, time.thread_time() - before) * 1e3


def _longest_step(body: bytes) -> float:
    """CPU milliseconds of the longest step; the last one finds the place for the request for usage."""
    steps, found, longest = peek_in_steps(bytearray(body)), None, 0.0
    while found is None:
        before = time.thread_time()
        found = _step(steps)
        if found is not None:
            ask_for_usage(body, found)
        longest = max(longest, time.thread_time() - before)
    return longest * 1e3


def _step(steps: Generator[None, None, Peek]) -> Peek | None:
    try:
        next(steps)
    except StopIteration as end:
        found: Peek = end.value
        return found
    return None


def _beginning(body: bytes) -> float:
    """CPU milliseconds for the first bytes of a longer body."""
    before = time.thread_time()
    ask_for_usage(body, peek(body, whole=False))
    return (time.thread_time() - before) * 1e3


def _at_once(body: bytes) -> float:
    """CPU milliseconds for a body that is short enough to be read at once, as it is or without its last byte; 0 for others."""
    if len(body) > LONG_BODY_BYTES:
        return 0.0
    before = time.thread_time()
    ask_for_usage(body, peek(body, whole=True))
    between = time.thread_time()
    peek(body[:-1], whole=True)
    return max(between - before, time.thread_time() - between) * 1e3


def _bound(words: str, limit_ms: float, took: list[float]) -> Bound:
    return Bound(words, limit_ms, median(took), "ms", spread(took), "nothing to compare with")
