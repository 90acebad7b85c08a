"""A copy of the package in which each function of a compiled module may be told to raise, as sources and compiled.

It adds one line to each function, `_trip("observe/response.py: StreamedResponse.data")`, and writes `sidecar/trips.py`, which that
line calls. `faults.py` tells it which call raises. Run: `python -m tests.histories.tripped FOLDER`; a minute.
"""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import sidecar
from hatch_build import pyproject


CHECKOUT = Path(__file__).parents[2]
TRIPS = '''\
"""Raises where it is told to."""

told = ""
calls_left = 0
calls: dict[str, int] = {}


class InjectedError(RuntimeError):
    pass


def trip(name: str) -> None:
    global calls_left
    calls[name] = calls.get(name, 0) + 1
    if name == told:
        calls_left -= 1
        if calls_left == 0:
            raise InjectedError(name)
'''
IMPORT = "from sidecar.trips import trip as _trip"


def functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with a body of its own, by its name within the module; a protocol has none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            if "Protocol" not in map(ast.unparse, child.bases):
                yield from functions(child, f"{within}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{within}{child.name}", child
            yield from functions(child, f"{within}{child.name}.")
        else:
            yield from functions(child, within)


def first_statement(body: list[ast.stmt]) -> ast.stmt | None:
    """The first that is no docstring."""
    behind = body[1:] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body
    return behind[0] if behind else None


def begin_of(statement: ast.stmt) -> int:
    """Its first line, from 1, decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def with_trips(source: str, name: str) -> str:
    """The module with a line more in each function."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    added: list[tuple[int, str]] = []
    for function, node in functions(tree):
        first = first_statement(node.body)
        if first is not None and begin_of(first) > node.lineno:
            added.append((begin_of(first), f'{" " * first.col_offset}_trip("{name}: {function}")\n'))
    at_top = first_statement(tree.body)
    if added and at_top is not None:
        added.append((begin_of(at_top), f"{IMPORT}\n"))
    for line, text in sorted(added, reverse=True):
        lines.insert(line - 1, text)
    return "".join(lines)


def build(folder: Path) -> None:
    """Write the package to this folder, with the compiled modules beside their sources. Raises CalledProcessError."""
    tree = folder / "tree"
    package = Path(sidecar.__file__).parent
    shutil.copytree(package, tree / "sidecar", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(CHECKOUT / name, tree)
    (tree / "sidecar/trips.py").write_text(TRIPS)
    for path in pyproject()["tool"]["sidecar"]["compiled"]:
        source = (tree / path).read_text()
        (tree / path).write_text(with_trips(source, path.removeprefix("sidecar/")))
    subprocess.run([sys.executable, tree / "hatch_build.py", folder], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
