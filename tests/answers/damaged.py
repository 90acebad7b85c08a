"""Damaged answers: ten engines' dialects, each cut, failing, replaced by a page, and full of junk. Data; asserts nothing.

A `Damage` makes one damaged answer of a good one. All are streams with status 200, as servers and the hops between them really send them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidecar.timeline.outcome import Outcome
from tests.answers.spoken import OLLAMA, SPOKEN, Api, event, line


ERROR, TRUNCATED = Outcome.ENGINE_ERROR, Outcome.ENGINE_TRUNCATED
HTML = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<h1>502 Bad Gateway</h1>\n\n</body></html>"
TEXT = b"Internal Server Error"
LONG = b"x" * 70_000
"""As long as what is kept only as its outline."""
BINARY = bytes(range(256)) * 2
FAILED = {"message": "CUDA out of memory", "type": "server_error", "code": 500}


@dataclass(frozen=True)
class Damage:
    """One kind of damage. `body`: the events behind the good beginning, or all of the body where `whole`."""

    body: Callable[[Api], bytes]
    outcome: Outcome = ERROR
    at_once: bool = True
    """On an engine of which nothing is known too."""
    whole: bool = False
    media_type: str | None = None
    """None: the API's own; empty: none is stated."""
    cut: bool = False
    """The connection breaks in front of the framing's end."""
    in_lines: bool | None = None
    """Only APIs whose stream is lines of JSON have it (True), or events (False); None: both."""

    def of(self, api: Api) -> bytes:
        """The body of the answer."""
        begun = b"" if self.whole else b"".join((*api.begin, api.token, api.token))
        return begun + self.body(api)


def said(api: Api, data: object) -> bytes:
    return line(data) if api is OLLAMA else event(data)


def _raw(api: Api, data: bytes) -> bytes:
    return data + b"\n" if api is OLLAMA else b"data: " + data + b"\n\n"


def _token_with(number: bytes) -> Callable[[Api], bytes]:
    """A token beside which stands a number that JSON does not have, as Python writes the logarithm of 0."""
    return lambda api: api.token.replace(b"{", b'{"logprob": ' + number + b", ", 1)


def _half(api: Api) -> bytes:
    return api.token[: api.token.rindex(b"{") + 6]


DAMAGES = {
    "cut: the connection breaks": Damage(lambda _api: b"", TRUNCATED, cut=True),
    "cut: in the middle of an event": Damage(_half, TRUNCATED, cut=True),
    "cut: the framing ends well": Damage(lambda _api: b"", TRUNCATED, at_once=False),
    "cut: nothing comes": Damage(lambda _api: b"", TRUNCATED, at_once=False, whole=True),
    "cut: nothing comes, under no type": Damage(lambda _api: b"", TRUNCATED, at_once=False, whole=True, media_type=""),
    "cut: behind NaN": Damage(_token_with(b"NaN"), TRUNCATED, at_once=False),
    "cut: behind -Infinity": Damage(_token_with(b"-Infinity"), TRUNCATED, at_once=False),
    "cut: behind a list": Damage(lambda api: _raw(api, b"[1, 2]"), TRUNCATED, at_once=False),
    "cut: behind an event that is too long": Damage(
        lambda api: _raw(api, b'{"a":[' + b'{"b":"' + b"x" * 5000 + b'"},' + b"]}" * 2), TRUNCATED, at_once=False, in_lines=False
    ),
    "error: an object": Damage(lambda api: said(api, {"error": FAILED})),
    "error: a text": Damage(lambda api: said(api, {"error": "Request failed during generation", "error_type": "generation"})),
    "error: named as one": Damage(lambda api: said(api, {"object": "error", **FAILED, "param": None})),
    "error: typed as one": Damage(lambda api: said(api, {"type": "error", "error": {"type": "overloaded_error"}})),
    "error: a detail": Damage(lambda api: said(api, {"detail": "Internal Server Error"})),
    "error: details": Damage(lambda api: said(api, {"detail": [{"loc": ["body"], "msg": "gone"}]})),
    "error: several": Damage(lambda api: said(api, {"errors": [{"message": "gone"}]})),
    "error: a status and a message": Damage(lambda api: said(api, {"status": 500, "message": "gone", "path": "/v1"})),
    "error: a code and a message": Damage(lambda api: said(api, {"code": 503, "message": "no healthy upstream"})),
    "error: alone": Damage(lambda api: said(api, {"error": FAILED}), whole=True),
    "error: alone, under JSON's type": Damage(
        lambda _api: json.dumps({"error": FAILED}).encode(), whole=True, media_type="application/json"
    ),
    "error: an event's name": Damage(lambda _api: b'event: error\ndata: {"x": 1}\n\n', in_lines=False),
    "error: an event's name and a comment": Damage(lambda _api: b"event: error\n: Exception: boom\n\n", in_lines=False),
    "error: an event's name alone, unended": Damage(lambda _api: b"event: error", in_lines=False),
    "error: a field": Damage(lambda _api: b'error: {"code":500,"message":"x"}\n\n', in_lines=False),
    "error: a field, then the end mark": Damage(lambda _api: b"error: boom\n\ndata: [DONE]\n\n", in_lines=False),
    "error: a field in capitals": Damage(lambda _api: b"Error: boom\n\ndata: [DONE]\n\n", in_lines=False),
    "error: an event's name in capitals": Damage(lambda _api: b"event: ERROR\ndata: {}\n\ndata: [DONE]\n\n", in_lines=False),
    "page: HTML": Damage(lambda _api: HTML, whole=True, media_type="text/html"),
    "page: HTML under the API's type": Damage(lambda _api: HTML, whole=True),
    "page: HTML under JSON's type": Damage(lambda _api: HTML, whole=True, media_type="application/json"),
    "page: HTML under no type": Damage(lambda _api: b"\n " + HTML, whole=True, media_type=""),
    "page: text": Damage(lambda _api: TEXT, whole=True, media_type="text/plain; charset=utf-8"),
    "page: text under the API's type": Damage(lambda _api: TEXT, whole=True),
    "page: HTML behind tokens": Damage(lambda _api: HTML),
    "page: text behind tokens": Damage(lambda _api: TEXT + b"\n"),
    "junk: text as data": Damage(lambda api: _raw(api, TEXT)),
    "junk: HTML as data": Damage(lambda api: _raw(api, b"<html>bad gateway</html>")),
    "junk: a number and text as data": Damage(lambda api: _raw(api, b"500 " + TEXT)),
    "junk: a text in quotes as data": Damage(lambda api: _raw(api, json.dumps(TEXT.decode()).encode())),
    "junk: half an event": Damage(lambda api: _raw(api, b'{"id":"x","choices":[{"ind')),
    "junk: half an event, unended": Damage(_half),
    "junk: a field's name alone, unended": Damage(lambda _api: b"data:", in_lines=False),
    "junk: text as data, then the end mark": Damage(lambda api: _raw(api, TEXT) + b"data: [DONE]\n\n", in_lines=False),
    "page: HTML that is long": Damage(lambda _api: HTML + LONG, whole=True),
    "page: HTML that is long, under JSON's type": Damage(lambda _api: HTML + LONG, whole=True, media_type="application/json"),
    "page: HTML that is long, behind tokens": Damage(lambda _api: HTML + LONG),
    "junk: a long text as data": Damage(lambda api: _raw(api, TEXT + LONG)),
    "junk: half a long event": Damage(lambda api: _raw(api, b'{"id":"' + LONG)),
    "junk: half a long event, unended": Damage(lambda api: api.token[: api.token.rindex(b"{") + 1] + b'"id":"' + LONG),
    "junk: half a long answer under JSON's type": Damage(
        lambda _api: b'{"id":"' + LONG, whole=True, media_type="application/json"
    ),
    "junk: bytes": Damage(lambda _api: BINARY, whole=True, media_type="application/octet-stream"),
    "junk: bytes behind tokens": Damage(lambda _api: BINARY.replace(b":", b"") + b"\n\n", in_lines=False),
}  # fmt: skip

