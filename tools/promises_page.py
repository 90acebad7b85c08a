"""Writes docs/promises.md: each promise about traffic, its figure, and the test or the command that shows it.

Knows the promises. A figure that a bench or a limit of the code holds is taken from there. Refuses to know measured
values: those are in docs/evidence/, with their date and machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.bounds import added_latency, leaving, memory
from tools.markdown import table


_BEFORE = """# Promises

<!-- Written by `make docs`; a test holds the page to the code, and checks that each test and each target exists. -->

Each row is a promise to the clients and to the operators of an engine, with its figure and what shows it. A path is a test; CI
runs it. A `make` target measures. A promise that is broken is a bug: please report it. Measured values, with their machine and their
date, are in [evidence/performance.md](evidence/performance.md). What the sidecar changes on the wire is in
[deviations.md](deviations.md).
"""


@dataclass(frozen=True, slots=True)
class Promise:
    """One row. `shown_by`: tests as PATH::NAME (or a whole file), or `make` targets."""

    promise: str
    figure: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The promises about one subject."""

    title: str
    promises: tuple[Promise, ...]


CHAPTERS = (
    Chapter(
        "The bytes",
        (
            Promise(
                "The client gets the engine's bytes, and the engine gets the client's, whatever their framing and their segments; every exception is in deviations.md.",
                "0 bytes differ",
                ("tests/proxy/test_transparency.py::test_what_goes_in_comes_out",),
            ),
            Promise(
                "An answer that breaks off never looks whole.",
                "0 in all framings, at every cut",
                ("tests/proxy/test_transparency.py::test_a_response_that_breaks_off_never_looks_whole",),
            ),
            Promise(
                "If measuring fails, the client's bytes are the same, and the failure is counted.",
                "0 bytes differ, at every hook of the observer",
                ("tests/proxy/test_observer.py",),
            ),
        ),
    ),
    Chapter(
        "Requests",
        (
            Promise(
                "Every request ends in exactly one outcome, and after any mixture of faults no request is in flight.",
                "sum of outcomes = sum of requests",
                (
                    "tests/test_abort.py::test_after_any_mixture_of_faults_no_request_is_in_flight_and_outcomes_add_up_to_requests",
                    "tests/proxy/test_faults.py",
                ),
            ),
            Promise(
                "A client that leaves frees the engine at once, in every phase.",
                f"{leaving.BOUND_MS:g} ms, median",
                ("tests/test_abort.py::test_who_leaves_frees_the_engine_in_every_phase", "make bounds"),
            ),
            Promise(
                "At shutdown, a stream that fits the grace time is not cut, and requests that come late are served.",
                "0 cut streams",
                ("tests/proxy/test_wire_shutdown.py",),
            ),
        ),
    ),
    Chapter(
        "Delay and memory",
        (
            Promise(
                "The sidecar adds little to the time to first token.",
                f"{added_latency.TTFT_BOUND_MS:g} ms, median of pairs",
                ("make bounds",),
            ),
            Promise(
                "The sidecar adds little to the way of each later event.",
                f"{added_latency.EVENT_BOUND_MS:g} ms, median of pairs",
                ("make bounds",),
            ),
            Promise(
                "A reader that has stopped holds a bounded buffer.",
                f"{memory.BOUND_KIB:g} KiB of the process for each",
                ("make bounds",),
            ),
        ),
    ),
    Chapter(
        "What is shown and written",
        (
            Promise(
                "No value that a client sends makes a series.",
                "0 new series after 20,000 inventions",
                ("tests/test_hostile_labels.py::test_twenty_thousand_inventions_leave_the_series_as_they_were",),
            ),
            Promise(
                "A secret that a client sends is in no metric, log line or page.",
                "0 finds",
                (
                    "tests/test_hostile_labels.py::test_a_secret_comes_out_nowhere",
                    "tests/logs/test_setup.py::test_no_secret_is_ever_written",
                ),
            ),
        ),
    ),
)


def page(chapters: Iterable[Chapter] = CHAPTERS) -> str:
    """The whole page."""
    return _BEFORE + "".join(map(_section, chapters))


def _section(chapter: Chapter) -> str:
    rows = (
        (each.promise, each.figure, ", ".join(f"`{shown}`" for shown in each.shown_by)) for each in chapter.promises
    )
    return f"\n## {chapter.title}\n\n{table(('promise', 'figure', 'shown by'), rows)}"
