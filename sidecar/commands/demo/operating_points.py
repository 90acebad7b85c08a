"""The operating points of the presets as the demo ships them, so that no start has to simulate for ten seconds.

`operating_points.json` beside this file has them; `python -m tools.demo_numbers points` simulates them and writes it anew. It
knows the file's shape. It refuses to know how a point is found (`simulator/operating_point.py`).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sidecar.commands.simulator.operating_point import OperatingPoint
from sidecar.commands.simulator.simulation import Phases


POINTS = Path(__file__).with_name("operating_points.json")


def shipped_point(preset: str) -> OperatingPoint:
    """The operating point of this preset under its reference load."""
    told = _told(preset)
    lengths = {int(length): seconds for length, seconds in told["prefill_by_length"].items()}
    return OperatingPoint(told["rate"], Phases(**told["mean"]), lengths)


def load_rate(preset: str) -> float:
    """Requests per second of the demo's mixed load at which this preset's mean queue is 90 ms."""
    return float(_told(preset)["load_rate"])


def written(point: OperatingPoint, load_rate: float) -> dict[str, Any]:
    """One preset's entry of the file."""
    return {**asdict(point), "load_rate": load_rate}


def _told(preset: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(POINTS.read_text("utf-8"))[preset]
    return told
