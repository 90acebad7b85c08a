"""The soak's own judgement: each kind of broken account is told, and sound books are not."""

import json
from dataclasses import replace

import pytest

from bench.soak.invariants import Books, broken_accounts, broken_blame, read_log
from bench.soak.tokens import DONE, Asked, asked_in, events_of, expected, usage_of
from bench.soak.watched import page_in


def line(trace: str, result: str = "whole", *, answered: bool = True) -> dict[str, object]:
    return {"trace_id": trace, "kind": "stream", "result": result, "answered": answered}


def logged(trace: str | None, outcome: str = "ok") -> dict[str, object]:
    return {"trace_id": trace, "outcome": outcome}


SOUND = Books(
    requests=[line("a"), line("b", "cut"), line("c", "cut", answered=False)],
    logged=[logged("a"), logged("b", "engine_truncated")],
    outcomes={"ok": 1.0, "engine_truncated": 1.0, "rejected": 0.0},
    engine_requests=2,
    engine_injuries=1,
    client_injuries=1,
)


def test_books_in_which_each_request_has_one_outcome_are_sound() -> None:
    assert broken_accounts(SOUND) == []


@pytest.mark.parametrize(
    ("books", "said"),
    [
        (replace(SOUND, logged=[*SOUND.logged, logged("a")]), "logged more than once: a"),
        (replace(SOUND, logged=[*SOUND.logged, logged("z")]), "logged and never sent: z"),
        (replace(SOUND, logged=SOUND.logged[1:]), "answered and never logged: a"),
        (replace(SOUND, logged=[logged("a", "client_cancelled"), SOUND.logged[1]]), "another outcome than ok: a"),
        (replace(SOUND, outcomes={"ok": 2.0, "engine_truncated": 1.0}), "3 requests are counted and 2 are logged"),
        (replace(SOUND, engine_requests=3), "the engine got 3 requests"),
        (replace(SOUND, engine_injuries=0), "blamed more often (1 engine_truncated)"),
        (replace(SOUND, client_injuries=0), "2 answers are cut, and 1 + 0 connections were injured"),
        (
            replace(SOUND, outcomes={**SOUND.outcomes, "sidecar_error": 1.0}),
            "1 requests have the outcome sidecar_error",
        ),
    ],
)
def test_each_broken_account_is_told(books: Books, said: str) -> None:
    assert [broken for broken in broken_accounts(books) if said in broken]


def test_a_client_that_leaves_is_not_cut() -> None:
    left = replace(SOUND, requests=[*SOUND.requests, {**line("d", "cut"), "kind": "leave", "answered": False}])

    assert broken_accounts(left) == []


def test_a_line_that_the_logs_rate_limit_held_back_is_not_missing() -> None:
    """As many as the sidecar counts, and no more."""
    books = replace(SOUND, logged=SOUND.logged[1:])

    assert broken_accounts(replace(books, lines_held_back=1)) == []
    assert len(broken_accounts(replace(SOUND, logged=[], lines_held_back=1))) == 2


def test_an_outcome_that_names_the_engine_needs_an_injury_of_its_side() -> None:
    outcomes = {"ok": 9.0, "engine_timeout": 1.0, "engine_unreachable": 1.0, "client_cancelled": 5.0}

    assert broken_blame(outcomes, 2) == []
    assert broken_blame(outcomes, 1) == [
        "the engine is blamed more often (1 engine_unreachable, 1 engine_timeout) than its side was injured (1)"
    ]


def test_the_log_is_read_for_requests_and_for_exceptions() -> None:
    request = {"event": "request", "trace_id": "a", "outcome": "ok", "lane": "x"}
    lines = [json.dumps(request), '{"event":"started"}', '{"event":"e","exception":"ValueError"}', "Traceback"]

    requests, odd = read_log(lines)

    assert requests == [logged("a")]
    assert [said.partition(":")[0] for said in odd] == [
        "a line of the log has an exception",
        "a line of the log is no JSON",
    ]


def test_a_page_that_states_a_series_twice_cannot_be_read() -> None:
    page = page_in('# TYPE llm_requests_in_flight gauge\nllm_requests_in_flight{lane="a",state="waiting"} -1\n')

    assert (page.total("llm_requests_in_flight", lane="a"), page.by("llm_requests_in_flight", "state")) == (
        -1.0,
        {"waiting": -1.0},
    )
    assert page.impossible == ["llm_requests_in_flight is -1"]
    with pytest.raises(ValueError, match="twice"):
        page_in("# TYPE a gauge\na 1\na 1\n")


def test_an_answer_can_be_computed_from_what_its_request_says() -> None:
    """A client that did not ask gets no usage; each event's text changes with all events before it."""
    asked = Asked(7, 3, 20)

    assert asked_in(asked.body(100)) == (asked, False)
    assert asked_in(asked._replace(usage=True).body()) == (asked, True)
    answer = expected(asked, b"")
    assert answer.count(b"\n\n") == 4
    assert answer.endswith(DONE)
    assert usage_of(asked) not in answer
    assert expected(asked._replace(usage=True), b"") == b"".join(events_of(asked)) + usage_of(asked) + DONE
    assert b"".join(events_of(asked)) != b"".join(events_of(asked._replace(number=8)))
    assert b'"text": "3 ' in expected(Asked(7, 0, 0), b"abc")
