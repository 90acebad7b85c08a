"""The files that an engine exports are followed on a real disk: new, late, cut, replaced or absent."""

import asyncio
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sidecar.engines.reports.export_files import FOLLOWED, MAX_READ_BYTES, MOST_NEW, ExportDirectory, OwnThread
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


def hour(number: int) -> str:
    return f"sglang-request-metrics-20261119_{number:02}.log"


def test_only_the_two_newest_of_the_files_that_were_there_are_followed_and_nothing_else(tmp_path: Path) -> None:
    """Years of files cost nothing; pipes, folders and files of other names are ignored."""
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    for number in range(24):
        append(tmp_path / hour(number), b"history\n")
    append(tmp_path / f"{hour(24)}.gz", b"no\n")
    (tmp_path / "sglang-request-metrics-20261120_00.log").mkdir()
    os.mkfifo(tmp_path / hour(99))

    found = directory.read(now_unix=0.0)

    assert (found.pieces, len(found.followed), found.skipped) == ([], 0, 0)
    (tmp_path / "sglang-request-metrics-20261120_00.log").rmdir()
    (tmp_path / hour(99)).unlink()
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    assert (read(directory), len(directory.read(now_unix=0.0).followed)) == (b"", FOLLOWED)
    for number in range(24):
        append(tmp_path / hour(number), b"%d\n" % number)
    assert read(directory) == b"22\n23\n"


@pytest.mark.parametrize("begun", range(MOST_NEW + 1))
def test_each_file_that_began_between_two_reads_is_read_to_its_end(tmp_path: Path, begun: int) -> None:
    """However many there are, up to a bound: the old ones' last lines too, each byte once and none lost. Then two are followed again."""
    directory = ExportDirectory(str(tmp_path), SGLang.source.name)
    for number in (0, 1):
        append(tmp_path / hour(number), b"history\n")
    assert read(directory) == b""

    told = [b"%d\n" % number for number in range(begun + 2)]
    for number, line_ in enumerate(told):
        append(tmp_path / hour(number), line_)
    found = directory.read(now_unix=0.0)
    later = directory.read(now_unix=0.0)
    append(tmp_path / hour(begun + 1), b"last\n")

    assert sorted(piece.data for piece in found.pieces) == sorted(told)
    assert (found.skipped, later.pieces, len(later.followed)) == (0, [], FOLLOWED)
    assert read(directory) == b"last\n"


@given(st.lists(st.sampled_from(["line", "late line", "new file", "read"]), max_size=MOST_NEW))
def test_whatever_is_written_between_reads_comes_once_and_in_order(story: list[str]) -> None:
    """Into the newest file or the one before it, with any number of new files between two reads."""
    with tempfile.TemporaryDirectory() as folder:
        directory = ExportDirectory(folder, SGLang.source.name)
        directory.read(now_unix=0.0)
        newest, written, found = 1, dict[int, list[bytes]](), dict[int, list[bytes]]()
        for number, what in enumerate([*story, "read"]):
            newest += what == "new file"
            if what == "read":
                for piece in directory.read(now_unix=0.0).pieces:
                    found.setdefault(piece.file, []).extend(piece.data.splitlines())
            else:
                into = newest - (what == "late line")
                append(Path(folder) / hour(into), b"%d\n" % number)
                written.setdefault(into, []).append(b"%d" % number)
        directory.close()

    assert sorted(found.values()) == sorted(written.values())


def test_files_that_are_passed_over_are_counted(tmp_path: Path) -> None:
    """More new files than are opened at once: the newest are read. One that cannot be opened is counted as soon as it is none of the two newest."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        for number in range(MOST_NEW + 3):
            append(tmp_path / hour(number), b"")
        await walk.fetch()
        assert walk.drops() == {"report_file_skipped": 3}

        for number in (60, 61, 62):  # their targets are not there
            (tmp_path / hour(number)).symlink_to(tmp_path / f"gone{number}")
        await walk.fetch()
        assert walk.drops() == {"report_file_skipped": 4}
        (tmp_path / "gone62").write_bytes(line())
        walk.answer(OURS)
        append(tmp_path / hour(63), b"")
        await walk.fetch()
        append(tmp_path / hour(64), b"")
        await walk.fetch()
        await walk.report_fetcher.close()

        assert (walk.drops(), walk.phases()) == ({"report_file_skipped": 5}, [EXACT | BY_WIRE])

    asyncio.run(scenario())


def test_a_folder_that_could_not_be_listed_for_a_while_has_no_history_in_what_began_meanwhile(tmp_path: Path) -> None:
    directory = ExportDirectory(str(tmp_path / "mounted"), SGLang.source.name)
    (tmp_path / "mounted").mkdir()
    append(tmp_path / "mounted" / hour(0), b"history\n")
    directory.read(now_unix=0.0)
    (tmp_path / "mounted").rename(tmp_path / "away")
    error = directory.read(now_unix=0.0).error
    for number in (0, 1, 2, 3):
        append(tmp_path / "away" / hour(number), b"%d\n" % number)
    (tmp_path / "away").rename(tmp_path / "mounted")

    assert isinstance(error, FileNotFoundError)
    assert read(directory) == b"0\n1\n2\n3\n"


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
