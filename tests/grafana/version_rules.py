"""Rules of a dashboard that compares two versions: each selector has one of them or both, and no version is compared with itself.

Judged on the trees of its queries. With one version both variables have the same value: what excludes the other version then reads
nothing. Refuses to know the gate, whose text is compared word for word.
"""

from collections.abc import Iterator

from sidecar.metrics.histogram_forms import OF_EACH_PROCESS
from tests.grafana.boards import Json, targets
from tests.grafana.gate import is_sequential
from tests.grafana.query_rules import tree_of, where
from tests.grafana.series import VERSION, matched, selectors


BOTH = '=~"$baseline|$canary"'
OTHER = {"baseline": "canary", "canary": "baseline"}
ONE = {f'="${version}"' for version in OTHER}
ALONE = {f'="${version}",{VERSION}!="${other}"' for version, other in OTHER.items()}
"""One version that is not the other."""


def keeps_versions_apart(dashboard: Json) -> Iterator[str]:
    """Each selector says which version it is of; where two are compared, or a part with its whole, all exclude the other one or none does."""
    if not any(variable["name"] == "canary" for variable in dashboard["templating"]["list"]):
        return
    for panel, target in targets(dashboard):
        # A process has one version: what tells its form need not say it.
        read = [selector for selector in selectors(tree_of(target)) if selector.name != OF_EACH_PROCESS]
        said = {matched(selector).get(VERSION) for selector in read}
        if not said <= {BOTH, *ONE, *ALONE}:
            yield f"{where(panel, target)}: mixes versions"
        elif not is_sequential(target) and said & ONE and len(said) > 1:
            yield f"{where(panel, target)}: with one version, it is compared with itself"
