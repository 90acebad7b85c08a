"""A mark that is missing counts only where the engine was seen to set it, twenty times in a row."""

import pytest

from sidecar.timeline.belief import LEARNED_FROM
from sidecar.timeline.proof import BOTH_MARKS, MOST_KINDS, NO_MARKS, AnswerKind, EndMark, Proof, Proofs


FINISH, END = EndMark.FINISH, EndMark.END
CHAT = AnswerKind("openai_chat", "tiny", streamed=True)


def test_a_mark_counts_after_twenty_whole_answers() -> None:
    proofs = Proofs()

    before = [proofs.judge(CHAT, BOTH_MARKS, (FINISH, END)) for _ in range(LEARNED_FROM - 1)]
    unlearned = Proofs()
    for _ in range(LEARNED_FROM - 1):
        unlearned.judge(CHAT, BOTH_MARKS, (FINISH, END))

    assert set(before) == {Proof.MARKED}
    assert unlearned.judge(CHAT, BOTH_MARKS, ()) is Proof.UNPROVED
    assert proofs.judge(CHAT, BOTH_MARKS, (FINISH, END)) is Proof.MARKED
    assert proofs.judge(CHAT, BOTH_MARKS, ()) is Proof.MISSING
    assert proofs.judge(CHAT, BOTH_MARKS, (FINISH,)) is Proof.MISSING
    assert proofs.judge(CHAT, BOTH_MARKS, (END,)) is Proof.MISSING
    assert proofs.judge(CHAT, BOTH_MARKS, (FINISH, END)) is Proof.MARKED


def test_an_engine_that_never_sets_a_mark_is_never_blamed_for_it() -> None:
    """Such servers end each stream with its finish reason alone, or with neither."""
    proofs = Proofs()

    assert {proofs.judge(CHAT, BOTH_MARKS, (FINISH,)) for _ in range(3 * LEARNED_FROM)} == {Proof.MARKED}
    assert {proofs.judge(CHAT._replace(model="other"), BOTH_MARKS, ()) for _ in range(3 * LEARNED_FROM)} == {
        Proof.UNPROVED
    }


def test_an_engine_that_sets_a_mark_now_and_then_is_not_expected_to() -> None:
    """A gateway with several engines behind it: twenty in a row, and not twenty in all."""
    proofs = Proofs()

    seen = [proofs.judge(CHAT, BOTH_MARKS, (FINISH, END) if turn % 7 else (FINISH,)) for turn in range(200)]

    assert set(seen) == {Proof.MARKED}


def test_apis_models_and_kinds_of_answers_are_apart() -> None:
    proofs = Proofs()
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))

    others = (
        CHAT._replace(api="openai_completions"),
        CHAT._replace(model="big"),
        CHAT._replace(streamed=False),
    )
    assert {proofs.judge(kind, BOTH_MARKS, ()) for kind in others} == {Proof.UNPROVED}
    assert proofs.judge(CHAT, BOTH_MARKS, ()) is Proof.MISSING


def test_an_api_without_marks_is_known_by_its_framing() -> None:
    triton = AnswerKind("triton_generate", "tiny", streamed=True)

    assert {Proofs().judge(triton, NO_MARKS, ()) for _ in range(2)} == {Proof.FRAMING}


def test_what_was_not_seen_for_longest_is_forgotten() -> None:
    """So that no client fills the memory; labels are a closed set, and the bound is far above it."""
    proofs = Proofs()
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))
    for number in range(MOST_KINDS - 1):
        proofs.judge(CHAT._replace(model=f"m{number}"), BOTH_MARKS, ())
    assert proofs.judge(CHAT, BOTH_MARKS, ()) is Proof.MISSING  # and so it is the latest

    for number in range(MOST_KINDS):
        proofs.judge(CHAT._replace(model=f"n{number}"), BOTH_MARKS, ())

    assert proofs.judge(CHAT, BOTH_MARKS, ()) is Proof.UNPROVED


@pytest.mark.parametrize(
    ("engines", "forgets"),
    [
        ([("vllm", None), ("vllm", "0.33")], False),
        ([("vllm", "0.33"), ("vllm", "0.33")], False),
        ([("vllm", "0.33"), ("vllm", "0.34")], True),
        ([("vllm", "0.33"), ("vllm", None)], True),
        ([("vllm", "0.33"), ("sglang", "0.33")], True),
        ([("vllm", None), ("sglang", None)], True),
    ],
)
def test_another_engine_or_version_is_learned_anew(engines: list[tuple[str, str | None]], forgets: bool) -> None:
    """One that was not recognised before, or states its version later, is the same."""
    proofs = Proofs()
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))
    for kind, version in engines:
        proofs.made_by(kind, version)

    assert (proofs.judge(CHAT, BOTH_MARKS, ()) is Proof.UNPROVED) == forgets


def test_a_mark_that_is_gone_for_long_is_no_longer_expected() -> None:
    """Another engine answers behind the same address, and no version says so."""
    proofs = Proofs()
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))

    gone = [proofs.judge(CHAT, BOTH_MARKS, (FINISH,)) for _ in range(LEARNED_FROM + 2)]

    assert gone == [Proof.MISSING] * LEARNED_FROM + [Proof.MARKED] * 2


def test_a_whole_answer_between_shows_that_the_mark_is_still_set() -> None:
    proofs = Proofs()
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))
    for _ in range(3):
        cut = {proofs.judge(CHAT, BOTH_MARKS, ()) for _ in range(LEARNED_FROM - 1)}
        assert (cut, proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))) == ({Proof.MISSING}, Proof.MARKED)


def test_an_answer_that_was_not_read_whole_is_judged_and_teaches_nothing() -> None:
    """An event that could not be read is no mark."""
    proofs = Proofs()
    unread = {proofs.judge(CHAT, BOTH_MARKS, (FINISH, END), read=False) for _ in range(2 * LEARNED_FROM)}
    unlearned = proofs.judge(CHAT, BOTH_MARKS, (), read=False)
    for _ in range(LEARNED_FROM):
        proofs.judge(CHAT, BOTH_MARKS, (FINISH, END))

    assert (unread, unlearned) == ({Proof.MARKED}, Proof.FRAMING)
    assert proofs.judge(CHAT, BOTH_MARKS, (FINISH,), read=False) is Proof.MISSING
