"""The modules of the package and what they import, read from their text: nothing is imported to find out."""

import ast
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "sidecar"
MODULES = sorted(PACKAGE.rglob("*.py"))
STARTS_A_SIDECAR = CHECKOUT / "tests" / "support" / "sidecar_process.py"
"""Runs `python -m sidecar`: a test that imports it reaches what `sidecar/__main__.py` does."""


def name_of(path: Path) -> str:
    """`timeline/sse.py`; for a file outside the package, its whole path."""
    return str(path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path)


def dotted(path: Path) -> str:
    """`sidecar.timeline.sse`; for a package's `__init__`, the package."""
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def room_of(path: Path) -> str:
    """`proxy`, `timeline`, `commands/demo`, ...; for a file in the root, its own name."""
    room, *rest = path.relative_to(PACKAGE).parts
    return f"{room}/{rest[0]}" if room == "commands" and rest else room


def imports_of(path: Path) -> frozenset[str]:
    """Full names of all imported modules, also of imports within functions and for type checking."""
    return _imports_and_attributes(path)[0]


def attributes_of(path: Path) -> frozenset[str]:
    """Attribute names (behind a dot) in this module's code."""
    return _imports_and_attributes(path)[1]


@cache
def _imports_and_attributes(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    names: set[str] = set()
    attributes: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            module = node.module or ""
            names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
    return frozenset(names), frozenset(attributes)


def importers(*forbidden: str, among: Iterable[Path]) -> list[str]:
    """`file: import` for each import of one of these modules or of anything inside them."""
    return [
        f"{name_of(path)}: {name}"
        for path in among
        for name in sorted(imports_of(path))
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    ]


def circle_of(graph: Mapping[str, AbstractSet[str]]) -> list[str]:
    """One cycle of the graph, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def in_reach(test: Path, folder: Path) -> set[Path]:
    """The modules that a test file imports, and those of `folder` to which the imports lead from there.

    Followed are the imports of the modules of `folder`, of the folder that the test's own mirrors, and of the package's root,
    which joins the folders. Imports of
    plain modules of tests/, and of the conftest.py beside the test if it uses a fixture of it, count as its own.
    """
    found: set[Path] = set()
    left = [test, *_conftest_of(test)]
    looked = {*left}
    followed = (folder, PACKAGE, PACKAGE / test.parent.relative_to(CHECKOUT / "tests"))
    while left:
        path = left.pop()
        if path.is_relative_to(PACKAGE):
            found.add(path)
            if path.parent not in followed:
                continue
        for name in imports_of(path) | ({"sidecar.__main__"} if path == STARTS_A_SIDECAR else set()):
            file = _file_of(name)
            if file is not None and file not in looked:
                looked.add(file)
                left.append(file)
    return found


def _conftest_of(test: Path) -> list[Path]:
    """The conftest.py beside a test file, if a test has an argument with the name of one of its functions."""
    conftest = test.with_name("conftest.py")
    if not conftest.is_file():
        return []
    fixtures = {node.name for node in ast.parse(conftest.read_text()).body if isinstance(node, ast.FunctionDef)}
    arguments = {node.arg for node in ast.walk(ast.parse(test.read_text())) if isinstance(node, ast.arg)}
    return [conftest] if fixtures & arguments else []


@cache
def _file_of(name: str) -> Path | None:
    """The file of a module or package of this checkout; None for any other name."""
    path = CHECKOUT / Path(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
