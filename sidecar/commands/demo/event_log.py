"""The demo's events as lines of JSON in a file, for programs that judge a run: faults, heals, notifications.

Each line has `event`, `seconds` since the demo began, and the event's own fields. It knows the file. It refuses to know what an
event means; `bench/first_page.py` reads them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from sidecar.commands.demo.processes import DemoError


class EventLog:
    """Lines in the file at `path`, which is made anew; None: nowhere. `clock`: monotonic seconds. Raises DemoError."""

    def __init__(self, path: str | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_at = clock()
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115  closed by __exit__
            except OSError as error:
                raise DemoError(f"--events: {path}: {error.strerror}") from None

    def tell(self, event: str, **fields: object) -> None:
        """Write one event down, at once."""
        if self._file is not None:
            seconds = round(self._clock() - self._began_at, 3)
            self._file.write(json.dumps({"event": event, "seconds": seconds, **fields}) + "\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
