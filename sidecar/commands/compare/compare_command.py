"""`sidecar compare`: reads its own flags, asks a Prometheus for both sides, prints text or JSON.

Exit codes, as of `sidecar diagnose`: 0 compared; 1 no answer from the Prometheus; 2 wrong flags, all of them listed, or
nothing in common to compare. It knows flags and texts and reads the clock once; `two_sides.py` computes.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sidecar.commands.compare.compare_text import comparison_text
from sidecar.commands.compare.intervals import LEAST_BLOCKS
from sidecar.commands.compare.measures import BY_NAME
from sidecar.commands.compare.two_sides import (
    BLOCK_SECONDS,
    MOST_BLOCKS,
    Columns,
    Part,
    columns,
    compared,
    comparison_document,
    queries,
)
from sidecar.commands.shared_flags import add_flag, gone, shared, wrong_output
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, width
from sidecar.config.values import USER_OF_URL, is_http_address
from sidecar.config.written_durations import seconds_of_duration
from sidecar.diagnosis.promql import quoted


_DEFAULT_WINDOW = "30m"
_ABOUT_COMPARE = """\
Set two windows of time, or two sides of a fleet, beside each other: misses,
errors, good requests, and mean times down to the phases, each with how far it
moved and an interval; and the share of drafts that the engine accepted.
Say what a change was expected to move (--expect), and read whether it did, and
what else moved.
"""
_EXAMPLES_OF_COMPARE = """\
examples:
  sidecar compare --prometheus.url=http://prometheus:9090 \\
      --old=2h --new=0m --lane=chat --expect=queue,ttft-misses
      The half hour that ended two hours ago against the last one: has the fix
      of an hour ago moved the queue?
  sidecar compare --prometheus.url=http://prometheus:9090 \\
      --old=2026-11-24T14:00Z --new=2026-11-25T14:00Z --window=1h
      The same hour on two days, so that the traffic is alike.
  sidecar compare --prometheus.url=http://prometheus:9090 \\
      --old=app_version=v1 --new=app_version=v2 --window=1h
      Two versions in the last hour. To be failed or passed while one looks, a
      rollout asks the canary's gate in place of this: grafana/README.md.
  sidecar compare --prometheus.url=http://prometheus:9090 \\
      --old='pod=~llm-a-.*' --new=pod=llm-b-0
      Some pods against one; with =~ the value is a regular expression.

Both sides should have the same kind of traffic: the last rows, prompt and
output tokens, say whether they have.
exit codes: 0 compared; 1 no answer from the address; 2 wrong flags, or the
sides have no lane with requests in common.
"""
_COMPARE_FLAGS = (
    shared("prometheus.url"),
    ("old", "SIDE", "the end of a window (2h ago, or a time such as 2026-11-24T14:00Z), or LABEL=VALUE"),
    ("new", "SIDE", "the same of the other side"),
    ("window", "DURATION", f"length of each window (default {_DEFAULT_WINDOW})"),
    ("namespace", "NAME", "one namespace only"),
    ("job", "NAME", "one engine of the fleet only"),
    ("model", "NAME", "one model only"),
    ("lane", "NAME", "one lane only"),
    ("expect", "NAMES", f"what was expected to move, of: {', '.join(BY_NAME)}"),
    shared("output"),
)
_NEEDED = ("prometheus.url", "old", "new")
_PODS, _LANES = ("namespace", "job"), ("model", "lane")
"""Flags that choose by a label, of every metric or of those of a lane."""
_LABEL_IS = re.compile(r"(?P<label>[a-zA-Z_]\w*)(?P<sign>=~|=)(?P<value>.+)", re.DOTALL)


class WrongFlagError(Exception):
    """Says what is wrong with a flag's value, without the flag's name."""


class Side(NamedTuple):
    """A side as it was given: matchers of labels, or the end of a window in unix time."""

    matcher: str | None
    ends_at: float | None


def duration(text: str) -> float:
    """Seconds, from `30m`, `1h30m`, `90s` or `1d`. Raises WrongFlagError."""
    try:
        return timedelta(seconds=seconds_of_duration(text)).total_seconds()
    except ValueError as wrong:
        raise WrongFlagError(f"{text!r} {wrong}") from None
    except OverflowError:
        raise WrongFlagError(f"{text!r} is longer than any time here") from None


def side(text: str, now: float) -> Side:
    """A side from a flag's text. Raises WrongFlagError."""
    if found := _LABEL_IS.fullmatch(text):
        return Side(f"{found['label']}{found['sign']}{quoted(found['value'])}", None)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago_seconds = duration(text)
        except WrongFlagError:
            raise WrongFlagError(
                f"{text!r} is neither 2h (ago), nor a time such as 2026-11-24T14:00Z, nor LABEL=VALUE"
            ) from None
        if ago_seconds > now:
            raise WrongFlagError(f"{text!r} ago was before 1970") from None
        return Side(None, now - ago_seconds)
    if at.tzinfo is None:
        raise WrongFlagError(f"{text!r} has no time zone: end it with Z or +01:00")
    if at.timestamp() > now:
        raise WrongFlagError(f"{text!r} has not come yet")
    return Side(None, at.timestamp())


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    try:
        parser = _parser()
        known, unknown = parser.parse_known_args(list(argv))
    except SystemExit as stop:  # help: 0; a flag without its value: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = {name: value for name, value in vars(known).items() if value is not None}
    parts, errors = _parts(told, time.time())  # noqa: TID251  Prometheus keeps wall-clock time
    errors = [*parser.unknown(unknown), *_errors(told), *errors]
    if parts is None or errors:
        lines = [f"sidecar compare: {error}" for error in errors]
        sys.stderr.write(errors_text([*lines, "`sidecar compare --help` explains, with examples."]))
        return MISUSED
    from sidecar.commands.diagnose.sources import AskingError  # noqa: PLC0415  sockets are loaded only to ask

    try:
        old, new = asyncio.run(_asked(told["prometheus.url"], parts))
    except AskingError as error:
        sys.stderr.write(errors_text([f"sidecar compare: {error}", "--prometheus.url says where to ask."]))
        return FAILED
    found = compared(old, new)
    expected = _expected(told)
    if told.get("output") == "json":
        document = comparison_document(found, *parts, expected)
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.write(comparison_text(found, *parts, expected, width()))
    if not found.lanes:
        sys.stderr.write(errors_text(["sidecar compare: the two sides have no lane with requests in common"]))
    return OK if found.lanes else MISUSED


