"""Paths on which several APIs are served: the dialect of each event, and of each whole answer, is known by the keys that it has.

A key is searched for as it is written, with no blank before its colon, and nothing is decoded. The same key inside a string of text is
escaped, and is not found. Refuses to know paths.
"""

from collections.abc import Callable
from typing import NamedTuple

from sidecar.timeline.events import Dialect, StreamEvent


class Told(NamedTuple):
    """One of the dialects, and the keys by which it is told."""

    keys: tuple[str, ...]
    """All of them are there."""
    dialect: Dialect


class Spoken:
    """One of several dialects: the first that is told by its keys, else the last."""

    def __init__(self, name: str, told: tuple[Told, ...], otherwise: Dialect) -> None:
        self.name = name
        self.end_marks = otherwise.end_marks
        self.has_usage_option = self.in_lines = self.model_in_path = False
        self.token: Callable[..., object] | None = None
        self.streams_unsaid = otherwise.streams_unsaid and all(each.dialect.streams_unsaid for each in told)
        self._told = [(tuple(b'"%s":' % key.encode() for key in each.keys), each.dialect) for each in told]
        self._otherwise = otherwise

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        return self._spoken(data).read_event(event, data)

    def read_body(self, body: bytes) -> StreamEvent:
        return self._spoken(body).read_body(body)

    def _spoken(self, data: bytes) -> Dialect:
        for keys, dialect in self._told:
            for key in keys:
                if key not in data:
                    break
            else:
                return dialect
        return self._otherwise
