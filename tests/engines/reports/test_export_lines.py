"""SGLang's exported files, followed on a real disk and joined to requests through the whole sidecar."""

import asyncio
import itertools
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sidecar.engines.reports import fetcher
from sidecar.engines.reports.export_files import MAX_READ_BYTES, ExportDirectory, OwnThread
from sidecar.engines.reports.export_lines import MAX_EXPORT_LINE_BYTES, ExportLines
from sidecar.engines.reports.fetcher import IDLE_SECONDS, ExportTail
from sidecar.engines.sglang import SGLang
from sidecar.ledger.account import Account
from sidecar.ledger.report import response_key
from tests.support.answers import damaged
from tests.support.fetching import BY_WIRE, EXACT, NO_SPLIT, WORDS, Fetching


FIXTURE = (WORDS / "sglang-export.jsonl").read_bytes()
LINES = FIXTURE.splitlines(keepends=True)
OURS = "9b1c4f0e2d7a4c7f8f0a2f6a1f3d5b7c"
THIS_HOUR, NEXT_HOUR = "sglang-request-metrics-20261120_04.log", "sglang-request-metrics-20261120_05.log"


def line(request_id: str = OURS, **more: object) -> bytes:
    return json.dumps({**json.loads(LINES[1]), "id": request_id, **more}).encode() + b"\n"


def fetching(folder: Path) -> Fetching:
    return Fetching("sglang", sglang_metrics_dir=str(folder))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


# --- through the whole sidecar ---------------------------------------------------------------------------------------


def test_the_line_of_a_request_gives_it_its_queue_and_prefill(tmp_path: Path) -> None:
    """SGLang's OpenAI paths state no times; its file does, and contains the answer's id."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer(OURS)
        assert walk.accounts == []

        append(tmp_path / THIS_HOUR, FIXTURE)
        await walk.fetch()

        assert walk.phases() == [EXACT | BY_WIRE]
        assert walk.value("llm_phase_attribution_total", source="engine", reason="late_report") == 1

    asyncio.run(scenario())


def test_a_line_may_be_there_before_its_client_has_read_to_the_end(tmp_path: Path) -> None:
    """A slow client ends a minute after the engine wrote its line; the line is kept, while an unmatched one is not."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        client, engine = walk.begin()
        client.take(0)
        walk.say(engine, OURS)
        append(tmp_path / THIS_HOUR, FIXTURE)
        await walk.fetch()
        for _ in range(60):
            walk.settlement.expire(walk.clock.later(1.0))

        client.take(None)

        assert [set(found) & {"queue", "prefill"} for found in walk.phases()] == [{"queue", "prefill"}]
        assert walk.drops() == {"report_unmatched": 1}

    asyncio.run(scenario())


def test_late_repeated_and_unmatched_reports_are_counted_and_change_no_number(tmp_path: Path) -> None:
    """A line after the deadline, the same line again, the line of a client that bypasses the sidecar."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer("late")
        walk.settlement.expire(walk.clock.later(6.0))
        walk.answer(OURS)

        append(tmp_path / THIS_HOUR, line("late") + line() + line() + line("another client's"))
        await walk.fetch()
        walk.settlement.expire(walk.clock.later(6.0))

        assert walk.phases() == [NO_SPLIT, EXACT | BY_WIRE]
        assert walk.drops() == {"report_twice": 1, "report_unmatched": 2}

    asyncio.run(scenario())


def test_a_request_that_was_retracted_has_no_queue_to_speak_of(tmp_path: Path) -> None:
    """Its `queue_time` includes a wait after its first token: the split is refused, as incomplete."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer(OURS)

        append(tmp_path / THIS_HOUR, line(num_retractions=1, queue_time=0.02))
        await walk.fetch()

        assert walk.phases() == [NO_SPLIT]
        assert walk.value("llm_phase_attribution_total", source="none", reason="report_incomplete") == 1

    asyncio.run(scenario())


def test_without_a_folder_no_request_waits_for_a_line() -> None:
    """Without a configured folder the sidecar settles at once."""
    walk = Fetching("sglang")

    walk.answer(OURS)

    assert walk.phases() == [NO_SPLIT]


