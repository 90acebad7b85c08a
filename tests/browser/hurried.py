"""`python -m tests.browser.hurried serve ...`: the shipped sidecar, but one that learns what is usual in seconds.

The shipped one needs two minutes of calm, and a test has a quarter of that. Only intervals of learning and of snapshots
are shorter, and fewer samples teach; windows, thresholds and all decisions made from them stay as they are.
"""

import sys

from sidecar.admin import listener
from sidecar.cli import main
from sidecar.observe import roots
from sidecar.pod import lanes
from sidecar.pod.costs import step_model
from sidecar.pod.usual import comparison


LOOK_SECONDS = 1.0

if __name__ == "__main__":
    vars(listener).update(PERIOD_SECONDS=LOOK_SECONDS)
    vars(roots).update(READING_SECONDS=LOOK_SECONDS, YOUNG_CALM_SECONDS=4.0, CALM_AFTER_SECONDS=4.0)
    vars(comparison).update(FEWEST_SLICES=6)
    vars(lanes).update(FEWEST_OF_LANE=5.0)
    vars(step_model).update(LEARN_EVERY_SECONDS=0.0, FEWEST_STEPS=100)
    sys.exit(main())
