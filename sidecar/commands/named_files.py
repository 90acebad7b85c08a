"""The files and directories that a config names: each is there, may be used by this user, and holds what it should.

Only `sidecar check` asks: `serve` starts without them and tells it, because a file may come later, and traffic waits for none. It
opens each file once, and writes nothing.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath

from sidecar.config.file import line_of
from sidecar.config.schema import Config, flag_of
from sidecar.config.section import Path, dotted
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.api_key import EngineApiKey
from sidecar.engines.reports.report_sources import ExportedFiles
from sidecar.pod.usual.baseline import MOST_BYTES, RefusedError, parsed


def file_errors(config: Config) -> list[str]:
    """One line for each that cannot be used: its place in the config, its key, the file, and why."""
    return [
        line_of(_place(config, path), path, f"{file}: {why}")
        for path, file, look in _named(config)
        if file and (why := look(file))
    ]


def _named(config: Config) -> Iterator[tuple[Path, str, Callable[[str], str]]]:
    """Each key that names one, its value, and what looks at it: a function that returns why it cannot be used, or ""."""
    yield ("engine", "api_key_file"), config.engine.api_key_file, _key
    for kind in KINDS.values():  # the folders that engines export to
        for source in kind.sources:
            if isinstance(source, ExportedFiles):
                yield ("engine", source.setting), getattr(config.engine, source.setting), _readable_directory
    yield ("state", "directory"), config.state.directory, _writable_directory
    yield ("baseline", "file"), config.baseline.file, _baseline


def _place(config: Config, path: Path) -> str:
    source = config.sources.get(path) or config.sources.get(path[:1])
    return flag_of(dotted(path)) if source is None else source.where


def _key(file: str) -> str:
    why: list[str] = []
    EngineApiKey("", file, why.append).read()
    return "".join(why)


def _readable_directory(directory: str) -> str:
    return _directory(directory, os.R_OK | os.X_OK, "read")


def _writable_directory(directory: str) -> str:
    return _directory(directory, os.R_OK | os.W_OK | os.X_OK, "written to")


def _directory(directory: str, mode: int, used: str) -> str:
    try:
        kind = FilePath(directory).stat().st_mode
    except OSError as error:
        return error.strerror or "it cannot be looked at"
    if not stat.S_ISDIR(kind):
        return "it is no directory"
    return "" if os.access(directory, mode) else f"it cannot be {used} by this user"


def _baseline(file: str) -> str:
    try:
        # A pipe in the place of a file must not hold up its reader.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return "it is no regular file"
            parsed(opened.read(MOST_BYTES + 1))
    except OSError as error:
        return error.strerror or "it cannot be read"
    except RefusedError as refused:
        return f"{refused}; `sidecar baseline export` writes such a file"
    return ""
