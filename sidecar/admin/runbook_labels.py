"""The labels in the link to a runbook: which values are taken, and which are refused. Pure.

| parameter | taken |
|---|---|
| `lane`, `model` | a lane or model of this process: closed sets |
| `cluster` | letters, digits and `. _ - / :` |
| `namespace` | a name of 63 characters, `pod` of 253, as Kubernetes allows them (RFC 1123); behind a pod's a port, `gpu-1:9901`, as outside Kubernetes |
| `job` | letters, digits and `. _ - /` |
| `label.NAME` | a label beside `cluster`, or in its place, that tells clusters apart (`sidecar export --extra-labels`), eight at most; values as of `cluster` |
| `engine` | an engine that the tables of fixes have a column for, or `all` |

A parameter without a value is one that was not given: a template writes a label that an alert lacks so. What a link leaves out is filled
in from this pod's own placement, unless the link is about another pod or namespace. A refused value is never repeated. It refuses to
know runbooks.

The runbooks' queries name no cluster, because most fleets have one and no label for it: where a link names one, or a label like it, it
comes before each namespace.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType

from sidecar.diagnosis.interventions import ENGINES
from sidecar.diagnosis.promql import quoted
from sidecar.metrics.target_labels import CLUSTER, ONE_POD, OTHER_LABEL


LINK_LABELS = ("lane", "model", *ONE_POD)
"""The labels that a link may name. Runbooks have a place for each but the cluster, `$lane` and alike."""
PLACE = re.compile(rf"\$({'|'.join(LINK_LABELS)})\b")
_OF_NAMESPACE = re.compile(r"namespace=(&quot;)\$namespace")
_OTHER = re.compile(rf"{re.escape(OTHER_LABEL)}(?!__)[A-Za-z_][A-Za-z0-9_]{{0,63}}")
ALL_ENGINES = "all"
MOST_OTHERS = 8
"""Labels beside the cluster in one link: each is written into every query, and `sidecar export` is given one or two."""

_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    CLUSTER: (
        re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/:-]{0,251}[A-Za-z0-9])?"),
        "letters, digits and . _ - / :",
    ),
    "namespace": (re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"), "a name of Kubernetes: a-z, 0-9 and -"),
    "pod": (
        re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[0-9]{1,5})?"),
        "a name of Kubernetes: a-z, 0-9, - and ., or such a host with its port",
    ),
    "job": (re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?"), "letters, digits and . _ - /"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    values: Mapping[str, str] = field(default_factory=dict)
    """Label to its value, of those that were given and taken, those that have one possible value, and those of the placement."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The parameters that were given and taken, to be kept in links; the engine too."""
    engine: str = ""
    """A kind of engine, `ALL_ENGINES`, or empty: the one that was recognised."""
    refused: tuple[str, ...] = ()
    """One sentence for each refused parameter, with the allowed values."""


def asked(
    query: Sequence[tuple[str, str]],
    lanes: Sequence[str],
    models: Sequence[str],
    placement: Mapping[str, str] = MappingProxyType({}),
) -> Asked:
    """The labels and the engine that the parameters of a URL ask for. `lanes`, `models`: the closed sets, the fallback last.

    `placement`: label to the value that this pod has, of those that are known (`logs/placement.py`).
    """
    closed = {"lane": lanes, "model": models, "engine": (*ENGINES, ALL_ENGINES)}
    given: dict[str, str] = {}
    refused: list[str] = []
    by_name: dict[str, list[str]] = {}
    for name, value in query:
        if value:
            by_name.setdefault(name, []).append(value)
    others = [name for name in by_name if _OTHER.fullmatch(name)]
    if len(others) > MOST_OTHERS:
        refused.append(
            f"Of the parameters {OTHER_LABEL}NAME the first {MOST_OTHERS} were taken; {len(others)} were given."
        )
    for name in (*LINK_LABELS, *others[:MOST_OTHERS], "engine"):
        if name not in by_name:
            continue
        values = by_name[name]
        wrong = _wrong(name, values, closed.get(name))
        if wrong:
            refused.append(wrong)
        else:
            given[name] = values[0]
    # The fallback of a closed set counts what has no name of its own: where there is one name, it is meant.
    alone = {name: closed[name][0] for name in ("lane", "model") if len(closed[name]) == 2}
    values_of = {**alone, **_own(placement, given), **given}
    values_of = {name: value for name, value in values_of.items() if name != "engine"}
    return Asked(values_of, given, given.get("engine", ""), tuple(refused))


def _own(placement: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """The labels of this pod; none if the link is about another one, of which the placement knows nothing."""
    if any(given.get(name, value) != value for name, value in placement.items()):
        return {}
    return {name: value for name, value in placement.items() if name in _FORMS and not _wrong(name, [value], None)}


def _wrong(name: str, values: Sequence[str], closed: Sequence[str] | None) -> str:
    if len(values) > 1:
        return f"The parameter {name} is given {len(values)} times; give it once."
    if closed is not None:
        fits, allowed = values[0] in closed, f"one of {', '.join(closed)}"
    else:
        form, allowed = _FORMS[CLUSTER if name.startswith(OTHER_LABEL) else name]
        fits = form.fullmatch(values[0]) is not None
    return "" if fits else f"The parameter {name} was refused. It is {allowed}."


def filled(html: str, values: Mapping[str, str]) -> str:
    """HTML with the values in the places of their labels; a label without a value stays, and is marked.

    The places stand between quotes of PromQL (`tests/admin/test_runbooks_queries.py`), so values are escaped for it too.
    """

    def one(place: re.Match[str]) -> str:
        value = values.get(place[1])
        return f"<mark>{place[0]}</mark>" if value is None else escape(quoted(value)[1:-1])

    wider = {
        name.removeprefix(OTHER_LABEL): text
        for name, text in values.items()
        if name == CLUSTER or _OTHER.fullmatch(name)
    }
    matchers = "".join(f"{name}=&quot;{escape(quoted(text)[1:-1])}&quot;, " for name, text in wider.items())
    return PLACE.sub(one, _OF_NAMESPACE.sub(lambda found: f"{matchers}{found[0]}", html))
