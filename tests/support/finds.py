"""A pytest plugin that prints Hypothesis's finds as lines for the test: `-p tests.support.finds` (`.ci/random`).

It reads the note that Hypothesis leaves on the exception, and keeps the arguments that `@given` draws. Where these
cannot be written down (interactive draws, a state machine), it prints the `@reproduce_failure` that Hypothesis offers
instead.
"""

import ast
import re
from collections.abc import Collection, Generator, Iterator

import pytest


FIND = "hypothesis find"
FINDS_ALONE = 10
"""The exit status of a run in which nothing failed but by examples that Hypothesis has drawn; pytest's own are 0 to 5."""
CALL = re.compile(r"(?:Failing test case|Falsifying example): \w+\(\n(?P<arguments>.*?\n)\)$", re.DOTALL | re.MULTILINE)
ARGUMENT = re.compile(r"^    (?P<name>\w+)=.*?\n(?=    \w|\Z)", re.DOTALL | re.MULTILINE)
BLOB = re.compile(r"@reproduce_failure\(.*?\)(?= )", re.DOTALL)


def lines_of(notes: str, not_drawn: Collection[str]) -> str | None:
    """The decorator for a failure with these notes; None if Hypothesis has noted nothing that can be pasted."""
    call, blob = CALL.search(notes), BLOB.search(notes)
    if call is not None:
        drawn = [found[0] for found in ARGUMENT.finditer(call["arguments"]) if found["name"] not in not_drawn]
        example = f"@example(\n{''.join(drawn)})"
        if drawn and "=data(...)" not in example and _is_python(example):
            return example
    return blob[0] if blob is not None else None


def _is_python(decorator: str) -> bool:
    try:
        ast.parse(f"{decorator}\ndef test() -> None: ...")
    except SyntaxError:
        return False
    return True


def _notes_of(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _notes_of(one)
    else:
        yield "\n".join(getattr(error, "__notes__", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if (
        report.failed
        and call.excinfo is not None
        and isinstance(item, pytest.Function)
        and "hypothesis" in item.keywords
    ):
        found = {lines_of(notes, {"self", *item.fixturenames}) for notes in _notes_of(call.excinfo.value)}
        report.user_properties += [(FIND, lines) for lines in found]
    return report


def is_find(report: pytest.TestReport) -> bool:
    """Whether Hypothesis has noted the example by which this test failed."""
    return any(name == FIND and lines for name, lines in report.user_properties)


class _Failures:
    """Counts of this run: failures that are finds, and all others."""

    finds = others = 0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _Failures.finds += is_find(report)
        _Failures.others += not is_find(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The run exits with FINDS_ALONE where finds are all that failed. A property that fails for every example is a find too."""
    if session.exitstatus == pytest.ExitCode.TESTS_FAILED and _Failures.finds and not _Failures.others:
        session.exitstatus = FINDS_ALONE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    finds = [
        (report.nodeid, lines)
        for report in terminalreporter.getreports("failed")
        for name, lines in report.user_properties
        if name == FIND
    ]
    if not finds:
        return
    terminalreporter.section("finds: paste the lines above the test's @given, and mend what they show")
    for nodeid, lines in finds:
        terminalreporter.write_line(f"\n# {nodeid}")
        terminalreporter.write_line(lines or "# Hypothesis names no arguments: see the failure above.")
    seed = config.getoption("--hypothesis-seed")
    terminalreporter.write_line(f"\nThe same examples again: .ci/random {seed}")
