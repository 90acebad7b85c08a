"""Lines that fit the terminal: broken between words, and never inside a flag or an address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.folding import WIDTH, folded, folded_command, width


WORDS = st.lists(
    st.sampled_from(["--prompt-buckets.edges=512", "http://a-host-of-mine:8000/", "well-known", "a" * 60])
    | st.text("abc-", min_size=1, max_size=12),
    max_size=40,
)


@given(WORDS, st.integers(40, 200), st.sampled_from(["", "  - ", "name: "]))
def test_no_word_is_lost_or_broken_and_only_a_long_one_stands_out(words: list[str], columns: int, first: str) -> None:
    """A line above the width holds one word alone; further lines begin below the first one's text."""
    lines = folded(" ".join(words), columns, first)

    indent = " " * len(first)
    assert [line.startswith(first if number == 0 else indent) for number, line in enumerate(lines)] == [True] * len(
        lines
    )
    assert [word for line in lines for word in line[len(first) :].split()] == words
    assert [line for line in lines if len(line) > columns and len(line[len(first) :].split()) > 1] == []


@given(st.lists(st.text("abc/", min_size=1, max_size=50), min_size=1, max_size=12), st.integers(40, 200))
def test_a_folded_command_is_the_same_command_for_a_shell(words: list[str], columns: int) -> None:
    """A line above the width is a single word, with the backslash that the shell takes away with the end of the line."""
    lines = folded_command(words, columns, "  ")

    assert "\n".join(lines).replace("\\\n", "").split() == words
    assert [line for line in lines if len(line) > columns and len(line.removesuffix("\\").split()) > 1] == []
    assert len(lines) == 1 or len("  " + " ".join(words)) > columns


@pytest.mark.parametrize(("columns", "expected"), [("100", 100), ("12", 40), ("", WIDTH), ("many", WIDTH)])
def test_the_width_is_the_variables_or_the_usual_one(
    columns: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS counts before the terminal; below 40 columns nothing could be read, so no line is folded to less."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("os.get_terminal_size", lambda *_args: (_ for _ in ()).throw(OSError))

    assert width() == expected
