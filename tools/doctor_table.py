"""The table of docs/doctor.md: every link of the chain that `sidecar doctor` checks, from `sidecar/commands/doctor/links.py`."""

from sidecar.commands.doctor.links import Link
from tools.markdown import Block, table


LINKS_HEAD = ("link", "question", "asked with", "if it is broken")


def block() -> Block:
    """One row per link, in the order of the chain."""
    rows = ((f"`{one.label}`", one.question, _flags(one.asked_with), one.consequence) for one in Link)
    return Block("## The links", table(LINKS_HEAD, rows))


def _flags(text: str) -> str:
    return " ".join(
        f"`{word.rstrip(',')}`{',' * word.endswith(',')}" if word.startswith("--") else word for word in text.split()
    )
