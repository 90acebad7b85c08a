"""A request body that is too long to be held, read while it passes on to the engine. Pure.

Its outline (`timeline/outline.py`) gives what a look into a shorter body gives: model, stream, and how long each text is. Images and
sound in base64 are measured beside it, so that they do not count as text: what is left is the least that the prompt can be.
"""

from operator import sub

from sidecar.classify.body import SERVER_TOOL, peek_outline
from sidecar.classify.escapes import EscapedBytes
from sidecar.classify.found import Peek
from sidecar.classify.media import LONGEST_MATCH_BYTES, MediaBytes, looks_for
from sidecar.classify.top_level import unescaped
from sidecar.timeline.outline import Outline


class LongBody:
    """Feed it the pieces of one JSON body. Never raises, whatever the bytes; a piece of 64 KiB takes at most 2 ms (`make bounds`)."""

    def __init__(self) -> None:
        self._outline = Outline()
        self._media = MediaBytes()
        self._escapes = EscapedBytes()
        self._escaped = [0]
        """Bytes of escapes up to the beginning of the body, and to the end of each member."""
        self._fed = 0
        self._looks = looks_for("messages")
        self._shows_media = self._shows_tools = False
        self._tail = b""

    def feed(self, piece: bytes | bytearray) -> None:
        """Take in bytes that have gone on to the engine."""
        self._outline.feed(piece)
        self._media.feed(piece)
        at = 0
        for end in self._outline.ends[len(self._escaped) - 1 :]:
            self._escapes.feed(piece[at : end - self._fed])
            self._escaped.append(self._escapes.found)
            at = end - self._fed
        self._escapes.feed(piece[at:])
        self._fed += len(piece)
        searched = self._tail + piece
        self._shows_media = self._shows_media or any(look(searched, 0, len(searched)) for look in self._looks)
        self._shows_tools = self._shows_tools or SERVER_TOOL.search(searched) is not None
        self._tail = searched[-LONGEST_MATCH_BYTES:]

    def peek(self) -> Peek | None:
        """The values that were found, once the body has come whole; None if it was no JSON object, or none that can be read."""
        outline = self._outline.end()
        if outline is None:
            return None
        escaped = map(sub, self._escaped[1:], self._escaped)
        sizes = {
            unescaped(each.name): each.size - less for each, less in zip(self._outline.sizes, escaped, strict=True)
        }
        media_bytes = self._media.found if self._shows_media else None
        return peek_outline(
            outline, sizes, cut=self._outline.cut, media_bytes=media_bytes, server_tools=self._shows_tools
        )
