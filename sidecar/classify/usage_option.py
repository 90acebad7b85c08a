"""`stream_options.include_usage` in a request body: what the client has said, and where its null stands.

It refuses to decode anything else that stands in `stream_options`, and to write (`observe/usage_chunk.py` does).
"""

from collections.abc import Generator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from sidecar.classify.long_json import checked_members
from sidecar.timeline.events import UNREADABLE


MAX_BYTES = 4_096
"""A longer `stream_options` is unclear; the largest API has three members in it."""
_NAME = "stream_options"
_ABSENT = msgspec.Raw(b"")


class Asked(StrEnum):
    """State of `stream_options.include_usage` in the request."""

    ABSENT = "absent"
    """No stream_options."""
    NULL = "null"
    """`stream_options` is null."""
    LEFT_OUT = "left_out"
    """An object that does not mention include_usage."""
    WANTED = "wanted"
    DECLINED = "declined"
    UNCLEAR = "unclear"
    """Not decodable within the bound, or of a type that the API does not know."""


class Place(NamedTuple):
    """Offsets in the body; `end` is exclusive."""

    start: int
    end: int


class _Options(msgspec.Struct, frozen=True):
    include_usage: msgspec.Raw = _ABSENT


_OPTIONS = msgspec.json.Decoder(_Options | None)


def asked_in(stream_options: msgspec.Raw) -> Asked:
    """The state, from the value of `stream_options`. Never raises."""
    try:
        if memoryview(stream_options).nbytes > MAX_BYTES:
            return Asked.UNCLEAR
        said = _OPTIONS.decode(stream_options)
    except UNREADABLE:
        return Asked.UNCLEAR
    if said is None:
        return Asked.NULL
    wanted = bytes(said.include_usage)
    if wanted == b"":
        return Asked.LEFT_OUT
    return Asked.WANTED if wanted == b"true" else Asked.DECLINED if wanted == b"false" else Asked.UNCLEAR


def place_of_null(body: bytes | bytearray) -> Place | None:
    """The place of the null in a body whose `stream_options` is one; None if the body has more members than any API."""
    steps = place_of_null_in_steps(body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Place | None = end.value
            return found


def place_of_null_in_steps(body: bytes | bytearray) -> Generator[None, None, Place | None]:
    """The same for a long body."""
    try:
        found = yield from checked_members(body)
    except UNREADABLE:
        return None
    places = [Place(member.start, member.end) for member in found if member.name == _NAME]
    return places[-1] if places else None  # of duplicates the last one counts
