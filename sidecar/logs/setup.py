"""Set-up of structlog: JSON lines, or lines for a terminal, on stderr; storms held back, texts cleaned, no caller ever waits.

Every module logs with `structlog.get_logger()`. `Logs.set_up` decides where events go, and `apply` changes level and format at a
reload, also for loggers that structlog has cached. Event names are constants. No line has a prompt, a key, a query, or a header
outside the allow-list; an exception is written as its type and its places, not as its message, which may quote any of these.

structlog gives loggers, level names, timestamps and the terminal's format. Its list of processors has one entry, because request
lines and the standard library's records reach the same `emit` without a structlog logger. Its exception renderers write the
message, and neither structlog nor the standard library limits the rate of an event.
"""

import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, BinaryIO, NoReturn, Self

import msgspec
import structlog
from structlog.processors import NAME_TO_LEVEL
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from sidecar.config.schema import LogConfig
from sidecar.ledger.account import Account
from sidecar.logs.rate_limit import EventRateLimit
from sidecar.logs.request_line import EVENT_REQUEST, SPOILED, fields_of_span, request_fields
from sidecar.logs.sanitise import clean
from sidecar.logs.writer import LineWriter


EVENT_SUPPRESSED = "log_suppressed"
EVENT_LIBRARY = "library_log"

_PROCESSORS: list[Processor] = []
"""structlog's processor list. Cached loggers keep a reference to it, so it is changed in place."""
_RATE_PER_SECOND, _BURST = 5.0, 20
"""Lines per event name: enough to see what is wrong, too few to bury other events."""
_REQUESTS_PER_SECOND, _REQUESTS_BURST = 1000.0, 2000
"""Request lines: the most that one process can serve. More are held back and counted like other events."""
_FRAMES = 12
"""Innermost frames of an exception that are written."""
_DEEPEST = 4
"""Nesting of mappings and lists in a value, below which only type names are written."""


