"""Reads the lines that an engine writes about each finished request, piece by piece. Pure; bytes in, reports out.

A line is one JSON object about one request. Its first field may be a string of any length that contains the prompt. That
string is skipped: it is never held, decoded or logged. A line is read when its end has come, however late. Lines longer than
`MAX_EXPORT_LINE_BYTES` without that string, and lines of another form, are refused and counted in `unreadable`. A line about a
request that did not pass here (another client's, the warm-up's) becomes a report like any other; it finds no request
(`ledger/pending.py`).
"""

import re

from sidecar.engines.reports.report_sources import ExportedFiles
from sidecar.ledger.report import KeyedReport


EXPORT_STEP_BYTES = 65_536
"""Bytes per step: it takes under 1 ms where every line is a report, and 25 ms where none is."""
MAX_EXPORT_LINE_BYTES = 1 << 18
"""Without the skipped string. The fields that are read have 1 KB, but log probabilities of each token may be there too."""

# Escaped characters have no end of a string in them; a raw line end does not stand in a JSON string at all.
_INSIDE = re.compile(rb'(?:[^"\\\n]++|\\[^\n])*+')


class ExportLines:
    def __init__(self, files: ExportedFiles, *, begun: bool = False) -> None:
        """`begun`: the first bytes may be the end of a line whose beginning was never read; what is left of it is passed over."""
        self._report_in = files.report_in
        self._opening = re.compile(rb'\{"%b": ?"' % files.passed_over)
        self._opening_bytes = len(b'{"": "') + len(files.passed_over)
        self._passing_over = begun
        self._rest = bytearray()
        """The unfinished line, without the skipped string."""
        self._in_string = False
        self._escaped = False
        """The last byte inside the string was a backslash that begins an escape."""
        self.unreadable = 0
        """Number of lines about no request, or too long."""

    def feed(self, data: bytes) -> list[KeyedReport]:
        """The reports in the lines that end in these bytes, of which there are at most `EXPORT_STEP_BYTES`."""
        if self._in_string:
            data = self._behind_string(data)
            if self._in_string:
                return []
        reports: list[KeyedReport] = []
        *ended, rest = data.split(b"\n")
        for line in ended:
            if self._passing_over:
                self._passing_over = False
                continue
            whole = bytes(self._rest) + line if self._rest else line
            self._rest.clear()
            if not whole.strip():
                continue
            report = self._report_in(self._without_string(whole))
            if report is None:
                self.unreadable += 1
            else:
                reports.append(report)
        if not self._passing_over:
            self._hold(rest)
        return reports

    def broken_off(self) -> None:
        """The file was cut or replaced: what was left of its last line will not be finished."""
        if self._rest:
            self.unreadable += 1
        self._rest.clear()
        self._passing_over = self._in_string = self._escaped = False

    def _hold(self, rest: bytes) -> None:
        at_beginning = len(self._rest) < self._opening_bytes
        self._rest += rest
        if at_beginning and len(self._rest) >= self._opening_bytes and (begun := self._opening.match(self._rest)):
            inside = bytes(self._rest[begun.end() :])
            del self._rest[begun.end() :]
            self._in_string = True
            self._rest += self._behind_string(inside)
        if len(self._rest) > MAX_EXPORT_LINE_BYTES:
            self._rest.clear()
            self._passing_over = True
            self.unreadable += 1

    def _without_string(self, line: bytes) -> bytes:
        """The line as it would be held if it had come in pieces, so that damage in its string counts in no case."""
        begun = self._opening.match(line)
        inside = begun and _INSIDE.match(line, begun.end())
        return line if not begun or not inside else line[: begun.end()] + line[inside.end() :]

    def _behind_string(self, data: bytes) -> bytes:
        """The bytes after the end of the string; empty if the end has not come yet."""
        start = 1 if self._escaped and data and data[:1] != b"\n" else 0  # a line's end is never inside a string
        self._escaped = self._escaped and not data
        found = _INSIDE.match(data, start)
        end = start if found is None else found.end()
        if data[end:] == b"\\":
            self._escaped = True
            return b""
        if end == len(data):
            return b""
        self._in_string = False
        return data[end:]
