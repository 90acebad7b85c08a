"""Every kind of engine that has a file here, by name: the one list that config, detection and docs are made from."""

from sidecar.engines.kind import UNKNOWN, EngineKind
from sidecar.engines.vllm import VLLM


KINDS: dict[str, EngineKind] = {kind.name: kind for kind in (VLLM(),)}


def kind_named(name: str) -> EngineKind:
    """The kind of this name; where nothing is known ("auto" until it is found out, "none"), the one that tells nothing."""
    return KINDS.get(name, UNKNOWN)