class Logs:
    """Destination of all log lines. Without `close` at the end, queued lines are lost."""

    def __init__(
        self,
        config: LogConfig,
        file: BinaryIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        placement: Mapping[str, str] | None = None,
    ) -> None:
        self._placement = dict(placement or {})
        self._file = sys.stderr.buffer if file is None else file
        self._clock = clock
        self._writer = LineWriter(self._file)
        own = {EVENT_REQUEST: (_REQUESTS_PER_SECOND, _REQUESTS_BURST)}
        self._rate_limit = EventRateLimit(_RATE_PER_SECOND, _BURST, own)
        self._stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        self._console = structlog.dev.ConsoleRenderer(colors=True)
        self._from_libraries = _FromLibraries(self.emit)
        self.allowed_headers: frozenset[str] = frozenset()
        """Lower-case names for `sanitise.allowed_headers`."""
        self.apply(config)

    @classmethod
    def set_up(
        cls,
        config: LogConfig,
        file: BinaryIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        placement: Mapping[str, str] | None = None,
    ) -> Self:
        """Send the log lines of structlog and of the standard library here, from now on. `placement`: fields of every line."""
        logs = cls(config, file, clock, placement)
        _PROCESSORS[:] = [logs.process]
        structlog.configure(
            processors=_PROCESSORS,
            wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
            context_class=dict,
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=True,
        )
        logging.getLogger().addHandler(logs._from_libraries)
        return logs

    def apply(self, config: LogConfig) -> None:
        """Take a new level, format and allow-list, at once and for every logger."""
        self._level = NAME_TO_LEVEL[config.level]
        terminal = config.format == "auto" and self._file.isatty()
        self._render = self._to_console if terminal or config.format == "console" else msgspec.json.encode
        self.allowed_headers = frozenset(config.headers)

    @property
    def limited_lines(self) -> int:
        """Lines not written since the start: stderr was read too slowly, a value could not be written, or the limit held them."""
        return self._writer.dropped + self._rate_limit.held_back_ever

    def request(self, account: Account, fields_of: Callable[[Account], dict[str, object]] = request_fields) -> None:
        """Write the line of one ended request. Never raises, never waits.

        Its fields are numbers and words of this program, and notes that were cleaned when they were taken; only the names
        of lane and model come from outside. So it is no event whose every field is cleaned.
        """
        level = "warning" if account.outcome in SPOILED else "info"
        if NAME_TO_LEVEL[level] < self._level:
            return
        try:
            held_back = self._rate_limit.admit(EVENT_REQUEST, self._clock())
            if held_back is not None:
                line = self._begun(level, EVENT_REQUEST)
                line.update(fields_of(account))
                labels = account.labels
                line["lane"], line["model"] = _cleaned_label(labels.lane), _cleaned_label(labels.model)
                self._end(line, held_back)
        except Exception:  # noqa: BLE001  a line that cannot be written is lost and counted; its request goes on
            self._writer.dropped += 1

    def span_request(self, account: Account) -> None:
        """As `request`, of one that is known from its engine's span alone."""
        self.request(account, fields_of_span)

    def process(self, _logger: WrappedLogger, level: str, event: EventDict) -> NoReturn:
        """Take an event from structlog, as its only processor."""
        self.emit(level, event)
        raise structlog.DropEvent

    def emit(self, level: str, event: EventDict) -> None:
        """Write one event, its fields cleaned, unless its level or the rate limit holds it back. Never raises, never waits."""
        if NAME_TO_LEVEL.get(level, 0) < self._level:
            return
        try:
            name = clean(str(event.pop("event", "")), 64)
            held_back = self._rate_limit.admit(name, self._clock())
            if held_back is not None:
                self._write(level, name, event, held_back)
        except Exception:  # noqa: BLE001  a line that cannot be written is lost and counted; its request goes on
            self._writer.dropped += 1

    def _write(self, level: str, name: str, event: EventDict, held_back: int) -> None:
        line = self._begun(level, name)
        line.update(_exception(event))
        line.update((clean(str(key), 64), _cleaned(value)) for key, value in event.items() if key not in line)
        self._end(line, held_back)

    def _begun(self, level: str, name: str) -> dict[str, object]:
        line: dict[str, object] = {"level": level, "event": name, **self._placement}
        self._stamp(None, level, line)
        return line

    def _end(self, line: dict[str, object], held_back: int) -> None:
        if held_back:
            line["suppressed"] = held_back
        self._writer.write(self._render(line))

    def _to_console(self, line: dict[str, object]) -> bytes:
        return self._console(None, str(line["level"]), dict(line)).encode("utf-8", "replace")

    def flush(self, timeout_seconds: float = 2.0) -> bool:
        """Wait until all lines so far are written; False if the reader stalls."""
        return self._writer.flush(timeout_seconds)

    def close(self, timeout_seconds: float = 2.0) -> None:
        """Report what the rate limit held back, write what is queued, stop. Later lines are dropped."""
        for name, count in self._rate_limit.held_back().items():
            self._write("warning", EVENT_SUPPRESSED, {"suppressed_event": name, "count": count}, 0)
        self._writer.close(timeout_seconds)
        logging.getLogger().removeHandler(self._from_libraries)
        if self.process in _PROCESSORS:
            _PROCESSORS.clear()


class _FromLibraries(logging.Handler):
    """Records of the standard library's loggers (asyncio, aiohttp) as events."""

    def __init__(self, emit: Callable[[str, EventDict], None]) -> None:
        super().__init__(logging.WARNING)
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        # The template's first line and not the message: libraries put what clients sent into the arguments.
        event: MutableMapping[str, Any] = {"event": EVENT_LIBRARY, "logger": record.name}
        event["template"] = str(record.msg).partition("\n")[0]
        if record.exc_info:
            event["exc_info"] = record.exc_info
        self._emit(record.levelname.lower(), event)


_cleaned_label = lru_cache(maxsize=256)(clean)
"""The text of a label as it stands on a line; few labels are on most lines."""


def _cleaned(value: object, depth: int = 0) -> object:
    """The value with every text cleaned. Objects of other types become their type's name, as their repr may quote anything."""
    if isinstance(value, str | bytes):
        return clean(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else "<int>"  # the range of JSON readers
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {clean(str(key), 64): _cleaned(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_cleaned(item, depth + 1) for item in value]
    return f"<{type(value).__name__}>"


def _exception(event: EventDict) -> dict[str, object]:
    """`exc_info`, in each form that structlog and logging allow, as the error's type and its innermost frames."""
    info: bool | BaseException | ExcInfo | None = event.pop("exc_info", None)
    event.pop("stack_info", None)
    error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is None and info:
        error = sys.exc_info()[1]
    if error is None:
        return {}
    # Not extract_tb, which reads source files, and this is the event loop.
    frames = [
        f"{frame.f_code.co_filename.rpartition('/site-packages/')[2]}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return {"error_type": type(error).__name__, "error_frames": [clean(frame) for frame in frames[-_FRAMES:]]}
