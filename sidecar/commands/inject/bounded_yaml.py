"""A reader of YAML that refuses what unfolds beyond a bound, while it reads and with the place.

Aliases of aliases, nine a level, make a billion values of a page of text, and each walk over values calls itself once a level. So levels are
counted, those behind an alias included, and the values that aliases repeat. What is written itself may be as long as it is.
"""

from typing import Any

from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode
from ruamel.yaml.resolver import VersionedResolver


MOST_LEVELS = 100
"""A pod's deepest field stands at some 15; the schemas of custom resources that embed pods at some 50."""
MOST_REPEATED = 10_000
"""Values that aliases repeat, in one document. A team's anchors repeat hundreds."""


class BeyondBoundError(MarkedYAMLError):
    """YAML that is right and is not read."""


class BoundedComposer(Composer):
    """ruamel's composer, of one document."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False  # an anchor may be given anew (YAML 1.2.2, 3.2.2.2)
        self._level = self._deepest = self._values = self._repeated = 0
        self._anchored: dict[str, tuple[int, int]] = {}
        """Values and levels of what each anchor names, once that is whole."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node. Raises BeyondBoundError."""
        event, before, deepest = self.parser.peek_event(), self._values, self._deepest
        is_alias = isinstance(event, AliasEvent)
        values, levels = self._anchored.get(event.anchor, (0, 0)) if is_alias else (1, 1)
        self._values, self._repeated = before + values, self._repeated + values * is_alias
        is_key = isinstance(parent, MappingNode) and index is None
        beyond = {
            "this key is no word": is_key and (levels > 1 or not isinstance(event, AliasEvent | ScalarEvent)),
            "an alias stands in what it names": not values and event.anchor in self.anchors,
            f"this is nested deeper than {MOST_LEVELS} levels": self._level + levels > MOST_LEVELS,
            f"aliases repeat more than {MOST_REPEATED} values": self._repeated > MOST_REPEATED,
        }
        for problem in (each for each, holds in beyond.items() if holds):
            raise BeyondBoundError(problem=problem, problem_mark=event.start_mark)
        self._level += 1
        self._deepest = self._level + levels - 1
        if not is_alias:
            self._anchored.pop(event.anchor, None)
        node = super().compose_node(parent, index)
        if event.anchor and not is_alias:
            self._anchored[event.anchor] = self._values - before, self._deepest - self._level + 1
        self._level, self._deepest = self._level - 1, max(deepest, self._deepest)
        return node


class WithoutDates(VersionedResolver):
    """ruamel's resolver, to which a date is a word, as it is to Kubernetes (resolve.go of yaml.v2, which sigs.k8s.io/yaml has)."""

    def add_version_implicit_resolver(self, version: Any, tag: Any, regexp: Any, first: Any) -> None:
        """Leave a kind of plain scalars out, or know it."""
        if not str(tag).endswith(":timestamp"):
            super().add_version_implicit_resolver(version, tag, regexp, first)
