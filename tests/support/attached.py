"""Each manifest of tests/commands/inject/manifests with its sidecars: attached once in a process, for all tests that only read it."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sidecar.commands.inject.attaching import Attached, Settings, attach_all
from sidecar.commands.inject.manifest_text import Document, read, written
from tests.support.kustomize import MANIFESTS


EVERY = sorted(MANIFESTS.glob("*.yaml"))
ONLY_LABELLED = ("canary-beside",)
"""Files whose label says what is meant; in the others every engine is."""


def settings_for(path: Path) -> Settings:
    """The flags that attach this file whole."""
    return Settings(every=path.stem not in ONLY_LABELLED)


@cache
def given(path: Path) -> list[Document]:
    """The documents as they stand in the file."""
    return read(path.read_text(), path.name)


@cache
def attached(path: Path) -> tuple[list[Document], Attached]:
    """The documents with their sidecars, and what was done."""
    documents = read(path.read_text(), path.name)
    return documents, attach_all(documents, settings_for(path))


@cache
def text_of(path: Path) -> str:
    """The text that `sidecar inject` writes of the file."""
    return written(attached(path)[0])


@cache
def again(path: Path) -> list[Document]:
    """The documents of that text."""
    return read(text_of(path), "again")


def flat(documents: Sequence[Document]) -> list[Any]:
    """Their objects."""
    return [one for document in documents for one in document.objects]


def plain(documents: Sequence[Document]) -> list[Any]:
    """Their objects as JSON has them, which a test may change."""
    return json.loads(json.dumps(flat(documents)))  # type: ignore[no-any-return]
