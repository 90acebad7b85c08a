"""The command line: what each command of `sidecar` accepts and prints, and exit codes.

Exit codes: 0 success, 1 failure, 2 wrong usage or a refused config. This file contains flags and texts only. The
code of each command is imported when it runs, so that `sidecar check` needs no event loop and `--help` is instant.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from sidecar import BUILD, __version__
from sidecar.config.buckets import bucket_labels
from sidecar.config.checks import counted_models
from sidecar.config.file import SHORT_FLAGS, ConfigErrors, flag_of, load
from sidecar.config.folding import MISUSED, OK, WIDTH, folded, width
from sidecar.config.notes import Note, notes
from sidecar.config.objectives import (
    ObjectiveSetting,
    bucket_objectives,
    lane_objective,
    lanes_without_objectives,
    preset_name,
)
from sidecar.config.schema import Config, LaneObjectivesConfig
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.catalogue import series_ceiling, series_typical
from sidecar.slo.objective import Objective


_ABOUT_SIDECAR = """\
Run as a proxy in front of one LLM inference server, pass every request through
unchanged, and measure where its time went: queue, prefill, first token, decode,
stream; per lane and prompt length, as Prometheus metrics.
"""
_EXAMPLES_OF_SIDECAR = """\
examples:
  sidecar demo
      Run a simulated engine, this sidecar and a mixed load in one terminal.
  sidecar serve --engine.url=http://127.0.0.1:8000
      Run as a proxy in front of a vLLM on port 8000. Send clients to port 8900
      and point Prometheus at port 9901.
  sidecar check --config.file=sidecar.yml
      Print every error of a config or, if there is none, its lanes, rules,
      buckets and number of series.
  sidecar diagnose
      Ask the sidecar on this host what is wrong, and what to do; `sidecar
      diagnose --help` has more.
  sidecar capacity --model=llama-3.3-70b --gpu=h100 --gpu.count=4 --users=50
      Estimate how many sequences fit and how fast decoding can be; `sidecar
      capacity --help` has more.
  sidecar attack --target=http://127.0.0.1:8900 --origin-listen=127.0.0.1:8000
      Send thousands of hostile requests through your own proxies, and say which
      of them lets one through; `sidecar attack --help` has more.

