"""`python -m tools.demo_numbers points` and `... baseline [SECONDS]`: write the two files of numbers that the demo ships.

`points` simulates each preset's operating point (half a minute). `baseline` runs `sidecar demo --learn` with no fault at the rate of
its incidents, and has `sidecar baseline export` write what the sidecar learned (some ten minutes on an idle machine). It knows
which file each of the two is. It refuses to know what the numbers mean.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence

from sidecar.commands.demo.incidents import SHARE_OF_RATE
from sidecar.commands.demo.load import MIXED
from sidecar.commands.demo.operating_points import POINTS, load_rate, written
from sidecar.commands.demo.usual import BASELINE, LEARNED_BY
from sidecar.commands.simulator.operating_point import operating_point, rate_for_mean_queue
from sidecar.commands.simulator.replica_presets import PRESETS


REQUESTS_OF_THE_LOAD = 1000
"""Sample size for each seed when the rate of the mixed load is searched."""
LEARNS_SECONDS = 600.0


def points() -> None:
    """Write the operating points of all presets."""
    told = {}
    for name, preset in PRESETS.items():
        _say(f"simulating {name} ...")
        told[name] = written(operating_point(preset), rate_for_mean_queue(preset, MIXED, requests=REQUESTS_OF_THE_LOAD))
    POINTS.write_text(json.dumps(told, indent=1) + "\n")
    _say(f"{POINTS}: {len(told)} presets")


def baseline(seconds: float = LEARNS_SECONDS) -> int:
    """Write the usual values of the preset that the incidents are made for. Returns the command's exit code."""
    rate = load_rate(LEARNED_BY) * SHARE_OF_RATE
    command = [sys.executable, "-m", "sidecar"]
    flags = ["--learn", "--plain", "--port=0", "--admin-port=0", f"--preset={LEARNED_BY}", f"--rate={rate}"]
    demo = subprocess.Popen([*command, "demo", *flags], stdout=subprocess.PIPE, text=True)  # noqa: S603  no shell
    assert demo.stdout is not None
    try:
        url, begun_at = "", time.monotonic()
        for line in demo.stdout:
            found = re.match(r"status page +(\S+?)/?$", line.strip())
            url = found[1] if found else url
            if url and time.monotonic() - begun_at >= seconds:
                break
            _say(f"{time.monotonic() - begun_at:4.0f} s  {line.rstrip()}")
        export = [*command, "baseline", "export", f"--sidecar.url={url}", f"--out={BASELINE}"]
        return subprocess.run(export, check=False).returncode  # noqa: S603  no shell
    finally:
        demo.terminate()
        demo.communicate()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(argv: Sequence[str]) -> int:
    match argv:
        case ["points"]:
            points()
            return 0
        case ["baseline"]:
            return baseline()
        case ["baseline", seconds] if seconds.isdecimal():
            return baseline(float(seconds))
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
