"""The least that prompts can cost, by the GPU's data sheet, for a person who gave model, GPUs and rate. Pure.

A lower bound and no estimate: two operations per parameter and token, at the dense 16-bit peak of the data sheet, which no
engine reaches. A load above this bound cannot be repaired by a setting. Unknown GPUs are refused.
"""

from math import ceil

from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.wording import percent, times


PEAK_FLOPS = {
    "v100": 125e12,
    "t4": 65e12,
    "a10": 125e12,
    "a10g": 70e12,
    "a30": 165e12,
    "a100": 312e12,
    "l4": 121e12,
    "l40s": 362e12,
    "h100": 989e12,
    "h200": 989e12,
    "b200": 2250e12,
    "mi300x": 1307e12,
}
"""Dense 16-bit matrix operations a second, by the makers' data sheets (SXM where there are several)."""
WITH_8_BIT_UNITS = frozenset({"l4", "l40s", "h100", "h200", "b200", "mi300x"})
"""GPUs that multiply numbers of 8 bits floating point (NVIDIA from compute capability 8.9 on, AMD from CDNA 3 on); the others only store them."""


def prefill_seconds(measured: Measured) -> float | None:
    """Least seconds for the mean prompt alone on all GPUs, nothing cached; None if a number is missing."""
    machine, tokens = measured.machine, measured.load.prompt_mean_tokens
    if machine.parameters is None or machine.gpus is None or machine.gpu is None or tokens is None:
        return None
    return 2 * machine.parameters * tokens / (machine.gpus * PEAK_FLOPS[machine.gpu])


def load(measured: Measured) -> float | None:
    """Least seconds of prefill that arrive in each second: above 1 no setting can serve them."""
    # Machine and rate are given by hand, where the rate is that of the whole engine.
    seconds, rate = prefill_seconds(measured), measured.load.arrivals_per_second
    if seconds is None or rate is None:
        return None
    return seconds * rate * (1.0 - (measured.load.cached or 0.0))


def ceiling(measured: Measured) -> str | None:
    """The demand beside the most that the GPUs can compute, and what would bring it below; None unless it is above."""
    over = load(measured)
    if over is None or over <= 1.0:
        return None
    cached = 1.0 - (1.0 - (measured.load.cached or 0.0)) / over
    return (
        f"It is {times(over)} what these GPUs can compute of prompts at their peak: it takes at least {ceil(over)} such replicas, or"
        f" {percent(cached)} of the prompt tokens from the cache"
    )
