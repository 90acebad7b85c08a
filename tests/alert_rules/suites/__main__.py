"""`python -m tests.alert_rules.books DIR`: write the books to DIR, for `promtool test rules DIR/*.yml`.

They name the rule files of this checkout by their full path, so that DIR may be anywhere.
"""

import argparse
from pathlib import Path

from tests.alert_rules.books import BOOKS


def main() -> None:
    """One file per book; what else is in the folder stays."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.alert_rules.books", description="Write the books of stories for promtool."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="is made if it is not there")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for book in BOOKS:
        (folder / book.file_name).write_text(book.text())


if __name__ == "__main__":
    main()
