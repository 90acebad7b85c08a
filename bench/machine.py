"""The machine on which a bench runs, as a report names it. Measures nothing."""

import os
import platform
from pathlib import Path


def named() -> str:
    """Processors, system and interpreter."""
    told = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in told if line.startswith("model name")), platform.machine())
    return (
        f"{os.cpu_count()} CPUs ({model}), Linux {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}"
    )
