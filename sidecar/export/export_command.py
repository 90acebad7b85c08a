"""`sidecar export`: writes what travels with the package into a folder: the rules for Prometheus.

Exit codes: 0 written; 1 a file cannot be written; 2 wrong flags. This module knows flags, texts and folders; what stands in the
files is made beside it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sidecar.config.folding import FAILED, MISUSED, OK
from sidecar.export.rules.annotations import DASHBOARDS, RUNBOOKS
from sidecar.export.rules.rule_files import files, without_keep_firing


_ABOUT_EXPORT = """\
Write the rule files and the objects for prometheus-operator into a folder. Only
links differ from the files of the project's repository, and only where a flag
below says so.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    try:
        known = _parser().parse_args(list(argv))
    except SystemExit as stop:  # help: 0; a wrong flag: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    texts = files((known.runbook_base.rstrip("/"), known.grafana_base.rstrip("/") + _D))
    for name, text in texts.items():
        path = known.out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(without_keep_firing(text) if known.no_keep_firing else text)
        except OSError as error:
            sys.stderr.write(f"sidecar export: {path}: {error.strerror}\n")
            return FAILED
        sys.stdout.write(f"{path}\n")
    return OK


_D = "/d"
"""Grafana's path of dashboards."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sidecar export",
        description=_ABOUT_EXPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=("rules",), metavar="rules", help="what to write")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="the folder to write to")
    parser.add_argument(
        "--runbook-base",
        default=RUNBOOKS,
        metavar="URL",
        help="what links to runbooks begin with (default %(default)s)",
    )
    parser.add_argument(
        "--grafana-base",
        default=DASHBOARDS.removesuffix(_D),
        metavar="URL",
        help="what links to dashboards begin with (default %(default)s)",
    )
    parser.add_argument(
        "--no-keep-firing",
        action="store_true",
        help="leave keep_firing_for out of the alerts: an old vmalert, such as 1.79, refuses it",
    )
    return parser
