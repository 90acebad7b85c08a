"""The live table: the lengths of its bars, and values that are unknown."""

import pytest

from sidecar.commands.demo.pager import Notification
from sidecar.commands.demo.table import BAR, INITIALS, LEGEND, LiveScreen, PlainScreen, bar_widths, milliseconds, plain
from sidecar.commands.demo.view import PHASES, Row, read_page, rows
from sidecar.config.folding import WIDTH
from tests.commands.demo.pages import page


@pytest.mark.parametrize(
    "parts", [{"queue": 1.0, "decode": 2.0}, {"queue": 0.001, "prefill": 1.0, "stream": 0.3}, {"decode": 5.0}]
)
def test_a_bar_is_as_long_as_a_bar(parts: dict[str, float]) -> None:
    assert sum(bar_widths(parts).values()) == BAR


def test_no_time_no_bar() -> None:
    assert sum(bar_widths({}).values()) == 0


def test_an_unknown_is_a_dash_and_a_zero_is_a_zero() -> None:
    assert (milliseconds(None), milliseconds(0.0), milliseconds(0.0071), milliseconds(2.5)) == (
        "-",
        "0.0",
        "7.1",
        "2,500",
    )


def test_a_plain_row_is_its_latencies_its_phases_and_its_bar() -> None:
    """A bar consists of the initials of its phases, so that it needs no colour."""
    lines = plain(rows({}, read_page(page(8, 4.0)))[0])

    assert lines == [
        "rag               8 requests  TTFT 150/195 ms  inter-token -/- ms",
        "  queue 1,000  decode 3,000",
        f"  [{'q' * (BAR // 4)}{'d' * (BAR - BAR // 4)}]",
    ]


def test_every_phase_has_an_initial_of_its_own_and_the_legend_says_which() -> None:
    assert len({*INITIALS.values()}) == len(PHASES)
    assert [phase for phase, initial in INITIALS.items() if f"{initial} {phase}" not in LEGEND] == []


def slow_lanes() -> list[Row]:
    """Lanes with every phase, and with the largest values that they have in a minute of a fault."""
    phases = dict.fromkeys(PHASES, 12.345)
    return [Row(lane, 1234, 123, 12.345, 45.678, 0.123, 1.234, phases) for lane in ("interactive", "batch")]


def worst_page() -> Notification:
    summary = "running requests are preempted since 23:35 UTC, confidence 99.95%; interactive misses TTFT 19.7x, waited in queue"
    url = "http://127.0.0.1:65535/runbooks/LLMUnattributedBurn?lane=interactive&model=small-chat-1b&pod=demo-0"
    return Notification("unattributed-page", "LLMUnattributedBurn", "unattributed", "page", summary, url, "preemption")


STATUS = "sent 123456, answered 123456, failed 123456; INCIDENT prefill: the GPU computes prompts at a sixth of its speed; at most 60 s more"


def test_eighty_columns_suffice_for_the_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainScreen() as screen:
        screen.show(slow_lanes(), STATUS, [worst_page()])
    lines = capsys.readouterr().out.splitlines()

    # An address is there to be copied, and stands alone and whole.
    assert [line.strip() for line in lines if len(line) > WIDTH] == [worst_page().runbook_url]


def test_the_live_table_fits_eighty_columns_and_needs_no_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without colours, as in a pipe, all that is drawn is text: bars of initials, and what each stands for."""
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    with LiveScreen() as screen:
        screen.show(slow_lanes(), STATUS, [worst_page()])
    lines = capsys.readouterr().out.splitlines()
    bars = [line.split()[1] for line in lines if line.startswith(("interactive ", "batch ")) and "qqq" in line]

    assert [line for line in lines if len(line.rstrip()) > WIDTH or "\x1b" in line or "…" in line] == []
    assert worst_page().runbook_url in "".join(line.strip() for line in lines)
    assert [sorted({*bar}) for bar in bars] == [sorted(INITIALS.values())] * 2
    assert LEGEND in [line.rstrip() for line in lines]
