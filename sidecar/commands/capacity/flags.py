"""The flags of `sidecar capacity`: what each accepts. All errors of a command line are reported at once.

It only parses text: it opens no file and asks no server. `Asked` holds the parsed values; a flag not given is None.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TypeVar

from sidecar.commands.capacity.gpus import GPUS
from sidecar.commands.capacity.models import KNOWN_MODELS
from sidecar.commands.capacity.units import read_bytes, read_bytes_per_second, read_count, read_rate, read_seconds
from sidecar.commands.shared_flags import OUTPUTS, gone, shared
from sidecar.config.flag_parser import Parser
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import parse_engine_url
from sidecar.engines.kinds import KINDS


T = TypeVar("T")

_ABOUT_CAPACITY = """\
Answer capacity questions by arithmetic that you can redo: how much KV cache a
token takes, how many sequences fit into the memory, how fast decoding can be at
best, and how many replicas keep the queue short. All answers are estimates.
Every number says whether it was measured, given, looked up, derived or assumed.
Every answer lists its assumptions; it is refused if the data do not support it.
"""
_EXAMPLES_OF_CAPACITY = """\
examples:
  sidecar capacity --model=llama-3.3-70b --tokens=4096
      The KV cache that 4,096 tokens of context take.
  sidecar capacity --model=llama-3.3-70b --model.weights=140GB --gpu=h100 \\
      --gpu.count=4 --gpu.reserve=40GB --users=50
      The longest context for 50 users at once, and the fastest decoding that
      the memory allows.
  sidecar capacity --model.config=config.json --gpu=l40s --tokens=8192
      The same for any model, from its config.json.
  sidecar capacity --rate=12 --wait=200ms --slots=64 --service=1:3s \\
      --service=64:11s --prefill=0.9:200ms --prefill=0.1:900ms
      Replicas for a mean queue wait of 200 ms at 12 requests per second. A
      request runs 3 s alone and 11 s among 64 (from a load test). One prompt
      in ten takes 900 ms to prefill, the others 200 ms.
  sidecar capacity --engine.url=http://127.0.0.1:8000 --model=llama-3.1-8b \\
      --tokens=4096
      The number of sequences that fit into the cache of a running vLLM, whose
      size the engine states.

