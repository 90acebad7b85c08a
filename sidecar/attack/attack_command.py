"""`sidecar attack`: reads its own flags, attacks each named hop, prints verdicts as text or JSON.

Exit codes: 0 every family passed or was not judged; 1 one failed, or the hop or the origin cannot be reached; 2 wrong
flags, all of them listed. Only addresses of this host are attacked unless the user states to own the target.
"""

import argparse
import asyncio
import ipaddress
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sidecar.attack.attack_report import FamilyVerdict, HopReport, Verdict, report_document, report_text
from sidecar.attack.garden import SEED, request_sequences
from sidecar.attack.garden_rounds import Finding, Hop, send_answers, send_garden
from sidecar.attack.hostile_answers import hostile_answers
from sidecar.attack.recording_origin import MOST_OPENED, RecordingOrigin
from sidecar.attack.resources import LOAD_WORDS, Load, attack_resources, probe
from sidecar.attack.sequence import FAMILY_WORDS, Family
from sidecar.config.folding import FAILED, MISUSED, OK, Parser, errors_text, folded, width


_ABOUT_ATTACK = """\
Attack your own stack, and say which hop holds: thousands of request sequences
that two readers of HTTP may read differently (smuggling, splitting), hostile
answers of the origin, and legal requests that cost much. Prints pass or fail
for each hop and family, with a one-line reason.
"""
_EXAMPLES_OF_ATTACK = """\
examples:
  sidecar attack --target=http://127.0.0.1:8900 --origin-listen=127.0.0.1:8000
      The sidecar on port 8900, whose engine.url is http://127.0.0.1:8000. There
      this command listens in the engine's place and records what arrives, so
      stop the engine first.
  sidecar attack --target=edge=http://127.0.0.1:80 \\
      --target=sidecar=http://127.0.0.1:8900 --origin-listen=127.0.0.1:8000
      Two hops of one chain, each from where its clients stand.
  sidecar attack --target=http://127.0.0.1:8900 --only=framing,slow-heads
      Without an origin of its own: judged by the answers alone. Whether a
      request was smuggled does not show there.

Never attack a system that others use: the attacks fill connections and logs.
exit codes: 0 all passed; 1 one failed, or nothing answers; 2 wrong flags.
docs/attack.md explains each family and each verdict.
"""
ANSWERS = "answers"
_ANSWERS_WORDS = "answers of the origin with lies in their framing (needs --origin-listen)"
ATTACK_FAMILIES = {
    **{str(family): words for family, words in FAMILY_WORDS.items()},
    ANSWERS: _ANSWERS_WORDS,
    **{str(load): words for load, words in LOAD_WORDS.items()},
}
"""Every family that `--only` may name, with its description."""
_LONGEST_LOAD_SECONDS = 600
_TRIES_TO_REACH, _BETWEEN_TRIES_SECONDS = 20, 0.25


@dataclass(frozen=True, slots=True)
class _Plan:
    """The command's flags, read and checked."""

    hops: tuple[Hop, ...]
    origin: tuple[str, int] | None
    only: tuple[str, ...]
    seed: int
    seconds: float
    connections: int
    as_json: bool


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    parser = _parser()
    try:
        known, unknown = parser.parse_known_args(list(argv))
    except SystemExit as stop:  # help: 0; a flag without its value: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = vars(known)
    errors = [f"{word}: there is no such flag" for word in unknown]
    plan = _plan(told, errors)
    if errors or plan is None:
        lines = [f"sidecar attack: {error}" for error in errors]
        sys.stderr.write(errors_text([*lines, "`sidecar attack --help` explains, with examples."]))
        return MISUSED
    try:
        reports = asyncio.run(_run(plan))
    except _UnreachableError as error:
        sys.stderr.write(errors_text([f"sidecar attack: {error}"]))
        return FAILED
    recorded = plan.origin is not None
    if plan.as_json:
        sys.stdout.write(json.dumps(report_document(reports, recorded=recorded, seed=plan.seed), indent=2) + "\n")
    else:
        sys.stdout.write(report_text(reports, recorded=recorded, columns=width()))
    return OK if all(report.passed for report in reports) else FAILED


