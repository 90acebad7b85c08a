"""The sources of reports that are neither in the answer nor in a span. An engine's file declares one; the fetcher reads it.

There are three forms: files with one line per request, a page of records that each read empties, and a page of sums, whose
growth is one request's if it ended alone. Plain data without I/O (`fetcher.py` has that) and without engines.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sidecar.engines.reports.lone_requests import Histogram
from sidecar.ledger.report import KeyedReport


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """Files that the engine writes into a folder which the sidecar sees."""

    setting: str
    """The key of `engine.*` that names the folder; unset, nothing is read."""
    hint: str
    """Advice where the folder cannot be read."""
    name: re.Pattern[str]
    """The names of its files; sorted by the pattern's group, or where it has none as they are, the newest stands last."""
    passed_over: bytes
    """The name of each line's first field, whose string is not read; empty where there is no such field."""
    report_in: Callable[[bytes], KeyedReport | None]
    """The report in one line; None where it is no request's, or states none of its times. Must not raise."""


@dataclass(frozen=True, slots=True)
class PolledRecords:
    """A page that states each record once: each read removes the records."""

    setting: str
    """The key of `engine.*` that allows it."""
    path: str
    hint: str
    gone: str
    """Advice for releases without the page."""
    reports_in: Callable[[bytes], Iterator[KeyedReport | None]]
    """The report of each record in one answer, None where it has none. Must not raise."""


@dataclass(frozen=True, slots=True)
class LoneSums:
    """A page of metrics with sums and counts of each finished request's times.

    They are histograms, or bare sums with one count for all of them (`counted_by`).
    """

    path: str
    hint: str
    names: Mapping[Histogram, bytes]
    counted_by: bytes = b""
    """The name of the requests' count, where the sums are no histograms. Such a page states queue and whole time alone, and counts a request
    once for each model that it passes."""
    per_second: float = 1.0
    """Units of the sums in a second."""
    inside: tuple[bytes, ...] = ()
    """Beginnings of names that show an engine inside this server, which has a queue of its own."""


Source = ExportedFiles | PolledRecords | LoneSums
