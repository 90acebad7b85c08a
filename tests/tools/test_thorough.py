"""`make thorough`: keys say what a part depends on, fresh parts are skipped, and only a part that passed leaves a record."""

import _thread
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.imports import imports_of
from tools import thorough
from tools.thorough import (
    MOST_MINUTES,
    PARTS,
    RECORDS,
    WRITTEN_BY_PARTS,
    Part,
    Run,
    files_of,
    imported,
    key_of,
    main,
    record_of,
    state_of,
)


CHECKOUT = Path(__file__).parents[2]
MAKEFILE = """\
SIDES ?= client \\
  engine
soak: .venv/.dev ## streams
	python -m bench.soak $(SIDES)

lint: ## words
	ruff check

.venv/.dev: pyproject.toml
	pip install .
"""
PART = Part("soak", 1, "make soak ARGS=--minutes=10", ("sidecar", "bench/soak.py"))
Change = Callable[[Path], object]


def repository(folder: Path) -> Path:
    """A small checkout: the part's two paths, a module that one of them imports, and what no part depends on."""
    files = {
        "Makefile": MAKEFILE,
        "sidecar/relay.py": "RELAY = 1\n",
        "bench/soak.py": "from bench.origin import Origin\n",
        "bench/origin.py": "class Origin: pass\n",
        "bench/peers.py": "PEERS = 3\n",
        "README.md": "# It\n",
        ".gitignore": "/.cache/\n__pycache__/\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return repository(tmp_path / "one")


def edits(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text)


# --- keys ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edits("sidecar/relay.py", "RELAY = 2\n"), id="a file"),
        pytest.param(edits("sidecar/new.py", ""), id="a file that git does not know yet"),
        pytest.param(lambda folder: (folder / "sidecar/relay.py").unlink(), id="a file that is gone"),
        pytest.param(lambda folder: (folder / "sidecar/relay.py").rename(folder / "sidecar/way.py"), id="a name"),
        pytest.param(lambda folder: (folder / "sidecar/relay.py").chmod(0o755), id="the mode"),
        pytest.param(edits("bench/origin.py", "class Origin: port = 1\n"), id="what a file imports"),
        pytest.param(edits("Makefile", MAKEFILE.replace("bench.soak", "bench.soak --streams=9")), id="the recipe"),
        pytest.param(edits("Makefile", MAKEFILE.replace("  engine", "  engine spans")), id="a variable of it"),
        pytest.param(edits("Makefile", MAKEFILE.replace("install .", "install -e .")), id="what it needs first"),
    ],
)
def test_a_change_of_what_a_part_depends_on_makes_another_key(checkout: Path, change: Change) -> None:
    before = key_of(PART, checkout)
    imported.cache_clear()
    change(checkout)

    assert key_of(PART, checkout) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edits("bench/peers.py", "PEERS = 4\n"), id="another file"),
        pytest.param(edits("README.md", "# That\n"), id="a page"),
        pytest.param(edits("Makefile", MAKEFILE.replace("streams", "many streams")), id="the words of make help"),
        pytest.param(edits("Makefile", MAKEFILE.replace("ruff check", "ruff check .")), id="another target"),
        pytest.param(lambda folder: (folder / "sidecar/__pycache__").mkdir(), id="what git ignores"),
        pytest.param(
            lambda folder: subprocess.run(["git", "-C", str(folder), "reset", "--quiet"], check=True), id="the index"
        ),
    ],
)
def test_no_other_change_does(checkout: Path, change: Change) -> None:
    before = key_of(PART, checkout)
    change(checkout)

    assert key_of(PART, checkout) == before


def test_no_record_is_in_a_key(checkout: Path) -> None:
    """Not even in that of a part that depends on the whole tree."""
    whole = replace(PART, paths=(".",))
    before = key_of(whole, checkout)
    for name in (f"{RECORDS}/soak.json", *WRITTEN_BY_PARTS[1:]):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("{}")

    assert key_of(whole, checkout) == before
    assert files_of(WRITTEN_BY_PARTS) == []


@pytest.mark.long
def test_every_path_of_the_table_exists() -> None:
    paths = {path for part in PARTS for path in part.paths}

    assert [path for path in sorted(paths) if not files_of((path,))] == []


def test_imports_are_followed_as_python_reads_them() -> None:
    """Each module that a bench or a tool imports is found, and each package on the way."""
    for path in sorted({*(CHECKOUT / "bench").glob("*.py"), *(CHECKOUT / "tools").glob("*.py")}):
        files = {str(Path(*name.split("."))) for name in imports_of(path)}
        wanted = {
            f"{each}{end}" for each in files for end in (".py", "/__init__.py") if (CHECKOUT / f"{each}{end}").is_file()
        }

        assert wanted - imported(str(path.relative_to(CHECKOUT))) == set(), path


@pytest.mark.parametrize(
    ("marker", "names"),
    [("live", {"live", "garden", "commands-of-pages"}), ("bench", {"benches"}), ("release", {"release"})],
)
def test_a_part_that_plays_marked_tests_depends_on_all_of_them(marker: str, names: set[str]) -> None:
    marked = {
        str(path.relative_to(CHECKOUT))
        for path in (CHECKOUT / "tests").rglob("test_*.py")
        if path != Path(__file__) and f"mark.{marker}" in path.read_text()
    }
    files = {file for part in PARTS if part.name in names for file in files_of(part.paths)}

    assert marked
    assert marked - files == set()


