"""`sidecar diagnose`: reads its own flags, asks one source, prints text or JSON.

Exit codes, as of `sidecar capacity`: 0 a verdict, an engine that is down, or all is well; 1 no answer from the source; 2 wrong
flags, all of them listed, or data that allow no verdict, from any source. This module knows flags and texts; `tree.py` judges.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.commands.diagnose import by_hand
from sidecar.commands.diagnose.terminal import text
from sidecar.commands.shared_flags import SIDECAR_URL, add_flag, shared, wrong_output
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, width
from sidecar.config.values import USER_OF_URL, is_http_address
from sidecar.diagnosis.document import document
from sidecar.diagnosis.tree import contained


_ABOUT_DIAGNOSE = """\
Say what broke, and what to do: time to first token and inter-token latency
apart, the root of the misses of the last five minutes with its evidence, since
when, what changed, what to do in which order, what not to do, and what is still
to be asked. Without numbers it asks the sidecar on this host. If it has no
answer, it names the missing numbers.
"""
_EXAMPLES_OF_DIAGNOSE = """\
examples:
  sidecar diagnose
      Ask the sidecar on this host for its last five minutes, lane by lane.
  sidecar diagnose --sidecar.url=http://10.0.0.7:9901 --lane=chat --output=json
      One lane of another sidecar, as JSON (docs/diagnosis.md has the schema).
  sidecar diagnose --prometheus.url=http://prometheus:9090 --namespace=llm \\
      --lane=chat --window=10m
      A fleet: the pods of each job together, with the misses that its pages
      count, and the worst pod. Without a sidecar: the engines' own series.
  sidecar diagnose --ttft-p99=3.2s --tpot-p99=80ms --rate=60 \\
      --prompt-mean=2200 --output-mean=180 --model-size=13b --gpus=2xA100
      Numbers by hand, wherever they come from. Each further number makes the
      answer sharper:
  sidecar diagnose --ttft-p99=5s --queue-p99=4.8s --tpot-p99=40ms \\
      --engine=vllm --regime=steady

It always takes two numbers: a time to first token, and a time between tokens.
One alone is refused.
exit codes: 0 a verdict on some lane, an engine that is down, or all is well;
1 no answer from the address; 2 wrong flags, or no verdict: the data, asked for
or by hand, do not suffice.
"""
_SOURCES = (
    shared("sidecar.url"),
    shared("prometheus.url", "a Prometheus that scrapes sidecars: a fleet in place of one pod"),
    ("namespace", "NAME", "of the fleet (Prometheus only)"),
    ("job", "NAME", "one engine of the fleet (Prometheus only)"),
    ("model", "NAME", "one model only"),
    ("lane", "NAME", "one lane only"),
    ("window", "DURATION", "how far back (Prometheus only; default 5m)"),
    shared("output"),
)
_ABOUT_ALL = "the whole text: each lane, all evidence, all steps (default: the first lane, in one screen)"
_ONLY_PROMETHEUS = ("namespace", "job", "window")


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    parser = _parser()
    try:
        known, unknown = parser.parse_known_args(list(argv))
    except SystemExit as stop:  # help: 0; a flag without its value: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = {name: value for name, value in vars(known).items() if value is not None}
    errors = [*parser.unknown(unknown), *_errors(told)]
    numbers, wrong = by_hand.read(told)
    errors += wrong
    if errors:
        lines = [f"sidecar diagnose: {error}" for error in errors]
        sys.stderr.write(errors_text([*lines, "`sidecar diagnose --help` explains, with examples."]))
        return MISUSED
    if any(flag.name in told for flag in by_hand.BY_HAND_FLAGS):
        return _print(document([contained(numbers)]), told)
    # Sockets and a loop are loaded only if a source is asked over the network.
    from sidecar.commands.diagnose.sources import AskingError, fleet, one_sidecar  # noqa: PLC0415

    try:
        if "prometheus.url" in told:
            answer = asyncio.run(
                fleet(
                    told["prometheus.url"],
                    namespace=told.get("namespace"),
                    job=told.get("job"),
                    model=told.get("model"),
                    lane=told.get("lane"),
                    window_seconds=by_hand.duration(told.get("window", "5m")),
                )
            )
        else:
            answer = asyncio.run(one_sidecar(told.get("sidecar.url", SIDECAR_URL)))
    except AskingError as error:
        where = "--prometheus.url" if "prometheus.url" in told else "--sidecar.url (its admin side)"
        help_ = f"{where} says where to ask; `sidecar diagnose --help` explains."
        sys.stderr.write(errors_text([f"sidecar diagnose: {error}", help_]))
        return FAILED
    return _print(_chosen(answer, told), told)


def _parser() -> Parser:
    parser = Parser(
        prog="sidecar diagnose",
        description=_ABOUT_DIAGNOSE,
        epilog=_EXAMPLES_OF_DIAGNOSE,
    )
    source = parser.add_argument_group("source to ask")
    for flag in _SOURCES:
        add_flag(source, flag)
    parser.add_argument("--all", action="store_true", default=None, help=_ABOUT_ALL)
    hand = parser.add_argument_group("numbers by hand (then no source is asked)")
    for told in by_hand.BY_HAND_FLAGS:
        add_flag(hand, (told.name, told.shape, told.words))
    return parser


def _errors(told: dict[str, str]) -> list[str]:
    errors: list[str] = []
    hand = [f"--{flag.name}" for flag in by_hand.BY_HAND_FLAGS if flag.name in told]
    asked = [name for name in ("sidecar.url", "prometheus.url") if name in told]
    if len(asked) > 1:
        errors.append("--sidecar.url and --prometheus.url: one of them")
    if asked and hand:
        errors.append(f"--{asked[0]} with {', '.join(hand)}: either ask, or tell the numbers")
    errors += [
        f"--{name}: {USER_OF_URL.sub('', told[name])!r} is no http:// or https:// address"
        for name in asked
        if not is_http_address(told[name])
    ]
    errors += [
        f"--{name}: only with --prometheus.url"
        for name in _ONLY_PROMETHEUS
        if name in told and "prometheus.url" not in told
    ]
    errors += wrong_output(told)
    if "window" in told:
        try:
            long_enough = by_hand.duration(told["window"]) >= 60
        except by_hand.WrongValueError as wrong:
            errors.append(f"--window: {wrong}")
        else:
            errors += [] if long_enough else ["--window: at least 1m, or no rate has two samples"]
    return errors


def _chosen(answer: dict[str, Any], told: dict[str, str]) -> dict[str, Any]:
    wanted = {key: told[key] for key in ("model", "lane") if key in told}
    kept = [one for one in answer["diagnoses"] if all(one[key] == value for key, value in wanted.items())]
    slowest = answer.get("slowest")
    if slowest is not None and "lane" in told:
        slowest = {**slowest, "of": [one for one in slowest["of"] if one["lane"] == told["lane"]]}
    return {**answer, "diagnoses": kept, "slowest": slowest}


def _print(answer: dict[str, Any], told: Mapping[str, object]) -> int:
    as_json = told.get("output") == "json"
    sys.stdout.write(
        json.dumps(answer, indent=2, allow_nan=False) + "\n" if as_json else text(answer, width(), whole="all" in told)
    )
    outcomes = {one["outcome"] for one in answer["diagnoses"]}
    return OK if outcomes & {"verdict", "well"} or answer.get("engines_down") else MISUSED
