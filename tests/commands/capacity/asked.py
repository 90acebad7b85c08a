"""Command lines that several tests of `sidecar capacity` share."""

from collections.abc import Callable
from typing import Any


SEVENTY_B = ("--model=llama-3.3-70b", "--model.weights=140GB", "--gpu=h100", "--gpu.count=4", "--gpu.reserve=40GB")
SEVEN_B = (
    "--model.layers=32",
    "--model.kv-heads=8",
    "--model.head-dim=128",
    "--model.weights=14GB",
    "--gpu.memory=80GB",
)
LOAD = (
    "--rate=12",
    "--wait=200ms",
    "--slots=64",
    "--service=1:3s",
    "--service=64:11s",
    "--prefill=9:200ms",
    "--prefill=1:900ms",
)
Run = Callable[..., dict[str, Any]]
