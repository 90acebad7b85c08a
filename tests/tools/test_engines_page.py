"""docs/engines.md: every engine has its rows, each row its origin, and each path that the page names generates."""

import re

from sidecar.engines.kind import Ran
from sidecar.engines.kinds import KINDS
from tests.support.apis import dialect_for
from tools.engines_page import page


def test_every_engine_states_its_ways_and_what_its_fixtures_follow() -> None:
    """A row without its origin could not be verified."""
    assert all(kind.channels for kind in KINDS.values())
    lacking = [
        (kind.name, channel.source)
        for kind in KINDS.values()
        for channel in kind.channels
        if not channel.version or (channel.ran is Ran.FIXTURES and not channel.follows)
    ]

    assert lacking == []


def test_every_path_on_the_page_is_one_that_generates() -> None:
    """The table of paths is written by hand; each path in it is looked up in the code."""
    table = page().partition("| path | served by |")[2].partition("\n## ")[0]
    paths = [path for row in table.splitlines() for path in re.findall(r"`(/[^`]*)`", row.rpartition("|")[0])]

    assert len(paths) > 12
    assert [path for path in paths if dialect_for(path.replace("*", "m").encode(), KINDS["tgi"].paths) is None] == []


def test_kinds_are_listed_by_name() -> None:
    """In alphabetical order, so that two engineers who each add a kind do not collide."""
    assert list(KINDS) == sorted(KINDS)
