"""The differences of the compiled build from Python: no more and no less than the table below says.

mypyc's page "Differences from Python" names some of it. The rest was found in mypyc's C runtime (2.4) and by these probes. A probe
that is not in the table must give the same on both builds in each of its cases, and one that is in the table must differ in each.
So mypyc cannot change in either direction without a word.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from tests.builds import outcomes, probes


LINTED = "tests/builds/test_constructs.py refuses it"
STATED = "each call states the type that the annotation says, and mypy --strict holds it to that"


@dataclass(frozen=True, slots=True)
class Difference:
    """One construct that mypyc compiles to something else."""

    compiled: str
    """The behaviour of the compiled build."""
    instead: str
    """The way of the project, on which both builds do the same."""
    before: tuple[int, int] = (99, 0)
    """Only on Pythons before this one."""
    since: tuple[int, int] = (3, 0)
    """Only on Pythons from this one on."""


KNOWN = {
    "a_slice_of_bytes_that_ends_before_it_begins": Difference("SystemError, where Python gives b''", LINTED),
    "an_index_beyond_a_machine_word": Difference(
        "ValueError, where Python raises IndexError", "no index comes from outside"
    ),
    "anything_for_bytes": Difference("TypeError at the call", STATED),
    "anything_for_text": Difference("TypeError at the call", STATED),
    "a_list_whose_members_are_other": Difference("TypeError where the member is read", STATED),
    "a_text_for_an_attribute_that_is_a_number": Difference("TypeError at the assignment", STATED),
    "a_ratio_of_ints_above_2_53": Difference("each int becomes a float first, and is rounded", "no count is so large"),
    "a_whole_number_above_2_53_compared": Difference(
        "the int becomes a float, and loses digits", "nanoseconds stay ints"
    ),
    "the_lesser_of_an_int_and_a_float": Difference("the int becomes a float", "a float is written for a float: 0.0"),
    "an_int_for_a_float": Difference("becomes a float: 1 is written as 1.0", "a float is written for a float: 0.0"),
    "a_sum_of_no_floats": Difference("0.0, where Python gives 0", "a sum of no floats is compared, and not written"),
    "a_sum_of_floats": Difference(
        "adds one after the other; Python 3.12 keeps what each addition loses",
        "sums decide with a margin",
        since=(3, 12),
    ),
    "a_bool_for_an_int": Difference("becomes 1 or 0", STATED),
    "what_is_no_number_and_is_itself": Difference("is compared by its value, so it is in no list", "no list holds it"),
    "floats_by_identity": Difference("two objects: `is` says no", "floats are compared by =="),
    "a_pair_by_identity": Difference("two objects, for a tuple of stated length", "pairs are compared by =="),
    "greek_text_that_ends_in_sigma": Difference(
        "lower() knows no other form of the last letter", "lower() is called on bytes and on ASCII", before=(3, 13)
    ),
    "a_loop_variable_after_an_empty_range": Difference("is the range's first number, where Python leaves it", LINTED),
    "the_cause_of_an_error": Difference("`raise ... from error` sets no __cause__", LINTED),
    "the_context_of_an_error_from_none": Difference("`from None` hides nothing in a traceback", LINTED),
    "a_generator_left_alone": Difference("its `finally` does not run", LINTED),
    "a_stop_within_a_generator": Difference("StopIteration ends it, where Python raises RuntimeError", LINTED),
    "a_class_attribute_changed_later": Difference(
        "objects that were made before keep the old value", "none is changed"
    ),
    "a_weak_reference_after_its_object": Difference("TypeError: a native class has none", LINTED),
    "a_method_replaced_from_outside": Difference("the compiled one is called", "such a test is marked `reaches_in`"),
    "a_function_replaced_from_outside": Difference("the compiled one is called", "such a test is marked `reaches_in`"),
    "a_constant_replaced_from_outside": Difference("the compiled one is used", "such a test is marked `reaches_in`"),
    "an_object_copied": Difference("FrozenInstanceError for a frozen dataclass", LINTED),
    "a_dataclass_pickled": Difference("FrozenInstanceError for a frozen dataclass", LINTED),
}
"""Every construct that differs. One more does, and no process lives to tell it: calls without end overflow the stack
(test_a_compiled_function_that_calls_itself_without_end_ends_the_process)."""


EXPRESSIONS = Path(__file__).parent / "expressions.txt"


def source() -> str:
    """The file of probes, with a function for each of the expressions behind it."""
    rows = re.findall(r"^(\w+\(.*\) -> \w+) of (.*)\n((?:    .*\n)+)", EXPRESSIONS.read_text(), re.MULTILINE)
    functions = [f"@probe({cases})\ndef {head}:\n    return (\n{value}    )\n" for head, cases, value in rows]
    return "\n\n".join([Path(probes.__file__).read_text(), *functions])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with the probes as they are, and one in which they are compiled as the wheel is."""
    folders = {build: tmp_path_factory.mktemp(build) for build in ("pure", "compiled")}
    for folder in folders.values():
        (folder / "sidecar").mkdir()
        (folder / "sidecar" / "__init__.py").touch()
        (folder / "sidecar" / "probes.py").write_text(source())
    environment = os.environ | hatch_build.FLAGS
    command = [sys.executable, hatch_build.__file__, "--in-place", "sidecar/probes.py"]
    done = subprocess.run(
        command, cwd=folders["compiled"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folders


def told(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", outcomes.__file__, str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def found(folder: Path) -> dict[str, Any]:
    """The outcome of each probe in each of its cases. A build that gives nothing has crashed."""
    done = told(folder)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["file"].endswith(".py" if folder.name.startswith("pure") else ".so")
    outcomes: dict[str, Any] = answer["found"]
    return outcomes


@pytest.mark.compiled
@pytest.mark.timeout(600)
def test_the_compiled_build_differs_from_python_where_the_table_says_so_and_nowhere_else(
    places: dict[str, Path],
) -> None:
    pure, compiled = found(places["pure"]), found(places["compiled"])
    differing = {
        name: sum(one != other for one, other in zip(cases, compiled[name], strict=True))
        for name, cases in pure.items()
    }

    expected = {
        name: len(pure[name]) for name, known in KNOWN.items() if known.since <= sys.version_info[:2] < known.before
    }
    assert {name: count for name, count in differing.items() if count} == expected
    assert len(pure) > len(probes.PROBES) + 70


@pytest.mark.compiled
@pytest.mark.timeout(600)
def test_a_compiled_function_that_calls_itself_without_end_ends_the_process(places: dict[str, Path]) -> None:
    """Python raises RecursionError. tests/builds/test_constructs.py refuses a compiled function that calls itself."""
    deep = str(10_000_000)

    assert "RecursionError" in told(places["pure"], deep).stdout
    assert told(places["compiled"], deep).returncode < 0