async def _asked(url: str, parts: tuple[Part, Part]) -> list[Columns]:
    from sidecar.commands.diagnose.sources import Stretch, over_time  # noqa: PLC0415  as above

    answers: list[Columns] = []
    for part in parts:
        told = await over_time(url, queries(part), Stretch(*part.instants(), BLOCK_SECONDS))
        answers.append({counted: columns(answer) for counted, answer in told.items()})
    return answers


def _parser() -> Parser:
    parser = Parser(
        prog="sidecar compare",
        gone=gone("compare"),
        description=_ABOUT_COMPARE,
        epilog=_EXAMPLES_OF_COMPARE,
    )
    for flag in _COMPARE_FLAGS:
        add_flag(parser, flag)
    return parser


def _errors(told: Mapping[str, str]) -> list[str]:
    errors = [f"--{name}: is needed" for name in _NEEDED if name not in told]
    url = told.get("prometheus.url", "http://there")
    if not is_http_address(url):
        errors.append(f"--prometheus.url: {USER_OF_URL.sub('', url)!r} is no http:// or https:// address")
    errors += [
        f"--expect: {name!r} is none of: {', '.join(BY_NAME)}" for name in _expected(told) if name not in BY_NAME
    ]
    return [*errors, *wrong_output(told)]


def _expected(told: Mapping[str, str]) -> list[str]:
    return [name for name in told.get("expect", "").split(",") if name]


def _parts(told: Mapping[str, str], now: float) -> tuple[tuple[Part, Part] | None, list[str]]:
    """Both sides, or None, and what is wrong with them."""
    errors: list[str] = []
    window = 0.0
    try:
        window = duration(told.get("window", _DEFAULT_WINDOW))
        if window < LEAST_BLOCKS * BLOCK_SECONDS:
            errors.append(f"--window: at least {LEAST_BLOCKS * BLOCK_SECONDS // 60}m, or there are too few blocks")
        if window > MOST_BLOCKS * BLOCK_SECONDS:
            errors.append(
                f"--window: at most {MOST_BLOCKS * BLOCK_SECONDS // 86_400}d: Prometheus answers no more points"
            )
    except WrongFlagError as wrong:
        errors.append(f"--window: {wrong}")
    sides = []
    for name in ("old", "new"):
        try:
            sides += [side(told[name], now)] if name in told else []
        except WrongFlagError as wrong:
            errors.append(f"--{name}: {wrong}")
    if len(sides) == 2 and (sides[0].matcher is None) != (sides[1].matcher is None):
        errors.append("--old and --new: two times, or two labels; not one of each")
    if len(sides) == 2 and sides[0] == sides[1]:
        errors.append("--old and --new: they are the same, so there is nothing to compare")
    if errors or len(sides) < 2:
        return None, errors
    pods, lanes = (tuple(f"{name}={quoted(told[name])}" for name in names if name in told) for names in (_PODS, _LANES))
    whole = Part(pods, lanes, now - window, now, "all pods")
    made = [_part(each, told[name], whole) for each, name in zip(sides, ("old", "new"), strict=True)]
    return (made[0], made[1]), []


def _part(given: Side, text: str, whole: Part) -> Part:
    """The side that was given, of all pods and of the window that ends now."""
    if given.matcher is not None:
        return whole._replace(pods=(*whole.pods, given.matcher), words=text)
    assert given.ends_at is not None  # a side has one of both
    return whole._replace(begins_at=given.ends_at - (whole.ends_at - whole.begins_at), ends_at=given.ends_at)
