"""HTTP's rules for a gateway, as pure functions: which requests are refused, which fields dropped, how messages end.

Knows RFC 9110 and RFC 9112 and nothing else: no sockets, no engine, no lanes. llhttp has already refused bytes that are
not HTTP at all (both framings at once, duplicate lengths, bare LF, folded lines, control characters). The cases that
llhttp lets through and an edge must decide (reference/reliability.md B2b) are decided here. Fields are pairs of bytes
in the order and the case in which they came, duplicates included.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sidecar.proxy.errors import Failure


Fields = Sequence[tuple[bytes, bytes]]
Found = dict[bytes, list[bytes]]
"""The values of all fields of a head, by name in lower case; those of one name in the order in which they came."""


class Framing(Enum):
    """How the end of a message's body is known (RFC 9112 6.3)."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until_close"


HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"trailer"),
        b"http2-settings",
    )
)
"""RFC 9110 7.6.1. `Trailer` as well, since trailers are not relayed (RFC 9110 6.5.1 lets an intermediary drop them), and
`HTTP2-Settings` (RFC 7540 3.2.1), which Java's HttpClient sends with every request over plain HTTP.

Exactly these fields stay on their hop, in both directions. `Connection` cannot add to them: RFC 9110 7.6.1 lets it name any
field, and so it is a known way to have a gateway drop what the next hop relies on (CVE-2024-45410: X-Forwarded-*)."""

CONNECTION_OPTIONS = HOP_BY_HOP | {b"close"}
"""The options that a request's `Connection` may name; any other one is refused. In an answer any other one is passed over:
the field that it names still reaches the client, since only the engine could tell that it was meant for one hop."""

TWINNED = frozenset(
    (
        *(b"content-length", b"content-type", b"content-encoding", b"proxy-authorization", b"x-api-key", b"x-real-ip"),
        *(field for field in HOP_BY_HOP if b"-" in field),
    )
)
TWINNED_FAMILIES = (b"x-forwarded-", b"x-auth-", b"x-remote-", b"x-original-", b"x-rewrite-", b"x-envoy-")
"""Fields that an edge acts on: it frames by them, and sets or strips them to say who the client is. A server that follows
CGI (RFC 3875 4.1.18) reads the same name with `_` as the same field, so that such a twin gets past the edge. Twins of all
other fields pass: `my_field` and `api_key` are legal names that real clients send."""

HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]{0,5})?\Z")
"""uri-host [ ":" port ] (RFC 9110 7.2), without userinfo."""

CONTENT_CODING = b"content-encoding"
NO_CODINGS = (b"identity", b"none", b"utf-8")
"""The words for a body as it is. `none` is a habit of event streams: it keeps servers in between from compressing them."""
MAX_CONTENT_LENGTH_DIGITS = 18
FRAMING_ABOVE_BODY_BYTES = 65536
"""Bytes by which a message's framing (chunk sizes, chunk extensions, trailers) may exceed its body. A chunk of at least five bytes
makes up for its own framing."""
ANSWER_HEADS_BYTES = 262_144
"""Bytes that the heads of an answer may have, the interim ones included. TensorRT-LLM states times of each step in the head of a whole
answer, up to 80 KiB (`serve/perf_metrics.py`), if it is asked to, and the sidecar asks."""
NOT_IN_A_REASON = re.compile(rb"[^\t\x20-\x7e\x80-\xff]")
"""Bytes that a reason phrase must not have (RFC 9112 4: HTAB, SP, VCHAR and obs-text). llhttp takes any but CR and LF."""


def found_in(fields: Iterable[tuple[bytes, bytes]]) -> Found:
    """The values of all fields by their names in lower case, read once for all that ask for some."""
    found: Found = {}
    for given, value in fields:
        name = given.lower()
        if name in found:
            found[name].append(value)
        else:
            found[name] = [value]
    return found


@dataclass(slots=True)
class RequestHead:
    """The head of one request as the client sent it, and its consequences for this hop."""

    method: bytes
    target: bytes
    version: str
    """Either "1.0" or "1.1" once checked."""
    fields: list[tuple[bytes, bytes]]
    keep_alive: bool
    accepted_at: float
    framing: Framing = Framing.NONE
    content_length: int = 0
    expects_continue: bool = False
    websocket: bool = False
    found: Found = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.found = found_in(self.fields)


@dataclass(slots=True)
class ResponseHead:
    """The head of one response as the engine sent it."""

    status: int
    reason: bytes
    fields: list[tuple[bytes, bytes]]
    framing: Framing
    content_length: int = 0
    reusable: bool = True
    """The engine's connection may serve another request after this message."""
    found: Found = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.found = found_in(self.fields)


