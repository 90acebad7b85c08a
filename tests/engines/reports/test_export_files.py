"""The files that an engine exports are followed on a real disk: new, late, cut, replaced or absent."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sidecar.engines.reports.export_files import MAX_READ_BYTES, ExportDirectory, OwnThread
from sidecar.engines.sglang import SGLang
from tests.engines.reports.exports import LINES, NEXT_HOUR, OURS, THIS_HOUR, append, fetching, line
from tests.support.fetching import BY_WIRE, EXACT


def read(directory: ExportDirectory) -> bytes:
    """All bytes that one read finds, over all files."""
    return b"".join(piece.data for piece in directory.read(now_unix=0.0).pieces)


def test_what_was_there_before_is_history(tmp_path: Path) -> None:
    """Its requests did not pass here, and its last line may be incomplete."""

    async def scenario() -> None:
        append(tmp_path / THIS_HOUR, LINES[0] + LINES[1][:50])
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer(OURS)

        append(tmp_path / THIS_HOUR, LINES[1][50:] + line())
        await walk.fetch()

        assert walk.phases() == [EXACT | BY_WIRE]
        assert walk.drops() == {}

    asyncio.run(scenario())


def test_the_hour_changes_and_a_late_line_goes_into_the_old_file(tmp_path: Path) -> None:
    """The new file is read from its start, the old one is read on."""
    append(tmp_path / THIS_HOUR, b"history\n")
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    assert read(directory) == b""

    append(tmp_path / NEXT_HOUR, b"first of the hour\n")
    append(tmp_path / THIS_HOUR, b"late one\n")

    assert read(directory) == b"late one\nfirst of the hour\n"


def test_only_the_two_newest_files_are_followed_and_nothing_else_in_the_folder(tmp_path: Path) -> None:
    """Years of files cost nothing; pipes, folders and files of other names are ignored."""
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    directory.read(now_unix=0.0)
    for hour in range(24):
        append(tmp_path / f"sglang-request-metrics-20261119_{hour:02}.log", b"%d\n" % hour)
    append(tmp_path / "sglang-request-metrics-20261119_24.log.gz", b"no\n")
    (tmp_path / "sglang-request-metrics-20261120_00.log").mkdir()
    os.mkfifo(tmp_path / "sglang-request-metrics-20261119_99.log")

    found = directory.read(now_unix=0.0)

    assert (found.pieces, len(found.followed)) == ([], 0)
    (tmp_path / "sglang-request-metrics-20261120_00.log").rmdir()
    (tmp_path / "sglang-request-metrics-20261119_99.log").unlink()
    assert read(directory) == b"22\n23\n"


@pytest.mark.parametrize("how", ["truncated", "replaced", "renamed away"])
def test_a_file_that_is_cut_or_replaced_begins_anew(tmp_path: Path, how: str) -> None:
    """Half a line before the cut is dropped and counted, and what follows is read from the start."""

    async def scenario() -> None:
        path = tmp_path / THIS_HOUR
        walk = fetching(tmp_path)
        await walk.fetch()
        append(path, LINES[0] * 2 + LINES[1][:100])
        await walk.fetch()
        walk.answer(OURS)

        if how == "truncated":
            path.write_bytes(line())
        else:
            path.rename(tmp_path / "old")
            if how == "replaced":
                (tmp_path / "new").write_bytes(line())
                (tmp_path / "new").rename(path)
            else:
                await walk.fetch()
                append(path, line())
        await walk.fetch()
        await walk.fetch()

        assert walk.phases() == [EXACT | BY_WIRE]
        assert walk.drops()["report_unreadable"] == 1

    asyncio.run(scenario())


def test_a_read_is_bounded_and_says_that_there_is_more(tmp_path: Path) -> None:
    """A file that grew by megabytes is read in several calls, and other tasks run in between."""
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    directory.read(now_unix=0.0)
    append(tmp_path / THIS_HOUR, b"x" * (2 * MAX_READ_BYTES + 1))

    reads = [directory.read(now_unix=0.0) for _ in range(4)]

    assert [(sum(len(piece.data) for piece in found.pieces), found.more) for found in reads] == [
        (MAX_READ_BYTES, True),
        (MAX_READ_BYTES, True),
        (1, False),
        (0, False),
    ]


def test_a_folder_that_is_not_there_is_said_once_and_tried_again(tmp_path: Path) -> None:
    """Lines that are in it when it appears are history too: it may be a volume with a year of files."""

    async def scenario() -> None:
        folder = tmp_path / "not mounted yet"
        walk = fetching(folder)
        with capture_logs() as lines:
            await walk.fetch()
            await walk.fetch()
        assert walk.drops() == {"report_source_failed": 2}
        assert str(lines).count("No such file") == 1
        folder.mkdir()
        append(folder / THIS_HOUR, LINES[0])

        await walk.fetch()
        walk.answer(OURS)
        append(folder / THIS_HOUR, line())
        await walk.fetch()

        assert walk.phases() == [EXACT | BY_WIRE]
        assert walk.drops() == {"report_source_failed": 2}

    asyncio.run(scenario())


def test_a_disk_that_hangs_holds_a_thread_and_nothing_else() -> None:
    """The loop goes on, cancelling works, and the process could exit."""

    async def scenario() -> bool:
        hangs = threading.Event()
        thread = OwnThread("hanging")
        call = asyncio.create_task(thread.run(hangs.wait))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        cancelled = call.cancelled()
        thread.stop()
        hangs.set()
        return cancelled

    assert asyncio.run(scenario())
