"""The answers about one replica's memory and speed: worked figures, and refusals that name the missing flag."""

import pytest

from tests.commands.capacity.asked import SEVEN_B, SEVENTY_B, Run


# --- worked cases ------------------------------------------------------------------------------------------------------------


def test_the_issues_figures_for_a_70b(run: Run) -> None:
    """1.34 GB for 4,096 tokens (10.74 with 64 heads); 50 users with 8,544 tokens each; 95.7 tokens a second."""
    answers = run(*SEVENTY_B, "--users=50")

    assert answers["kv"]["numbers"]["sequence_bytes"] / 1e9 == pytest.approx(1.34, abs=0.005)
    assert answers["kv"]["numbers"]["sequence_bytes_by_query_heads"] / 1e9 == pytest.approx(10.74, abs=0.005)
    assert answers["memory"]["numbers"]["longest_tokens"] == 8544
    assert answers["decode"]["numbers"]["weights_only_tokens_per_second"] == pytest.approx(95.7, abs=0.05)


@pytest.mark.parametrize(("reserve", "fits"), [("8GB", True), ("16GB", False)])
def test_the_issues_figures_for_a_7b(run: Run, reserve: str, fits: bool) -> None:
    answers = run(*SEVEN_B, f"--gpu.reserve={reserve}", "--users=200", "--tokens=2048")

    assert answers["memory"]["numbers"]["fits"] is fits


# --- refusals and mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "topic", "words"),
    [
        (("--model=gpt-oss-120b", "--gpu=h100"), "memory", "give --model.weights"),
        (("--model=llama-3.1-8b", "--users=5"), "memory", "give --gpu, or --gpu.memory"),
        (("--model=llama-3.3-70b", "--gpu=h100"), "memory", "nothing is left for the KV cache"),
        (("--model=llama-3.3-70b", "--tpot=20ms"), "decode", "give --gpu, or --gpu.bandwidth"),
    ],
)
def test_a_question_without_its_data_is_refused_and_the_others_are_answered(
    run: Run, flags: tuple[str, ...], topic: str, words: str
) -> None:
    """The exit code is 2 if one question was not answered: a script that asked whether a model fits must not go on."""
    answers = run(*flags, rc=2)

    assert words in answers[topic]["refusal"]
    assert "numbers" not in answers[topic]
    assert "numbers" in answers["kv"]
