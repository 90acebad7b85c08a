"""The files that travel with the package: where rules, routes, dashboards and manifests lie, installed or in a checkout.

A wheel carries the folders below `sidecar/commands/export/files` (hatch_build.py puts them there); a checkout has them at its root. It knows
these two places (`carried` in pyproject.toml lists the files) and no content, and it writes nothing.
"""

from pathlib import Path


ALERT_RULES = "alert_rules"
DASHBOARD_RULES = "llm-dashboards.yml"
"""The rule file that nothing needs: dashboards read it where it is loaded."""
GRAFANA = "grafana"
DEPLOY = "deploy"

CARRIED = Path(__file__).parent / "files"
"""The folders' place in an installed package. A checkout does not have it."""
AROUND = Path(__file__).parents[3]
"""The folders' place in a checkout: its root."""


class NothingShippedError(FileNotFoundError):
    """Neither place has the folder: the package was built without its files."""


def shipped(folder: str) -> Path:
    """The path of one of these folders. Raises NothingShippedError with both places and what to do."""
    if (CARRIED / folder).is_dir():
        return CARRIED / folder
    # Around an installed package lie other projects' folders, which may have these names too.
    if (AROUND / "pyproject.toml").is_file() and (AROUND / folder).is_dir():
        return AROUND / folder
    raise NothingShippedError(
        f"neither {CARRIED / folder} nor {AROUND / folder} exists: this package was built without its files;"
        " install the wheel of llm-phase-sidecar, or run in a checkout"
    )
