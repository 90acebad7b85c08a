"""`python -m grafana`: write the dashboards and the canary's templates beside this file.

Knows which text goes into which file. A test runs it and finds the committed files unchanged. It needs grafana-foundation-sdk
(`pip install --group dev .`); using the files needs nothing. Provisioning files and the kustomization are written by hand.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from grafana import anatomy, canary, fleet, lanes, queue, sidecar_itself, stream
from grafana.drawing import written
from grafana.rollouts import rollout_files
from sidecar.commands.export.rules.annotations import RUNBOOKS


HERE = Path(__file__).parent
BOARDS = tuple(module.BOARD for module in (anatomy, lanes, queue, stream, canary, sidecar_itself, fleet))


def files(runbook_base: str = RUNBOOKS) -> Mapping[str, str]:
    """Path below grafana/ to text. `runbook_base`: where runbooks are found."""
    boards = {f"dashboards/{board.uid}.json": written(board, runbook_base) for board in BOARDS}
    return {**boards, **rollout_files()}


def main() -> None:
    """Write them all."""
    parser = argparse.ArgumentParser(
        prog="python -m grafana", description="Write grafana/dashboards/ and grafana/canary/."
    )
    parser.add_argument(
        "--runbook-base",
        default=RUNBOOKS,
        metavar="URL",
        help="what links to runbooks begin with (default %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, metavar="DIR", help="where to write (default: beside the code)"
    )
    given = parser.parse_args()
    for name, text in files(given.runbook_base.rstrip("/")).items():
        path = given.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)  # noqa: T201  a command's output


if __name__ == "__main__":
    main()