SPELLINGS: tuple[object, ...] = (
    {"Error": {"Message": "gone"}},
    {"ERROR": "gone"},
    {"error": 500},
    {"error_code": 50001, "error_msg": "gone"},
    {"errorMessage": "gone", "errorType": "RuntimeError"},
    {"exception": "RuntimeError: gone"},
    {"fault": {"faultstring": "gone", "detail": {"errorcode": "y"}}},
    {"type": "about:blank", "title": "Internal Server Error", "status": 500, "detail": "gone"},
    {"title": "Internal Server Error", "status": 500},
    {"statusCode": 503},
    {"status": "failed", "reason": "gone"},
    {"success": False, "result": None},
    {"message": "An unexpected error occurred", "request_id": "r"},
    {"Message": "gone"},
    {"code": "internal_error", "message": "gone"},
    [{"error": {"code": 500, "status": "INTERNAL"}}],
    {"code": 13, "message": "gone", "details": []},
    {"code": -1, "msg": "gone", "data": None},
    {"__type": "InternalFailure", "message": "gone"},
    {"type": "server_error", "message": "gone"},
    {"status": "FAILED"},
    {"status": False, "message": "gone"},
    {"status": "500", "request_id": "r"},
    {"event": "error", "data": "gone"},
    {"err": "gone"},
    {"ok": False},
    {"data": {"error": {"message": "gone"}}},
)
"""As engines, frameworks, gateways and clouds write their errors."""
_EMPTY: tuple[object, ...] = (None, "", {}, [], False, 0)
NO_ERRORS: tuple[object, ...] = (
    *({name: empty} for name in ("error", "errors", "detail", "exception") for empty in _EMPTY),
    {"status": 200, "message": "", "code": 0},
    {"success": True},
    {"error": {"message": "", "type": "", "code": None}},
    {"status": "processing", "message": "wait"},
    {"code": 0, "msg": "success"},
    {"code": "200", "message": "OK", "data": None},
    {"message": "warming up", "progress": 0.5},
)


def damaged() -> Iterator[tuple[str, str, Damage]]:
    """The name of each API and of each damage that it can have, and the damage."""
    for name, api in SPOKEN.items():
        for kind, damage in DAMAGES.items():
            fits = damage.in_lines is None or damage.in_lines is (api is OLLAMA)
            if fits and (api.has_marks or damage.at_once):
                yield name, kind, damage