exit codes: 0 every question is answered; 1 the engine did not answer; 2 wrong
flags, or a question is refused: its data are missing or do not
fit. docs/capacity.md explains how the numbers are computed.
"""


def _choice(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"is not one of {', '.join(allowed)}{did_you_mean(text, allowed)}")
        return text

    return read


def _share(text: str, most: float = 1.0) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 < value <= most:
        raise ValueError("is not a share above 0 and up to 1, such as 0.9")
    return value


def _point(text: str) -> tuple[int, float]:
    count, _, seconds = text.partition(":")
    try:
        return read_count(count), _wait(seconds)
    except ValueError:
        raise ValueError("is not REQUESTS:TIME, such as 8:4.2s (8 at once run 4.2 s each)") from None


def _prompt(text: str) -> tuple[float, float]:
    weight, _, seconds = text.partition(":")
    try:
        return _share(weight, 1e9), _wait(seconds)
    except ValueError:
        raise ValueError("is not WEIGHT:TIME, such as 0.9:200ms (nine in ten prompts take 200 ms)") from None


def _wait(text: str) -> float:
    seconds = read_seconds(text)
    if not seconds:
        raise ValueError("is 0: while two requests can come together, some wait remains")
    return seconds


def _url(text: str) -> str:
    parse_engine_url(text)
    return text.rstrip("/")


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    metavar: str
    read: Callable[[str], object]
    words: str
    several: bool = False


def _as_elsewhere(name: str, read: Callable[[str], object], words: str | None = None) -> _Flag:
    """A flag that other commands have too."""
    flag = shared(name, words)
    return _Flag(flag.name, flag.shape, read, flag.words)


SLOTS_FLAGS = ", ".join(f"{kind.title}: {kind.slots_flag}" for kind in KINDS.values() if kind.slots_flag)
"""For each engine, the name of its own flag that corresponds to `--slots`."""
_MODEL_NAMES, _GPU_NAMES = tuple(KNOWN_MODELS), tuple(GPUS)
_GROUPS: Mapping[str, tuple[_Flag, ...]] = {
    "the model: by name, by its config.json, or by its geometry": (
        _Flag("model", "NAME", _choice(*_MODEL_NAMES), f"one of {', '.join(_MODEL_NAMES)}"),
        _Flag("model.config", "FILE", _text, "its config.json; an index of the weights in the same folder is read too"),
        _Flag("model.layers", "N", read_count, "number of layers with a KV cache"),
        _Flag("model.kv-heads", "N", read_count, "number of key-value heads; in most models fewer than query heads"),
        _Flag("model.head-dim", "N", read_count, "numbers in the key of one head"),
        _Flag("model.query-heads", "N", read_count, "used only to show the wrong result of counting query heads"),
        _Flag("model.weights", "SIZE", read_bytes, "size of the weights, such as 140GB"),
        _Flag("model.active-weights", "SIZE", read_bytes, "weights that one token reads, in a mixture of experts"),
        _Flag("kv.bits", "N", _choice("4", "8", "16", "32"), "bits per number in the cache (default: the model's)"),
        _Flag("kv.block-size", "N", read_count, "tokens in a block of the cache (default 16)"),
    ),
    "the GPUs of one replica": (
        _Flag("gpu", "NAME", _choice(*_GPU_NAMES), f"one of {', '.join(_GPU_NAMES)}"),
        _Flag("gpu.count", "N", read_count, "GPUs that share the model by tensor parallelism (default 1)"),
        _Flag("gpu.memory", "SIZE", read_bytes, "memory of one GPU, instead of --gpu's"),
        _Flag("gpu.bandwidth", "SIZE/s", read_bytes_per_second, "memory bandwidth of one GPU, instead of --gpu's"),
        _Flag("gpu.efficiency", "SHARE", _share, "share of the bandwidth that is reached (default 1: an upper bound)"),
        _Flag("gpu.utilisation", "SHARE", _share, "share of memory for the engine (default 0.9; 1 with a reserve)"),
        _Flag(
            "gpu.reserve",
            "SIZE",
            read_bytes,
            "memory of all GPUs kept for activations and graphs (default: none beyond the above)",
        ),
    ),
    "questions": (
        _Flag("tokens", "N", read_count, "prompt and output tokens of one sequence"),
        _Flag("users", "N", read_count, "number of sequences at once"),
        _Flag("tpot", "TIME", _wait, "highest time per output token, such as 30ms"),
        _Flag("wait", "TIME", _wait, "highest mean queue wait, such as 200ms"),
    ),
    "load and service, for the replicas": (
        _Flag("rate", "RATE", read_rate, "requests per second over all replicas, such as 12 or 700/m"),
        _Flag("slots", "N", read_count, f"sequences that run at once at one replica ({SLOTS_FLAGS})"),
        _Flag("service", "N:TIME", _point, "time that a request runs among N at once; give two or more", several=True),
        _Flag("prefill", "WEIGHT:TIME", _prompt, "kind of prompt: its weight and its prefill time alone", several=True),
    ),
    "a running engine": (
        _as_elsewhere(
            "engine.url", _url, "an engine, http://host:port: its cache and longest context, if it is a vLLM"
        ),
    ),
    "output": (_as_elsewhere("output", _choice(*OUTPUTS)),),
}
_FLAGS = {flag.name: flag for group in _GROUPS.values() for flag in group}
_GEOMETRY = ("model.layers", "model.kv-heads", "model.head-dim")
_MODEL_SOURCES = ("model", "model.config", "model.layers")


class UsageError(Exception):
    """All errors of a command line, one per line."""


class Asked:
    """The parsed values of a command line by flag name. A flag not given is None, or an empty list if it may repeat."""

    def __init__(self, said: Mapping[str, list[object]]) -> None:
        self._said = said

    def count(self, name: str) -> int | None:
        return self._last(name, int)

    def number(self, name: str) -> float | None:
        """The value of a flag that takes a size (bytes), a time (seconds), a rate (per second) or a share."""
        return self._last(name, float)

    def word(self, name: str) -> str | None:
        return self._last(name, str)

    def points(self) -> list[tuple[int, float]]:
        """The values of --service: (requests at once, seconds)."""
        return [value for value in self._said.get("service", []) if isinstance(value, tuple)]

    def prompts(self) -> list[tuple[float, float]]:
        """The values of --prefill: (weight, seconds)."""
        return [value for value in self._said.get("prefill", []) if isinstance(value, tuple)]

    def has(self, *names: str) -> bool:
        return any(name in self._said for name in names)

    def _last(self, name: str, kind: type[T]) -> T | None:
        assert name in _FLAGS
        value = self._said.get(name, [None])[-1]
        assert value is None or isinstance(value, kind)
        return value


def parser() -> Parser:
    """The parser for --help and for splitting a command line. Values are read later, to report all errors at once."""
    made = Parser(
        prog="sidecar capacity",
        gone=gone("capacity"),
        description=_ABOUT_CAPACITY,
        epilog=_EXAMPLES_OF_CAPACITY,
        exit_on_error=False,
    )
    for title, flags in _GROUPS.items():
        group = made.add_argument_group(title)
        for flag in flags:
            words = flag.words.replace("%", "%%")
            group.add_argument(f"--{flag.name}", dest=flag.name, metavar=flag.metavar, action="append", help=words)
    return made


def read_flags(argv: Sequence[str]) -> Asked:
    """Parse a command line. Raises UsageError with every error, one per line, and for --help SystemExit(0)."""
    made = parser()
    try:
        known, unknown = made.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    errors = made.unknown(unknown)
    said: dict[str, list[object]] = {}
    for name, texts in vars(known).items():
        for text in texts or ():
            try:
                said.setdefault(name, []).append(_FLAGS[name].read(text))
            except ValueError as error:
                errors.append(f"--{name}={text[:80]!r} {error}")
        if len(texts or ()) > 1 and not _FLAGS[name].several:
            errors.append(f"--{name} is given {len(texts)} times, but it may be given only once")
    errors += _together({name for name, texts in vars(known).items() if texts})
    if errors:
        raise UsageError("\n".join(errors))
    return Asked(said)


def _together(given: set[str]) -> list[str]:
    """Errors of combination: flags that exclude each other, and flags that need another one."""
    errors = []
    sources = [f"--{name}" for name in _MODEL_SOURCES if name in given]
    if len(sources) > 1:
        errors.append(f"{' and '.join(sources)} each describe a model: give one of them")
    lacking = [f"--{name}" for name in _GEOMETRY if name not in given]
    if set(_GEOMETRY) & given and lacking:
        errors.append(f"a geometry by hand also needs {' and '.join(lacking)}")
    if "wait" not in given and {"service", "prefill"} & given:
        errors.append("--wait is missing: give the highest mean queue wait, such as --wait=200ms")
    if "wait" in given and "rate" not in given:
        errors.append("--wait needs a load: --rate")
    if "service" in given and "slots" not in given:
        errors.append("--service needs --slots, the most requests that run at once")
    if not given - {"output"}:
        errors.append(
            "no question is asked: give a model (--model, --model.config) or a wait (--wait); --help has examples"
        )
    elif not {*_MODEL_SOURCES, "wait", "service", "prefill"} & given:
        errors.append(
            "no model is given: --model, --model.config, or --model.layers with --model.kv-heads and --model.head-dim"
        )
    return errors
