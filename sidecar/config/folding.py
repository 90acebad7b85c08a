"""The output that all commands share: lines that fit the terminal, errors, and exit statuses.

Knows columns, and nothing of what is said.
"""

import string
import textwrap
from collections.abc import Iterable, Sequence


OK, FAILED, MISUSED = 0, 1, 2
"""Exit statuses: success; failure; wrong usage, a refused config, or a question that is refused for want of data."""
READER_LEFT = 128 + 13
"""Exit status where the pipe was closed that the output goes to, as shells show the end of a program by SIGPIPE (number 13)."""
WIDTH = 80
"""Columns where the width is not known: in a pipe, a file, a log."""
_NARROWEST = 40
_SPACES = f"{string.whitespace}\u00a0"
"""Folding writes the first ones as spaces and ends of lines; the last one keeps two words together."""


def width() -> int:
    """Columns of the terminal that stdout is, or what the variable COLUMNS says."""
    import shutil  # noqa: PLC0415  5 ms with its compressors, and `serve` prints no columns

    return max(_NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def errors_text(errors: Iterable[str]) -> str:
    """Errors for a person at a terminal: each begins a line, and goes on indented."""
    return "".join(f"{line}\n" for error in errors for line in folded(error, width(), rest="    "))


def folded(text: str, columns: int, first: str = "", rest: str | None = None) -> list[str]:
    """The text after `first`, broken between words; further lines begin with `rest`, else as far to the right as the first.

    A word that is too long stands alone and whole: flags and addresses are there to be copied.
    """
    text = printable(text)
    rest = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def printable(text: str) -> str:
    """The text with Python's escape in place of each character that is not printed: a terminal obeys some that a file may hold."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in _SPACES else each.encode("unicode_escape").decode() for each in text
    )


def folded_command(words: Sequence[str], columns: int, first: str = "") -> list[str]:
    """A command after `first`, each line that goes on ends with a backslash: it can be copied as it stands. No word is broken."""
    whole = first + " ".join(words)
    if len(whole) <= columns:
        return [whole]
    lines = [first + words[0]]
    for word in words[1:]:
        if len(f"{lines[-1]} {word} \\") <= columns:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"{first}    {word}")
    return lines
