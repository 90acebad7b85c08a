"""Says which strings of ours stand no longer in an engine's source: by hand, over copies of the sources that a person brings.

What the sidecar knows of an engine was read in its source at one commit: names of fields, headers, spans, metrics, pages and flags. They
stand as strings in the engine's file of `sidecar/engines/`. An engine that renames or removes one of them fails no test here, because
the fixtures follow the old source: TensorRT-LLM removed `/perf_metrics`, and every fixture still passed. So this looks for each of
these strings in a copy of today's source.

A string counts as standing if the source has it in one of the forms in which engines write it: a flag as the field that makes it, a metric
without what its library adds. That it stands does not prove that it still means the same; that it stands nowhere is news. Documents and
tests of the engine do not count, because they tell of what was.
"""

import argparse
import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import fields

from sidecar.engines.kind import EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.timeline.apis import API_OF_NAME
from sidecar.timeline.events import Extras


SOURCES = frozenset((".py", ".rs", ".go", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".proto", ".ts", ".js", ".pyi"))
"""Suffixes of files that are read."""
LARGEST_BYTES = 4 << 20
"""A larger file is made, not written."""
PASSED_OVER = frozenset(
    (
        ".git",
        "3rdparty",
        "benches",
        "benchmarks",
        "docs",
        "doc",
        "examples",
        "node_modules",
        "test",
        "tests",
        "third_party",
    )
)
"""Folders that hold other projects' code, or tell of what was."""
OURS = frozenset(
    (
        "name",
        "title",
        "known_by",
        "drains_with",
        "setting",
        "hint",
        "gone",
        "source",
        "version",
        "exact",
        "missing",
        "follows",
        "ran",
    )
)
"""Arguments and attributes whose texts are the sidecar's own words."""
ADVICE = re.compile(r"(?:\w+_)?advice\Z")
RENAMED = frozenset(field.name for field in fields(Extras) if field.name != field.encode_name)
"""Names of the sidecar's own for fields that engines call otherwise."""
_WORD = re.compile(r"(?:--|/)?[A-Za-z_][\w.:/-]*[A-Za-z0-9_]")
_ADDED_BY_LIBRARIES = re.compile(r"_(?:total|sum|count|bucket)\Z")
FEWEST_CHARACTERS = 5
"""A shorter word stands in any source."""


def strings_of(kind: EngineKind) -> dict[str, int]:
    """Each string of the engine's that its file here is built on, with its line there; 0 for a metric whose name is put together."""
    tree = ast.parse(Path(inspect.getfile(type(kind))).read_text())
    found: dict[str, int] = {}
    for line, text in _texts(tree):
        for word in _words(text):
            found.setdefault(word, line)
    for name in () if kind.state is None else kind.state.names():
        found.setdefault(name, 0)
    own = {kind.name, kind.title, *vars(type(kind)), *API_OF_NAME, *RENAMED}
    return {
        word: line
        for word, line in found.items()
        if word not in own and len(word) >= FEWEST_CHARACTERS and not word.startswith("engine.")
    }


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each string in the code that may be the engine's, and of each field that is decoded."""
    if isinstance(tree, ast.ClassDef) and any("Struct" in ast.unparse(base) for base in tree.bases):
        for field in tree.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield field.lineno, field.target.id
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.lineno, node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        elif not _is_ours(node):
            yield from _texts(node)


def _is_ours(node: ast.AST) -> bool:
    """Whether a part of the code has only the sidecar's own words: a docstring, an import, a note, advice."""
    if isinstance(node, ast.keyword):
        return node.arg in OURS
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return any(name in OURS or ADVICE.fullmatch(name) for name in names)
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _words(text: str) -> Iterator[str]:
    """The words of a text that may stand in a source: a text without blanks is one, and of a sentence only names and flags are."""
    words = _WORD.findall(text)
    if words == [text]:
        yield text
    else:
        yield from (word for word in words if word.startswith("--") or "_" in word or word.isupper())


def forms(word: str, prefix: str) -> tuple[str, ...]:
    """The forms in which a source may have this word: a header field begins each of its words with a capital. `prefix`: of the engine's metrics, which it may add to each name."""
    bare = word.removeprefix("--")
    plain = _ADDED_BY_LIBRARIES.sub("", bare)
    without = plain.removeprefix(prefix) if prefix else plain
    return tuple(dict.fromkeys((word, bare, bare.replace("-", "_"), word.title(), plain, without)))


def files_of(copy: Path) -> Iterator[Path]:
    """The files of a copy that are source."""
    for folder, folders, names in os.walk(copy):
        folders[:] = sorted(set(folders) - PASSED_OVER)
        for path in (Path(folder, name) for name in sorted(names)):
            if path.suffix in SOURCES and path.is_file() and path.stat().st_size <= LARGEST_BYTES:
                yield path


def gone_from(copy: Path, kind: EngineKind) -> tuple[dict[str, int], int, int]:
    """The strings that stand in no file of the copy, with their lines; how many were looked for, and in how many files."""
    strings, prefix, files = strings_of(kind), kind.metric_prefix.decode(), 0
    left = {word: [form.encode() for form in forms(word, prefix)] for word in strings}
    for path in files_of(copy):
        files += 1
        source = path.read_bytes()
        left = {word: written for word, written in left.items() if not any(form in source for form in written)}
    return {word: strings[word] for word in left}, len(strings), files


def copies_in(arguments: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """The copies that the arguments `KIND=FOLDER` name, and what is wrong with those that name none."""
    copies: dict[str, Path] = {}
    errors = []
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals:
            errors.append(f"{argument}: must be KIND=FOLDER, with a folder that has a copy of the engine's source")
        elif name not in KINDS:
            errors.append(f"{argument}: no such kind; allowed: {', '.join(KINDS)}")
        elif not Path(folder).is_dir():
            errors.append(f"{argument}: no such folder")
        elif next(files_of(Path(folder)), None) is None:
            errors.append(f"{argument}: no source in it; its files end in none of {', '.join(sorted(SOURCES))}")
        else:
            copies[name] = Path(folder)
    return copies, errors


def report(copies: Mapping[str, Path]) -> Iterator[str]:
    """The lines for a person, engine by engine."""
    for name, copy in copies.items():
        kind = KINDS[name]
        gone, looked_for, files = gone_from(copy, kind)
        yield f"{kind.title}: {len(gone)} of {looked_for} strings stand in none of {files} files of {copy}"
        for word, line in sorted(gone.items(), key=lambda each: (each[1], each[0])):
            yield f"  {word}  (sidecar/engines/{name}.py{f':{line}' if line else ', names of its metrics'})"
        for channel in kind.channels if gone else ():
            yield f'  read for "{channel.source.partition(";")[0]}": {channel.follows.replace("`", "") or channel.version}'


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: every string stands. 1: some do not. 2: the arguments are wrong."""
    parser = argparse.ArgumentParser(
        prog="engines-news", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "copies", nargs="+", metavar="KIND=FOLDER", help=f"one of {', '.join(KINDS)}, and a copy of its source"
    )
    copies, errors = copies_in(parser.parse_args(arguments).copies)
    if errors:
        sys.stderr.write("".join(f"{error}\n" for error in errors))
        return 2
    lines = list(report(copies))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(any(line.startswith("  ") for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
