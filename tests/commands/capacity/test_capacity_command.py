"""The `capacity` command as a person uses it: worked cases, errors in its flags, refusals that say what would help."""

import re
from pathlib import Path

import pytest

from sidecar.cli import main as cli
from sidecar.commands.capacity.answer import UnansweredError
from sidecar.commands.capacity.capacity_command import main
from tests.commands.capacity.asked import Run


# --- what is running ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_does_not_answer_is_said_and_the_rest_is_answered(run: Run) -> None:
    """The exit code is 1: nothing that was typed is wrong."""

    def no_answer(url: str, path: str) -> bytes:
        raise UnansweredError(f"{url}{path} does not answer: refused")

    answers = run("--model=llama-3.3-70b", "--engine.url=http://e:1", rc=1, ask=no_answer)

    assert answers["engine"]["refusal"] == "http://e:1/metrics does not answer: refused"
    assert answers["kv"]["numbers"]["token_bytes"] == 327_680


# --- refusals and mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--rate=12", "--wait=200ms"), "the speed of a replica is not known"),
        (("--rate=12", "--wait=200ms", "--slots=8", "--service=8:3s"), "one point does not show"),
        (("--model=llama-3.3-70b", "--gpu.count=6"), "cannot be shared evenly by 6 GPUs"),
    ],
)
def test_where_every_question_is_refused_the_exit_code_says_so(run: Run, flags: tuple[str, ...], words: str) -> None:
    (answer,) = run(*flags, rc=2).values()

    assert words in answer["refusal"]


def test_help_teaches_by_examples_that_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each example of --help is run, except those that need a running server."""
    assert cli(["capacity", "--help"]) == 0
    shown = capsys.readouterr().out.replace("\\\n", " ")
    examples = re.findall(r"^  sidecar capacity (--.*)$", shown, re.MULTILINE)
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096,'
        ' "intermediate_size": 11008, "vocab_size": 32000, "torch_dtype": "bfloat16"}'
    )
    here = [
        example.replace("=config.json", f"={path}").split() for example in examples if "--engine.url" not in example
    ]

    assert (len(examples), [main(flags) for flags in here]) == (5, [0] * 4)
