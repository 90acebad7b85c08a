"""docs/engines.md: every engine has its rows, each row its origin, and each path that the page names generates."""

import re

from sidecar.engines.kinds import KINDS
from tests.support.apis import dialect_for
from tests.support.proofs import proofs
from tools.engines_page import page


PROVEN = {(proof.kind, proof.channel) for proof in proofs() if proof.real}


def test_every_engine_states_its_ways_and_what_its_fixtures_follow() -> None:
    """A row without its origin could not be verified."""
    assert all(kind.channels for kind in KINDS.values())
    lacking = [
        (kind.name, channel.source)
        for kind in KINDS.values()
        for channel in kind.channels
        if not channel.version or ((kind.name, channel.name) not in PROVEN and not channel.follows)
    ]

    assert lacking == []


def test_no_row_claims_what_no_test_proves() -> None:
    """Each row's word is that of the tests that exist: those of a real engine, else those of what was written after its source."""
    for kind in KINDS.values():
        section = page().partition(f"`engine.kind: {kind.name}`")[2].partition("\n## ")[0]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "|" in line]
        told = {cells[0]: cells[-1] for cells in rows}
        for channel in kind.channels:
            proofs_of = {proof.real for proof in proofs() if (proof.kind, proof.channel) == (kind.name, channel.name)}
            word = "proven on " if True in proofs_of else "mocked after " if proofs_of else "claimed"
            assert told[channel.source].startswith(word), (kind.name, channel.name)


def test_every_path_on_the_page_is_one_that_generates() -> None:
    """The table of paths is written by hand; each path in it is looked up in the code."""
    table = page().partition("| path | served by |")[2].partition("\n## ")[0]
    paths = [path for row in table.splitlines() for path in re.findall(r"`(/[^`]*)`", row.rpartition("|")[0])]

    assert len(paths) > 12
    assert [path for path in paths if dialect_for(path.replace("*", "m").encode(), KINDS["tgi"].paths) is None] == []


def test_kinds_are_listed_by_name() -> None:
    """In alphabetical order, so that two engineers who each add a kind do not collide."""
    assert list(KINDS) == sorted(KINDS)
