"""A sidecar that splits the latency of LLM requests into five phases and pages the phase.

With `SIDECAR_PURE=1` a compiled install runs its Python sources, which are the reference (`hatch_build.py`).
"""

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType


__version__ = "0.2.0"


class _Sources:
    """Finds the package's modules as sources alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("sidecar."):
            return None
        loaders = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
        for folder in path or ():
            found = importlib.machinery.FileFinder(folder, loaders).find_spec(name)
            if found is not None:
                return found
        return None


def _is_compiled() -> bool:
    if os.environ.get("SIDECAR_PURE") == "1":
        sys.meta_path.insert(0, _Sources)
        return False
    return any(name.startswith("compiled__mypyc.") for name in os.listdir(__path__[0]))  # noqa: PTH208  quicker at each start


IS_COMPILED = _is_compiled()
BUILDS = ("pure", "compiled")
BUILD = BUILDS[IS_COMPILED]
"""The build that runs: `sidecar --version`, the log's first line and `llm_sidecar_build_info` state it."""
