"""The flags of `sidecar capacity`: each wrong value and each contradiction is explained, all of them at once."""

from pathlib import Path

import pytest

from sidecar.commands.capacity.capacity_command import main
from sidecar.commands.capacity.flags import parser


def test_all_that_is_wrong_is_told_at_once_with_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu=h10", "--tokens=many", "--modle=x", "--wait=1s", "--gpu.utilisation=90", "there"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    for words in (
        'did you mean "h100"?',
        "--tokens='many' is not a whole number",
        'did you mean "--model"?',
        "--wait needs a load",
        "is not a share above 0",
        "'there' is no flag",
    ):
        assert words in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "no question is asked"),
        (["--output=json"], "no question is asked"),
        (["--gpu=h100"], "no model is given"),
        (["--model=llama-3.1-8b", "--model.layers=3"], "each describe a model"),
        (["--model.layers=3"], "also needs --model.kv-heads and --model.head-dim"),
        (["--service=1:3s", "--slots=8"], "--wait is missing"),
        (["--service=1:3s", "--rate=1", "--wait=1s"], "--service needs --slots"),
        (["--model=llama-3.1-8b", "--model=mistral-7b"], "may be given only once"),
        (["--model"], "expected one argument"),
        (["--model.config=/nowhere/config.json"], "cannot be read: No such file"),
        (["--engine.url=https://s", "--model=mistral-7b"], "does not begin with http://"),
        (["--wait=0s", "--rate=1"], "some wait remains"),
        (["--service=8"], "is not REQUESTS:TIME"),
        (["--prefill=0:1s"], "is not WEIGHT:TIME"),
        (["--router=shortest"], "--router: is gone; the answer is for a random router"),
        (["--service.variation=1"], "--service.variation: is gone; the wait for a slot is an upper estimate"),
    ],
)
def test_usage_that_cannot_be_meant_is_explained(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_every_flag_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "capacity.md").read_text()
    flags = {option for action in parser()._actions for option in action.option_strings} - {"-h", "--help"}

    assert len(flags) > 20
    assert sorted(flag for flag in flags if f"`{flag}" not in page) == []
