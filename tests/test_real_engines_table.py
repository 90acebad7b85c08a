"""The table of the real engines: shares, verdicts and differences are of the right requests, and the page is what its writer writes."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.real.mixed_clients import CHAT, LEAVING, MESSAGE, OPENAI, RESPONSE, Question, Seen, has_output, questions
from tests.real.mixed_table import HEAD, PAGE, Verdicts, differs, keep, kept, page, row_of, slowest_tenth, verdicts
from tests.real.told import Line
from tests.support.client import Answer


def line_of(name: str, source: str = "engine", ttft: float = 0.4, queue: float = 0.3, **more: object) -> Line:
    split = {"unattributed": ttft} if source == "none" else {"queue": queue, "prefill": ttft - queue}
    fields: dict[str, object] = {
        "outcome": "ok",
        "model": "tiny",
        "prompt_bucket": "0-512",
        "streaming": True,
        "source": source,
        "reason": "no_report" if source == "none" else "in_band",
        "ttft_seconds": ttft,
        "phases": split,
        "notes": {"header.x-request-id": name},
    }
    return Line(fields | more)


def seen_of(*lines: Line, ttft: float = 0.401) -> dict[str, Seen]:
    answer = Answer(sent_at=1.0, pieces=[(1.0 + ttft, b'data: {"choices": [{"text": "la"}]}\n\n')])
    return {line.request_id: Seen(Question(line.request_id, OPENAI[2], {"stream": True}), answer) for line in lines}


def test_a_row_counts_the_streamed_requests_that_ended_well_and_had_output() -> None:
    whole = line_of("whole", streaming=False)
    del whole.fields["ttft_seconds"]
    lines = [
        *(line_of("a"), line_of("b", "estimated", model="other"), line_of("c", "none", prompt_bucket="unknown")),
        *(whole, line_of("left", outcome="client_cancelled")),
    ]
    row = row_of("x", "X", lines, seen_of(*lines), sums=[(1.0, 1.1), (2.0, 2.01)])

    assert (row.requests, row.streamed, row.sources) == (5, 3, {"engine": 1, "estimated": 1, "none": 1})
    assert row.reasons == {"no_report": 1}
    assert row.share("engine", "estimated") == pytest.approx(2 / 3)
    assert (row.named, row.sized) == (2, 2)
    assert [row.sum_seconds, row.sum_ratio] == pytest.approx([0.1, 0.1 / 1.1])
    assert [row.client_median_seconds, row.client_most_seconds] == pytest.approx([0.001, 0.001])


@pytest.mark.parametrize(
    ("queue", "prefill", "asked"),
    [(0.5, 0.45, True), (0.05, 0.045, False), (0.010, 0.0079, True), (0.010, 0.0081, False), (0.0, 0.0, False)],
)
def test_it_is_asked_where_the_truth_differs_by_20_percent_or_20_ms(queue: float, prefill: float, asked: bool) -> None:
    assert differs(queue, prefill) is asked


def test_a_request_without_a_split_is_no_right_answer() -> None:
    lines = [line_of("right"), line_of("wrong", queue=0.1), line_of("none", "none"), line_of("close")]
    truth = {name: {"queue": 0.3, "prefill": 0.1} for name in ("right", "wrong", "none")}
    truth["close"] = {"queue": 0.05, "prefill": 0.05}

    assert verdicts(lines, truth) == Verdicts(asked=3, right=1)


@pytest.mark.parametrize(
    ("asked", "right", "holds"), [(10, 9, True), (7, 6, True), (7, 5, False), (30, 26, False), (0, 0, True)]
)
def test_one_wrong_answer_of_few_is_borne(asked: int, right: int, holds: bool) -> None:
    assert Verdicts(asked, right).holds(0.9) is holds


@pytest.mark.parametrize(
    ("asked", "right", "allowed"),
    [(75, 75, True), (75, 69, True), (75, 66, True), (75, 65, False), (300, 274, False), (0, 0, True)],
)
def test_what_chance_alone_makes_of_a_rate_is_allowed(asked: int, right: int, allowed: bool) -> None:
    """At a rate of 0.95, at most 66 of 75 are right in 1 of 80 samples, and at most 65 in 1 of 240."""
    assert Verdicts(asked, right).allows(0.95) is allowed


def test_the_slowest_tenth_is_the_slowest() -> None:
    lines = [line_of(str(number), ttft=0.4 + number / 100) for number in range(20)]

    assert [line.request_id for line in slowest_tenth(lines)] == ["19", "18"]


@pytest.mark.parametrize(
    ("said", "output"),
    [
        ({"choices": [{"delta": {"role": "assistant", "content": ""}}]}, False),
        ({"choices": [{"delta": {"role": "assistant", "content": None}}]}, False),
        ({"choices": [{"delta": {"content": ""}}]}, True),
        ({"choices": [{"delta": {"content": None, "tool_calls": [{}]}}]}, True),
        ({"choices": [{"delta": {}, "finish_reason": "stop"}]}, False),
        ({"choices": [{"text": "la"}]}, True),
        ({"choices": [], "usage": {}}, False),
        ({"type": "message_start"}, False),
        ({"type": "content_block_delta"}, True),
        ({"type": "response.output_text.delta"}, True),
        ({"type": "response.created"}, False),
        ({"content": "la", "stop": False}, True),
        ({"content": "", "stop": True}, False),
        ({"text_output": " w0"}, True),
    ],
)
def test_a_client_knows_output_on_each_api(said: dict[str, object], output: bool) -> None:
    assert has_output(said) is output


def test_clients_of_each_kind_come_in_turn_and_no_two_prompts_begin_alike() -> None:
    kinds = (*OPENAI, RESPONSE, MESSAGE, *LEAVING)
    asked = questions(kinds, 4 * len(kinds), "tiny", "x", seed=1)

    assert sorted(question.kind.name for question in asked) == sorted(4 * [kind.name for kind in kinds])
    assert len({question.name for question in asked}) == len({question.trace for question in asked}) == len(asked)
    chats = [question.body["messages"] for question in asked if question.kind.path == CHAT]
    assert len({str(chat)[:60] for chat in chats}) == len(chats)
    assert asked == questions(kinds, 4 * len(kinds), "tiny", "x", seed=1)


def test_rows_are_kept_in_the_order_of_the_page(tmp_path: Path) -> None:
    row = row_of("vllm", "vLLM", [line_of("a")], seen_of(line_of("a")), truth={"a": {"queue": 0.3, "prefill": 0.1}})
    for name in ("zzz", "triton-quiet", "vllm"):
        keep(replace(row, name=name), tmp_path)

    assert [each.name for each in kept(tmp_path)] == ["vllm", "triton-quiet", "zzz"]
    assert kept(tmp_path)[0] == row


def test_the_page_is_of_its_writer() -> None:
    """Its prose and its columns; its rows are those of a run."""
    text = PAGE.read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]

    assert text.startswith(page([row_of("x", "X", [], {})]).partition("|X|")[0])
    assert {len(cells) for cells in rows} == {len(HEAD)}
    assert {cells[0].split(" ")[0] for cells in rows} >= {"vLLM", "llama.cpp", "Triton"}
