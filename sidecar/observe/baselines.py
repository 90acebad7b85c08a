"""The usual values of this pod's engine on disk: read once the engine is known, written every minute and at the end.

A restart in mid-fault would otherwise take the fault for the usual, or know nothing for minutes. First what this process
learned itself counts, then `state.directory` (one file per engine, `pod/usual/baseline.py`), then `baseline.file` (another
pod's, by `sidecar baseline export`). Files are touched in threads, and a document is made in slices, so that no stream
waits. An error is logged once, counted, and affects nothing else.
"""

import asyncio
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from sidecar.config.schema import Config
from sidecar.engines.engine import AUTO, NONE, Engine
from sidecar.history.slices import Sliced, run_sliced
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.observe.slo_counters import Slo
from sidecar.pod.usual.baseline import MOST_BYTES, Baseline, Key, RefusedError, checked, head
from sidecar.pod.usual.learning import Came


SAVE_SECONDS = 60.0
"""A process that is killed loses so much, of a memory of half an hour."""
LOAD_SECONDS = 86_400.0
"""The load of a day ago says nothing of today's. What steps and prompts cost holds as long as the key does."""
MOST_FILES = 16
"""Files of other engines, and of other versions of this one, that are kept in the state directory."""
PIECES = 128
"""Pieces of JSON in a slice: some tenths of a millisecond."""
FREED_AT_ONCE = 8
"""Rows of a table whose memory is given back in a slice; a curve of prefill is one row of 4,000 values."""
LAST_SAVE_SECONDS = 2.0
_SOURCE_WORDS = {
    Came.PROCESS: "learned by this process",
    Came.STATE: "from an earlier process of this pod",
    Came.FILE: "from another pod's file",
    Came.NONE: "not known yet",
}

log = structlog.get_logger()


