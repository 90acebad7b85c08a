"""A larger fleet made of a recording of two pods: the one that was hit stays, and the other one stands there many times.

Knows which series tables of pods read. Refuses to know panels. What is recorded of lanes stays that of two pods: a picture of a fleet is
for looking at its tables and legends, and not at its numbers.
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.drawn.incidents import pod_name
from tests.drawn.recording import Recording, Series


NAMESPACE = "serving"
OF_EACH_POD = (
    *("llm_slo_", "pod:", "llm_incident_began", "llm_sidecar_build_info", "llm_sidecar_ready", "llm_engine_"),
    *("llm_requests_", "llm_time_to_first_token_seconds_", "llm_time_per_output_token_seconds_", "llm_output_tokens_"),
)
"""The beginnings of the names of series that every pod has; of buckets the first two pods have enough for a picture."""


LAST_STEPS = 24
"""Steps at the end that a copied pod has: the five minutes that tables ask for, and one. All of them take promtool minutes."""


def namespaces_of(count: int) -> list[str]:
    """The first is that of the recording."""
    return [NAMESPACE, *(f"{NAMESPACE}-{number}" for number in range(2, count + 1))]


def fleet(recording: Recording, pods: int, namespaces: int = 1) -> Recording:
    """The recording with so many pods in all, alike in each namespace; in each the first one was hit."""
    series = [
        (name, labels | {"namespace": namespace} if "namespace" in labels else labels, column)
        for namespace in namespaces_of(namespaces)
        for name, labels, column in _of_one_namespace(recording.series, pods // namespaces)
    ]
    return replace(recording, series=series)


def _of_one_namespace(series: list[Series], pods: int) -> Iterator[Series]:
    copied = pod_name(1)
    for name, labels, column in series:
        yield name, labels, column
        if labels.get("pod") == copied and name.startswith(OF_EACH_POD) and not name.endswith("_bucket"):
            for number in range(2, pods):
                own = {"pod": pod_name(number)} | (
                    {"instance": f"{pod_name(number)}:9901"} if "instance" in labels else {}
                )
                before: list[float | None] = [None] * (len(column) - LAST_STEPS)
                yield name, labels | own, before + column[-LAST_STEPS:]
