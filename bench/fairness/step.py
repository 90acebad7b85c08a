"""The words of a hostile writer: a generator whose steps are bytes to send, seconds to wait, or RESET.

A library of writers is a dict of such generators by name. It knows no socket.
"""

from collections.abc import Callable, Iterator
from enum import Enum


class Ending(Enum):
    """The connection ends here, and the writer begins anew on another one."""

    RESET = "reset"


RESET = Ending.RESET
Step = bytes | float | Ending
Writer = Callable[[], Iterator[Step]]


def library(*writers: Writer) -> dict[str, Writer]:
    """The writers by name; underscores of their functions become spaces."""
    return {getattr(writer, "__name__", "").replace("_", " ").strip(): writer for writer in writers}
