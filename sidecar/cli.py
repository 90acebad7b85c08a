"""The command line: what each command of `sidecar` accepts and prints, and exit codes.

Exit codes: 0 success, 1 failure, 2 wrong usage or a refused config, 141 where the reader of the output has left. This file contains flags and texts only. The
code of each command is imported when it runs, so that `sidecar check` needs no event loop and `--help` is instant.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TextIO

from sidecar import BUILD, __version__
from sidecar.config.file import ConfigErrors, load
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import MISUSED, OK, READER_LEFT, errors_text, width
from sidecar.config.schema import FLAGS, KEYS, Config, flag_of


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
  sidecar serve --no-proxy --engine.url=http://127.0.0.1:8000
      Let traffic go as it goes, and count requests from the engine's spans.
  sidecar check --config.file=sidecar.yml
      Print every error of a config or, if there is none, its lanes, rules,
      buckets and number of series.
  sidecar diagnose
      Ask the sidecar on this host what is wrong, and what to do; `sidecar
      diagnose --help` has more.
  sidecar compare --prometheus.url=http://prometheus:9090 --old=2h --new=0m
      Say what moved since two hours ago, with intervals; `sidecar compare
      --help` has more.
  sidecar inject vllm.yaml | kubectl apply -f -
      Put the sidecar into Kubernetes manifests; `sidecar inject --help` has
      more.
  sidecar doctor --prometheus.url=http://prometheus:9090
      Check every link from the engine to a page; `sidecar doctor --help` has
      more.
  sidecar verify --engine.url=http://127.0.0.1:8000
      Compare what an engine says with what a client sees; `sidecar verify
      --help` has more.
  sidecar capacity --model=llama-3.3-70b --gpu=h100 --gpu.count=4 --users=50
      Estimate how many sequences fit and how fast decoding can be; `sidecar
      capacity --help` has more.

Every key of the config file is a variable of the environment too, such as
SIDECAR__ENGINE__URL. docs/configuration.md has all keys, with their defaults
and reasons.

exit codes: 0 success, 1 failure, 2 wrong usage or a refused config or input.
"""
_ENDS = """Every key is a variable of the environment too: SIDECAR__ENGINE__URL is
engine.url, SIDECAR__LOG__LEVEL is log.level. Lists and maps are YAML there.

exit codes: 0 success, 1 failure, 2 wrong usage or a refused config.
"""
_SERVE = """\
Run until SIGTERM or SIGINT. Both drain: open streams have
shutdown.grace_seconds to end, then the exit code is 0. SIGHUP, or POST
/-/reload from loopback, reads the config again; a bad config is refused and the
old one stays in force.
"""
_CHECK = """\
Read the config as `serve` would, start nothing, look at every file that it
names, and print every error with its file, line and column, its flag or its
variable; or, if there is none, which source set each key, the lanes, the rules
in the order in which they apply, the objectives, the listeners and the number
of series.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no command line makes it raise."""
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:  # `>&-` closes it
            sys.stdout.flush()  # at the end of the process it would be too late for an exit status
    except BrokenPipeError:
        if not (left := [stream for stream in (sys.stdout, sys.stderr) if stream is not None and _is_left(stream)]):
            raise
        for stream in left:  # what is still to be written, at the end of the process at the latest, goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return READER_LEFT
    return code


def _is_left(stream: TextIO) -> bool:
    """Whether this is a pipe or a socket whose reader has left."""
    from select import POLLERR, POLLHUP, poll  # noqa: PLC0415  only where a pipe broke

    asked = poll()
    asked.register(stream, 0)
    return any(event & (POLLERR | POLLHUP) for _, event in asked.poll(0))


def _run(arguments: list[str]) -> int:
    own = _command_with_flags_of_its_own(arguments[0]) if arguments else None
    if own is not None:
        return own(arguments[1:])
    try:
        known = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse's way to return: help and version 0, bad usage 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    if known.command is None:
        sys.stderr.write("sidecar: no command: `sidecar --help` lists them all, with examples\n")
        return MISUSED
    file: str | None = vars(known)["config.file"]
    flags = {key: value for key in FLAGS if (value := vars(known)[key]) is not None}

    def reload() -> Config:
        return load(file, flags, os.environ)

    try:
        config = reload()
        if known.command == "check":
            _check_files(config)
        else:
            _check_web_config(config.web.config_file)
    except ConfigErrors as errors:
        count = len(errors.lines)
        end = f"sidecar: the config is refused: {count} error{'s' if count > 1 else ''}"
        sys.stderr.write(errors_text([*errors.lines, end]))
        return MISUSED
    if known.command == "check":
        from sidecar.config.explain import explained  # noqa: PLC0415  `serve` explains nothing

        sys.stdout.write(explained(config, width()))
        return OK
    gc.disable()  # until all is loaded (`app.py`): each collection would walk all modules, and find nothing
    try:
        from sidecar.app import run  # noqa: PLC0415  the traffic side is loaded only to serve

        return run(config, reload)
    finally:
        gc.enable()


