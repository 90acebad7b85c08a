"""Whole lines of an engine's page of metrics, which comes in pieces that are cut anywhere.

Knows where a line ends, and how long one may be. Refuses to know what stands in a line.
"""

MAX_LINE_BYTES = 16_384
"""A longer line is left out whole, so that a page without line feeds is not built up in memory; real ones have some 300."""


class WholeLines:
    """Joins the pieces of one page into whole lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    @property
    def cut(self) -> bool:
        """Whether the page, so far, ends within a line. Every line of the format ends in LF, the last one too."""
        return bool(self._rest) or self._skipping

    def feed(self, data: bytes) -> bytes:
        """The lines that end in `data`, without the last LF; empty if none ends there."""
        head, newline, others = data.partition(b"\n")
        head = self._rest + head
        if len(head) > MAX_LINE_BYTES:
            head, self._skipping = b"", True
        if not newline:
            self._rest = b"" if self._skipping else head
            return b""
        first, self._skipping = b"" if self._skipping else head, False
        lines, newline, rest = others.rpartition(b"\n")
        self._rest, self._skipping = (rest, False) if len(rest) <= MAX_LINE_BYTES else (b"", True)
        return first + b"\n" + lines if newline else first
