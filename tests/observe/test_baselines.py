"""Usual values outlive the process: a restart in mid-fault names the fault at once, and takes it for nothing usual."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sidecar.history.slices import run_now
from sidecar.observe.baselines import FREED_AT_ONCE, MOST_FILES, _freed
from sidecar.pod.usual.baseline import RefusedError
from sidecar.pod.usual.learning import Came
from tests.support.baseline_process import CALM_SECONDS, Process


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """The state that a calm process leaves, and the name of its file."""
    folder = tmp_path_factory.mktemp("calm")
    Process(100.0, state=folder).finds().lives(CALM_SECONDS).saves()
    (file,) = folder.iterdir()
    return file.read_bytes(), file.name


def left_by(calm: tuple[bytes, str], folder: Path) -> Path:
    text, name = calm
    (folder / name).write_bytes(text)
    return folder / name


# --- stories -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_restart_in_mid_fault_names_the_fault_at_once(tmp_path: Path) -> None:
    """Three times the load, for ten minutes; the sidecar restarts in its middle and knows the usual load still."""
    first = Process(100.0, state=tmp_path).finds().lives(CALM_SECONDS)
    first.lives(300.0, per_second=3.0, ttft_seconds=2.0).saves()

    second = Process(first.harness.now, state=tmp_path).finds()
    assert second.info() == [("state", "false")]
    second.lives(60.0, per_second=3.0, ttft_seconds=2.0)
    early = second.roots()
    assert sum(early.values()) > 50
    assert early[("queue", "load")] > 0.8 * sum(early.values())
    assert [cause for _, cause in early if cause == "young"] == []

    second.lives(540.0, per_second=3.0, ttft_seconds=2.0)
    load = second.load()
    assert load is not None
    assert 2.5 < load < 3.5


def test_without_a_past_the_same_restart_is_young() -> None:
    """Roots that need no baseline are decided still; the others are unattributed, and nothing becomes usual."""
    second = Process(1000.0).finds().lives(300.0, per_second=3.0, ttft_seconds=2.0)

    assert set(second.roots()) == {("unattributed", "young")}
    assert (second.info(), second.load()) == ([("none", "false")], None)


@pytest.mark.long
def test_a_pod_that_was_born_in_a_fault_takes_its_calmest_time_until_calm_comes(tmp_path: Path) -> None:
    """After an hour it compares with values that are marked as provisional, and two minutes of calm drop them."""
    process = Process(100.0, state=tmp_path).finds()
    process.lives(3500.0, per_second=0.5, ttft_seconds=2.0)
    assert process.info() == [("none", "false")]

    process.lives(1500.0, per_second=0.5, ttft_seconds=2.0)
    assert process.info() == [("process", "true")]
    assert process.load() == pytest.approx(1.0, abs=0.3)
    process.saves()
    assert Process(0.0, state=tmp_path).finds().info() == [("state", "true")]

    while process.harness.slo.learning.burns(process.harness.now):
        process.lives(10.0)
    process.lives(125.0)
    assert process.info() == [("none", "false")]
    process.lives(200.0)
    assert process.info() == [("process", "false")]


def test_a_new_pod_compares_with_the_past_of_a_healthy_one(tmp_path: Path) -> None:
    """Exported from one pod, named in the config of another. How busy the other pod was says nothing about this one."""
    healthy = Process(100.0).finds().lives(CALM_SECONDS)
    file = tmp_path / "baseline.json"
    file.write_bytes(run_now(healthy.baselines.document()))

    new = Process(5000.0, file=file).finds()
    new.lives(60.0, per_second=2.0)

    assert new.info() == [("file", "false")]
    assert new.load() is None
    assert not new.harness.slo.roots.young
    assert new.baselines.words == "usual values from another pod's file"


def test_the_own_past_holds_with_other_adapters_and_its_load_for_a_day(tmp_path: Path) -> None:
    """An adapter is loaded while the pod restarts; a month later only the costs hold still."""
    Process(100.0, state=tmp_path, models=("llama", "tuned")).finds().lives(CALM_SECONDS).saves()

    soon = Process(100.0, state=tmp_path, models=("llama", "another")).finds().lives(60.0, per_second=2.0)
    later = Process(100.0, state=tmp_path, models=("llama",), unix=1.8e9 + 30 * 86_400.0).finds()
    later.lives(60.0, per_second=2.0)

    assert soon.info() == later.info() == [("state", "false")]
    assert soon.load() == pytest.approx(2.0, abs=0.4)
    assert later.load() is None


def test_the_own_past_comes_before_the_file(calm: tuple[bytes, str], tmp_path: Path) -> None:
    left_by(calm, tmp_path)
    file = tmp_path / "other.json"
    file.write_bytes(calm[0])

    assert Process(0.0, state=tmp_path, file=file).finds().info() == [("state", "false")]
    assert Process(0.0, state=tmp_path / "none", file=file).finds().info() == [("file", "false")]


def test_what_this_process_learned_comes_before_both(calm: tuple[bytes, str], tmp_path: Path) -> None:
    """The engine said late what it is."""
    left_by(calm, tmp_path)

    process = Process(100.0, state=tmp_path).lives(CALM_SECONDS).finds()

    assert process.info() == [("process", "false")]


def test_a_state_that_burned_teaches_nothing_for_two_minutes(calm: tuple[bytes, str], tmp_path: Path) -> None:
    path = left_by(calm, tmp_path)
    path.write_text(json.dumps({**json.loads(calm[0]), "burning": True}))

    process = Process(100.0, state=tmp_path).finds()

    assert not process.harness.slo.learning.teaches(process.harness.now + 60.0)
    assert process.harness.slo.learning.teaches(process.harness.now + 121.0)


# --- what is refused -----------------------------------------------------------------------------------------------------


def test_the_state_of_another_version_of_the_engine_is_not_found(calm: tuple[bytes, str], tmp_path: Path) -> None:
    """It has a name of its own, so that both stay. As a file of another pod it is refused with the part that differs."""
    path = left_by(calm, tmp_path)

    process = Process(0.0, state=tmp_path, version="0.10").finds()
    with capture_logs() as lines:
        refused = Process(0.0, file=path, version="0.10").finds()

    assert (process.info(), process.errors()) == ([("none", "false")], 0)
    assert (refused.info(), refused.errors()) == ([("none", "false")], 1)
    assert lines[0]["why"] == "it was saved for another engine: version 0.9, and here it is 0.10"


def test_every_truncation_is_refused_and_the_process_starts_young(calm: tuple[bytes, str], tmp_path: Path) -> None:
    process = Process(0.0, state=tmp_path)
    path = left_by(calm, tmp_path)
    lengths = sorted({*range(0, len(calm[0]), 61), len(calm[0]) - 1})

    for length in lengths:
        path.write_bytes(calm[0][:length])
        process.baselines._key = None
        process.finds()
        assert process.harness.slo.came is Came.NONE
    assert process.errors() == len(lengths)


def test_an_error_is_logged_once(calm: tuple[bytes, str], tmp_path: Path) -> None:
    left_by(calm, tmp_path).write_bytes(b"{")
    process = Process(0.0, state=tmp_path)

    with capture_logs() as lines:
        for _ in range(3):
            process.baselines._key = None
            process.finds()

    assert [(line["event"], line["log_level"]) for line in lines] == [("baseline_refused", "warning")]
    assert process.errors() == 3


def test_a_missing_file_is_told_and_a_missing_state_is_not(tmp_path: Path) -> None:
    """A pod that starts for the first time has no state; a file that the config names should be there."""
    with capture_logs() as lines:
        Process(0.0, state=tmp_path).finds()
        Process(0.0, file=tmp_path / "none.json").finds()

    assert [line["why"] for line in lines] == ["No such file or directory"]


def test_a_pipe_in_place_of_the_file_holds_no_thread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with capture_logs() as lines:
        Process(0.0, file=tmp_path / "pipe").finds()

    assert [line["why"] for line in lines] == ["it is no plain file"]


def test_an_engine_that_is_down_or_silent_about_itself_has_no_baseline(calm: tuple[bytes, str], tmp_path: Path) -> None:
    left_by(calm, tmp_path)
    for fact in ("up", "asked_what"):
        process = Process(0.0, state=tmp_path)
        setattr(process.engine, fact, False)
        assert process.finds().info() == [("none", "false")]
        setattr(process.engine, fact, True)
        assert process.finds().info() == [("state", "false")]


def test_another_engine_in_its_place_is_not_compared_with_the_old_one(calm: tuple[bytes, str], tmp_path: Path) -> None:
    """A new version may be slower or faster by right; an adapter more changes nothing."""
    left_by(calm, tmp_path)
    process = Process(0.0, state=tmp_path).finds()
    process.engine.serves(("llama", "adapter"), ("adapter",))
    assert process.finds().info() == [("state", "false")]

    process.engine.version = "0.10"

    assert process.finds().info() == [("none", "false")]


# --- what is written -----------------------------------------------------------------------------------------------------


def test_a_young_process_does_not_replace_a_file_that_knows_more(calm: tuple[bytes, str], tmp_path: Path) -> None:
    path = left_by(calm, tmp_path)
    path.write_bytes(b"{")

    Process(0.0, state=tmp_path).finds().lives(10.0).saves()

    assert path.read_bytes() == b"{"


def test_the_file_is_its_owners_alone_and_nothing_else_stays(tmp_path: Path) -> None:
    """Files of engines long gone are dropped, the oldest first, and what a crash left in the middle of a write."""
    for number in range(MOST_FILES + 5):
        old = tmp_path / f"baseline-{number:016x}.json"
        old.write_text("{}")
        os.utime(old, (number, number))
    crashed = tmp_path / ".baseline-crashed"
    crashed.write_text("{")
    os.utime(crashed, (1, 1))
    (tmp_path / "notes.txt").write_text("mine")

    Process(100.0, state=tmp_path).finds().lives(CALM_SECONDS).saves()

    files = {path.name for path in tmp_path.iterdir()}
    assert len(files) == MOST_FILES + 1
    assert {"notes.txt", f"baseline-{MOST_FILES + 4:016x}.json"} <= files
    (new,) = (path for path in tmp_path.glob("baseline-*") if path.stat().st_size > 2)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_a_directory_that_is_not_there_is_counted_and_not_felt(tmp_path: Path) -> None:
    process = Process(100.0, state=tmp_path / "none").finds().lives(CALM_SECONDS)

    with capture_logs() as lines:
        process.saves().saves()

    assert process.errors() == 2
    assert [(line["event"], line["why"]) for line in lines] == [("baseline_not_saved", "No such file or directory")]


def test_the_memory_of_a_copy_is_given_back_a_few_rows_at_a_time() -> None:
    rows = [[number] for number in range(2 * FREED_AT_ONCE + 1)]

    left = [len(rows) for _ in _freed({"steps": {"count": 3}, "prefill": {"curves": rows, "learned": 7}})]

    assert left == [FREED_AT_ONCE + 1, 1, 0]


def test_a_document_takes_nothing_from_what_was_learned() -> None:
    """Its copy is emptied once it is written, so a second one has to say the same."""
    document = Process(100.0).finds().lives(CALM_SECONDS).baselines.document

    assert run_now(document()) == run_now(document())


def test_there_is_no_document_before_there_is_something_usual() -> None:
    process = Process(0.0)
    with pytest.raises(RefusedError, match="the engine is not known yet"):
        run_now(process.baselines.document())
    with pytest.raises(RefusedError, match="no usual values are known yet"):
        run_now(process.finds().baselines.document())


def test_the_task_reads_when_the_engine_is_known_and_writes_at_the_end(calm: tuple[bytes, str], tmp_path: Path) -> None:
    path = left_by(calm, tmp_path)
    process = Process(0.0, state=tmp_path)

    async def play() -> None:
        task = asyncio.create_task(process.baselines.run())
        process.baselines.engine_known()
        async with asyncio.timeout(5.0):
            while process.harness.slo.came is Came.NONE:  # noqa: ASYNC110  nothing tells of it but the page
                await asyncio.sleep(0.01)
        task.cancel()
        path.unlink()
        await process.baselines.last_save()

    asyncio.run(play())

    assert json.loads(path.read_bytes())["learners"]["pod"] == json.loads(calm[0])["learners"]["pod"]
