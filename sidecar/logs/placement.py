"""The pod, namespace and node of this process, as Kubernetes' downward API hands them over in environment variables.

It knows the variables' names and the words for a person. They stand on log lines and at the head of the status page. They are never
labels of metrics: Prometheus adds those of the target that it scrapes, and a second copy would contradict them after a move.
"""

from collections.abc import Mapping

from sidecar.logs.sanitise import clean


FROM_KUBERNETES = {"pod": "POD_NAME", "namespace": "POD_NAMESPACE", "node": "NODE_NAME"}
"""Field of a log line to the variable that deploy/base/pod.yaml fills; the names of Kubernetes' own examples."""
_LONGEST = 253
"""Characters of a name in Kubernetes, at most."""


def placement_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The fields whose variables are set and not empty; none outside Kubernetes."""
    return {
        field: clean(environment[name], _LONGEST) for field, name in FROM_KUBERNETES.items() if environment.get(name)
    }


def in_words(placement: Mapping[str, str]) -> str:
    """`pod llama-0 in prod on gpu-7`, as much of it as is known; empty if nothing is."""
    said = {"pod": "pod {}", "namespace": "in {}", "node": "on {}"}
    return " ".join(words.format(placement[field]) for field, words in said.items() if field in placement)