def values_of(fields: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """All values of one field, in order. `name` in lower case."""
    values = []
    for given, value in fields:
        if given.lower() == name:
            values.append(value)
    return values


def is_encoded(found: Found) -> bool:
    """Whether the body is compressed: such a body passes, and cannot be read."""
    return any(coding not in NO_CODINGS for coding in members(found.get(CONTENT_CODING, ())))


def members(values: Iterable[bytes]) -> list[bytes]:
    """The lower-case members of a comma-separated field, over all its lines."""
    found = []
    for value in values:
        for part in value.lower().split(b","):
            member = part.strip()
            if member:
                found.append(member)
    return found


def check_request(head: RequestHead, *, max_headers: int, max_body_bytes: int) -> Failure | None:
    """Why the head must be refused, or None: then framing, length, expectation and upgrade are filled in."""
    if head.version not in ("1.0", "1.1"):
        return Failure.UNSUPPORTED_VERSION
    if head.method == b"CONNECT":
        return Failure.UNSUPPORTED_METHOD
    if len(head.fields) > max_headers:
        return Failure.HEAD_TOO_LARGE
    found = head.found
    for name in found:
        if b"_" in name and _is_twin(name.replace(b"_", b"-")):
            return Failure.UNDERSCORE_TWIN
    # RFC 9112 3.2: 400 for any HTTP/1.1 request without Host, and for any request with more than one or an invalid one.
    hosts = found.get(b"host", ())
    if len(hosts) > 1 or (not hosts and head.version == "1.1") or (hosts and not HOST.match(hosts[0])):
        return Failure.BAD_HOST
    if head.version == "1.0" and b"connection" not in found:
        head.keep_alive = False  # llhttp takes Proxy-Connection for Connection
    origin_form = head.target.startswith(b"/") and b"#" not in head.target
    return (
        (None if origin_form else _check_target(head))
        or _check_framing(head, found, max_body_bytes)
        or (_check_connection(head, found) if b"connection" in found else None)
        or (_check_expect(head, found[b"expect"]) if b"expect" in found else None)
    )


def _is_twin(hyphened: bytes) -> bool:
    return hyphened in TWINNED or hyphened.startswith(TWINNED_FAMILIES)


def _check_target(head: RequestHead) -> Failure | None:
    target = head.target
    if b"#" in target:
        return Failure.BAD_TARGET
    if target == b"*":
        return None if head.method == b"OPTIONS" else Failure.BAD_TARGET
    # absolute-form: the authority replaces Host (RFC 9112 3.2.2), the rest is the target; the engine's address is never taken from it.
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return Failure.BAD_TARGET
    authority, slash, path = rest.partition(b"/")
    if b"?" in authority:
        authority, _, query = rest.partition(b"?")
        slash, path = b"/", b"?" + query
    if not authority or not HOST.match(authority):
        return Failure.BAD_TARGET
    head.target = (slash + path) or b"/"
    head.fields = [(b"Host", authority)] + [line for line in head.fields if line[0].lower() != b"host"]
    head.found[b"host"] = [authority]
    return None


def _check_framing(head: RequestHead, found: Found, max_body_bytes: int) -> Failure | None:
    if b"transfer-encoding" in found:
        codings = members(found[b"transfer-encoding"])
        # RFC 9112 6.1: faulty in HTTP/1.0; a coding that is not understood is 501.
        if head.version == "1.0":
            return Failure.BAD_FRAMING
        if codings != [b"chunked"]:  # an empty list as well: llhttp waits then for a body that this hop does not see
            return Failure.UNSUPPORTED_CODING
        head.framing = Framing.CHUNKED
        return None
    lengths = found.get(b"content-length")
    if lengths:
        if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > MAX_CONTENT_LENGTH_DIGITS:
            return Failure.BAD_FRAMING
        head.content_length = int(lengths[0])
        if head.content_length > max_body_bytes:
            return Failure.BODY_TOO_LARGE
        head.framing = Framing.LENGTH if head.content_length else Framing.NONE
    return None


def _check_connection(head: RequestHead, found: Found) -> Failure | None:
    options = members(found[b"connection"])
    if not CONNECTION_OPTIONS.issuperset(options):
        return Failure.PROTECTED_FIELD
    if b"close" in options:
        head.keep_alive = False  # RFC 9112 9.3; llhttp lets `keep-alive` beside it win in HTTP/1.0
    # Only a GET without a body may become a tunnel; `Upgrade: h2c` is dropped with the other hop-by-hop fields and the request goes on.
    head.websocket = (
        b"upgrade" in options
        and head.method == b"GET"
        and head.version == "1.1"
        and head.framing is Framing.NONE
        and members(found.get(b"upgrade", ())) == [b"websocket"]
    )
    return None


def _check_expect(head: RequestHead, values: list[bytes]) -> Failure | None:
    expectations = members(values)
    if not expectations or head.version == "1.0":
        return None  # RFC 9110 10.1.1: ignored in HTTP/1.0
    if expectations != [b"100-continue"]:
        return Failure.UNKNOWN_EXPECTATION
    head.expects_continue = head.framing is not Framing.NONE
    return None


_NOT_FOR_THE_ENGINE = HOP_BY_HOP | {b"expect"}


def request_bytes(
    head: RequestHead,
    *,
    engine_authority: bytes,
    content_length: int | None = None,
    identity: bool = False,
    via: bytes | None = None,
    instead: Fields = (),
) -> bytes:
    """The head that goes to the engine.

    `content_length`: the new length where bytes were spliced in. `identity`: ask for an uncompressed answer, since what
    was asked for has to be found in it, and cut out. `instead`: fields that take the place of the client's of the same name, at the
    end. `Expect` is dropped, since the sidecar has answered it. Host is the client's own, so that redirects and
    absolute URLs that the engine makes lead back to the address that the client used.
    """
    if identity:
        instead = (*instead, (b"Accept-Encoding", b"identity"))
    dropped = _NOT_FOR_THE_ENGINE.union(map(bytes.lower, dict(instead))) if instead else _NOT_FOR_THE_ENGINE
    lines = [b"%b %b HTTP/1.1" % (head.method, head.target)]
    has_host = head.version != "1.0"  # HTTP/1.1 without it is refused
    for name, value in head.fields:
        lower = name.lower()
        if lower in dropped:
            continue
        has_host = has_host or lower == b"host"
        if lower == b"content-length" and content_length is not None:
            lines.append(b"%b: %d" % (name, content_length))
        else:
            lines.append(b"%b: %b" % (name, value))
    if not has_host:
        lines.insert(1, b"Host: " + engine_authority)
    for name, value in instead:
        lines.append(b"%b: %b" % (name, value))
    if head.framing is Framing.CHUNKED:
        lines.append(b"Transfer-Encoding: chunked")
    if head.websocket:
        lines += (b"Connection: Upgrade", b"Upgrade: websocket")
    if via is not None:
        lines.append(b"Via: " + via)
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def response_bytes(
    head: ResponseHead,
    framing: Framing,
    *,
    close: bool,
    keep_alive: bool = False,
    upgrade: bool = False,
    caused: re.Pattern[bytes] | None = None,
) -> bytes:
    """The head that goes to the client: the engine's status, reason and end-to-end fields, framed for this hop.

    `caused`: lines that are left out, because the sidecar's own change of the request caused them.
    """
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason)]
    for name, value in head.fields:
        if name.lower() not in HOP_BY_HOP:
            lines.append(b"%b: %b" % (name, value))
    if caused is not None:
        lines[1:] = [line for line in lines[1:] if caused.fullmatch(line) is None]
    if framing is Framing.CHUNKED:
        lines.append(b"Transfer-Encoding: chunked")
    if upgrade:
        lines += (b"Connection: Upgrade", b"Upgrade: websocket")
    elif close:
        lines.append(b"Connection: close")
    elif keep_alive:
        lines.append(b"Connection: keep-alive")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def read_response_framing(method: bytes, status: int, found: Found) -> tuple[Framing, int] | None:
    """How the body of the answer to `method` ends (RFC 9112 6.3), or None where the engine's framing cannot be trusted.

    A response to HEAD, and any 204 or 304, has no body whatever its fields say; neither has a 1xx, but there a stated
    framing is forbidden, and the parser would read a body for it.
    """
    if status < 100:
        return None
    stated = found.get(b"transfer-encoding", ())
    codings = stated if stated == [b"chunked"] else members(stated)
    lengths = found.get(b"content-length")
    if status < 200:
        return None if codings or lengths else (Framing.NONE, 0)
    if method == b"HEAD" or status in (204, 304):
        return Framing.NONE, 0
    if codings:
        return (Framing.CHUNKED, 0) if codings == [b"chunked"] and not lengths else None
    if lengths:
        if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > MAX_CONTENT_LENGTH_DIGITS:
            return None
        return Framing.LENGTH, int(lengths[0])
    return Framing.UNTIL_CLOSE, 0
