"""An engine's page comes in pieces: its lines come out whole, or not at all."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.engines.probe.page_lines import MAX_LINE_BYTES, WholeLines


LONG = b"requests_sum" + b"x" * MAX_LINE_BYTES + b" 5\n"
PAGE = b"# HELP\n\nrequests_sum 1\nrequests_count 2\n"


def read(pieces: list[bytes]) -> tuple[bytes, bool]:
    """The lines that come out of these pieces, less the line feeds at the cuts; and whether the page ends within a line."""
    lines = WholeLines()
    came = [line for piece in pieces if (line := lines.feed(piece))]
    return b"\n".join(came), lines.cut


def test_the_lines_of_a_page_come_out_at_every_split() -> None:
    told = {read([PAGE[:at], PAGE[at:]]) for at in range(len(PAGE) + 1)}
    bare = {(text.replace(b"\n\n", b"\n").strip(b"\n"), cut) for text, cut in told}
    assert bare == {(b"# HELP\nrequests_sum 1\nrequests_count 2", False)}
    assert read([PAGE[at : at + 1] for at in range(len(PAGE))])[0].split(b"\n") == [
        b"# HELP",
        b"requests_sum 1",
        b"requests_count 2",
    ]


def test_a_page_that_breaks_off_is_cut_and_its_last_line_is_none() -> None:
    assert read([b"a 1\nb 2"]) == (b"a 1", True)
    assert read([b"b 2"]) == (b"", True)
    assert read([]) == (b"", False)


@given(st.lists(st.integers(0, len(PAGE + LONG + PAGE)), max_size=8))
@example([len(PAGE) + MAX_LINE_BYTES])
def test_no_part_of_a_line_that_is_too_long_is_told_however_it_is_cut(cuts: list[int]) -> None:
    """Its beginning and its end, put together, would be a number that no engine has said."""
    page = PAGE + LONG + PAGE
    steps = range(0, len(page), MAX_LINE_BYTES)
    at = sorted({0, *steps, *cuts, len(page)})

    text, cut = read([page[start:end] for start, end in itertools.pairwise(at)])

    assert [line for line in text.split(b"\n") if line] == [b"# HELP", b"requests_sum 1", b"requests_count 2"] * 2
    assert not cut


def test_a_line_without_end_is_not_kept() -> None:
    lines = WholeLines()
    for _ in range(100):
        assert lines.feed(b"x" * MAX_LINE_BYTES) == b""
    assert len(lines._rest) <= MAX_LINE_BYTES
    assert lines.cut
    assert lines.feed(b"\na 1\n") == b"\na 1"