def _parser() -> argparse.ArgumentParser:
    families = "\n".join(line for name, words in ATTACK_FAMILIES.items() for line in folded(words, 79, f"  {name:<19}"))
    parser = Parser(
        prog="sidecar attack",
        description=_ABOUT_ATTACK,
        epilog=f"families, for --only:\n{families}\n\n{_EXAMPLES_OF_ATTACK}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    target = parser.add_argument_group("target")
    target.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help="a hop, http://host:port; several flags are several hops, attacked in turn",
    )
    target.add_argument(
        "--origin-listen",
        metavar="HOST:PORT",
        help="listen here as the origin behind all hops and record what arrives; point the last hop's upstream here",
    )
    target.add_argument(
        "--i-own-this-target",
        action="store_true",
        help="attack an address that is not of this host; without this flag only loopback is allowed",
    )
    attack = parser.add_argument_group("attack")
    attack.add_argument("--only", metavar="FAMILY,...", help="these families only (see below; default all)")
    attack.add_argument("--seed", default=str(SEED), metavar="N", help=f"of the random mixtures (default {SEED})")
    attack.add_argument(
        "--seconds",
        default="10",
        metavar="S",
        help=f"length of each attack on resources, 1 to {_LONGEST_LOAD_SECONDS} (default 10)",
    )
    attack.add_argument(
        "--connections",
        default="100",
        metavar="N",
        help=f"connections of each attack on resources, 1 to {MOST_OPENED} (default 100)",
    )
    attack.add_argument("--json", action="store_true", help="print JSON (docs/attack.md has the schema)")
    return parser


def _plan(told: dict[str, object], errors: list[str]) -> _Plan | None:
    """The plan, or None with the errors appended."""
    targets = told["target"]
    assert isinstance(targets, list)
    hops = [_hop(target, errors) for target in targets]
    if not targets:
        errors.append("--target: which hop? such as --target=http://127.0.0.1:8900")
    named = [hop for hop in hops if hop is not None]
    if not told["i_own_this_target"]:
        errors += [
            f"--target: {hop.host} is not loopback; if the target is yours, say --i-own-this-target"
            for hop in named
            if not _is_loopback(hop.host)
        ]
    origin = _origin(told["origin_listen"], errors)
    only = tuple(str(told["only"]).split(",")) if told["only"] else tuple(ATTACK_FAMILIES)
    errors += [
        f"--only: there is no family {name!r}; there are {', '.join(ATTACK_FAMILIES)}"
        for name in only
        if name not in ATTACK_FAMILIES
    ]
    seed = _number(told, "seed", 0, 2**63, errors)
    seconds = _number(told, "seconds", 1, _LONGEST_LOAD_SECONDS, errors)
    connections = _number(told, "connections", 1, MOST_OPENED, errors)
    if errors:
        return None
    return _Plan(tuple(named), origin, only, seed, seconds, connections, bool(told["json"]))


def _hop(target: str, errors: list[str]) -> Hop | None:
    name, url = "", target
    if "=" in target.partition("://")[0]:
        name, _, url = target.partition("=")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme != "http" or not host or parts.path not in ("", "/"):
        errors.append(f"--target: {target!r} is no http://host:port")
        return None
    return Hop(name or f"{host}:{port or 80}", host, port or 80)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _origin(said: object, errors: list[str]) -> tuple[str, int] | None:
    if said is None:
        return None
    host, _, port = str(said).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        errors.append(f"--origin-listen: {said!r} is no host:port, such as 127.0.0.1:8000")
        return None
    return host.strip("[]"), int(port)


def _number(told: dict[str, object], name: str, least: int, most: int, errors: list[str]) -> int:
    said = str(told[name])
    if not said.isdecimal() or not least <= int(said) <= most:
        errors.append(f"--{name}: {said!r} is no whole number from {least} to {most}")
        return least
    return int(said)


class _UnreachableError(RuntimeError):
    """A hop does not answer, or the origin cannot listen or is not behind the hop."""


