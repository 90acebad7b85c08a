"""A file that a command writes is committed only if people browse it, and once; each is listed here and counted.

Not counted: tables and lists that `make docs` writes into pages written by hand, recordings of real engines, and
pictures.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import grafana.__main__
from sidecar.commands.export.routes import ROUTES_OBJECT
from tests.support.shipped_rules import shipped_rules
from tests.support.tools import need_tool
from tools.docs import whole


CHECKOUT = Path(__file__).parents[1]
MOST_LINES = 39_300
"""50,334 before the ConfigMaps, promtool's files and the rules of an earlier mutant check were removed; the dashboards
alone are 21,900, since a root has one row with its lanes, and says which pods it hits, and the goldens 12,700."""
LONG_LINES = 290
"""No hand-written file of data is longer: the longest is the schema of Dynamo's objects."""


@cache
def written() -> set[str]:
    """Every committed file that a command writes from its first line to its last."""
    return {
        *(f"alert_rules/{name}" for name in (*shipped_rules(), ROUTES_OBJECT)),
        *(f"grafana/{name}" for name in grafana.__main__.files()),
        *(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "tests/goldens").glob("*.txt")),
        *whole(),
        "tests/drawn/drawing/package-lock.json",  # by npm: which versions draw, and their checksums
    }


@cache
def committed() -> dict[str, str]:
    """Path to text of each file that git tracks, without links, pictures and other binary files."""
    command = [str(need_tool("git")), "-c", f"safe.directory={CHECKOUT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60).stdout
    texts = {}
    for name in filter(None, listed.split("\0")):
        data = (CHECKOUT / name).read_bytes() if (CHECKOUT / name).is_file() else b"\0"
        if b"\0" not in data and not (CHECKOUT / name).is_symlink():
            texts[name] = data.decode("utf-8", "replace")
    return texts


def test_every_committed_file_that_names_its_command_is_on_the_list() -> None:
    """The first lines of a written file name the command in a sentence, behind a comment mark if the format has one."""
    says = re.compile(r"^(?:# |<!-- )?(?:Written|Generated)\b.* by `", re.MULTILINE)
    texts = {name: "\n".join(text.splitlines()[:5]) for name, text in committed().items() if not name.endswith(".py")}
    named = {name for name, head in texts.items() if says.search(head)}

    assert named - written() == set()
    assert {name for name in written() - named if not name.endswith(".json")} == set()


def test_every_long_file_of_data_is_on_the_list() -> None:
    """Files are found by their length: JSON has no comments that could name a command, and a copy may lack them too."""
    long = {
        name
        for name, text in committed().items()
        if name.endswith((".json", ".yml", ".yaml")) and text.count("\n") > LONG_LINES
    }

    assert long - written() == set()


def test_few_lines_are_written_by_a_machine() -> None:
    lines = {name: committed()[name].count("\n") for name in written()}

    assert sum(lines.values()) <= MOST_LINES
