"""The table of commands in CONTRIBUTING.md, from the help lines of the Makefile, which `make` alone prints too."""

import re
from pathlib import Path

from tools.markdown import Block, table


COMMANDS_HEAD = ("command", "what it does")
MAKEFILE = Path(__file__).parents[1] / "Makefile"
_HELP_LINE = re.compile(r"^([a-z-]+):[^#]*## (.*)$", re.MULTILINE)


def block() -> Block:
    """One row per command, in the order of the Makefile."""
    rows = (
        (f"`make {target}`", about)
        for target, about in _HELP_LINE.findall(MAKEFILE.read_text("utf-8"))
        if target != "help"
    )
    return Block("### Commands", table(COMMANDS_HEAD, rows))
