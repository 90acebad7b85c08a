"""Logs: structlog's set-up, JSON lines or a terminal's, on stderr; storms held back, every text cleaned, nothing waited for.

Everyone logs with `structlog.get_logger()`; `Logs.set_up` decides where that goes, and may decide anew at every reload, also for
loggers that were cached before. Event names are constants. Refuses to write a prompt, a key, a query or a header that is not on
the allow-list; of an exception it writes the type and the places, not the message, which may quote any of these.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, BinaryIO, Self

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, WrappedLogger

from sidecar.config.schema import LogConfig
from sidecar.ledger.account import Account
from sidecar.logs.rate_limit import StormGate
from sidecar.logs.request_line import EVENT_REQUEST, SPOILED, request_fields
from sidecar.logs.sanitise import clean
from sidecar.logs.writer import LineWriter


EVENT_SUPPRESSED = "log_suppressed"
EVENT_LIBRARY = "library_log"

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_RATE_PER_SECOND, _BURST = 5.0, 20
"""Per event name: enough to see what is wrong, too little to bury the rest."""
_REQUESTS_PER_SECOND, _REQUESTS_BURST = 1000.0, 2000
"""Request lines are what one process can serve at most; above that they are held back and counted like any other."""
_FREE_FIELDS = frozenset({"lane", "model", "notes"})
"""Of a request's line: what the config, the engine or a client worded. The rest are numbers and closed vocabularies."""
_FRAMES = 12
_DEEPEST = 4


