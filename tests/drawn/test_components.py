"""Grafana's components are those of one version, whatever is newest on npm."""

import json

from tests.drawn.components import DRAWING


def test_the_versions_that_draw_are_pinned() -> None:
    """In both files, and by number."""
    said = json.loads((DRAWING / "package.json").read_text())
    locked = json.loads((DRAWING / "package-lock.json").read_text())["packages"]
    wanted = said["dependencies"] | said["devDependencies"]

    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
