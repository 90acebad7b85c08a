"""Answers to requests of spans, in both encodings: ExportTraceServiceResponse, google.rpc.Status (OTLP 1.x). Pure."""

import msgspec

from sidecar.otlp.limits import RefusedError, Tally


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, content: bytes) -> bytes:
    """A length-delimited field with this number."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def response(tally: Tally, *, json: bool = False) -> bytes:
    """An empty message if no span was rejected; else the number of rejected spans, and the reason for the first."""
    if json:
        partial = {"rejectedSpans": str(tally.rejected), "errorMessage": tally.why}
        return msgspec.json.encode({"partialSuccess": partial} if tally.rejected else {})
    if not tally.rejected:
        return b""
    return message(1, _varint(1 << 3) + _varint(tally.rejected) + message(2, tally.why.encode()))


def status(error: RefusedError, *, json: bool = False) -> bytes:
    """The body of a refusal: the error's code and text."""
    if json:
        return msgspec.json.encode({"code": error.code, "message": str(error)})
    return _varint(1 << 3) + _varint(error.code) + message(2, str(error).encode())
