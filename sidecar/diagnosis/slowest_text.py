"""The slowest requests in words, for a terminal and for the status page, from the document (`document.py`).

One text for both, and for the answer of another sidecar. Each latency is taken apart by itself; it refuses to add them up.
"""

from collections.abc import Mapping
from typing import Any

from sidecar.accounts.slowest import LEAST_REQUESTS
from sidecar.diagnosis.wording import digits, percent, phase_name, seconds
from sidecar.ledger.account import Phase


def window(found: Mapping[str, Any]) -> str:
    """The time and the number of requests among which the slowest were looked for. `found`: all latencies."""
    return f"the last {seconds(found['span_seconds'])}: {counted(found['requests'], 'request')}"


def count(one: Mapping[str, Any]) -> str:
    """The number of the slowest and their latency; or that there are too few. `one`: one latency of one lane."""
    if not one["slowest"]:
        return f"{counted(one['requests'], 'request')} so far, {LEAST_REQUESTS} are needed"
    least, mean = seconds(one["least_seconds"]), seconds(one["mean_seconds"])
    return f"{one['slowest']:,} of {one['requests']:,} took {least} or more, {mean} on average"


def parts(one: Mapping[str, Any]) -> str:
    """The phases of the slowest with their shares, in the order of a request's life; empty if there are too few."""
    phases = one["phases"] or {}
    return ", ".join(
        f"{phase_name(phase)} {seconds(phases[phase])} ({percent(phases[phase] / one['mean_seconds'])})"
        for phase in Phase
        if phases.get(phase, 0.0) > 0
    )


def beside(one: Mapping[str, Any]) -> list[str]:
    """Facts about the slowest beside their time, each a sentence without its full stop."""
    slowest, said = one["slowest"], []
    if one["missed"]:
        missed = "All" if one["missed"] == slowest else f"{one['missed']:,}"
        said.append(f"{missed} missed the objective")
    if one["prompt_tokens"] is not None:
        cached = "" if one["cached_tokens"] is None else f" ({digits(one['cached_tokens'])} cached)"
        said.append(f"Prompts of {digits(one['prompt_tokens'])} tokens{cached} on average")
    if one["completion_tokens"] is not None:
        said.append(f"Answers of {digits(one['completion_tokens'])} tokens on average")
    if one["estimated"]:
        estimated = "all" if one["estimated"] == slowest else f"{one['estimated']:,}"
        said.append(f"The phases of {estimated} are estimated")
    return said


def counted(number: int, what: str) -> str:
    """`1 request`, `12,345 requests`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
