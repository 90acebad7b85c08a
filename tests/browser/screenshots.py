"""`make screenshots`: pictures of the status page during an incident of each phase, on a phone and on a desk.

Takes a minute and a half, most of it for the incidents themselves. Prints the folder of the pictures.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from tests.browser.visits import take_pictures


FOLDER = Path(".cache/screenshots")


def main(folder: Path) -> int:
    """Return 0, or 1 if there is no Chromium."""
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
