"""The usual values of the demo's engine: what its sidecar would learn in minutes, as a file that the demo ships.

A sidecar that is given the file (`baseline.file`) can name what broke from its first minute on, as a new pod of a fleet can.
`python -m tools.demo_numbers baseline` runs the demo without it (`--learn`) and writes it anew, by `sidecar baseline export`. It
knows where the file is and for which preset it holds. It refuses to know what is in it.
"""

from pathlib import Path

from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from sidecar.config.environment import variable_of


BASELINE = Path(__file__).with_name("baseline.json")
LEARNED_BY = SMALL_CHAT.name
"""The incidents are made for this preset; another one has other usual values, which its sidecar learns."""


def usual_file(preset: str) -> Path | None:
    """The file for this preset; None: there is none, and the sidecar has to learn."""
    return BASELINE if preset == LEARNED_BY else None


def variables(usual: Path | None) -> dict[str, str]:
    """The sidecar's environment that names this file."""
    return {} if usual is None else {variable_of(("baseline", "file")): str(usual)}
