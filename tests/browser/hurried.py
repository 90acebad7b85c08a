"""`python -m tests.browser.hurried serve ...`: the sidecar as it is shipped, but that it looks at itself every second.

The diagnosis takes three minutes of calm looks for a baseline; a test has a quarter of one. Only the looks are nearer to each
other: windows, thresholds and whatever is decided from them stay as they are.
"""

import sys

from sidecar.admin import listener
from sidecar.cli import main


LOOK_SECONDS = 1.0

if __name__ == "__main__":
    vars(listener).update(PERIOD_SECONDS=LOOK_SECONDS)
    sys.exit(main())
