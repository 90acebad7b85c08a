"""The labels that tell one cluster from another, by the names that a fleet has for them: in rules, routes, messages and dashboards alike.

A series is identified by (cluster, namespace, job, pod). Prometheus and Alertmanager take a label that is absent for an empty one, so
the shipped files group, join and inhibit by `cluster` everywhere, and are right without it. Where a fleet calls it otherwise, or needs
more labels (`region`), each place that names `cluster` must name these: one that was left out would add up or mute across clusters. So
all places are found by the patterns below, and a test plays the clusters' scenarios with other names.

A label may be on the series (one Prometheus of several clusters), or come with the alerts alone (`external_labels`). In the second case
rules and links find no value and ask for none; grouping, inhibition and messages read the alert, which has it. Labels that tell the two
halves of an HA pair apart (`prometheus_replica`) are refused: both halves must send the same alert.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidecar.commands.export.substitution import Substitution
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.target_labels import CLUSTER, ONE_PROCESS, OTHER_LABEL


REPLICA_LABELS = frozenset({"prometheus_replica", "replica", "ruler_replica", "thanos_replica", "thanos_ruler_replica"})
"""Labels of HA pairs: of prometheus-operator, Thanos and Mimir; `__replica__` has no form that a flag takes."""
LABEL_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}")
"""A name with two underscores in front is Prometheus' own, and on no series."""
_OF_RULES = frozenset({"alertname", "alertstate", "severity", "le", "form", "of", "part", "tier", "window"})
_OF_DASHBOARDS = frozenset(
    {
        "app_version",
        "baseline",
        "canary",
        "computed",
        "datasource",
        "shown_pod",
        "whole_pod",
        "do_first",
        "runbook",
        "dashboard",
    }
)
TAKEN_LABELS = (
    _OF_RULES
    | _OF_DASHBOARDS
    | {label.name for metric in CATALOGUE for label in metric.labels}
    | ({*ONE_PROCESS} - {CLUSTER})
)
"""Labels that say something else: of a metric, of a rule, or of a process."""

_IN_LISTS = rf"\b{CLUSTER}(?=, namespace\b)"
"""In `by (...)`, `on (...)`, `group_by: [...]` and `equal: [...]`."""
_MATCHED = rf"\b{CLUSTER}=%q,"
_LABEL_VALUES = rf' \(or \$labels\.{CLUSTER} ""\)'
_NAMED_IN_TEXT = rf"\{{\{{-? with (?:\$labels|\.Labels|\.CommonLabels)\.{CLUSTER} \}}\}}.*?\{{\{{ end \}}\}}"
_CHOSEN = rf'\b{CLUSTER}=~\\"(?:\(\|)?\${CLUSTER}\)?\\"'
_ALONE = rf"(?<=\(){CLUSTER}(?=\))"
"""In `by (cluster)` and `on (cluster)`."""
_SHOWN_OF = rf'(?<=\\"){CLUSTER}(?=\\", \\"\(\.\+\)\\"\))'
"""The label whose value a `label_replace` shows: the widest name alone."""
_LINKED = rf"(?:&var-)?\b{CLUSTER}=\$\{{__data\.fields\.{CLUSTER}\}}"
_VARIABLE = rf'^      \{{\n(?:        .*\n){{1,3}}?        "name": "{CLUSTER}",\n(?:        .*\n)*?      \}},\n'
_COLUMN = rf'^ *"{CLUSTER}": \d+,?\n'