class Baselines:
    """The baselines of one process. `unix`: wall-clock seconds; `dropped`: counts an error by its reason."""

    def __init__(
        self,
        config: Config,
        slo: Slo,
        engine: Engine,
        *,
        clock: Callable[[], float],
        unix: Callable[[], float],
        dropped: Callable[[str], None],
    ) -> None:
        self._directory = Path(config.state.directory) if config.state.directory else None
        self._file = Path(config.baseline.file) if config.baseline.file else None
        self._labels = config.labels
        self._slo = slo
        self._engine = engine
        self._clock = clock
        self._unix = unix
        self._dropped = dropped
        self._key: Key | None = None
        self._changed = asyncio.Event()
        self._logged: set[tuple[str, str]] = set()
        self._saving = asyncio.Lock()

    @property
    def words(self) -> str:
        """The source of the usual values, for the status page."""
        provisional = ", provisional" if self._slo.learning.provisional else ""
        return f"usual values {_SOURCE_WORDS[self._slo.came]}{provisional}"

    def engine_known(self) -> None:
        """Something was learned about the engine."""
        self._changed.set()

    async def run(self) -> None:
        """Read and write as long as the process lives. Cancel to stop."""
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), SAVE_SECONDS)
            except TimeoutError:
                await self.save()
                continue
            self._changed.clear()
            try:
                await self.find()
            except Exception as error:  # noqa: BLE001  measuring never breaks traffic
                self._failed("baseline_not_read", "", str(error) or type(error).__name__)

    async def find(self) -> None:
        """Take the baseline of the engine as it is known now, if this process knows none."""
        key, before = self._key_now(), self._key
        if key is None or key == before:
            return
        self._key = key
        if before is not None and key.replaces(before):
            self._slo.unlearn()
        places = ((Came.STATE, self._state_file(key)), (Came.FILE, self._file))
        for came, path in places:
            if path is None or self._slo.came is not Came.NONE:
                continue
            try:
                found = await asyncio.to_thread(self._read, path, key)
            except (OSError, RefusedError) as error:
                if came is Came.FILE or not isinstance(error, FileNotFoundError):
                    self._failed("baseline_refused", str(path), _why(error))
                continue
            if self._slo.came is Came.NONE:
                load = came is Came.STATE and self._unix() - found.saved_at_unix < LOAD_SECONDS
                self._slo.restore(found, came, self._clock(), load=load)
                log.info("baseline", source=came.value, file=str(path), provisional=found.provisional)

    async def save(self) -> None:
        """Write what is usual into the state directory, if anything is. Never raises."""
        key = self._key
        if self._directory is None or key is None or not self._slo.known or self._saving.locked():
            return
        path = self._state_file(key)
        assert path is not None
        async with self._saving:
            try:
                await asyncio.to_thread(_write, path, await run_sliced(self.document()))
            except Exception as error:  # noqa: BLE001  measuring never breaks traffic
                self._failed("baseline_not_saved", str(path), _why(error))

    async def last_save(self) -> None:
        """The same for the end of the process, which waits for a slow disk only so long."""
        try:
            await asyncio.wait_for(self.save(), LAST_SAVE_SECONDS)
        except TimeoutError:
            self._failed("baseline_not_saved", str(self._directory), f"not within {LAST_SAVE_SECONDS:g} s")

    def document(self) -> Sliced[bytearray]:
        """The usual values of now, as JSON. Raises RefusedError if nothing is, and if it is too long."""
        slo = self._slo
        if self._key is None:
            raise RefusedError("the engine is not known yet")
        if not slo.known:
            raise RefusedError(
                "no usual values are known yet: this takes some minutes of traffic that meets its objectives"
            )
        burning = slo.learning.burns(self._clock())
        learned: dict[str, dict[str, object]] = {}
        told = head(self._key, self._unix(), burning=burning, provisional=slo.learning.provisional)
        for name, learner in slo.learners.items():
            for learned_so_far in learner.slices():
                learned[name] = learned_so_far
                yield
        pieces, text = list[str](), bytearray()
        encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
        for piece in encoder.iterencode({**told, "learners": learned}):
            pieces.append(piece)
            if len(pieces) == PIECES:
                text += "".join(pieces).encode()
                pieces.clear()
                yield
        text += "".join(pieces).encode()
        if len(text) > MOST_BYTES:
            raise RefusedError(f"it is longer than {MOST_BYTES} bytes")
        yield from _freed(learned)
        return text

    def _read(self, path: Path, key: Key) -> Baseline:
        return checked(_text_of(path), key, self._slo.learners)

    def _state_file(self, key: Key) -> Path | None:
        return None if self._directory is None else self._directory / f"baseline-{key.digest}.json"

    def _key_now(self) -> Key | None:
        """The key of the engine; None while it is down or has not said what it is."""
        engine, labels = self._engine, self._labels
        if engine.up is not True or not (engine.asked_what or engine.kind == NONE):
            return None
        return Key(
            engine="unknown" if engine.kind == AUTO else engine.kind,
            version=engine.version,
            models=tuple(sorted(engine.base_models)),
            quantization=engine.quantization if labels.quantization == UNKNOWN else labels.quantization,
            gpu_type=engine.gpu_type if labels.gpu_type == UNKNOWN else labels.gpu_type,
        )

    def _failed(self, event: str, file: str, why: str) -> None:
        self._dropped("baseline_failed")
        if (event, why) not in self._logged and len(self._logged) < MOST_FILES:
            self._logged.add((event, why))
            log.warning(event, file=file, why=why)


def _freed(learned: dict[str, dict[str, object]]) -> Iterator[None]:
    """Give back the memory of a copy in slices: it is a hundred thousand values."""
    for copied in learned.values():
        for rows in copied.values():
            while isinstance(rows, list) and rows:
                del rows[-FREED_AT_ONCE:]
                yield


def _text_of(path: Path) -> bytes:
    """The bytes of a plain file, one more than MOST_BYTES at most. A pipe or a device must not hold the thread."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RefusedError("it is no plain file")
        return file.read(MOST_BYTES + 1)


def _write(path: Path, text: bytearray) -> None:
    """Replace the file as a whole: a reader, and a crash, see the old one or the new one. Only its owner may read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".baseline-")
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    others = sorted(path.parent.glob("baseline-*.json"), key=_age)
    left_behind = [each for each in path.parent.glob(".baseline-*") if _age(path) - _age(each) < -3600.0]
    for each in (*others[MOST_FILES:], *left_behind):
        each.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """A number that is larger for an older file."""
    try:
        return -path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _why(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else str(error)
    return said or type(error).__name__
