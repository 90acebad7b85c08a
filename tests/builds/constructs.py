"""Constructs of Python that mypyc compiles to something else, found in the source of a file. test_differences.py shows each one.

It reads one file at a time and knows no types: a slice of a list, which is harmless, is refused like one of bytes. Where a construct
is right, a comment on its line or on the line above says why, as `# in order: why`. `REASONS` has the words for each kind.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass


REASONS = {"slice": "in order", "recursion": "depth", "generator": "left alone"}
"""For each kind that may stand with a reason, the word before it."""
_REASON = re.compile(r"#.*\b(?P<word>in order|depth|left alone): *\S", re.IGNORECASE)
WITHOUT = {"copy", "pickle", "weakref"}
"""Modules whose work with a native class differs."""
UNSET = {"__cause__", "__suppress_context__"}
"""Attributes of an error that `raise ... from` does not set."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Found:
    """One construct."""

    line: int
    kind: str
    text: str


def found_in(source: str) -> list[Found]:
    """The constructs without a reason, in order of their lines."""
    tree, lines = ast.parse(source), source.splitlines()
    every = [*_slices(tree), *_recursions(tree), *_generators(tree), *_loops(tree), *_names(tree)]
    return sorted((one for one in every if not _has_reason(one, lines)), key=lambda one: (one.line, one.kind))


def _has_reason(found: Found, lines: list[str]) -> bool:
    """Whether its line says why, or the comment above."""
    above = lines[found.line - 2].strip() if found.line > 1 else ""
    here = (lines[found.line - 1], above if above.startswith("#") else "")
    said = {match["word"].lower() for line in here if (match := _REASON.search(line)) is not None}
    return REASONS.get(found.kind) in said


# --- slices --------------------------------------------------------------------------------------------------------------


def _slices(tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and not _in_order(node.slice):
            yield Found(node.lineno, "slice", ast.unparse(node))


def _in_order(cut: ast.Slice) -> bool:
    """Whether it cannot end before it begins, by its form alone."""
    begin, end = cut.lower, cut.upper
    if begin is None or end is None or cut.step is not None:
        return True  # with a step mypyc asks Python
    first, last = _literal(begin), _literal(end)
    if first is not None and last is not None:
        return first <= last
    if isinstance(end, ast.Call) and isinstance(end.func, ast.Name) and end.func.id == "max":
        return any(_same(begin, each) for each in end.args)
    return (
        isinstance(end, ast.BinOp)
        and isinstance(end.op, ast.Add)
        and _same(begin, end.left)
        and _no_less_than_0(end.right)
    )


def _literal(number: ast.expr) -> int | None:
    """A whole number that is no less than 0; None for anything else."""
    return number.value if isinstance(number, ast.Constant) and isinstance(number.value, int) else None


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _no_less_than_0(size: ast.expr) -> bool:
    """A literal, a length, or a name, which is taken at its word: `at : at + size`."""
    is_length = isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and size.func.id == "len"
    return is_length or isinstance(size, ast.Name | ast.Attribute) or _literal(size) is not None


# --- functions -----------------------------------------------------------------------------------------------------------


def _functions(tree: ast.Module) -> dict[str, Function]:
    """The functions of a module by their names, its methods by `Class.name`."""
    found: dict[str, Function] = {}
    for node in tree.body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}": each for each in node.body if isinstance(each, Function)}
    return found


def _called(name: str, function: Function, known: dict[str, Function]) -> set[str]:
    """The functions of this module that this one calls: by their names, and on itself."""
    called = set()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=other)):
                called.add(other)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=other)):
                called.add(f"{name.partition('.')[0]}.{other}")
    return called & known.keys()


def _recursions(tree: ast.Module) -> Iterator[Found]:
    known = _functions(tree)
    calls = {name: _called(name, function, known) for name, function in known.items()}
    for name, function in known.items():
        reached: set[str] = set()
        ahead = [name]
        while ahead:
            for each in calls[ahead.pop()] - reached:
                reached.add(each)
                ahead.append(each)
        if name in reached:
            yield Found(function.lineno, "recursion", name)


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of the function, and not in a function within it."""
    ahead: list[ast.AST] = [*function.body]
    while ahead:
        node = ahead.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            ahead += ast.iter_child_nodes(node)


def _generators(tree: ast.Module) -> Iterator[Found]:
    for function in ast.walk(tree):
        if not isinstance(function, Function) or not any(
            isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function)
        ):
            continue
        for node in _own(function):
            waits = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))
            if waits and (isinstance(node, ast.With) or (isinstance(node, ast.Try) and node.finalbody)):
                yield Found(node.lineno, "generator", f"{function.name} may be left alone within it")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "next" and len(node.args) == 1:
                yield Found(node.lineno, "stop", ast.unparse(node))


def _loops(tree: ast.Module) -> Iterator[Found]:
    """Variables of a loop over a range that are read behind it."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        for loop in ast.walk(function):
            if not isinstance(loop, ast.For) or not _is_range(loop.iter):
                continue
            variables = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            behind = [name for name in names if name.id in variables and name.lineno > (loop.end_lineno or 0)]
            made = {name.id for name in behind if isinstance(name.ctx, ast.Store)}
            yield from (
                Found(name.lineno, "loop", f"{name.id}, of the range in line {loop.lineno}")
                for name in behind
                if name.id not in made
            )


def _is_range(over: ast.expr) -> bool:
    return isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"


def _names(tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            said = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (Found(node.lineno, "import", name) for name in said if name.partition(".")[0] in WITHOUT)
        if isinstance(node, ast.Attribute) and node.attr in UNSET:
            yield Found(node.lineno, "error", ast.unparse(node))