exit codes: 0 success, 1 failure, 2 wrong usage or a refused config.
Every key of the config file, with its default and reason:
docs/configuration.md
"""
_SERVE = """\
Run until SIGTERM or SIGINT. Both drain: open streams have
shutdown.grace_seconds to end, then the exit code is 0. SIGHUP, or POST
/-/reload from loopback, reads the config again; a bad config is refused and the
old one stays in force.
"""
_CHECK = """\
Read the config as `serve` would, start nothing, and print every error with its
file, line and column; or, if there is none, the lanes, the rules in the order
in which they apply, the objectives, the listeners and the number of series.
"""
_SERVE_FLAGS = {
    "engine.url": ("URL", "the engine, http://host:port or unix:/path"),
    "proxy.listen_address": ("ADDRESS", "address for clients (default 0.0.0.0:8900)"),
    "web.listen_address": ("ADDRESS", "address for metrics, health and the status page (default 0.0.0.0:9901)"),
    "web.config_file": ("FILE", "TLS and passwords of the admin listener, as for Prometheus' exporters (default none)"),
    "log.level": ("LEVEL", "debug, info, warning or error (default info)"),
    "log.format": ("FORMAT", "json, console or auto (default auto: console on a terminal)"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no command line makes it raise."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    own = _command_with_flags_of_its_own(arguments[0]) if arguments else None
    if own is not None:
        return own(arguments[1:])
    try:
        known = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse's way to return: help and version 0, bad usage 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    if known.command is None:
        sys.stderr.write(
            "sidecar: no command: serve, check, demo, diagnose, capacity, baseline, drain, attack or export; see `sidecar --help`\n"
        )
        return MISUSED
    file: str | None = vars(known)["config.file"]
    flags = {key: value for key in SHORT_FLAGS if (value := vars(known)[key]) is not None}

    def reload() -> Config:
        return load(file, flags, os.environ)

    try:
        config = reload()
        _check_web_config(config.web.config_file)
    except ConfigErrors as errors:
        count = len(errors.lines)
        sys.stderr.write(f"{errors}\nsidecar: the config is refused: {count} error{'s' if count > 1 else ''}\n")
        return MISUSED
    if known.command == "check":
        sys.stdout.write(describe(config, notes(config, os.environ), width()))
        return OK
    gc.disable()  # until all is loaded (`app.py`): each collection would walk all modules, and find nothing
    try:
        from sidecar.app import run  # noqa: PLC0415  the traffic side is loaded only to serve

        return run(config, reload)
    finally:
        gc.enable()


def _check_web_config(file: str) -> None:
    """Raises ConfigErrors if the admin listener could not use this file."""
    if file:
        from sidecar.admin.web_config import load as load_web_config  # noqa: PLC0415  few have one, and it imports ssl

        load_web_config(file)


def _command_with_flags_of_its_own(name: str) -> Callable[[Sequence[str]], int] | None:
    """The command that parses its own flags, so that their help stands beside the code that uses them; None for the others."""
    match name:  # imported when it runs: no other command needs it
        case "demo":
            from sidecar.demo.demo import main as command  # noqa: PLC0415
        case "diagnose":
            from sidecar.diagnosis.diagnose_command import main as command  # noqa: PLC0415
        case "capacity":
            from sidecar.capacity.capacity_command import main as command  # noqa: PLC0415
        case "baseline":
            from sidecar.admin.baseline_command import main as command  # noqa: PLC0415
        case "drain":
            from sidecar.admin.drain_command import main as command  # noqa: PLC0415
        case "attack":
            from sidecar.attack.attack_command import main as command  # noqa: PLC0415
        case "export":
            from sidecar.export.export_command import main as command  # noqa: PLC0415
        case _:
            return None
    return command


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = shared.add_argument_group("config (a flag outranks the file)")
    group.add_argument("--config.file", metavar="FILE", help="YAML; see docs/configuration.md")
    for key in SHORT_FLAGS:
        value, words = _SERVE_FLAGS[key]
        group.add_argument(flag_of(key), dest=key, metavar=value, help=words)
    parser = argparse.ArgumentParser(
        prog="sidecar",
        description=_ABOUT_SIDECAR,
        epilog=_EXAMPLES_OF_SIDECAR,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sidecar {__version__} ({BUILD})")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, words, about in (
        ("serve", "run the proxy in front of an engine", _SERVE),
        ("check", "validate a config and explain it", _CHECK),
        ("demo", "run the sidecar with a simulated engine on this machine", ""),
        ("diagnose", "name the phase that is too slow, and what to do about it", ""),
        ("capacity", "estimate what fits, how fast it can be, how many replicas a load needs", ""),
        ("baseline", "write the usual values of a healthy pod to a file for new pods", ""),
        ("drain", "drain the sidecar on this host, and wait until nothing is in flight", ""),
        ("attack", "send hostile requests through your own proxies, and say which lets one through", ""),
        ("export", "write rules, routes, dashboards and manifests into a folder", ""),
    ):
        commands.add_parser(
            name,
            help=words,
            description=about,
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    return parser


def describe(config: Config, told: Iterable[Note] = (), columns: int = WIDTH) -> str:
    """A config explained for a person: listeners, lanes and rules, objectives, number of series, and notes (`told`)."""
    lanes, facts = (
        config.lanes,
        [
            ("engine", f"{config.engine.url} (kind {config.engine.kind})"),
            ("traffic", config.proxy.listen_address),
            ("admin", config.web.listen_address),
            ("lanes", f"{', '.join(config.lanes.declared)} (default: {config.lanes.default})"),
            ("buckets", f"{', '.join((*bucket_labels(config.prompt_buckets.edges), UNKNOWN))} (prompt tokens)"),
            ("labels", f"quantization={config.labels.quantization}, gpu_type={config.labels.gpu_type}"),
        ],
    )
    ways = [(rule.lane, f"if {_conditions(rule.model_dump(exclude_none=True))}") for rule in lanes.rules]
    if lanes.header is not None:
        ways.insert(0, (f"the header {lanes.header},", "if it names a lane; with any other value: other"))
    said = ((", ".join(note.names), note.hint) for note in told)
    return "\n".join(
        [
            "The config is valid.",
            "",
            *_listed(facts, columns),
            "",
            "A request's lane is the first that applies:",
            *_listed([*ways, (lanes.default, "otherwise")], columns, "  "),
            "",
            *folded(
                "Objectives of each lane: seconds by prompt length, to be met by the target share of its requests:",
                columns,
            ),
            *_objectives(config, columns),
            "",
            *_listed(_series(config), columns),
            *_listed((("note", f"{names}: {hint}") for names, hint in said), columns),
            "",
        ]
    )


def _listed(facts: Iterable[tuple[str, str]], columns: int, indent: str = "") -> list[str]:
    return [line for name, value in facts for line in folded(value, columns, f"{indent}{name:<10} ")]


def _conditions(rule: dict[str, object]) -> str:
    said = []
    for key, value in rule.items():
        if key == "headers" and isinstance(value, dict):
            said += [f"header {name} is {' or '.join(values)}" for name, values in value.items()]
        elif isinstance(value, tuple):
            said.append(f"{key} is {' or '.join(value)}")
        elif key != "lane":
            said.append(f"{key} {str(value).lower()}")
    return " and ".join(said) or "anything"


def _objectives(config: Config, columns: int) -> list[str]:
    """The objectives as a table. If a bucket's target differs from its lane's, the bucket's cell shows it."""
    rows = []
    for lane in config.lanes.declared:
        said = config.objectives.get(lane, LaneObjectivesConfig())
        first = (lane, preset_name(lane, said))
        for objective in Objective:
            settings = bucket_objectives(objective, lane, said, config.prompt_buckets.edges)
            targets = [setting.aim.target for setting in settings.values() if setting.aim is not None]
            if not targets:
                continue
            target = lane_objective(objective, lane, said).target or targets[0]
            cells = [_cell(setting, target) for setting in settings.values()]
            rows.append((*first, str(objective), f"{target:.6g}", *cells))
            first = ("", "")
    head = ("lane", "preset", "objective", "target", *bucket_labels(config.prompt_buckets.edges), UNKNOWN)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) <= columns else " "
    table = ["  " + gap.join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
    said_of = [f"  {lane:<10} no objective, so it never pages" for lane in lanes_without_objectives(config)]
    return [*(table if rows else ()), *said_of]


def _cell(setting: ObjectiveSetting, target: float) -> str:
    if setting.aim is None:
        return "-"
    seconds = f"{setting.aim.threshold_seconds:.6g}"
    return seconds if setting.aim.target == target else f"{seconds} ({setting.aim.target:.6g})"


def _series(config: Config) -> list[tuple[str, str]]:
    listed = len(config.engine.models)
    sizes = (len(config.lanes.declared), len(config.prompt_buckets.edges) + 2, counted_models(listed))
    split = config.metrics.inter_token_by_prompt_bucket
    ceiling = series_ceiling(*sizes, inter_token_by_prompt_bucket=split)
    typical = series_typical(*sizes, inter_token_by_prompt_bucket=split)
    limit = config.metrics.series_limit
    stop = f"; the process stops at metrics.series_limit, {limit}" if ceiling > limit else f" (limit {limit})"
    models = "1 model (engine.models is empty: the engine's own list is taken, which may be longer)"
    counted = f"{listed} model{'s' if listed > 1 else ''}" if listed else models
    return [
        ("series", f"typically about {typical} (an estimate); all combinations would be {ceiling}{stop}"),
        ("", f"counted with {counted}"),
    ]
