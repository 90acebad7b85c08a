"""Numbers that a person gives on the command line: every flag with its unit, and every mistake at once.

Values are written as `3.2s`, `80ms`, `60/s`, `13b`, `2xA100`, `95%`. A duration without a unit is refused: 80 could be
milliseconds or seconds, and the diagnosis would be wrong by a factor of a thousand.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.bandwidth import Decode
from sidecar.commands.capacity.geometry import Geometry
from sidecar.commands.capacity.gpus import GPUS
from sidecar.commands.capacity.memory import left_for_cache
from sidecar.commands.capacity.replica import UTILISATION
from sidecar.config.written_durations import seconds_of_duration
from sidecar.diagnosis.bound import PEAK_FLOPS
from sidecar.diagnosis.interventions import ENGINES
from sidecar.diagnosis.measured import DecodeFloor, Latency, Load, Machine, Measured, PhaseTime, Regime
from sidecar.diagnosis.wording import listed
from sidecar.engines.kinds import KINDS
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause


BYTES_PER_PARAMETER = 2.0
"""Weights in 16 bits, as most checkpoints have them."""


class WrongValueError(ValueError):
    """The mistake in one value, in words."""


def _number(text: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise WrongValueError(f"{text!r} is no number") from None
    if not isfinite(value) or value < 0:
        raise WrongValueError(f"{text!r} is no number of at least 0")
    return value


def duration(text: str) -> float:
    """Seconds, from `3.2s`, `80ms`, `250us`, `1m30s`. Raises WrongValueError."""
    try:
        return seconds_of_duration(text)
    except ValueError as wrong:
        raise WrongValueError(f"{text!r} {wrong}") from None


def rate(text: str) -> float:
    """Requests a second, from `60`, `60/s`, `90/m`. Raises WrongValueError."""
    found = re.fullmatch(r"([\d.,]+)\s*(?:/\s*(s|m|h))?", text.strip().lower())
    if found is None:
        raise WrongValueError(f"{text!r} is no rate: write 60/s or 90/m; a bare number is per second")
    return _number(found[1]) / {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}[found[2]]


def ratio(text: str) -> float:
    """A share, 0 to 1, from `0.95` or `95%`. Raises WrongValueError."""
    value = _number(text.rstrip("% ")) / (100.0 if text.rstrip().endswith("%") else 1.0)
    if value > 1:
        raise WrongValueError(f"{text!r} is above 1: write 0.95 or 95%")
    return value


def count(text: str) -> float:
    """Tokens or requests, from `2200`, `2.2k`. Raises WrongValueError."""
    found = re.fullmatch(r"([\d.,]+)\s*(k?)", text.strip().lower())
    if found is None:
        raise WrongValueError(f"{text!r} is no count: write 2200 or 2.2k")
    return _number(found[1]) * (1000.0 if found[2] else 1.0)


def parameters(text: str) -> float:
    """Parameters of a model, from `13b`, `0.5b`, `350m`. Raises WrongValueError."""
    found = re.fullmatch(r"([\d.]+)\s*([bm])", text.strip().lower())
    if found is None:
        raise WrongValueError(f"{text!r} is no size of a model: write 13b or 350m")
    return _number(found[1]) * {"b": 1e9, "m": 1e6}[found[2]]


def gpus(text: str) -> tuple[int, str]:
    """Number and kind of GPUs, from `2xA100`, `H100`. Raises WrongValueError."""
    found = re.fullmatch(r"(?:(\d+)\s*x\s*)?([a-z]+\d+[a-z]*)", text.strip().lower())
    if found is None or found[2] not in PEAK_FLOPS or found[1] == "0":
        known = ", ".join(name.upper() for name in PEAK_FLOPS)
        raise WrongValueError(f"{text!r} is no number of GPUs that are known: write 2xA100; known are {known}")
    return int(found[1] or 1), found[2]


def regime(text: str) -> Regime:
    """A regime, from `spike` or `steady`. Raises WrongValueError."""
    if text not in {one.value for one in Regime}:
        raise WrongValueError(f"{text!r} is neither spike nor steady")
    return Regime(text)


def engine(text: str) -> str:
    """A kind of engine. Raises WrongValueError."""
    name = text.lower().replace("-", "_")
    if name not in KINDS:
        raise WrongValueError(f"{text!r} is no engine that is known: {listed(list(KINDS))}")
    return name


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    shape: str
    words: str
    read: Callable[[str], Any]


BY_HAND_FLAGS = (
    Flag("ttft-p99", "SECONDS", "time to first token, 99th percentile: 3.2s", duration),
    Flag("tpot-p99", "SECONDS", "time between tokens, or per output token, 99th percentile: 80ms", duration),
    Flag("e2e-p99", "SECONDS", "the whole request, 99th percentile", duration),
    Flag("queue-p99", "SECONDS", "wait in the engine's queue, 99th percentile", duration),
    Flag("prefill-p99", "SECONDS", "computing the prompt, 99th percentile", duration),
    Flag("first-token-p99", "SECONDS", "in front of and behind the scheduler, 99th percentile", duration),
    Flag("ttft-threshold", "SECONDS", "what is promised (default: assumed, 1.5s)", duration),
    Flag("tpot-threshold", "SECONDS", "what is promised (default: assumed by --model-size, 80ms without)", duration),
    Flag("rate", "RATE", "arrivals at the whole engine: 60/s, 90/m; a bare number is per second", rate),
    Flag("prompt-mean", "TOKENS", "mean prompt", count),
    Flag("prompt-mean-before", "TOKENS", "mean prompt before it began", count),
    Flag("output-mean", "TOKENS", "mean answer", count),
    Flag("waiting", "REQUESTS", "in the engine's whole queue, on average", count),
    Flag("running", "REQUESTS", "that the engine works on, on average", count),
    Flag("slots", "REQUESTS", "the engine's batch limit: the most that it runs at once", count),
    Flag("rejected", "REQUESTS", "that were turned away meanwhile: 429, 503 or 529", count),
    Flag("preemptions", "RATE", "of the whole engine: 2/s, 90/m; a bare number is per second", rate),
    Flag("kv-usage", "RATIO", "of the KV cache: 0.95 or 95%%", ratio),
    Flag("cached", "RATIO", "of the prompt tokens, from the prefix cache", ratio),
    Flag("model-size", "SIZE", "parameters: 13b; of a mixture of experts those that a token passes", parameters),
    Flag("gpus", "GPUS", "of one replica: 2xA100", gpus),
    Flag("engine", "ENGINE", f"{listed(list(ENGINES))}, ...: names the flags", engine),
    Flag("regime", "REGIME", "spike, or steady for more than a quarter of an hour", regime),
)


def floor(parameters: float, gpus: int, gpu: str, kv_usage: float | None) -> DecodeFloor | None:
    """The least time of a decode step by memory alone, as `sidecar capacity` computes it; None for a GPU that it does not know.

    Of a GPU that comes with several sizes of memory the largest is taken, so that the time stays a lower bound. The cache is what the
    weights leave of the memory that an engine takes, times `kv_usage`; without that the whole.
    """
    sizes = [(one.memory_bytes, name) for name, one in GPUS.items() if name.partition("-")[0] == gpu]
    if not sizes:
        return None
    card = GPUS[max(sizes)[1]]
    weights = BYTES_PER_PARAMETER * parameters
    decode = Decode(weights, gpus * card.bytes_per_second, Geometry(()))
    try:
        cache = left_for_cache(gpus * card.memory_bytes, UTILISATION, weights, 0.0)
    except RefusedError:
        most = None
    else:
        most = weights + cache * (1.0 if kv_usage is None else kv_usage)
    return DecodeFloor(
        f"{gpus} x {gpu.upper()} ({card.memory_bytes / 1e9:.0f} GB)",
        weights,
        decode.row(1, 0).step_seconds,
        most,
        None if most is None else most / decode.bytes_per_second,
    )


def read(told: Mapping[str, str]) -> tuple[Measured, list[str]]:
    """The numbers of the flags, and every mistake, each with its flag. `told`: values by the flag's name without dashes."""
    values: dict[str, Any] = {}
    errors = []
    for flag in BY_HAND_FLAGS:
        if flag.name not in told:
            continue
        try:
            values[flag.name] = flag.read(told[flag.name])
        except WrongValueError as wrong:
            errors.append(f"--{flag.name}: {wrong}")
    errors += [
        f"--{name}: 0 is no {what}"
        for names, what in (
            (("ttft-threshold", "tpot-threshold"), "threshold"),
            (("ttft-p99", "tpot-p99"), "time"),
            (("slots",), "batch limit"),
            (("prompt-mean-before",), "mean prompt"),
        )
        for name in names
        if values.get(name) == 0
    ]
    parts = {Blame.QUEUE: "queue-p99", Blame.PREFILL: "prefill-p99", Blame.FIRST_TOKEN: "first-token-p99"}
    number, kind = values.get("gpus", (None, None))
    before, now = values.get("prompt-mean-before"), values.get("prompt-mean")
    arrivals, preemptions = values.get("rate"), values.get("preemptions")
    size = values.get("model-size")
    return Measured(
        source="hand",
        ttft=Latency(p99_seconds=values.get("ttft-p99"), threshold_seconds=values.get("ttft-threshold")),
        inter_token=Latency(p99_seconds=values.get("tpot-p99"), threshold_seconds=values.get("tpot-threshold")),
        e2e=Latency(p99_seconds=values.get("e2e-p99")),
        phases={phase: PhaseTime(p99_seconds=values[name]) for phase, name in parts.items() if name in values},
        load=Load(
            arrivals_per_second=values.get("rate"),
            engine_arrivals_per_second=values.get("rate"),
            prompt_mean_tokens=values.get("prompt-mean"),
            output_mean_tokens=values.get("output-mean"),
            waiting=values.get("waiting"),
            running=values.get("running"),
            kv_usage=values.get("kv-usage"),
            cached=values.get("cached"),
            slots=values.get("slots"),
            preempted=preemptions / arrivals if preemptions is not None and arrivals else None,
            preemptions_per_second=preemptions,
        ),
        rejected=values.get("rejected"),
        ratios={Cause.PROMPT_MIX: now / before} if now and before else {},
        machine=Machine(
            parameters=size,
            gpus=number,
            gpu=kind,
            floor=None
            if size is None or number is None or kind is None
            else floor(size, number, kind, values.get("kv-usage")),
        ),
        engine=values.get("engine"),
        regime=values.get("regime"),
    ), errors