async def _run(plan: _Plan) -> list[HopReport]:
    if plan.origin is None:
        return [await _attack_hop(plan, hop, None) for hop in plan.hops]
    origin = RecordingOrigin(hostile_answers())
    try:
        async with origin.listening(*plan.origin):
            return [await _attack_hop(plan, hop, origin) for hop in plan.hops]
    except OSError as error:
        raise _UnreachableError(f"--origin-listen: {error.strerror or error}") from error


async def _attack_hop(plan: _Plan, hop: Hop, origin: RecordingOrigin | None) -> HopReport:
    report = HopReport(hop.name, f"{hop.host}:{hop.port}")
    await _reach(hop, origin)
    for name in plan.only:
        if name in FAMILY_WORDS:
            report.families.append(await _garden_verdict(plan, hop, origin, Family(name)))
        elif name == ANSWERS:
            report.families.append(await _answers_verdict(hop, origin))
        else:
            report.families.append(await _load_verdict(plan, hop, origin, Load(name)))
    _progress("")
    return report


async def _reach(hop: Hop, origin: RecordingOrigin | None) -> None:
    before = len(origin.requests) if origin is not None else 0
    for _ in range(_TRIES_TO_REACH):  # a hop may need a moment to see that its upstream is back
        answered, _took = await probe(hop)
        if answered or origin is None:
            break
        await asyncio.sleep(_BETWEEN_TRIES_SECONDS)
    if not answered and origin is None:
        # A hop whose own upstream is down answers 5xx, and can be attacked all the same: only silence stops the command.
        answered = await _connects(hop)
    if not answered:
        raise _UnreachableError(f"{hop.name}: {hop.host}:{hop.port} does not answer a good request")
    if origin is not None and len(origin.requests) == before:
        raise _UnreachableError(
            f"{hop.name}: its answer did not come from the origin of this command; point the last hop's upstream at "
            "the address of --origin-listen"
        )


async def _connects(hop: Hop) -> bool:
    try:
        _, writer = await asyncio.open_connection(hop.host, hop.port)
    except OSError:
        return False
    writer.close()
    return True


async def _garden_verdict(plan: _Plan, hop: Hop, origin: RecordingOrigin | None, family: Family) -> FamilyVerdict:
    sequences = list(request_sequences(plan.seed, (family,)))
    findings = await send_garden(hop, sequences, origin, lambda done: _progress(hop.name, family, done, len(sequences)))
    return _verdict(family, len(sequences), findings)


async def _answers_verdict(hop: Hop, origin: RecordingOrigin | None) -> FamilyVerdict:
    if origin is None:
        return FamilyVerdict(ANSWERS, Verdict.NOT_JUDGED, 0, reason="needs --origin-listen")
    count = 2 * len(origin.answers)
    findings = await send_answers(hop, origin, lambda done: _progress(hop.name, ANSWERS, done, count))
    return _verdict(ANSWERS, count, findings)


async def _load_verdict(plan: _Plan, hop: Hop, origin: RecordingOrigin | None, load: Load) -> FamilyVerdict:
    if load is Load.SLOW_READERS and origin is None:
        return FamilyVerdict(load, Verdict.NOT_JUDGED, 0, reason="needs --origin-listen")
    _progress(hop.name, load)
    probed = await attack_resources(hop, load, connections=plan.connections, seconds=plan.seconds)
    fault = probed.fault
    if fault is not None:
        return FamilyVerdict(load, Verdict.FAIL, 1, reason=fault)
    said = f"{probed.sent} other requests answered, the slowest in {1000 * probed.slowest_seconds:.0f} ms"
    return FamilyVerdict(load, Verdict.PASS, 1, reason=said)


def _verdict(family: str, attacks: int, findings: Sequence[Finding]) -> FamilyVerdict:
    if not findings:
        return FamilyVerdict(family, Verdict.PASS, attacks)
    first = findings[0]
    return FamilyVerdict(family, Verdict.FAIL, attacks, len(findings), f"{first.fault} [{first.attack}]")


def _progress(*words: object) -> None:
    """One line on stderr, written over the one before, if a person watches."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" + " ".join(map(str, words)))
        sys.stderr.flush()
