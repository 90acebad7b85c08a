"""Plain words: a docstring names its subject, and only people are spoken of as people.

Many readers of this code have another first language. In seven codebases that are pleasant to read, h11 to attrs, 0 to 1.6 % of
the docstrings open with a question word, and none uses a pronoun for people. Names, strings and comments are held to the second
rule too: an engine, a client and a request are named.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest


CHECKOUT = Path(__file__).parents[1]
FOLDERS = ("sidecar", "tests", "bench", "tools", "grafana")
OPENINGS = re.compile(r"(What|Who|Whose|Whom|Of|Where|Whatever|Whoever|Wherever)\b")
PERSONS = re.compile(
    r"(?<![a-z])(nobody|somebody|anybody|everybody|whoever|whomever|whom)(?:'?s|elses)?(?![a-z])", re.IGNORECASE
)
MAY_BE_UNPLAIN = re.compile(rf"""[\"'](?:\s|\\\n)*{OPENINGS.pattern}|{PERSONS.pattern}""", re.IGNORECASE)
"""In the source of every docstring that is unplain, and in few others: an opening behind a quotation mark, or a word for a person."""
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
PAGES = ("*.md", "docs/**/*.md", "deploy/**/*", "tests/**/*.md", "sidecar/runbooks/*.md")
ALLOWED = {
    ("tests/real/record.py", "nobody"): "the name of a model in the recordings of real engines",
}
"""Words that stay outside docstrings, by file, with the reason."""
MOST_WORDS = {"README.md": 1_300, "docs/evidence/*.md": 14_000}
"""A page that is read at the first visit, and lab notes that are looked up: decisions of the project, in words of `wc -w`."""
MOST_ENTRIES = 52
"""Entries of one release in the changelog: a user of the last one reads them at the upgrade."""
ENTRY_WORDS = 30
"""Longest entry; most have some 20."""


def python_files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((CHECKOUT / folder).rglob("*.py"))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that stands alone as a statement, with its line: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text.strip()


def unplain(text: str) -> str | None:
    """The word that makes a docstring unplain, or None."""
    found = OPENINGS.match(text) or PERSONS.search(text)
    return None if found is None else found.group()


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that the file gives, with its line: of functions, classes, parameters and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text and every bytes constant, docstrings included, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield node.lineno, value if isinstance(value, str) else value.decode("latin-1")


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def persons(source: str) -> Iterator[tuple[int, str]]:
    """Every word for a person in a file's names, strings and comments, with its line."""
    if PERSONS.search(HUMP.sub("_", source)) is None:
        return  # without the word there is nothing to parse, which takes most of the time
    tree = ast.parse(source)
    named = ((line, HUMP.sub("_", name)) for line, name in names(tree))
    for line, text in (*named, *strings(tree), *comments(source)):
        yield from ((line, found[1].lower()) for found in PERSONS.finditer(text))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("What each engine calls its state.", "What"),
        ("Of a word: what tells it from others.", "Of"),
        ("Samples that nobody reads.", "nobody"),
        ("Offsets of the members, in bytes.", None),
        ("The bucket that holds what was not counted.", None),
    ],
)
def test_the_lint_knows_a_riddle(text: str, word: str | None) -> None:
    assert unplain(text) == word


def test_docstrings_name_their_subject() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{line}: {word}"
        for path in python_files()
        if MAY_BE_UNPLAIN.search(source := path.read_text())  # parsing takes most of the time
        for line, text in docstrings(ast.parse(source))
        if (word := unplain(text)) is not None
    ]

    assert found == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def test_a_span_for_nobody(whom): ...", ["nobody", "whom"]),
        ("class WhoeverLeaves:\n    FOR_NOBODYS = 1", ["whoever", "nobody"]),
        ("raise ValueError(f'{n} reports that nobody reads')  # for everybody else", ["nobody", "everybody"]),
        ("antibody = b'somebodyelse'", []),
    ],
)
def test_the_lint_sees_names_strings_and_comments(source: str, words: list[str]) -> None:
    assert [word for _, word in persons(source)] == words


def test_names_strings_and_comments_speak_of_no_component_as_of_a_person() -> None:
    """A person is called by the role: an operator, a reader, a client."""
    found = {
        (str(path.relative_to(CHECKOUT)), word): line
        for path in python_files()
        if path != Path(__file__)
        for line, word in persons(path.read_text())
    }

    assert found.keys() == ALLOWED.keys(), [f"{path}:{line}: {word}" for (path, word), line in found.items()]


def persons_on_pages() -> Iterator[tuple[str, int, str]]:
    """Every word for a person on a page, with the page's path below the checkout and the line."""
    pages = {path for pattern in PAGES for path in CHECKOUT.glob(pattern) if path.is_file() and not path.is_symlink()}
    for path in sorted(pages):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in PERSONS.finditer(line):
                yield str(path.relative_to(CHECKOUT)), number, found[1]


def test_pages_speak_of_no_component_as_of_a_person() -> None:
    assert list(persons_on_pages()) == []


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", MOST_WORDS)
def test_a_page_has_no_more_words_than_a_reader_takes(pages: str) -> None:
    words = {str(path.relative_to(CHECKOUT)): len(path.read_text().split()) for path in CHECKOUT.glob(pages)}

    assert 0 < sum(words.values()) <= MOST_WORDS[pages], words


def test_the_changelog_has_few_and_short_entries() -> None:
    """The release at the top counts; those before it are left as they are."""
    _, newest, *_ = re.split(r"^## ", (CHECKOUT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    entries = [line for line in newest.splitlines() if line.startswith("- ")]

    assert 0 < len(entries) <= MOST_ENTRIES
    assert [entry for entry in entries if len(entry.split()) > ENTRY_WORDS] == []
