"""A second opinion on bytes of HTTP/1.x: a reader that accepts what RFC 9110 and RFC 9112 allow, and stops at all else.

It shares no code with the relay or with llhttp, so that a bug of theirs is none of this one's. It is slow and simple: it
reads whole buffers, again from the start as they grow. Of two readings that the RFCs allow it takes the strict one, so
a hop may refuse more than this reader, and whatever a hop accepts beyond it is suspicious.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


INCOMPLETE = "incomplete"
"""The problem of bytes that end before the message does."""
_FRAGMENT, _CONNECT, _FORM, _NO_HOST = (
    *("a fragment in the target", "the method CONNECT", "a target of no known form"),
    "not one valid Host",
)
ABOUT_THE_TARGET = frozenset((_FRAGMENT, _CONNECT, _FORM, _NO_HOST))
"""The problems that leave no doubt about the end of the request."""
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(%b) +([!-~\x80-\xff]+) +HTTP/1\.([01])\Z" % _TOKEN)
"""RFC 9112 3 lets a recipient take several spaces for one."""
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t -~\x80-\xff]*))?\Z")
_FIELD_LINE = re.compile(rb"(%b):[ \t]*([\t -~\x80-\xff]*)\Z" % _TOKEN)
_CHUNK_LINE = re.compile(rb"(0*[0-9A-Fa-f]{1,16})[ \t]*(?:;[\t -~\x80-\xff]*)?\Z")
_AUTHORITY = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?\Z")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]+)([^#]*)\Z")
_LENGTH_DIGITS = 18


class _Stop(Exception):  # noqa: N818  not an error: the end of what can be read
    """Reading ends here; its text is the problem."""


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """One request or answer, and where its bytes end in what was read."""

    start: tuple[bytes, ...]
    """Method, target in origin form, and minor version; of an answer: minor version, status and reason."""
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    end: int
    closes: bool
    """No other message may follow on this connection."""

    def values(self, name: bytes) -> list[bytes]:
        """All values of one field. `name` in lower case."""
        return [value for field, value in self.fields if field.lower() == name]

    @property
    def words(self) -> tuple[bytes, bytes, bytes]:
        """The parts of a request that every reader must agree on: method, target and body."""
        return self.start[0], self.start[1], self.body

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.start[1])


@dataclass(frozen=True, slots=True)
class Reading:
    """All messages that were read, and the reason for which the reading ended; None: at the end of the bytes."""

    messages: tuple[ReadMessage, ...]
    problem: str | None
    end: int
    """Bytes that the messages take."""


def read_requests(data: bytes) -> Reading:
    """Every request of one connection, in order, up to the first problem or the first that closes it."""
    found: list[ReadMessage] = []
    at = 0
    try:
        while at < len(data) and not (found and found[-1].closes):
            if (
                data[at] in b"\r\n"
            ):  # RFC 9112 2.2: empty lines before a request belong to none; every server skips them
                at += 1
                continue
            found.append(_request(data, at))
            at = found[-1].end
    except _Stop as stop:
        return Reading(tuple(found), str(stop), at)
    return Reading(tuple(found), None, at)


def read_answers(data: bytes, methods: Sequence[bytes], *, ended: bool) -> Reading:
    """Every answer of one connection, 1xx included, up to the first problem or the first that closes it.

    `methods`: of the requests, in order; GET is assumed for further ones. `ended`: the connection is closed, which ends
    a body without a length. Once a message closes the connection, more bytes are a problem; so are bytes behind a 101.
    """
    found: list[ReadMessage] = []
    at = final = 0
    try:
        while at < len(data):
            if found and found[-1].closes:
                return Reading(tuple(found), "bytes behind the last answer", at)
            method = methods[final] if final < len(methods) else b"GET"
            found.append(_answer(data, at, method, ended=ended))
            at = found[-1].end
            final += found[-1].status >= 200
    except _Stop as stop:
        return Reading(tuple(found), str(stop), at)
    return Reading(tuple(found), None, at)


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.find(b"\n", at)
    if end < 0:
        raise _Stop(INCOMPLETE)
    if end == at or data[end - 1] != 13:
        raise _Stop("a line that ends with a bare LF")
    return data[at : end - 1], end + 1


def _fields(data: bytes, at: int) -> tuple[list[tuple[bytes, bytes]], int]:
    fields: list[tuple[bytes, bytes]] = []
    while True:
        line, at = _line(data, at)
        if not line:
            return fields, at
        match = _FIELD_LINE.match(line)
        if match is None:
            raise _Stop("a line that is no field")
        fields.append((match[1], match[2].rstrip(b" \t")))


def _members(fields: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    parts = [part.strip().lower() for field, value in fields if field.lower() == name for part in value.split(b",")]
    return [part for part in parts if part]


def _request(data: bytes, at: int) -> ReadMessage:
    line, at = _line(data, at)
    match = _REQUEST_LINE.match(line)
    if match is None:
        raise _Stop("no request line")
    method, target, minor = match.groups()
    fields, at = _fields(data, at)
    hosts = [value for name, value in fields if name.lower() == b"host"]
    if len(hosts) > 1 or (not hosts and minor == b"1") or not all(_AUTHORITY.match(host) for host in hosts):
        raise _Stop(_NO_HOST)
    target = _origin_form(method, target)
    if minor == b"0" and any(name.lower() == b"transfer-encoding" for name, _ in fields):
        raise _Stop("Transfer-Encoding in HTTP/1.0")
    body, at = _framed(data, at, fields, until_close=False, ended=False)
    options = _members(fields, b"connection")
    closes = b"close" in options or (minor == b"0" and b"keep-alive" not in options)
    return ReadMessage((method, target, minor), tuple(fields), body, at, closes)


def _origin_form(method: bytes, target: bytes) -> bytes:
    if b"#" in target or method == b"CONNECT":
        raise _Stop(_FRAGMENT if b"#" in target else _CONNECT)
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None or not _AUTHORITY.match(absolute[1]):
        raise _Stop(_FORM)
    rest: bytes = absolute[2]
    return rest if rest.startswith(b"/") else b"/" + rest


def _answer(data: bytes, at: int, method: bytes, *, ended: bool) -> ReadMessage:
    line, at = _line(data, at)
    match = _STATUS_LINE.match(line)
    if match is None:
        raise _Stop("no status line")
    minor, status, reason = match[1], match[2], match[3] or b""
    fields, at = _fields(data, at)
    informed = status.startswith(b"1")
    if informed and any(name.lower() in (b"transfer-encoding", b"content-length") for name, _ in fields):
        raise _Stop("a framing in a 1xx")
    options = _members(fields, b"connection")
    closes = b"close" in options or (minor == b"0" and b"keep-alive" not in options)
    body = b""
    if not informed and method != b"HEAD" and status not in (b"204", b"304"):
        names = {name.lower() for name, _ in fields}
        until_close = not names & {b"transfer-encoding", b"content-length"}
        body, at = _framed(data, at, fields, until_close=until_close, ended=ended)
        # RFC 9112 6.1: a coding in HTTP/1.0 is faulty, and the connection is closed after it.
        closes = closes or until_close or (minor == b"0" and b"transfer-encoding" in names)
    return ReadMessage((minor, status, reason), tuple(fields), body, at, closes and not informed)


def _framed(
    data: bytes, at: int, fields: Sequence[tuple[bytes, bytes]], *, until_close: bool, ended: bool
) -> tuple[bytes, int]:
    """The body behind a head, and where it ends (RFC 9112 6.3)."""
    lengths = [value for name, value in fields if name.lower() == b"content-length"]
    if any(name.lower() == b"transfer-encoding" for name, _ in fields):
        if lengths:
            raise _Stop("both Content-Length and Transfer-Encoding")
        if _members(fields, b"transfer-encoding") != [b"chunked"]:
            raise _Stop("a transfer coding other than chunked")
        return _chunks(data, at)
    if until_close:
        if not ended:
            raise _Stop(INCOMPLETE)
        return data[at:], len(data)
    if not lengths:
        return b"", at
    if len(lengths) > 1 or not re.fullmatch(rb"[0-9]+", lengths[0]) or len(lengths[0]) > _LENGTH_DIGITS:
        raise _Stop("a Content-Length that is no number")
    end = at + int(lengths[0])
    if end > len(data):
        raise _Stop(INCOMPLETE)
    return data[at:end], end


def _chunks(data: bytes, at: int) -> tuple[bytes, int]:
    pieces: list[bytes] = []
    while True:
        line, at = _line(data, at)
        match = _CHUNK_LINE.match(line)
        if match is None:
            raise _Stop("no size of a chunk")
        size = int(match[1], 16)
        if size == 0:
            _, at = _fields(data, at)
            return b"".join(pieces), at
        if at + size + 2 > len(data):
            if len(data) - at > size and data[at + size] != 13:
                raise _Stop("a chunk without its end")
            raise _Stop(INCOMPLETE)
        if data[at + size : at + size + 2] != b"\r\n":
            raise _Stop("a chunk without its end")
        pieces.append(data[at : at + size])
        at += size + 2
