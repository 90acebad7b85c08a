"""`python -m tests.alert_rules.suites DIR`: write the suites to DIR, for `promtool test rules DIR/*.yml`.

They name the rule files of this checkout by their full path, so that DIR may be anywhere.
"""

import argparse
from pathlib import Path

from tests.alert_rules.suites import SUITES


def main() -> None:
    """One file per suite; what else is in the folder stays."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.alert_rules.suites", description="Write the suites of scenarios for promtool."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="is made if it is not there")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        (folder / suite.file_name).write_text(suite.text())


if __name__ == "__main__":
    main()
