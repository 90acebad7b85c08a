"""SGLang's exported lines, read in any pieces and joined to requests through the whole sidecar."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.engines.reports.export_lines import MAX_EXPORT_LINE_BYTES, ExportLines
from sidecar.engines.sglang import SGLang
from sidecar.ledger.report import response_key
from tests.engines.reports.exports import FIXTURE, LINES, OURS, THIS_HOUR, append, fetching, line
from tests.support.answers import damaged
from tests.support.examples import examples
from tests.support.fetching import BY_WIRE, EXACT, NO_SPLIT, Fetching


# --- through the whole sidecar ---------------------------------------------------------------------------------------


@pytest.mark.proves("sglang", "files")
def test_the_line_of_a_request_gives_it_its_queue_and_prefill(tmp_path: Path) -> None:
    """SGLang's OpenAI paths state no times; its file does, and contains the answer's id."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer(OURS)
        assert walk.accounts == []

        append(tmp_path / THIS_HOUR, FIXTURE)
        await walk.fetch()

        assert walk.phases() == [EXACT | BY_WIRE]
        assert walk.value("llm_phase_attribution_total", source="engine", reason="late_report") == 1

    asyncio.run(scenario())


def test_a_line_may_be_there_before_its_client_has_read_to_the_end(tmp_path: Path) -> None:
    """A slow client ends a minute after the engine wrote its line; the line is kept, while an unmatched one is not."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        client, engine = walk.begin()
        client.take(0)
        walk.say(engine, OURS)
        append(tmp_path / THIS_HOUR, FIXTURE)
        await walk.fetch()
        for _ in range(60):
            walk.settlement.expire(walk.clock.later(1.0))

        client.take(None)

        assert [set(found) & {"queue", "prefill"} for found in walk.phases()] == [{"queue", "prefill"}]
        assert walk.drops() == {"report_unmatched": 1}

    asyncio.run(scenario())


def test_late_repeated_and_unmatched_reports_are_counted_and_change_no_number(tmp_path: Path) -> None:
    """A line after the deadline, the same line again, the line of a client that bypasses the sidecar."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer("late")
        walk.settlement.expire(walk.clock.later(6.0))
        walk.answer(OURS)

        append(tmp_path / THIS_HOUR, line("late") + line() + line() + line("another client's"))
        await walk.fetch()
        walk.settlement.expire(walk.clock.later(6.0))

        assert walk.phases() == [NO_SPLIT, EXACT | BY_WIRE]
        assert walk.drops() == {"report_twice": 1, "report_unmatched": 2}

    asyncio.run(scenario())


def test_a_request_that_was_retracted_has_no_queue_to_speak_of(tmp_path: Path) -> None:
    """Its `queue_time` includes a wait after its first token: the split is refused, as incomplete."""

    async def scenario() -> None:
        walk = fetching(tmp_path)
        await walk.fetch()
        walk.answer(OURS)

        append(tmp_path / THIS_HOUR, line(num_retractions=1, queue_time=0.02))
        await walk.fetch()

        assert walk.phases() == [NO_SPLIT]
        assert walk.value("llm_phase_attribution_total", source="none", reason="report_incomplete") == 1

    asyncio.run(scenario())


def test_without_a_folder_no_request_waits_for_a_line() -> None:
    """Without a configured folder the sidecar settles at once."""
    walk = Fetching("sglang")

    walk.answer(OURS)

    assert walk.phases() == [NO_SPLIT]


@given(damage=damaged([LINES[1]]))
@settings(max_examples=examples(150))
def test_a_damaged_line_gives_the_right_split_or_none(damage: list[bytes]) -> None:
    """Values null, negative, text, huge, renamed or missing: the numbers are right or absent, and nothing is raised."""
    walk = Fetching("sglang", sglang_metrics_dir="/nowhere")
    walk.answer(OURS)

    for keyed in ExportLines(SGLang.source).feed(damage[0]):
        walk.settlement.reported(keyed)
    walk.settlement.expire(walk.clock.later(6.0))

    assert walk.phases() in ([EXACT | BY_WIRE], [NO_SPLIT])


# --- lines -----------------------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(0, len(FIXTURE)), max_size=30))
def test_lines_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    """SGLang writes a long line in several steps, and the sidecar reads in between."""
    at = [0, *sorted(cuts), len(FIXTURE)]
    lines = ExportLines(SGLang.source)

    reports = [keyed for start, end in itertools.pairwise(at) for keyed in lines.feed(FIXTURE[start:end])]

    assert [keyed.keys for keyed in reports] == [(response_key("0d6f"),), (response_key(OURS),)]
    assert lines.unreadable == 0


@given(st.binary(max_size=400))
def test_no_bytes_make_a_reader_raise(data: bytes) -> None:
    """For any bytes in the file, the line after them is read."""
    lines = ExportLines(SGLang.source)
    lines.feed(data + b"\n")

    assert [keyed.keys for keyed in lines.feed(LINES[1])] == [(response_key(OURS),)]


def test_a_line_without_end_is_given_up_and_the_next_one_is_read() -> None:
    """It is held up to a limit, counted once, and skipped up to its end."""
    lines = ExportLines(SGLang.source)
    for _ in range(3 * MAX_EXPORT_LINE_BYTES // 65_536):
        lines.feed(b"x" * 65_536)

    reports = lines.feed(b"x\n" + LINES[1])

    assert [keyed.keys for keyed in reports] == [(response_key(OURS),)]
    assert lines.unreadable == 1


@given(size=st.integers(1, 70_000), text=st.text(alphabet='a"\\\n\u2028{}', min_size=1, max_size=9))
@settings(max_examples=examples(60))
def test_a_prompt_of_any_length_and_kind_is_passed_over(size: int, text: str) -> None:
    """The line begins with the prompt, quotes and backslashes escaped twice; it is never held, wherever it is cut."""
    long = line(request_parameters=json.dumps({"text": text * (300_000 // len(text))})) + line("next")
    lines = ExportLines(SGLang.source)

    reports = (
        [keyed for start in range(0, len(long), size) for keyed in lines.feed(long[start : start + size])]
        if size > 99
        else lines.feed(long)
    )

    assert [keyed.keys for keyed in reports] == [(response_key(OURS),), (response_key("next"),)]
    assert lines.unreadable == 0


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_line_that_ends_within_an_escape_costs_no_other_line() -> None:
    """Cut between the backslash and the line's end, or not: the next line is read (found by `make fuzz`)."""
    damaged_line = b'{"request_parameters": "\\\n'
    lines = damaged_line + LINES[1] + b"\n"

    for end in range(len(damaged_line) + 1):
        reader = ExportLines(SGLang.source)
        reports = [*reader.feed(lines[:end]), *reader.feed(lines[end:])]
        assert (len(reports), reader.unreadable) == (1, 1)


def test_damage_inside_the_string_that_is_passed_over_costs_nothing_however_the_line_is_cut() -> None:
    """A control character is no JSON, but nothing in that string is read (found by `make fuzz`)."""
    spoiled = LINES[1].replace(b'": "', b'": "\x00', 1) + b"\n"

    for end in (len(spoiled), 40):
        reader = ExportLines(SGLang.source)
        reports = [*reader.feed(spoiled[:end]), *reader.feed(spoiled[end:])]
        assert (len(reports), reader.unreadable) == (1, 0)
