"""The marks `proves` are read as they stand, and each names a channel that exists and a test that pytest collects."""

from pathlib import Path

import pytest

from sidecar.engines.kinds import KINDS
from tests.support.proofs import PROVEN_ON, Proof, proofs, standing


TEST = """\
import pytest

@pytest.mark.proves("vllm", "spans")
@pytest.mark.proves("vllm", "usage_chunk")
def test_both() -> None:
    pass

def test_none() -> None:
    pass
"""


def folder_of(tmp_path: Path, name: str, text: str) -> Path:
    folder = tmp_path / "tests"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)
    return folder


def test_each_mark_names_a_channel_and_each_engine_that_is_started_has_its_name() -> None:
    channels = {(kind.name, channel.name) for kind in KINDS.values() for channel in kind.channels}

    assert [proof for proof in proofs() if (proof.kind, proof.channel) not in channels] == []
    assert {proof.kind for proof in proofs() if proof.real} == PROVEN_ON.keys()


@pytest.mark.parametrize(("room", "real"), [("real", True), ("engines", False)])
def test_a_test_proves_what_its_marks_say(tmp_path: Path, room: str, real: bool) -> None:
    folder = folder_of(tmp_path, f"{room}/test_some.py", TEST)

    assert proofs(folder) == tuple(
        Proof("vllm", channel, f"tests/{room}/test_some.py::test_both", real) for channel in ("spans", "usage_chunk")
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("real/test_some.py", TEST.replace("def test_both", "def both")),
        ("real/some.py", TEST),
        ("real/test_some.py", 'import pytest\npytestmark = pytest.mark.proves("vllm", "spans")\n'),
        ("real/test_some.py", TEST.replace('"spans"', "SPANS")),
        ("real/test_some.py", TEST.replace(', "spans"', "")),
    ],
)
def test_a_mark_that_no_collected_test_has_or_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(ValueError, match="proves"):
        proofs(folder_of(tmp_path, name, text))


@pytest.mark.parametrize(
    ("real", "follows", "told"),
    [
        ({True, False}, "a.py", f"proven on {PROVEN_ON['vllm']}"),
        ({False}, "a.py at 00cc02a3", "mocked after a.py at 00cc02a3"),
        ({False}, "", "claimed"),
        (set(), "a.py", "claimed"),
    ],
)
def test_a_row_says_the_best_that_was_shown(real: set[bool], follows: str, told: str) -> None:
    found = tuple(Proof("vllm", "spans", "tests/test_some.py::test_it", each) for each in real)

    assert standing("vllm", "spans", follows, found) == told


def test_a_deleted_test_takes_its_claim_along() -> None:
    """The row of a channel that only one test proved says `claimed` then."""
    left = tuple(proof for proof in proofs() if proof.channel != "head")

    assert standing("llama_cpp", "head", "server-context.cpp of b11434").startswith("proven on")
    assert standing("llama_cpp", "head", "server-context.cpp of b11434", left) == "claimed"
