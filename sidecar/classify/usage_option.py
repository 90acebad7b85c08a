"""`stream_options.include_usage` in a request body: what the client has said, and where its null stands.

It refuses to decode anything else that stands in `stream_options`, and to write (`observe/usage_chunk.py` does).
"""

from collections.abc import Generator

import msgspec

from sidecar.classify.decoders import STREAM_OPTIONS
from sidecar.classify.found import Asked, Place
from sidecar.classify.json_text import JsonText, UnreadableError
from sidecar.classify.top_level import members, unescaped
from sidecar.timeline.events import UNREADABLE


MAX_BYTES = 4_096
"""A longer `stream_options` is unclear; the largest API has three members in it."""
_MEMBER_NAME = "stream_options"
_NULL_STEP_TOKENS = 64
"""Tokens in one step, where a member counts as one: some of them take 5 us."""


def asked_in(stream_options: msgspec.Raw) -> Asked:
    """The state, from the value of `stream_options`. Never raises."""
    try:
        if memoryview(stream_options).nbytes > MAX_BYTES:
            return Asked.UNCLEAR
        said = STREAM_OPTIONS.decode(stream_options)
    except UNREADABLE:
        return Asked.UNCLEAR
    if said is None:
        return Asked.NULL
    wanted = bytes(said.include_usage)
    if wanted == b"":
        return Asked.LEFT_OUT
    return Asked.WANTED if wanted == b"true" else Asked.DECLINED if wanted == b"false" else Asked.UNCLEAR


def place_of_null(body: bytes | bytearray) -> Place | None:
    """The place of the null in a short body whose `stream_options` is one; None behind more than one scan reads (`top_level.py`)."""
    at_end, found = 0, None
    for member in members(body):
        at_end = member.end
        if member.name == _MEMBER_NAME:
            found = Place(member.start, member.end)  # of duplicates the last one counts
    return found if body[at_end:].strip(b" \t\n\r") == b"}" else None


def place_of_null_in_steps(body: bytes | bytearray) -> Generator[None, None, Place | None]:
    """The same for a long body that is known to be a JSON object, of any number of values. Each step takes about 0.3 ms."""
    text, found = JsonText(body, pause_tokens=_NULL_STEP_TOKENS, max_tokens=len(body)), None
    try:
        for name in text.members():
            if name is None:
                yield
                continue
            start = text.at
            while not text.skip():
                yield
            if unescaped(name) == _MEMBER_NAME:
                found = Place(start, text.at)
    except UnreadableError:
        return None
    return found
