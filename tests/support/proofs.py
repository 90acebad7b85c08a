"""The tests that prove a channel of an engine, as they say themselves: `@pytest.mark.proves("vllm", "usage_chunk")`.

A test below tests/real/ proves it on the real engine, any other one on what was written after the engine's source: a stream in tests/streams/, a
span in tests/spans/, a record. Read from the text of the tests, so that docs/engines.md is written without collecting them. The mark stands on the test
itself: one that is deleted takes its claim along, and one that pytest does not collect is none.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.real.dynamo_environment import DYNAMO
from tests.real.environment import VLLM
from tests.real.llama_cpp_environment import LLAMA_CPP
from tests.real.triton_environment import TRITON


FOLDER = Path(__file__).parents[1]
PROVEN_ON: Mapping[str, str] = {
    "dynamo": f"Dynamo {DYNAMO.partition('==')[2]} before its mocker",
    "llama_cpp": f"llama.cpp b{LLAMA_CPP.partition('==')[2].partition('.')[0]}",
    "triton": TRITON,
    "vllm": f"vLLM {VLLM.partition('==')[2]}",
}
"""The engines that tests/real/ starts, by kind."""


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """One test's word."""

    kind: str
    channel: str
    test: str
    """`tests/FILE.py::NAME`."""
    real: bool


@cache
def proofs(folder: Path = FOLDER) -> tuple[Proof, ...]:
    """All of them, sorted. Raises ValueError for a mark that stands on something else than a test, or does not name two literals."""
    found = [proof for path in sorted(folder.rglob("*.py")) for proof in _proofs_in(path, folder)]
    return tuple(sorted(found))


def _proofs_in(path: Path, folder: Path) -> Iterator[Proof]:
    text = path.read_text()
    if "mark.proves" not in text:
        return
    tree = ast.parse(text)
    where = path.relative_to(folder.parent).as_posix()
    marks = {id(node) for node in ast.walk(tree) if _is_mark(node)}
    for test in tree.body:
        if (
            not isinstance(test, ast.FunctionDef)
            or not test.name.startswith("test_")
            or not path.name.startswith("test_")
        ):
            continue
        for mark in filter(_is_mark, test.decorator_list):
            marks.discard(id(mark))
            yield Proof(*_names(mark, where), f"{where}::{test.name}", "real" in path.relative_to(folder).parts)
    if marks:
        raise ValueError(f"{where}: a mark `proves` stands on something else than a test")


def _is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proves"


def _names(mark: ast.expr, where: str) -> tuple[str, str]:
    assert isinstance(mark, ast.Call)
    names = [each.value for each in mark.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if len(names) != 2 or len(mark.args) != 2 or mark.keywords:
        raise ValueError(f"{where}: `proves` takes the kind and the name of one of its channels")
    return names[0], names[1]


def standing(kind: str, channel: str, follows: str, found: tuple[Proof, ...] | None = None) -> str:
    """How far a channel was tried, in the words of docs/engines.md: of the tests that prove it, the best."""
    real = {
        proof.real for proof in (proofs() if found is None else found) if (proof.kind, proof.channel) == (kind, channel)
    }
    if True in real:
        return f"proven on {PROVEN_ON[kind]}"
    return f"mocked after {follows}" if real and follows else "claimed"
