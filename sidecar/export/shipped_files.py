"""The files that travel with the package: where rules, routes, dashboards and manifests lie, installed or in a checkout.

A wheel carries the folders below `sidecar/export/files` (pyproject.toml puts them there); a checkout has them at its root. It knows
these two places and no content, and it writes nothing.
"""

from pathlib import Path


ALERT_RULES = "alert_rules"
GRAFANA = "grafana"
DEPLOY = "deploy"

CARRIED = Path(__file__).parent / "files"
"""The folders' place in an installed package. A checkout does not have it."""
AROUND = Path(__file__).parents[2]
"""The folders' place in a checkout: its root."""


class NothingShippedError(FileNotFoundError):
    """Neither place has the folder: the package was built without its files."""


def shipped(folder: str) -> Path:
    """The path of one of these folders. Raises NothingShippedError with both places and what to do."""
    for place in (CARRIED, AROUND):
        if (place / folder).is_dir():
            return place / folder
    raise NothingShippedError(
        f"neither {CARRIED / folder} nor {AROUND / folder} exists: this package was built without its files;"
        " install the wheel of llm-phase-sidecar, or run in a checkout"
    )
