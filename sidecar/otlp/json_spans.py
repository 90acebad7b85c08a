"""Reads requests of OTLP/JSON (OTLP 1.x, "JSON Protobuf Encoding"): hex ids, 64-bit integers as text, lowerCamelCase.

No engine sends it by default; people with curl and JavaScript do. A JSON library would decode 16 MiB in one call, which
stops the event loop for a tenth of a second. So this module walks brackets and strings up to each span, yields `None`
on the way, and gives the library one span of bounded size at a time. Members that are skipped are checked for balanced
brackets only. Pure. The spans equal those of `protobuf.py`, but without the bytes to send on.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import msgspec

from sidecar.classify.json_text import JsonText, TooLongError, UnreadableError
from sidecar.engines.span import Span
from sidecar.otlp.limits import (
    MAX_ATTRIBUTES,
    MAX_JSON_SPAN_BYTES,
    MAX_JSON_SPAN_TOKENS,
    MAX_JSON_TOKENS,
    MAX_KEY_BYTES,
    MAX_SPAN_NAME_BYTES,
    MAX_SPANS,
    MAX_VALUE_BYTES,
    PAUSE_FIELDS,
    MalformedError,
    Tally,
    TooLargeError,
)
from sidecar.otlp.received import ReceivedSpan
from sidecar.otlp.wire_format import Body


T = TypeVar("T")
Plain = str | int | float | bool
_HEX = re.compile(r"[0-9a-fA-F]*\Z")
_INTEGER = re.compile(r"-?[0-9]{1,20}\Z")


class _Value(msgspec.Struct, rename="camel", gc=False):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None


class _Attribute(msgspec.Struct, gc=False):
    key: str = ""
    value: _Value | None = None


class _Named(msgspec.Struct):
    name: str | None = ""


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] | None = None


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str | None = ""
    span_id: str | None = ""
    parent_span_id: str | None = ""
    trace_state: str | None = ""
    name: str | None = ""
    start_time_unix_nano: int | str | None = 0
    end_time_unix_nano: int | str | None = 0
    attributes: list[_Attribute] | None = None


_SPAN = msgspec.json.Decoder(_Span)
_RESOURCE = msgspec.json.Decoder(_Resource)
_SCOPE = msgspec.json.Decoder(_Named)
_NO_SPANS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def spans(body: Body, tally: Tally) -> Iterator[ReceivedSpan | None]:
    """Every well-formed span in order, and None where the caller may pause. Raises MalformedError and TooLargeError."""
    try:
        yield from _Walk(body, tally).request()
    except TooLongError as error:
        raise TooLargeError(str(error)) from error
    except UnreadableError as error:
        raise MalformedError(str(error)) from error


class _Walk:
    def __init__(self, body: Body, tally: Tally) -> None:
        self._text = JsonText(body, pause_tokens=PAUSE_FIELDS, max_tokens=MAX_JSON_TOKENS)
        self._tally = tally
        self._spans = 0

    def request(self) -> Iterator[ReceivedSpan | None]:
        for key in self._text.members():
            if key is None:
                yield None
            elif key == b"resourceSpans":
                yield from self._each(lambda: self._around(b"resource", self._service, b"scopeSpans", self._scopes))
            else:
                yield from self._skip()
        self._text.end()

    def _scopes(self, service: str) -> Iterator[ReceivedSpan | None]:
        spans_of = partial(self._spans_of, service)
        return self._each(lambda: self._around(b"scope", self._scope, b"spans", spans_of))

    def _each(self, read: Callable[[], Iterator[ReceivedSpan | None]]) -> Iterator[ReceivedSpan | None]:
        for element in self._text.elements():
            if element is None:
                yield None
            else:
                yield from read()

    def _around(
        self,
        outer: bytes,
        name_of: Callable[[int, int], str],
        inner: bytes,
        read: Callable[[str], Iterator[ReceivedSpan | None]],
    ) -> Iterator[ReceivedSpan | None]:
        """Read an object of `outer` (resource or scope) and `inner`; what stands before its `outer` is read after it."""
        name: str | None = None
        before: list[int] = []
        for key in self._text.members():
            if key is None:
                yield None
            elif key == inner and name is not None:
                yield from read(name)
            else:
                start = self._text.at
                yield from self._skip()
                if key == outer:
                    name = name_of(start, self._text.at)
                elif key == inner:
                    before.append(start)
        end = self._text.at
        for self._text.at in before:
            yield from read(name or "")
        self._text.at = end

    def _spans_of(self, service: str, scope: str) -> Iterator[ReceivedSpan | None]:
        for element in self._text.elements():
            if element is None:
                yield None
                continue
            start, tokens = self._text.at, self._text.tokens
            yield from self._skip()
            self._spans += 1
            if self._spans > MAX_SPANS:
                self._tally.reject(f"more than {MAX_SPANS} spans in one request")
                continue
            if self._text.tokens - tokens > MAX_JSON_SPAN_TOKENS:
                self._tally.reject(f"a span of more than {MAX_JSON_SPAN_TOKENS} strings and brackets of JSON")
                continue
            found = self._span(start, self._text.at, service, scope)
            if isinstance(found, Span):
                yield ReceivedSpan(found)
            else:
                self._tally.reject(found)

    def _skip(self) -> Iterator[None]:
        while not self._text.skip():
            yield None

    # --- one span, resource and scope --------------------------------------------------------------------------------

    def _span(self, start: int, end: int, service: str, scope: str) -> Span | str:
        """The span, or why it is rejected."""
        if end - start > MAX_JSON_SPAN_BYTES:
            return f"a span of more than {MAX_JSON_SPAN_BYTES} bytes of JSON"
        said = self._decoded(_SPAN, start, end)
        if said is None:
            return "a span that is not OTLP/JSON"
        ids = _id(said.trace_id, 32), _id(said.span_id, 16), _id(said.parent_span_id, 16)
        if None in ids:
            return "a span with an id of the wrong length or alphabet"
        trace_id, span_id, parent = (found or "" for found in ids)
        if not trace_id or not span_id:
            return "a span without a trace id or span id"
        name = said.name or ""
        if len(name.encode()) > MAX_SPAN_NAME_BYTES:
            return f"a span whose name is longer than {MAX_SPAN_NAME_BYTES} bytes"
        began, ended = _nanoseconds(said.start_time_unix_nano), _nanoseconds(said.end_time_unix_nano)
        if began is None or ended is None:
            return "a span with an invalid instant"
        if len(said.attributes or ()) > MAX_ATTRIBUTES:
            return f"a span with more than {MAX_ATTRIBUTES} attributes"
        state = said.trace_state or ""
        state = state if len(state.encode()) <= MAX_VALUE_BYTES else ""
        return Span(trace_id, span_id, parent, name, began, ended, _plain(said.attributes), scope, service, state)

    def _service(self, start: int, end: int) -> str:
        said = self._decoded(_RESOURCE, start, end)
        return "" if said is None else str(_plain(said.attributes).get("service.name", ""))

    def _scope(self, start: int, end: int) -> str:
        said = self._decoded(_SCOPE, start, end)
        name = "" if said is None else said.name or ""
        return name if len(name.encode()) <= MAX_SPAN_NAME_BYTES else ""

    def _decoded(self, decoder: "msgspec.json.Decoder[T]", start: int, end: int) -> T | None:
        try:
            return None if end - start > MAX_JSON_SPAN_BYTES else decoder.decode(self._text.body[start:end])
        except _NO_SPANS:
            return None


def _id(text: str | None, digits: int) -> str | None:
    """The id in lower case; "" if it is empty or all zero, None if its length or alphabet is wrong."""
    if not text:
        return ""
    if len(text) != digits or _HEX.match(text) is None:
        return None
    return text.lower() if text.strip("0") else ""


def _nanoseconds(value: int | str | None) -> int | None:
    return _integer(0 if value is None else value, 0, 1 << 64)


def _integer(value: int | str, low: int, end: int) -> int | None:
    """The integer, also as text; None unless it is from `low` to below `end`."""
    if isinstance(value, str):
        if _INTEGER.match(value) is None:
            return None
        value = int(value)
    return value if low <= value < end else None


def _plain(attributes: list[_Attribute] | None) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for attribute in attributes or ():
        value = None if attribute.value is None else _plain_value(attribute.value)
        if value is not None and 0 < len(attribute.key.encode()) <= MAX_KEY_BYTES:
            found[attribute.key] = value
    return found


def _plain_value(value: _Value) -> Plain | None:
    if value.string_value is not None:
        return value.string_value if len(value.string_value.encode()) <= MAX_VALUE_BYTES else None
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _integer(value.int_value, -(1 << 63), 1 << 63)
    try:
        return None if value.double_value is None else float(value.double_value)  # also "NaN", "Infinity", "-Infinity"
    except ValueError:
        return None