def test_the_parts_that_need_a_clock_fit_into_the_time() -> None:
    assert sum(part.minutes for part in PARTS if part.needs_clock) <= MOST_MINUTES
    assert len({part.name for part in PARTS}) == len(PARTS)


# --- runs ------------------------------------------------------------------------------------------------------------------


def part(name: str, command: str, **more: object) -> Part:
    return replace(Part(name, 1, command, ("sidecar",)), **more)  # type: ignore[arg-type]


def test_a_part_that_passes_is_recorded_and_skipped_until_its_files_change(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [part("well", "echo once >> .cache/ran; echo '=== 3 passed in 0.1s ==='")]

    assert main([], parts, checkout) == 0
    assert main([], parts, checkout) == 0
    assert "well: fresh, skipped" in capsys.readouterr().out
    record = record_of(parts[0], checkout)
    assert record is not None
    assert (record.key, record.result) == (key_of(parts[0], checkout), "3 passed in 0.1s")
    (checkout / "sidecar/relay.py").write_text("RELAY = 3\n")
    assert state_of(parts[0], checkout) == "stale"
    assert main([], parts, checkout) == 0
    assert (checkout / ".cache/ran").read_text() == "once\n" * 2


def test_a_part_that_fails_leaves_nothing_and_the_others_go_on(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one whose files were changed while it ran. An earlier record stays, and is stale or fresh by its key."""
    parts = [
        part("broken", "echo the cause; exit 3"),
        part("changed", "echo >> sidecar/relay.py", needs_clock=False),
        part("well", "[ $CI = true ] && echo fine", paths=("bench",)),
    ]

    assert main([], parts, checkout) == 1
    assert [state_of(each, checkout) for each in parts] == ["missing", "missing", "fresh"]
    told = capsys.readouterr().out
    assert "   the cause\n== broken FAILED after 0.0 min: exit code 3" in told
    assert "== changed FAILED after 0.0 min: its files were changed while it ran" in told
    assert "FAILED: " in told.splitlines()[-1]
    assert ".ci/install --thorough" in told.splitlines()[-1]


@pytest.mark.parametrize(
    "result",
    [
        "=== 1 passed, 2 not measured in 3 s ===",
        "27 bounds kept, 0 broken, 1 not measured",
        "25 runs, 3 not measured: 0 bounds",
    ],
)
def test_what_was_not_measured_leaves_no_record(
    result: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = part("bounds", f"echo '{result}'")

    assert main([], [one], checkout) == 1
    assert state_of(one, checkout) == "missing"
    assert "not measured, because this machine was busy: run it again" in capsys.readouterr().out


def test_a_handover_needs_all_of_them_fresh(checkout: Path) -> None:
    parts = [part("one", "echo 27 bounds kept, 0 broken, 0 not measured"), part("two", "true")]

    assert main(["--only", "one"], parts, checkout) == 0
    assert [main(["--status"], parts, checkout), main(["--status", "--whole"], parts, checkout)] == [0, 1]
    assert main([], parts, checkout) == 0
    assert main(["--status", "--whole"], parts, checkout) == 0


def test_a_part_that_is_played_alone_has_none_beside_it(checkout: Path) -> None:
    """It comes first, wherever it stands in the table."""
    run = Run(checkout)
    order = "echo {} >> .cache/order"
    parts = [
        part("beside", order.format("beside"), needs_clock=False),
        part("clock", order.format("clock")),
        part("alone", f"sleep 0.2; {order.format('alone')}", alone=True),
    ]

    run.all(parts)

    assert (checkout / ".cache/order").read_text().split()[0] == "alone"
    assert len(run.passed) == len(parts)


def test_what_is_interrupted_leaves_no_child_and_no_record(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the part that needs a clock ends the one beside it too."""
    parts = [part("slow", "sleep 600"), part("beside", "echo $$ > .cache/pid; sleep 600", needs_clock=False)]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts a job in its background with it ignored
    # The second, two seconds later, is for a first that Python drops: an exception in a finalizer is only told.
    interrupts = iter([_thread.interrupt_main, *[lambda: None] * 40, _thread.interrupt_main])

    def say(_: str) -> None:
        pid = checkout / ".cache/pid"
        if run.playing() == ["beside", "slow"] and pid.exists() and pid.read_text():
            next(interrupts, lambda: None)()

    monkeypatch.setattr(thorough, "say", say)
    monkeypatch.setattr(thorough, "SAY_EVERY_SECONDS", 0.05)
    run = Run(checkout)
    with pytest.raises(KeyboardInterrupt):
        run.all(parts)

    with pytest.raises(ProcessLookupError):
        os.kill(int((checkout / ".cache/pid").read_text()), 0)
    assert [state_of(each, checkout) for each in parts] == ["missing", "missing"]
    assert (run.passed, run.failed) == ([], [])
