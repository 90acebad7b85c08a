"""Answers as text for a terminal and as JSON: the same numbers, and words where a number has no value."""

import re

import pytest

from sidecar.commands.capacity.capacity_command import main
from tests.commands.capacity.asked import LOAD, SEVENTY_B, Run


def test_the_text_says_the_same_as_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SEVENTY_B, "--users=50"]) == 0

    text = capsys.readouterr().out
    for said in ("takes 1.34 GB", "It is not 10.7 GB", "50 users may have 8,544 tokens each", "At most 95.7 tokens/s"):
        assert said in text


def test_overload_is_null_in_json_and_words_in_text(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Four replicas keep a mean wait of 2 s; with three, each would be in prefill for 108 % of the time."""
    loose = (*LOAD[:1], "--wait=2s", *LOAD[2:])
    rows = run(*loose)["replicas"]["numbers"]["rows"]
    main([*loose])

    assert [row["wait_seconds"] for row in rows if row["replicas"] == 3] == [None]
    assert re.search(r"3: wait grows without end", capsys.readouterr().out)
