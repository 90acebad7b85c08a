"""Answers to requests of spans: ExportTraceServiceResponse, google.rpc.Status (OTLP 1.x), as they are written and read. Pure."""

from sidecar.otlp.limits import MalformedError, RefusedError, Tally
from sidecar.otlp.wire_format import LEN, VARINT, Fields, message, varint


ANSWER_FIELDS = 64
"""Most fields of a collector's answer: it has three, and a reader of thousands would hold the loop."""


def response(tally: Tally) -> bytes:
    """An empty message if no span was rejected; else the number of rejected spans, and the reason for the first."""
    if not tally.rejected:
        return b""
    return message(1, varint(1 << 3) + varint(tally.rejected) + message(2, tally.why.encode()))


def status(error: RefusedError) -> bytes:
    """The body of a refusal: the error's code and text."""
    return varint(1 << 3) + varint(error.code) + message(2, str(error).encode())


def rejected_spans(body: bytes, sent: int) -> tuple[int, str]:
    """The spans that a collector rejected of those `sent`, and its reason, by its protobuf answer.

    An answer that cannot be read, or has more than ANSWER_FIELDS fields, rejects none: its status has said that all were taken.
    """
    fields, rejected, why = Fields(body), 0, ""
    fields.left = ANSWER_FIELDS
    try:
        for tag, _, start, end in fields.between(0, len(body)):
            for inner, _, a, b in fields.between(start, end) if tag == 1 << 3 | LEN else ():
                if inner == 1 << 3 | VARINT:
                    rejected = a
                elif inner == 2 << 3 | LEN:
                    why = body[a:b].decode("utf-8", "replace")
                if fields.left < 0:
                    return 0, ""
            if fields.left < 0:
                return 0, ""
    except MalformedError:
        return 0, ""
    # A number below 0 comes as one of 64 bits (int64).
    return (0 if rejected >= 1 << 63 else min(rejected, sent)), why
