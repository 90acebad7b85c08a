"""Each constant of the package has one definition, and one name has one meaning.

FEWEST_MISSES was 10 in one module and 3 in two others: one name for two meanings, which misled readers.
"""

import ast
from collections.abc import Iterator
from pathlib import Path


PACKAGE = Path(__file__).parents[1] / "sidecar"


def constants(tree: ast.Module) -> Iterator[str]:
    """The UPPER_CASE names that a module assigns at its top level. Type variables are no constants."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
        elif isinstance(node, ast.Assign) and "TypeVar" not in ast.unparse(node.value):
            targets = node.targets
        else:
            continue
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name) and name.id.isupper():
                    yield name.id


def test_constants_of_every_form_are_seen() -> None:
    tree = ast.parse("ONE = 1\nTWO: int = 2\n_THREE, FOUR = 3, 4\nfive = 5\nT = TypeVar('T')\ndef f():\n    SIX = 6\n")

    assert list(constants(tree)) == ["ONE", "TWO", "_THREE", "FOUR"]


def test_a_constant_is_defined_in_one_module() -> None:
    """A value that two modules need is imported; two values that only sound alike have two names."""
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in set(constants(ast.parse(path.read_text()))):
            homes.setdefault(name, []).append(str(path.relative_to(PACKAGE)))

    assert len(homes) > 500
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
