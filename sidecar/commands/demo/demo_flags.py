"""The flags of `sidecar demo`, and the ports among them.

It knows names, defaults and ranges, and says all that is wrong with them at once, before anything is started. It refuses to know
what the demo does with them (`demo.py`).
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.commands.demo.incidents import (
    CALM_SECONDS,
    FAULT_SECONDS,
    HEALS_SECONDS,
    INCIDENTS,
    LEARNING_SECONDS,
    SHARE_OF_RATE,
    VIEWING_SECONDS,
)
from sidecar.commands.demo.processes import DemoError, bindable
from sidecar.commands.simulator.replica_presets import PRESETS, SMALL_CHAT
from sidecar.config.flag_parser import Parser
from sidecar.config.written_durations import DURATION_FORMS, seconds_of_flag


MOST_PER_SECOND = 1000.0
LAST_PORT = 65_535
_PORT_FLAGS = ("--port", "--admin-port", "--engine-port")


_EXAMPLES = """\
examples:
  sidecar demo
      See the phases of each lane, live.
  sidecar demo --incident=queue
      Break the engine, and see the page of the phase within a minute.
  sidecar demo --incident=all --plain --port=0 --admin-port=0
      All faults in turn as lines of text, on ports that are free.

exit codes: 0 it ended as asked, also by Ctrl-C; 1 a port is taken, or a program
did not start; 2 wrong flags.
"""


class _Help(argparse.HelpFormatter):
    """Folds all but the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text == _EXAMPLES else super()._fill_text(text, width, indent)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the demo's listeners, on loopback; 0 means any free port."""

    proxy: int = 8900
    web: int = 9901
    engine: int = 0

    def chosen(self) -> "Ports":
        """The same ports; each 0 of the sidecar's becomes a free port. Raises DemoError that names all that are taken."""
        asked = dict(zip(_PORT_FLAGS, (self.proxy, self.web, self.engine), strict=True))
        found, wrong = list[int](), list[str]()
        for flag, port in asked.items():
            twin = next(other for other in asked if asked[other] == port)
            if port and twin != flag:
                wrong.append(f"port {port} is given to {twin} and to {flag}; {flag}=0 takes any free one")
                continue
            try:
                found.append(port if flag == "--engine-port" and not port else bindable(flag, port))
            except DemoError as error:
                wrong.append(str(error))
        if wrong:
            raise DemoError("\n".join(wrong))
        return Ports(*found)


def parser() -> argparse.ArgumentParser:
    """The parser of the flags. `problems` says what it cannot know."""
    made = Parser(
        prog="sidecar demo",
        description="Run a simulated engine, the sidecar in front of it and a mixed load, and show where each request's time goes."
        " With Prometheus and Alertmanager installed, the shipped rules page at a faster pace, which is printed.",
        epilog=_EXAMPLES,
        formatter_class=_Help,
    )
    made.add_argument(
        "--preset", choices=PRESETS, default=SMALL_CHAT.name, help="the simulated replica (default %(default)s)"
    )
    made.add_argument(
        "--rate",
        type=float,
        help="requests per second (default: the rate with a mean queue of 90 ms, found by simulation;"
        f" {SHARE_OF_RATE:.0%} of it with --incident, so that each fault shows in its own phase)".replace("%", "%%"),
    )
    made.add_argument(
        "--incident",
        choices=[*INCIDENTS, "all"],
        help=f"after {CALM_SECONDS:g} seconds play this fault, heal it {VIEWING_SECONDS:g} seconds after its page (after"
        f" {FAULT_SECONDS:g} without one), and play it again once the page is resolved, until the end; all: play all"
        " faults in turn. "
        + "; ".join(f"{incident.name}: {incident.description}" for incident in INCIDENTS.values())
        + f". Made for the preset {SMALL_CHAT.name}",
    )
    made.add_argument(
        "--learn",
        action="store_true",
        help="do not give the sidecar the shipped usual values of this engine: it learns them itself, and the first"
        f" fault comes after {LEARNING_SECONDS:g} seconds (always so with another preset than {SMALL_CHAT.name})",
    )
    made.add_argument(
        "--fast",
        action="store_true",
        help=f"heal each fault {HEALS_SECONDS:g} second after its page: for programs that look at pages, not for people",
    )
    made.add_argument(
        "--duration",
        type=_seconds,
        help=f"time until the demo ends by itself: seconds, or {DURATION_FORMS} (default: until Ctrl-C)",
    )
    made.add_argument("--port", type=int, default=8900, help="the sidecar's traffic port, 0: any (default %(default)s)")
    made.add_argument(
        "--admin-port", type=int, default=9901, help="the port of its admin pages, 0: any (default %(default)s)"
    )
    made.add_argument("--engine-port", type=int, default=0, help="the simulated engine's port (default: any)")
    made.add_argument("--seed", type=int, default=0, help="seed of the random load (default %(default)s)")
    made.add_argument(
        "--plain", action="store_true", help="print lines instead of a live table (always if the output is no terminal)"
    )
    made.add_argument(
        "--events", metavar="FILE", help="write faults, heals and notifications to this file, as lines of JSON"
    )
    return made


def _seconds(text: str) -> float:
    try:
        return seconds_of_flag(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} {wrong}; a bare number is seconds") from None


def problems(flags: argparse.Namespace) -> Iterator[str]:
    """All that is wrong with these flags, one sentence each."""
    if flags.rate is not None and not 0 < flags.rate < MOST_PER_SECOND:
        yield f"--rate: {flags.rate:g} must be above 0 and below {MOST_PER_SECOND:g} requests per second"
    if flags.duration is not None and not flags.duration > 0:
        yield f"--duration: {flags.duration:g} must be above 0 seconds"
    for flag, port in zip(_PORT_FLAGS, (flags.port, flags.admin_port, flags.engine_port), strict=True):
        if not 0 <= port <= LAST_PORT:
            yield f"{flag}: {port} must be from 0 to {LAST_PORT}; 0 takes any free port"
