"""Hostile exporters of spans: each is a generator of what one connection sends to /v1/traces of the admin listener.

The bodies are those that `bench/bounds/span_stalls.py` takes one at a time; nginx has no such place.
"""

from collections.abc import Iterator
from itertools import repeat

from bench.bounds.span_stalls import hostile_exports
from bench.fairness.step import Step, library


def _export(body: bytes, kind: bytes) -> bytes:
    head = b"POST /v1/traces HTTP/1.1\r\nHost: bench\r\nContent-Type: application/%b\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


def _largest(*, json: bool) -> bytes:
    bodies = [body for body, encoding in hostile_exports().values() if encoding == ({"json": True} if json else {})]
    return max(bodies, key=len)


def spans_in_protobuf() -> Iterator[Step]:
    """The largest export of fields that mean nothing, again and again."""
    yield from repeat(_export(_largest(json=False), b"x-protobuf"))


def spans_in_json() -> Iterator[Step]:
    """The largest export in JSON, again and again."""
    yield from repeat(_export(_largest(json=True), b"json"))


SPANS = library(spans_in_protobuf, spans_in_json)
"""By name: what one hostile connection sends to the admin listener."""
