"""`python -m tools.house`: how large the house is, and how much of a request stands in tables beside its record. One line a figure.

Lines are those of tracked Python files as `wc -l` counts them. Code is a line with a token that is no comment, no docstring and no import. A
branch is `if`, `elif`, `for`, `while`, `except`, `and`, `or`, a conditional expression or a `case`. A table of requests is a field that maps a
request, by its record or by any key that names it, to something. Figures of another tree: run it in a checkout of that one.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path


CHECKOUT = Path(__file__).parents[1]
PRODUCT, TESTS, BESIDE = ("sidecar",), ("tests",), ("bench", "tools")
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
_TABLE = re.compile(r"^(?:Ordered)?[dD]ict\[(?:Hashable|RequestRecord)\b|^set\[(?:Hashable|RequestRecord)\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tracked(*folders: str) -> list[Path]:
    """The files that git knows below these folders, of the whole tree without any. Raises subprocess.CalledProcessError outside a repository."""
    listing = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--", *folders]
    told = subprocess.run(listing, capture_output=True, check=True).stdout.decode()  # noqa: S603  our own words
    return [CHECKOUT / name for name in told.split("\0") if name]


def lines(*folders: str) -> int:
    """Lines of Python below these folders."""
    return sum(path.read_bytes().count(b"\n") for path in tracked(*folders) if path.suffix == ".py")


def code_lines(tree: ast.Module) -> int:
    """Lines with code: neither imports nor docstrings, comments or blanks."""
    strings = {
        id(node.body[0])
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
    }
    found: set[int] = set()
    for node in ast.walk(tree):
        told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a field's docstring too
        if isinstance(node, ast.Import | ast.ImportFrom) or id(node) in strings or told:
            continue
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            found.update(range(node.lineno, max(node.lineno, end) + 1))
    return len(found)


def branches(tree: ast.Module) -> int:
    """Each decision counts one; `a and b or c` two."""
    simple = sum(isinstance(node, _BRANCHES) for node in ast.walk(tree))
    return simple + sum(len(node.values) - 1 for node in ast.walk(tree) if isinstance(node, ast.BoolOp))


def request_tables(tree: ast.Module) -> list[str]:
    """The names of the fields that are tables of requests."""
    fields = (node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    return [ast.unparse(field.target) for field in fields if _TABLE.match(ast.unparse(field.annotation))]


def figures() -> dict[str, str]:
    """Each figure by its name, in reading order."""
    trees = {path: ast.parse(path.read_text()) for path in tracked(*PRODUCT) if path.suffix == ".py"}
    code, decisions = sum(map(code_lines, trees.values())), sum(map(branches, trees.values()))
    tables = [
        f"{path.relative_to(CHECKOUT / 'sidecar')}: {name}"
        for path, tree in trees.items()
        for name in request_tables(tree)
    ]
    return {
        "lines of sidecar/": f"{lines(*PRODUCT):,}",
        "lines of code in it": f"{code:,}",
        "lines of tests/": f"{lines(*TESTS):,}",
        "lines of bench/ and tools/": f"{lines(*BESIDE):,}",
        "tracked files": f"{len(tracked()):,}",
        "lines of code a branch": f"{code / decisions:.1f}",
        "tables of requests": "\n  ".join([str(len(tables)), *tables]),
    }


def main() -> None:
    sys.stdout.writelines(f"{name}: {value}\n" for name, value in figures().items())


if __name__ == "__main__":
    main()
