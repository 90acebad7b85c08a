"""The API of an engine that does not exist; `tests/engines/test_kinds.py` puts it into timeline/dialects/."""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import decode
from sidecar.timeline.events import OUTPUT, Dialect, Reading


class _Event(msgspec.Struct, frozen=True):
    word: str = ""
    toy_times: Any = None


_EVENT = msgspec.json.Decoder(_Event)


class ToyGenerate(Dialect):
    """Each event has a word; the last one has times instead."""

    name = "toy_generate"
    streams_unsaid = True

    def read_event(self, event: bytes, data: bytes) -> Reading:  # noqa: ARG002  the interface
        """One event. Raises UnreadableEvent."""
        return self.read_body(data)

    def read_body(self, body: bytes) -> Reading:
        """A whole answer. Raises UnreadableEvent."""
        said = decode(_EVENT, body)
        return OUTPUT if said.word else Reading(finished=(0,), extras={"toy_times": said.toy_times}, done=True)
