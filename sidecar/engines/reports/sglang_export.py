"""The lines that SGLang writes on each finished request, read piece by piece. Pure; bytes in, words out.

`--export-metrics-to-file` writes one JSON object a request (0.5.6 and newer; read in 0.5.23,
`srt/observability/request_metrics_exporter.py`): `request_parameters`, a string in which the prompt may stand, and behind
it the fields of `meta_info`, its `id` being the answer's. Five of them are decoded and nothing else: the prompt is never
made into an object or logged, and a long one is passed over without being held. A line is read when its end has come,
however late. It refuses lines that are over `MAX_LINE_BYTES` beside the prompt, and lines that are no such object; both are
counted in `unreadable`. A line of another request than ours (another client's, the warm-up's) becomes a word like any
other: the joins find out that it is nobody's.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sidecar.engines.sglang import report_of
from sidecar.ledger.report import KeyedReport, response_key


STEP_BYTES = 65_536
"""Fed at most so much at a time, a step takes under 1 ms even where every line in it is a word."""
MAX_LINE_BYTES = 1 << 18
"""Without `request_parameters`; what is read has 1 KB, but log probabilities of each token may stand there too."""
MAX_ID_CHARACTERS = 256


_PARAMETERS = re.compile(rb'\{"request_parameters": ?"')
_LONGEST_BEGINNING = len(b'{"request_parameters": "')
# Escaped characters have no end of a string in them; a raw line end does not stand in a JSON string at all.
_INSIDE = re.compile(rb'(?:[^"\\\n]++|\\[^\n])*+')


class _Line(msgspec.Struct, frozen=True):
    id: Any = None
    queue_time: Any = None
    forward_entry_time: Any = None
    prefill_finished_time: Any = None
    num_retractions: Any = None

    def meta(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


_LINE = msgspec.json.Decoder(_Line)


def word_of_line(line: bytes) -> KeyedReport | None:
    """The word in one line; None where it is no request's, or states none of its times. Never raises."""
    try:
        said = _LINE.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return None
    if not isinstance(said.id, str) or not 0 < len(said.id) <= MAX_ID_CHARACTERS:
        return None
    report = report_of(said.meta())
    return None if report is None else KeyedReport((response_key(said.id),), report)


class ExportLines:
    """One file's lines."""

    def __init__(self, *, begun: bool = False) -> None:
        """`begun`: the first bytes may be the end of a line whose beginning was never read; what is left of it is passed over."""
        self._passing_over = begun
        self._rest = bytearray()
        """The unfinished line, without what stands in its `request_parameters`."""
        self._in_parameters = False
        self._escaped = False
        """The last byte inside the parameters was a backslash that begins an escape."""
        self.unreadable = 0
        """Lines that were no request's, or too long."""

    def feed(self, data: bytes) -> list[KeyedReport]:
        """The words in the lines that end in these bytes, of which there are at most `STEP_BYTES`."""
        if self._in_parameters:
            data = self._behind_parameters(data)
            if self._in_parameters:
                return []
        words: list[KeyedReport] = []
        *ended, rest = data.split(b"\n")
        for line in ended:
            if self._passing_over:
                self._passing_over = False
                continue
            whole = bytes(self._rest) + line if self._rest else line
            self._rest.clear()
            if not whole.strip():
                continue
            word = word_of_line(whole)
            if word is None:
                self.unreadable += 1
            else:
                words.append(word)
        if not self._passing_over:
            self._hold(rest)
        return words

    def broken_off(self) -> None:
        """The file was cut or replaced: what was left of its last line will not be finished."""
        if self._rest:
            self.unreadable += 1
        self._rest.clear()
        self._passing_over = self._in_parameters = self._escaped = False

    def _hold(self, rest: bytes) -> None:
        at_beginning = len(self._rest) < _LONGEST_BEGINNING
        self._rest += rest
        if at_beginning and len(self._rest) >= _LONGEST_BEGINNING and (begun := _PARAMETERS.match(self._rest)):
            inside = bytes(self._rest[begun.end() :])
            del self._rest[begun.end() :]
            self._in_parameters = True
            self._rest += self._behind_parameters(inside)
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest.clear()
            self._passing_over = True
            self.unreadable += 1

    def _behind_parameters(self, data: bytes) -> bytes:
        """What comes behind the end of the string; nothing where that has not come yet."""
        start = 1 if self._escaped and data else 0
        self._escaped = self._escaped and not data
        found = _INSIDE.match(data, start)
        end = start if found is None else found.end()
        if data[end:] == b"\\":
            self._escaped = True
            return b""
        if end == len(data):
            return b""
        self._in_parameters = False
        return data[end:]
