"""The identity of a recognised engine: its version, its models, how its weights are quantised, on which GPU. Pure.

The engine's file names the further pages to ask for and finds the texts in them (`EngineKind.asks`, `describes`); this module
checks them. It refuses to derive: the KV cache's format is not that of the weights, an unquantised flag is not a format (a
checkpoint may bring its own), and models of several formats have no common one. Only a short and plain text may become a
label; any other is left out.
"""

import re
from dataclasses import replace

from sidecar.engines.kind import EngineKind
from sidecar.engines.probe.replies import MODELS_PATH, Answers, Identity, body_at, models_in


_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+/: -]{0,62}[A-Za-z0-9._+])?")
"""As `labels.quantization` in the config; words like `Q4_K_M` and `Q4_K - Medium` fit too."""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_UNSTATED = ("none", "null", "unknown", "auto", "other")


def identity_of(kind: EngineKind, answers: Answers) -> Identity:
    """The identity in the answers of an engine of this kind. Never raises, whatever they are."""
    listed = models_in(body_at(answers, MODELS_PATH))
    said = kind.describes(answers)
    return replace(
        said,
        version=said.version if said.version is not None and _VERSION.fullmatch(said.version) else None,
        models=None if listed is None else tuple(model.id for model in listed.data),
        adapters=() if listed is None else tuple(model.id for model in listed.data if model.parent is not None),
        quantization=_label(said.quantization),
        gpu_type=_label(said.gpu_type),
    )


def _label(text: str | None) -> str | None:
    return text if text is not None and _LABEL.fullmatch(text) and text.lower() not in _UNSTATED else None