def _check_files(config: Config) -> None:
    """Raises ConfigErrors with all that is wrong with the files that the config names."""
    from sidecar.commands.named_files import file_errors  # noqa: PLC0415  `serve` does without, and tells what it misses

    found = file_errors(config)
    try:
        _check_web_config(config.web.config_file)
    except ConfigErrors as errors:
        found += errors.lines
    if found:
        raise ConfigErrors(found)


def _check_web_config(file: str) -> None:
    """Raises ConfigErrors if the admin listener could not use this file."""
    if file:
        from sidecar.admin.web_config import load as load_web_config  # noqa: PLC0415  few have one, and it imports ssl

        load_web_config(file)


def _command_with_flags_of_its_own(name: str) -> Callable[[Sequence[str]], int] | None:
    """The command that parses its own flags, so that their help stands beside the code that uses them; None for the others."""
    match name:  # imported when it runs: no other command needs it
        case "demo":
            from sidecar.commands.demo.demo import main as command  # noqa: PLC0415
        case "inject" | "uninject" | "bypass":
            from sidecar.commands.inject.inject_command import COMMANDS  # noqa: PLC0415

            return COMMANDS[name]
        case "capacity":
            from sidecar.commands.capacity.capacity_command import main as command  # noqa: PLC0415
        case "baseline":
            from sidecar.commands.baseline_command import main as command  # noqa: PLC0415
        case "drain":
            from sidecar.commands.drain_command import main as command  # noqa: PLC0415
        case "export":
            from sidecar.commands.export.export_command import main as command  # noqa: PLC0415
        case _:
            return _command_that_asks(name)
    return command


def _command_that_asks(name: str) -> Callable[[Sequence[str]], int] | None:
    """The same for commands that only ask servers."""
    match name:
        case "diagnose":
            from sidecar.commands.diagnose.diagnose_command import main as command  # noqa: PLC0415
        case "compare":
            from sidecar.commands.compare.compare_command import main as command  # noqa: PLC0415
        case "verify":
            from sidecar.commands.verify.verify_command import main as command  # noqa: PLC0415
        case "doctor":
            from sidecar.commands.doctor.doctor_command import main as examine  # noqa: PLC0415

            return partial(examine, check_web_config=_check_web_config)
        case _:
            return None
    return command


def _parser() -> argparse.ArgumentParser:
    shared = Parser(add_help=False)
    group = shared.add_argument_group("config (a flag outranks the environment, and that the file)")
    group.add_argument("--config.file", metavar="FILE", help="YAML; see docs/configuration.md")
    for key, flag in FLAGS.items():
        if flag.value is None:
            group.add_argument(flag_of(key), dest=key, action="store_const", const=True, help=flag.help)
        else:
            default = "" if KEYS[key].required else f" (default {KEYS[key].default or 'none'})"
            group.add_argument(flag_of(key), dest=key, metavar=flag.value, help=flag.help + default)
    parser = Parser(
        prog="sidecar",
        description=_ABOUT_SIDECAR,
        epilog=_EXAMPLES_OF_SIDECAR,
    )
    parser.add_argument("--version", action="version", version=f"sidecar {__version__} ({BUILD})")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, words, about in (
        ("serve", "run the proxy in front of an engine", _SERVE),
        ("check", "validate a config and explain it", _CHECK),
        ("demo", "run the sidecar with a simulated engine on this machine", ""),
        ("diagnose", "name the phase that is too slow, and what to do about it", ""),
        ("compare", "set two windows, two versions or two pods beside each other, with intervals", ""),
        ("doctor", "check every link from the engine to a page, and say what to do", ""),
        ("verify", "probe an engine, and the hops in front of it, and say which source contradicts another", ""),
        ("capacity", "estimate what fits, how fast it can be, how many replicas a load needs", ""),
        ("baseline", "write the usual values of a healthy pod to a file for new pods", ""),
        ("drain", "drain the sidecar on this host, and wait until nothing is in flight", ""),
        ("inject", "put the sidecar into Kubernetes manifests, and lead their traffic to it", ""),
        ("uninject", "take it out of manifests again", ""),
        ("bypass", "print the commands that lead traffic past it, at once and without a restart", ""),
        ("export", "write rules, routes, dashboards and manifests into a folder", ""),
    ):
        commands.add_parser(
            name,
            help=words,
            description=about,
            epilog=_ENDS,
            parents=[shared],
            strict=True,
        )
    return parser