@dataclass(frozen=True, slots=True)
class Identity:
    """The label names of a fleet, the widest first."""

    cluster: str = CLUSTER
    extra: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.cluster, *self.extra

    @property
    def is_shipped(self) -> bool:
        """Whether nothing is to be changed."""
        return self.names == (CLUSTER,)

    def in_rule(self, text: str) -> str:
        """An expression or an annotation of a rule."""
        for pattern, put in (
            (_IN_LISTS, self._listed),
            (_MATCHED, self._repeated),
            (_LABEL_VALUES, self._repeated),
            (_NAMED_IN_TEXT, self._said),
        ):
            text = re.sub(pattern, put, text)
        return text

    def in_routes(self) -> list[Substitution]:
        """The changes of Alertmanager's configuration and of its messages."""
        return self._changes((_IN_LISTS, self._listed), (_NAMED_IN_TEXT, self._said), (f"`{CLUSTER}`", self._first))

    def in_dashboards(self) -> list[Substitution]:
        """The changes of Grafana's JSON: queries, variables, columns and links."""
        return self._changes(
            (_IN_LISTS, self._listed),
            (_ALONE, self._listed),
            (_SHOWN_OF, self._first),
            (_VARIABLE, self._variables),
            (_CHOSEN, self._chosen),
            (_LINKED, self._linked),
            (_COLUMN, self._repeated),
            (rf"{{{{{CLUSTER}}}}}", self._legend),
            (rf'(?<="tagKeys": )"[\w,]*\b{CLUSTER}"', self._tags),
        )

    def _changes(self, *changes: tuple[str, Callable[[re.Match[str]], str]]) -> list[Substitution]:
        return [] if self.is_shipped else [Substitution("--cluster-label", *change) for change in changes]

    def _listed(self, _match: re.Match[str]) -> str:
        return ", ".join(self.names)

    def _first(self, match: re.Match[str]) -> str:
        return match[0].replace(CLUSTER, self.cluster)

    def _repeated(self, match: re.Match[str]) -> str:
        return "".join(re.sub(rf"\b{CLUSTER}\b", name, match[0]) for name in self.names)

    def _chosen(self, match: re.Match[str]) -> str:
        return ",".join(match[0].replace(CLUSTER, name) for name in self.names)

    def _said(self, match: re.Match[str]) -> str:
        """`{{ with $labels.cluster }} of cluster {{ . }}{{ end }}`, and what parameters of links are called."""
        return "".join(self._said_of(name, match[0]) for name in self.names)

    def _said_of(self, name: str, text: str) -> str:
        own = text.replace(f".{CLUSTER} ", f".{name} ").replace(f"var-{CLUSTER}=", f"var-{name}=")
        if name != CLUSTER:
            own = own.replace(f"}}}}{CLUSTER}=", f"}}}}{OTHER_LABEL}{name}=")
        return (
            own
            if name == self.cluster
            else own.replace(f" of {CLUSTER} ", f", {name} ").replace(f", {CLUSTER} ", f", {name} ")
        )

    def _linked(self, match: re.Match[str]) -> str:
        """Parameters of a link to another dashboard, or to a runbook."""
        found = match[0]
        if "var-" in found:
            return "".join(found.replace(CLUSTER, name) for name in self.names)
        return "&".join(
            f"{'' if name == CLUSTER else OTHER_LABEL}{found.replace(CLUSTER, name)}" for name in self.names
        )

    def _legend(self, _match: re.Match[str]) -> str:
        return " ".join(f"{{{{{name}}}}}" for name in self.names)

    def _tags(self, match: re.Match[str]) -> str:
        return match[0].replace(CLUSTER, ",".join(self.names))

    def _variables(self, match: re.Match[str]) -> str:
        return "".join(self._variable(name, match[0]) for name in self.names)

    def _variable(self, name: str, text: str) -> str:
        own = re.sub(rf"\b{CLUSTER}\b", name, text)
        return own if name == self.cluster else own.replace('"label": "Cluster"', f'"label": "{name.capitalize()}"')


SHIPPED_IDENTITY = Identity()


def identity_errors(given: Identity) -> Iterator[str]:
    """Each name that cannot be used, with the allowed form."""
    for flag, names in (("--cluster-label", (given.cluster,)), ("--extra-labels", given.extra)):
        for name in names:
            if LABEL_NAME.fullmatch(name) is None:
                yield f"{flag}: {name!r} is no name of a label: letters, digits and _, not first a digit or two _, at most 64"
            elif name in REPLICA_LABELS:
                yield f"{flag}: {name!r} tells the halves of an HA pair apart: both must send the same alert, so drop it from alerts"
            elif name in TAKEN_LABELS:
                yield f"{flag}: {name!r} says something else in these rules; allowed is a label that scraping adds, such as region"
    for name in dict.fromkeys(name for name in given.names if given.names.count(name) > 1):
        yield f"--cluster-label and --extra-labels name {name!r} twice"
