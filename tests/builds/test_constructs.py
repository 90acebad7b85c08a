"""No compiled file uses a construct that mypyc compiles to something else, unless its reason stands beside it."""

import pytest

import hatch_build
from tests.builds.constructs import found_in


def kinds(source: str) -> list[str]:
    return [one.kind for one in found_in(source)]


@pytest.mark.reaches_in  # it reads the sources
def test_no_compiled_file_has_one_without_its_reason() -> None:
    found = [
        f"{path}:{one.line}: {one.kind}: {one.text}"
        for path in hatch_build.modules()
        for one in found_in((hatch_build.ROOT / path).read_text())
    ]

    assert hatch_build.modules() != []
    assert found == []


@pytest.mark.parametrize(
    "cut",
    [
        "a:b",
        "6:-2",
        "a:-2",
        "-3:-1",
        "a:b.end",
        "4:2",
        "a:len(data) - 2",
        "a:a - 1",
        "a:b + a",
        "a:max(b, c)",
        "a:min(a, b)",
        "a + 1:a",
    ],
)
def test_a_slice_that_may_end_before_it_begins_is_refused(cut: str) -> None:
    assert kinds(f"said = data[{cut}]") == ["slice"]
    assert kinds(f"said = data[{cut}]  # in order: its caller has looked") == []
    assert kinds(f"# In order: its caller has looked\nsaid = data[{cut}]") == []
    assert kinds(f"at = 3  # in order: another line's reason\nsaid = data[{cut}]") == ["slice"]
    assert kinds(f"said = data[{cut}]  # in order:") == ["slice"]
    assert kinds(f"said = data[{cut}]  # depth: another kind's reason") == ["slice"]


@pytest.mark.parametrize(
    "cut",
    [
        "a:",
        ":a",
        ":-2",
        "-2:",
        ":",
        "a:a + n",
        "a:a + 1",
        "a.at:a.at + len(mark)",
        "a:a + self.size",
        "0:4",
        "2:2",
        "a:max(a, len(data) - 2)",
        "a:b:2",
    ],
)
def test_a_slice_that_cannot_is_not(cut: str) -> None:
    assert kinds(f"said = data[{cut}]") == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(n):\n    return f(n - 1)",
        "class A:\n    def f(self):\n        return self.f()",
        "def f():\n    g()\ndef g():\n    f()",
    ],
)
def test_a_function_that_calls_itself_is_refused(source: str) -> None:
    assert set(kinds(source)) == {"recursion"}


def test_a_function_that_calls_another_of_its_name_is_not() -> None:
    assert kinds("class A:\n    def f(self):\n        return f(self)") == []
    assert kinds("class A:\n    def f(self):\n        return self.other.f()") == []
    assert kinds("# depth: the configuration has at most three levels\ndef f(n):\n    return f(n - 1)") == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def f():\n    try:\n        yield 1\n    finally:\n        g()", ["generator"]),
        ("def f():\n    with g():\n        yield 1", ["generator"]),
        ("def f():\n    with g():  # left alone: what it holds is freed with it\n        yield 1", []),
        ("def f():\n    try:\n        yield 1\n    except ValueError:\n        g()", []),
        ("def f():\n    with g():\n        h()\n    yield 1", []),
        ("def f(steps):\n    yield next(steps)", ["stop"]),
        ("def f(steps):\n    yield next(steps, None)", []),
        ("def f(steps):\n    return next(steps)", []),
    ],
)
def test_what_a_generator_may_not_do(source: str, refused: list[str]) -> None:
    """One that is not read to its end does not run its `finally`, and a StopIteration within ends it in silence."""
    assert kinds(source) == refused


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def f(n):\n    for i in range(n):\n        g(i)\n    return i", ["loop"]),
        ("def f(n):\n    for i in range(n):\n        g(i)\n    i = 3\n    return i", []),
        ("def f(n):\n    for i in n:\n        g(i)\n    return i", []),
        ("def f(n):\n    i = 1\n    g(i)\n    for i in range(n):\n        g(i)", []),
        ("def f(n):\n    for i in range(n):\n        g(i)\n    return [i for i in n]", []),
    ],
)
def test_a_variable_of_a_range_is_not_read_behind_its_loop(source: str, refused: list[str]) -> None:
    assert kinds(source) == refused


def test_what_a_native_class_or_an_error_lacks_is_not_used() -> None:
    assert kinds("import copy\nfrom weakref import ref\nimport pickle") == ["import", "import", "import"]
    assert kinds("import struct\nfrom dataclasses import replace") == []
    assert kinds("try:\n    f()\nexcept E as error:\n    g(error.__cause__, error.__context__)") == ["error"]
