"""Every fuzz target, by name, and where the bytes of each are kept: one table for `make fuzz` and for `test_corpora.py`.

A new parser of the product gets a line in one of these modules. The names are the names of folders in `corpus/`.
"""

from pathlib import Path

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
    return [*target.seeds, *(path.read_bytes() for path in sorted((CORPUS / target.name).glob("*")))]
