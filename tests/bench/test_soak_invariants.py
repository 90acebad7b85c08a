"""The soak's own judgement: each kind of broken account is told, and sound books are not."""

from dataclasses import replace

import pytest

from bench.soak.invariants import Books, broken_accounts


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
