"""`python -m tests.browser.hurried serve ...`: the shipped sidecar, but with a history snapshot every second.

The diagnosis needs three minutes of calm snapshots for a baseline, and a test has a quarter of that. Only the interval
between snapshots is shorter; windows, thresholds and all decisions made from them stay as they are.
"""

import sys

from sidecar.admin import listener
from sidecar.cli import main


LOOK_SECONDS = 1.0

if __name__ == "__main__":
    vars(listener).update(PERIOD_SECONDS=LOOK_SECONDS)
    sys.exit(main())
