"""A pytest plugin for tests that are marked `timed`: if one fails while the control was late, it was not measured.

It is then played once more, unless its time limit ended it, because a busy machine is mostly busy for a moment: the second time counts. If the control is
late again, the test is skipped with that very reason, and is counted and listed at the end with what it failed by, so that nothing is
hidden. If the control was in time, the failure stands. So does one that no late process makes: an error of the code (TypeError), a tool
that is missing. The seconds of a test are its own and those in which its fixtures were set up, be it for another test. What fails in the
teardown was left open, and stands. `tests/conftest.py` registers the plugin.
"""

import re
import subprocess
import time
from collections.abc import Generator, Iterator
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from tests.support.control import Beat, Control, why_late


NOT_MEASURED = "not measured"
KEPT_CHARACTERS = 2_000
"""The end of a failure, which names its cause."""
_LATE = (AssertionError, TimeoutError, ConnectionError, subprocess.TimeoutExpired)
"""Errors that a late process makes of a test: a figure or a state that is not there yet, or a wait that ends."""
_LIMIT = re.compile(r"Timeout \(>.*pytest-timeout")
"""pytest-timeout ends a test by `pytest.fail`, with these words."""


def not_measured(why: str) -> NoReturn:
    """Skip the calling test for the reason `why`: the server that it asks says itself that this machine did not let it work."""
    pytest.skip(f"{NOT_MEASURED}: {why}")


class Timed:
    """Runs the control while tests with the mark follow each other, and judges each failure of such a test beside it."""

    def __init__(self) -> None:
        self._control: Control | None = None
        self._beats: list[Beat] = []
        """The beats of controls that have ended: a fixture may have been set up beside one of them."""
        self._set_up: dict[str, tuple[float, float]] = {}
        """By fixture: when its last setup began and ended."""
        self._began_at = 0.0

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Play a timed test, and once more if it was not measured. A fixture that others share is not set up again."""
        if not _is_timed(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        told = [_told(report) for report in reports]
        if any(told) and not any(map(_LIMIT.search, told)):  # the time limit of a test is set once, and is used up then
            getattr(item, "_initrequest")()  # noqa: B009  pytest has no public name
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._control is None and _is_timed(item):
            self._control = Control().__enter__()
        self._began_at = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> None:
        if self._control is not None and (nextitem is None or not _is_timed(nextitem)):
            self._beats += self._control.beats()
            self._control.__exit__(None, None, None)
            self._control = None

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        began_at = time.monotonic()
        try:
            return (yield)
        finally:
            self._set_up[_key(fixturedef)] = began_at, time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and str(call.excinfo.value).startswith(NOT_MEASURED) and report.skipped:
            report.user_properties.append((NOT_MEASURED, str(call.excinfo.value)))
            return report
        if not report.failed or call.when == "teardown" or not _is_timed(item) or not _may_be_late(call):
            return report
        if not (why := self._why_late(item)):
            return report
        path, line, _ = item.reportinfo()
        report.user_properties.append((NOT_MEASURED, f"{why}\n{report.longreprtext[-KEPT_CHARACTERS:]}"))
        report.outcome = "skipped"
        report.longrepr = (str(path), line or 0, f"{NOT_MEASURED}: this machine was busy: {why}")
        return report

    def _why_late(self, item: pytest.Item) -> str:
        beats = self._beats + (self._control.beats() if self._control is not None else [])
        fixtures: dict[str, Any] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  pytest has no public name
        used = {_key(one) for definitions in fixtures.values() for one in definitions}
        spans = [(self._began_at, time.monotonic()), *(self._set_up[key] for key in used if key in self._set_up)]
        return next((why for began_at, ended_at in spans if (why := why_late(beats, began_at, ended_at))), "")

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        """Also asked about a module that cannot be collected."""
        return (NOT_MEASURED, "b", NOT_MEASURED.upper()) if _told(report) else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = terminalreporter.stats.get(NOT_MEASURED, [])
        if reports:
            terminalreporter.section(f"{len(reports)} {NOT_MEASURED}: this machine was busy")
        for report in reports:
            terminalreporter.write_line(f"\n{report.nodeid}: {_told(report)}")

    def pytest_unconfigure(self) -> None:
        """A run that was interrupted has no last teardown."""
        if self._control is not None:
            self._control.__exit__(None, None, None)


def _is_timed(item: pytest.Item) -> bool:
    return item.get_closest_marker("timed") is not None


def _may_be_late(call: pytest.CallInfo[None]) -> bool:
    """Whether a process that did not get its time can be the reason of this failure."""
    if call.excinfo is None:
        return False
    error = call.excinfo.value
    return any(isinstance(each, _LATE) or _LIMIT.search(str(each)) is not None for each in _each(error))


def _each(error: BaseException) -> Iterator[BaseException]:
    """The error itself, or those of its group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _each(one)
    else:
        yield error


def _key(fixturedef: pytest.FixtureDef[Any]) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}"


def _told(report: pytest.TestReport | pytest.CollectReport) -> str:
    properties = report.user_properties if isinstance(report, pytest.TestReport) else []
    return next((str(text) for name, text in properties if name == NOT_MEASURED), "")
