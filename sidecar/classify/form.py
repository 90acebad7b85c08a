"""The few values of a form body (`multipart/form-data`, RFC 7578) that classify a request: model, stream, user, response format. Pure.

Audio comes as a form: short text fields, and a file of megabytes. Clients send the fields before the file or behind it; of a body that is
longer than the look-in bound, only the beginning is seen. A part is found by the boundary that the content type states; its value is
read if it is short and the part is complete. Refuses to read files, and never raises.
"""

import re

from sidecar.classify.body import MAX_STRING
from sidecar.classify.found import UNREAD_BODY, Asked, Peek
from sidecar.classify.lane import Headers


MOST_PARTS = 64
"""Parts that are looked at; OpenAI's transcription has about ten."""
MOST_HEAD_BYTES = 1024
"""Bytes of the header fields of one part."""
LONGEST_TYPE_BYTES = 256
"""The longest content type that is read: a boundary has at most 70 signs (RFC 2046 5.1.1)."""
_FORM = re.compile(rb'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70})(?![^\s;]))', re.IGNORECASE)
_PART_NAME = re.compile(rb'[;\s]name="?([a-z_]{1,32})"?(?:;|\s|$)', re.IGNORECASE)
_MEDIA_TYPE, _DISPOSITION = b"multipart/form-data", b"content-disposition:"
_TAKEN = (b"model", b"stream", b"user", b"response_format")
_TEXT_FORMATS = (b"text", b"srt", b"vtt")
_TRUE, _FALSE = (b"true", b"1"), (b"false", b"0")


def peek_form(body: bytes | bytearray, headers: Headers) -> Peek:
    """The values in a form, or in its beginning; UNREAD_BODY if it is none."""
    stated = headers.get(b"content-type", (b"",))
    is_form = len(stated) == 1 and len(stated[0]) <= LONGEST_TYPE_BYTES and stated[0].lower().startswith(_MEDIA_TYPE)
    form = _FORM.search(stated[0]) if is_form else None
    if form is None:
        return UNREAD_BODY
    delimiter = b"--" + (form[1] or form[2])
    found: dict[bytes, bytes] = {}
    at, whole = body.find(delimiter), False
    for _ in range(MOST_PARTS):
        if at < 0:
            break
        at += len(delimiter)
        if body[at : at + 2] == b"--":
            whole = True
            break
        begins = body.find(b"\r\n\r\n", at, at + MOST_HEAD_BYTES)
        ends = body.find(b"\r\n" + delimiter, at)
        if begins >= 0 and begins + 4 <= ends:
            name = _name_of(bytes(body[at:begins]))
            if name in _TAKEN and ends - begins - 4 <= MAX_STRING:
                found[name] = bytes(body[begins + 4 : ends])
        at = -1 if ends < 0 else ends + 2
    stream = found.get(b"stream", b"").strip().lower()
    return Peek(
        whole=whole,
        model=_text(found.get(b"model")),
        stream=True if stream in _TRUE else False if stream in _FALSE else None,
        user=_text(found.get(b"user")),
        choices=1,
        usage_asked=Asked.UNCLEAR,
        answers_in_text=found.get(b"response_format", b"").strip().lower() in _TEXT_FORMATS,
    )


def _name_of(head: bytes) -> bytes:
    """The name of a part, in lower case; empty if its header fields state none."""
    for line in head.split(b"\r\n"):
        if line[: len(_DISPOSITION)].lower() == _DISPOSITION and (named := _PART_NAME.search(line)) is not None:
            return named[1].lower()
    return b""


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