@given(damage=damaged([LINES[1]]))
@settings(max_examples=150)
def test_a_damaged_line_gives_the_right_split_or_none(damage: list[bytes]) -> None:
    """Values null, negative, text, huge, renamed or missing: the numbers are right or absent, and nothing is raised."""
    walk = Fetching("sglang", sglang_metrics_dir="/nowhere")
    walk.answer(OURS)

    for keyed in ExportLines(SGLang.source).feed(damage[0]):
        walk.settlement.reported(keyed)
    walk.settlement.expire(walk.clock.later(6.0))

    assert walk.phases() in ([EXACT | BY_WIRE], [NO_SPLIT])


# --- lines -----------------------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(0, len(FIXTURE)), max_size=30))
def test_lines_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    """SGLang writes a long line in several steps, and the sidecar reads in between."""
    at = [0, *sorted(cuts), len(FIXTURE)]
    lines = ExportLines(SGLang.source)

    reports = [keyed for start, end in itertools.pairwise(at) for keyed in lines.feed(FIXTURE[start:end])]

    assert [keyed.keys for keyed in reports] == [(response_key("0d6f"),), (response_key(OURS),)]
    assert lines.unreadable == 0


@given(st.binary(max_size=400))
def test_no_bytes_make_a_reader_raise(data: bytes) -> None:
    """For any bytes in the file, the line after them is read."""
    lines = ExportLines(SGLang.source)
    lines.feed(data + b"\n")

    assert [keyed.keys for keyed in lines.feed(LINES[1])] == [(response_key(OURS),)]


def test_a_line_without_end_is_given_up_and_the_next_one_is_read() -> None:
    """It is held up to a limit, counted once, and skipped up to its end."""
    lines = ExportLines(SGLang.source)
    for _ in range(3 * MAX_EXPORT_LINE_BYTES // 65_536):
        lines.feed(b"x" * 65_536)

    reports = lines.feed(b"x\n" + LINES[1])

    assert [keyed.keys for keyed in reports] == [(response_key(OURS),)]
    assert lines.unreadable == 1


@given(size=st.integers(1, 70_000), text=st.text(alphabet='a"\\\n\u2028{}', min_size=1, max_size=9))
@settings(max_examples=60)
def test_a_prompt_of_any_length_and_kind_is_passed_over(size: int, text: str) -> None:
    """The line begins with the prompt, quotes and backslashes escaped twice; it is never held, wherever it is cut."""
    long = line(request_parameters=json.dumps({"text": text * (300_000 // len(text))})) + line("next")
    lines = ExportLines(SGLang.source)

    reports = (
        [keyed for start in range(0, len(long), size) for keyed in lines.feed(long[start : start + size])]
        if size > 99
        else lines.feed(long)
    )

    assert [keyed.keys for keyed in reports] == [(response_key(OURS),), (response_key("next"),)]
    assert lines.unreadable == 0


# --- files -----------------------------------------------------------------------------------------------------------


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


def test_it_looks_often_only_while_a_request_waits(tmp_path: Path) -> None:
    """Ten times a second while a request waits for its line, once a second otherwise."""

    async def scenario() -> tuple[float, float]:
        walk = fetching(tmp_path)
        idle = await walk.fetch()
        walk.answer(OURS)
        return idle, await walk.fetch()

    assert asyncio.run(scenario()) == (IDLE_SECONDS, ExportTail.WAITING_SECONDS)


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


def test_the_task_fetches_as_soon_as_a_request_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for its next idle fetch, which here never comes; and it ends when cancelled."""
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 3600.0)

    async def scenario() -> None:
        walk = fetching(tmp_path)
        settled = asyncio.Event()

        def log(account: Account) -> None:
            walk.accounts.append(account)
            settled.set()

        walk.settlement.log = log
        task = asyncio.create_task(walk.report_fetcher.run())
        await asyncio.sleep(0.05)
        append(tmp_path / THIS_HOUR, line())
        walk.answer(OURS)
        async with asyncio.timeout(60):
            await settled.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert walk.phases() == [EXACT | BY_WIRE]

    asyncio.run(scenario())
