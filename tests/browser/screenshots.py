"""`make screenshots`: the status page under an incident of each phase, on a phone and on a desk, as pictures for a person.

Takes a minute and a half, most of it for the incidents themselves. Prints where the pictures lie.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from tests.browser.visits import take_pictures


FOLDER = Path(".cache/screenshots")


def main(folder: Path) -> int:
    """0; 1 where there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        sys.stderr.write("screenshots need Chromium. On Debian:  apt-get install chromium\n")
        return 1
    asyncio.run(take_pictures(Path(program), folder))
    for picture in sorted(folder.glob("*.png")):
        sys.stdout.write(f"{picture}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