class Logs:
    """Where log lines go from now on. `close` it at the end, or lines may be lost."""

    def __init__(
        self, config: LogConfig, file: BinaryIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = sys.stderr.buffer if file is None else file
        self._clock = clock
        self._writer = LineWriter(self._file)
        self._gate = StormGate(_RATE_PER_SECOND, _BURST, {EVENT_REQUEST: (_REQUESTS_PER_SECOND, _REQUESTS_BURST)})
        self._stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        self._console = structlog.dev.ConsoleRenderer(colors=True)
        self.allowed_headers: frozenset[str] = frozenset()
        """Lower-case names for `log_text.allowed_headers`."""
        self.apply(config)

    @classmethod
    def set_up(
        cls, config: LogConfig, file: BinaryIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> Self:
        """Send structlog's and the standard library's log lines here, from now on."""
        logs = cls(config, file, clock)
        _PIPELINE.logs = logs
        structlog.configure(
            processors=[_PIPELINE],
            wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
            context_class=dict,
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=True,
        )
        logging.getLogger().addHandler(_FROM_LIBRARIES)
        return logs

    def apply(self, config: LogConfig) -> None:
        """Take a new level, format and allow-list, at once and for every logger."""
        self._level = _LEVELS[config.level]
        terminal = config.format == "auto" and self._file.isatty()
        self._render = self._to_console if terminal or config.format == "console" else _to_json
        self.allowed_headers = frozenset(config.headers)

    @property
    def dropped_lines(self) -> int:
        """Lines lost because nobody read stderr fast enough, or because they could not be written down."""
        return self._writer.dropped

    @property
    def limited_lines(self) -> int:
        """All lines that were not written since the beginning: the lost ones and those that a storm's limit held back."""
        return self._writer.dropped + self._gate.held_back_ever

    def request(self, account: Account) -> None:
        """Write the canonical line of one ended request."""
        level = "warning" if account.outcome in SPOILED else "info"
        if _LEVELS[level] >= self._level:
            self.emit(level, {"event": EVENT_REQUEST, **request_fields(account)}, free=_FREE_FIELDS)

    def emit(self, level: str, event: EventDict, free: frozenset[str] | None = None) -> None:
        """Write one event, if its level and its storm gate let it pass. Never raises, never waits.

        `free` names the fields that may hold a text from outside; None (all of them) unless the caller knows every other
        field to be a number or a word of this program.
        """
        if _LEVELS.get(level, 0) < self._level:
            return
        try:
            name = clean(str(event.pop("event", "")), 64)
            held_back = self._gate.admit(name, self._clock())
            if held_back is not None:
                self._write(level, name, event, held_back, free)
        except Exception:  # noqa: BLE001  a line that cannot be written is lost and counted; its request goes on
            self._writer.dropped += 1

    def _write(
        self, level: str, name: str, event: EventDict, held_back: int, free: frozenset[str] | None = None
    ) -> None:
        line: dict[str, object] = {"level": level, "event": name}
        self._stamp(None, level, line)
        if free is None:
            line.update(_exception(event))
            line.update((clean(str(key), 64), _cleaned(value)) for key, value in event.items() if key not in line)
        else:
            line.update(event)
            line.update((key, _cleaned(event[key])) for key in free if key in event)
        if held_back:
            line["suppressed"] = held_back
        self._writer.write(self._render(line))

    def _to_console(self, line: dict[str, object]) -> bytes:
        return self._console(None, str(line["level"]), dict(line)).encode("utf-8", "replace")

    def flush(self, timeout_seconds: float = 2.0) -> bool:
        """Wait until all lines so far are written; False if the reader stalls."""
        return self._writer.flush(timeout_seconds)

    def close(self, timeout_seconds: float = 2.0) -> None:
        """Tell what was held back, write what is queued, stop. Lines after this are dropped, whoever writes them."""
        for name, count in self._gate.held_back().items():
            self._write("warning", EVENT_SUPPRESSED, {"suppressed_event": name, "count": count}, 0)
        self._writer.close(timeout_seconds)
        if _PIPELINE.logs is self:
            _PIPELINE.logs = None
            logging.getLogger().removeHandler(_FROM_LIBRARIES)


class _Pipeline:
    """The one processor that structlog knows: it hands events to whatever Logs is current, so that cached loggers follow."""

    logs: Logs | None = None

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> Mapping[str, Any]:
        if self.logs is not None:
            level = {"exception": "error", "warn": "warning", "fatal": "critical"}.get(method, method)
            self.logs.emit(level, event)
        raise structlog.DropEvent


_PIPELINE = _Pipeline()


class _FromLibraries(logging.Handler):
    """The standard library's records (asyncio, aiohttp) as events, their first line only: the rest may quote anything."""

    def emit(self, record: logging.LogRecord) -> None:
        if _PIPELINE.logs is None:
            return
        # The template and not the message: arguments are where libraries put what clients sent.
        said: MutableMapping[str, Any] = {"event": EVENT_LIBRARY, "logger": record.name}
        said["template"] = str(record.msg).partition("\n")[0]
        if record.exc_info:
            said["exc_info"] = record.exc_info
        _PIPELINE.logs.emit(record.levelname.lower(), said)


_FROM_LIBRARIES = _FromLibraries(logging.WARNING)


def _to_json(line: dict[str, object]) -> bytes:
    return msgspec.json.encode(line)


def _cleaned(value: object, depth: int = 0) -> object:
    """A value of which every text is clean; what is no plain value is named by its type, as its repr may quote anything."""
    if isinstance(value, str | bytes):
        return clean(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else "<int>"  # what JSON readers take
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {clean(str(key), 64): _cleaned(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_cleaned(item, depth + 1) for item in value]
    return f"<{type(value).__name__}>"


def _exception(event: EventDict) -> dict[str, object]:
    """`exc_info`, in any of the forms that structlog and logging allow, as the error's type and the places it came through."""
    info: bool | BaseException | ExcInfo | None = event.pop("exc_info", None)
    event.pop("stack_info", None)
    error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is None and info:
        error = sys.exc_info()[1]
    if error is None:
        return {}
    frames: list[str] = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('/site-packages/')[2]}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return {"error_type": type(error).__name__, "error_frames": [clean(frame) for frame in frames[-_FRAMES:]]}
