"""Follows the files that an engine exports and hands on their new bytes. The only engine file that reads a disk.

The two newest files are followed, by their names, because a late line may still be written to the older one. Each other file that has come
since the folder was last listed is read to its end, for an engine may begin several in a second. Of more than `MOST_NEW` such files the
oldest are skipped and counted, and so is one that cannot be opened. Bytes that were there before the first read are not read; a file that
appears later is read from its start, and so is one that is cut short or replaced. One call reads at most `MAX_READ_BYTES`. This module
keeps no bytes and does not interpret them (`export_lines.py`).
It runs in a thread of its own: a disk that hangs may hold that thread for ever, and nothing else.
"""

import asyncio
import contextlib
import os
import queue
import re
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sidecar.engines.reports.export_lines import EXPORT_STEP_BYTES


T = TypeVar("T")
FOLLOWED = 2
MOST_NEW = 32
"""Most new files in one listing: open files, and some 300 KB of unfinished lines each at worst. A folder that can be read is listed every second."""
PACKED = ".gz"
"""The end of the names of files that hold gzip members."""
MAX_READ_BYTES = 16 * EXPORT_STEP_BYTES
MTIME_SECONDS = 2.0
"""Coarsest time stamp of a directory, in seconds: within it, a directory may change without a new time stamp."""


@dataclass(frozen=True, slots=True)
class Piece:
    file: int
    """A number that stays the same as long as it is the same file."""
    data: bytes
    packed: bool = False
    """They are of gzip members (`gzip_members.py`)."""
    begun: bool = False
    """The file's first bytes here are in the middle of a line."""
    broken_off: bool = False
    """The file was cut or replaced before these bytes: an unfinished line before them will not be finished."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    pieces: list[Piece]
    more: bool
    """There is more to read at once."""
    followed: frozenset[int]
    """The files that may still bring bytes."""
    skipped: int = 0
    """Number of new files of which nothing was read, and nothing will be."""
    error: OSError | None = None
    """The directory could not be read."""


@dataclass(slots=True)
class _File:
    number: int
    descriptor: int
    offset: int
    begun: bool
    broken_off: bool = False


class ExportDirectory:
    """One directory. Not thread-safe: one thread at a time reads."""

    def __init__(self, path: str, name: re.Pattern[str]) -> None:
        self._path = Path(path)
        self._name = name
        self._files: dict[str, _File] = {}
        self._numbers = 0
        self._listed: tuple[int, ...] | None = None
        """The directory as it was when it was listed; None: never, or it could not be."""
        self._newest: tuple[str, str] | None = None
        """Time and name of the last file in the last listing that had one."""
        self._unopened: set[str] = set()
        """Those of the newest files that could not be opened so far."""
        self._over: set[str] = set()
        """Files that are followed no longer once they have been read to their end."""
        self._skipped = 0

    def read(self, now_unix: float) -> ReadResult:
        """New bytes, at most `MAX_READ_BYTES`. Never raises OSError. `now_unix`: wall-clock seconds."""
        pieces: list[Piece] = []
        # Before it is listed, for what is no longer there then may have had a last line.
        more, error = self._drain(pieces), None
        if not more:
            try:
                self._list(now_unix)
            except OSError as raised:
                error = raised
            more = self._drain(pieces)
        if not more:
            for name in self._over & self._files.keys():
                self._forget(name)
        skipped, self._skipped = self._skipped, 0
        return ReadResult(pieces, more, frozenset(file.number for file in self._files.values()), skipped, error)

    def _drain(self, pieces: list[Piece]) -> bool:
        """Whether there is more than may be read in one call."""
        for name in sorted(self._files):
            # A file that cannot be read now may be another time; the others can be.
            with contextlib.suppress(OSError):
                while name in self._files:
                    if sum(len(piece.data) for piece in pieces) >= MAX_READ_BYTES:
                        return True
                    if not self._read(name, pieces):
                        break
        return False

    def close(self) -> None:
        for name in list(self._files):
            self._forget(name)

    def _list(self, now_unix: float) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_dev, status.st_ino, status.st_mtime_ns)
            if seen == self._listed and now_unix - status.st_mtime > MTIME_SECONDS:
                return
            found = (self._name.fullmatch(path.name) for path in self._path.iterdir())
            in_time = sorted((name[self._name.groups], name[0]) for name in found if name is not None)
        except OSError:
            self._listed = None
            raise
        at_end = self._listed is None and self._newest is None
        new = [] if at_end else [each for each in in_time if self._newest is None or each > self._newest]
        self._skipped += max(0, len(new) - MOST_NEW)
        newest = {name for _, name in in_time[-FOLLOWED:]}
        self._follow_all({name for _, name in new[-MOST_NEW:]} | newest | self._unopened, newest, at_end=at_end)
        self._newest = in_time[-1] if in_time else self._newest
        # What could not be opened is tried again as long as the directory's change is recent, and with its next one.
        self._listed = seen

    def _follow_all(self, names: set[str], newest: set[str], *, at_end: bool) -> None:
        """Follow these and no others. One that cannot be opened is tried again as long as it is one of the `newest`."""
        self._over = self._files.keys() - names
        self._unopened = set()
        for name in sorted(names - self._files.keys()):
            try:
                self._follow(name, at_end=at_end)
            except OSError:
                if name in newest:
                    self._unopened.add(name)
                else:
                    self._skipped += 1

    def _follow(self, name: str, *, at_end: bool) -> None:
        # Without O_NONBLOCK a named pipe would hold the thread until a process writes into it.
        descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            return
        offset = status.st_size if at_end else 0
        # A gzip member holds whole lines.
        begun = offset > 0 and not name.endswith(PACKED) and os.pread(descriptor, 1, offset - 1) != b"\n"
        self._numbers += 1
        self._files[name] = _File(self._numbers, descriptor, offset, begun)

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.close(self._files.pop(name).descriptor)

    def _read(self, name: str, pieces: list[Piece]) -> bytes:
        file = self._files[name]
        if os.fstat(file.descriptor).st_size < file.offset:
            file.offset, file.begun, file.broken_off = 0, False, True
        data = os.pread(file.descriptor, EXPORT_STEP_BYTES, file.offset)
        if not data and self._replaced(name, file):
            self._forget(name)
            self._follow(name, at_end=False)
            if name not in self._files:
                return b""
            file = self._files[name]
            data = os.pread(file.descriptor, EXPORT_STEP_BYTES, 0)
        if data:
            pieces.append(
                Piece(file.number, data, packed=name.endswith(PACKED), begun=file.begun, broken_off=file.broken_off)
            )
            file.offset += len(data)
            file.begun = file.broken_off = False
        return data

    def _replaced(self, name: str, file: _File) -> bool:
        try:
            there = (self._path / name).stat()
        except FileNotFoundError:
            return False  # unlinked or renamed: a process may still be writing it
        here = os.fstat(file.descriptor)
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


class OwnThread:
    """A thread that ends with the process even while it hangs. One call at a time."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """The result of the call; raises the call's exception."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except Exception as raised:  # noqa: BLE001  it is raised where it is awaited
                    future.set_exception(raised)

        self._calls.put(work)
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """End after the call that runs now, without waiting for it."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
