"""Every kept input of every fuzz target is replayed in each run of the tests, without atheris: a find stays found.

`make fuzz` draws new inputs (CONTRIBUTING.md). Here no input is drawn: the corpus holds one small input for each branch that
libFuzzer reached, and every find that was mended.
"""

import ast
import subprocess
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.fuzz import __main__ as fuzzing
from tests.fuzz.__main__ import AN_HOUR_SECONDS, Ended, lines_for_a_test, seconds_each
from tests.fuzz.target import CALLS_AT_LEAST, Target, compiled_in, cuts
from tests.fuzz.targets import CORPUS, TARGETS, corpus_of, keep, kept


MOST_BYTES = 300_000
"""Bytes of all corpora together: they are read in every run."""


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_what_must_hold_for_a_parser_holds_for_every_kept_input(name: str) -> None:
    target = TARGETS[name]
    broken = []
    for data in kept(target):
        try:
            target.checked_within_bounds(data)
        except Exception as error:  # noqa: BLE001  whatever it is, the input is what the reader needs
            broken.append((data, repr(error)))

    assert len(kept(target)) > len(target.seeds)
    assert broken == []


def test_the_kept_inputs_are_of_known_targets_and_small() -> None:
    files = list(CORPUS.iterdir())

    assert {path.name for path in files} == {f"{name}.zip" for name in TARGETS}
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_a_corpus_is_written_as_it_stands(tmp_path: Path) -> None:
    """Inputs that are kept once more are the same file: a commit shows only what changed."""
    for target in TARGETS.values():
        keep(target, corpus_of(target), tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in CORPUS.iterdir()
    }


def test_only_the_process_that_fuzzes_imports_atheris() -> None:
    """The suite runs where atheris cannot be installed."""
    importing = [
        path.name
        for path in CORPUS.parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import) and any(alias.name == "atheris" for alias in node.names)
    ]

    assert importing == ["child.py"]


def test_cuts_lose_no_byte() -> None:
    data = bytes(range(40))

    ways = list(cuts(data))

    assert [b"".join(pieces) for pieces in ways] == [data] * 4
    assert ([data], 40) == (ways[0], len(ways[1]))
    assert list(cuts(b"")) == [[b""], [], [], []]


def test_work_that_grows_with_the_square_of_the_bytes_is_told() -> None:
    def squared(data: bytes) -> None:
        for _ in range(len(data) ** 2):
            len(data)

    target = Target("squared", squared, calls_a_byte=10)
    target.checked_within_bounds(bytes(10))

    with pytest.raises(AssertionError, match=f"the bound is {CALLS_AT_LEAST + 5000}"):
        target.checked_within_bounds(bytes(500))


def test_a_time_over_all_targets_is_divided_and_an_hour_each_is_the_default() -> None:
    assert seconds_each(None, None, 20, 2) == AN_HOUR_SECONDS
    assert seconds_each(None, 7, 20, 2) == 7
    assert seconds_each(4.0, None, 20, 2) == 18  # ten turns of 24 s, of which six are the start
    assert seconds_each(0.1, None, 20, 2) == 1


def test_the_targets_of_compiled_parsers_are_those_whose_checks_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a function of their file too. What the wheel compiles comes from the list of the build."""
    compiled = {name for name, target in TARGETS.items() if compiled_in(target.check)}
    played: list[str] = []

    def run(target: Target, _seconds: int, _inputs: int | None) -> Ended:
        played.append(target.name)
        return Ended(target, 0, 1, (), Path("log"))

    monkeypatch.setattr(fuzzing, "find_spec", lambda _: True)
    monkeypatch.setattr(fuzzing, "_run", run)

    assert {"requests", "responses", "dialects"} <= compiled
    assert not {"yaml", "inflation"} & compiled
    assert fuzzing.main(["--compiled", "--seconds-each=1", "--jobs=1"]) == 0
    assert set(played) == compiled


def test_inputs_that_are_counted_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They come from one seed and from the kept corpus alone, whatever an earlier run has grown."""
    ran: list[tuple[list[str], list[str], str]] = []

    def run(command: list[str], **options: Any) -> CompletedProcess[bytes]:
        grown = tmp_path / "counted" / "sse"
        ran.append((command, sorted(path.name for path in grown.iterdir()), options["env"]["PYTHONHASHSEED"]))
        (grown / "of-an-earlier-run").write_bytes(b"data")
        options["stdout"].write(b"stat::number_of_executed_units: 5")
        return CompletedProcess(command, 0)

    monkeypatch.setattr(fuzzing, "find_spec", lambda _: True)
    monkeypatch.setattr(fuzzing, "FOUND", tmp_path)
    monkeypatch.setattr(fuzzing, "_can_be_given_same_addresses", lambda: True)
    monkeypatch.setattr(subprocess, "run", run)

    assert [fuzzing.main(["--inputs=5", "--only=sse"]) for _ in range(2)] == [0, 0]

    first, second = ran
    assert first == second
    command, grown, hash_seed = first
    assert {"setarch", "-runs=5", "-seed=1"} < set(command)
    assert not any(word.startswith("-max_total_time") for word in command)
    assert (grown, hash_seed) == ([f"seed-{number}" for number in range(len(TARGETS["sse"].seeds))], "0")


@pytest.mark.parametrize(
    ("status", "finds", "code"),
    [(0, 0, 0), (77, 1, 1), (1, 0, 1)],
    ids=["nothing", "a find", "a broken target"],
)
def test_a_find_and_a_target_that_cannot_run_fail(
    status: int, finds: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzing, "find_spec", lambda _: True)
    ended = Ended(TARGETS["sse"], status, 5, (Path("crash-0"),) * finds, Path("sse.log"))
    monkeypatch.setattr(fuzzing, "_run", lambda _target, _seconds, _inputs: ended)

    assert fuzzing.main(["--only=sse", "--seconds-each=1"]) == code


def test_a_find_is_printed_as_a_line_of_python_and_as_the_command_that_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = tmp_path / "sse" / "crash-0123456789abcdef"
    find.parent.mkdir()
    added: list[tuple[str, Mapping[str, bytes]]] = []
    monkeypatch.setattr(fuzzing, "keep", lambda target, inputs: added.append((target.name, inputs)))
    find.write_bytes(b"a\x00")

    said = lines_for_a_test(TARGETS["sse"], find, "AssertionError: the cuts change the events\n==1==")

    assert "FOUND in sse: AssertionError: the cuts change the events" in said
    assert f'make fuzz ARGS="--add {find}"' in said
    assert """TARGETS["sse"].checked_within_bounds(b'a\\x00')""" in said
    assert fuzzing.main(["--add", str(find)]) == 0
    assert added == [("sse", corpus_of(TARGETS["sse"]) | {"find-456789abcdef": b"a\x00"})]
    assert fuzzing.main(["--add", str(tmp_path / "nowhere")]) == 2
