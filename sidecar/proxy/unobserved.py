"""The observer that observes nothing: base of those that use few hooks, and what is left of one that has failed.

Like every class that others may inherit from, it is not compiled (`hatch_build.py`).
"""

from collections.abc import Iterator

from sidecar.proxy.headers import ResponseHead
from sidecar.proxy.observer import UNCHANGED, Cutter, End, Instead, Mark, Wakes


class Unobserved:
    """Observes nothing."""

    wants_body = False
    done = False
    awaits_output = False

    def look(self, body: bytes | bytearray) -> Iterator[Wakes | None]:  # noqa: ARG002  the hook's shape
        return iter(())

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:  # noqa: ARG002  the hook's shape
        return UNCHANGED

    def request_data(self, data: bytes | bytearray) -> None: ...
    def mark(self, mark: Mark, at: float) -> None: ...

    def head(self, at: float, head: ResponseHead) -> Cutter | None:  # noqa: ARG002  the hook's shape
        return None

    def data(self, at: float, data: bytes) -> None: ...
    def blinded(self) -> None: ...
    def close(self, at: float, end: End) -> None: ...
