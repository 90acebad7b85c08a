"""Every fuzz target, by name, and where the bytes of each are kept: one table for `make fuzz` and for `test_corpora.py`.

A new parser of the product gets a line in one of these modules. `corpus/NAME.zip` holds what is kept of one: stored, not deflated, sorted
and without times, so that git keeps what two versions have in common once, and that the same inputs are the same file.
`unzip -p` shows an input to a person.
"""

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from tests.fuzz.bodies import BODIES
from tests.fuzz.configs import CONFIGS
from tests.fuzz.engine_pages import ENGINE_PAGES
from tests.fuzz.spans import SPANS
from tests.fuzz.streams import STREAMS
from tests.fuzz.target import Target
from tests.fuzz.wire import WIRE


CORPUS = Path(__file__).parent / "corpus"
TARGETS: dict[str, Target] = {
    target.name: target for target in (*WIRE, *STREAMS, *BODIES, *SPANS, *ENGINE_PAGES, *CONFIGS)
}


def kept(target: Target) -> list[bytes]:
    """The seeds and the corpus of one target, in an order that stays."""
    return [*target.seeds, *corpus_of(target).values()]


def corpus_of(target: Target, folder: Path = CORPUS) -> dict[str, bytes]:
    """The kept inputs by name, sorted; empty for a new target."""
    path = folder / f"{target.name}.zip"
    if not path.exists():
        return {}
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def keep(target: Target, inputs: Mapping[str, bytes], folder: Path = CORPUS) -> None:
    """Make these inputs, by name, the corpus of the target."""
    with ZipFile(folder / f"{target.name}.zip", "w") as archive:
        for name, data in sorted(inputs.items()):
            archive.writestr(ZipInfo(name), data)
