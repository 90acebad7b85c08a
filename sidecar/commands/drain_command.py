"""`sidecar drain`: asks the sidecar on this host to drain, and waits until it has; for a `preStop` of an image without curl.

Exit codes: 0 nothing is in flight any more; 1 the deadline came first, or no answer; 2 wrong flags. It knows one address and
one answer, and asks no proxy: `http.client` reads no `http_proxy`. The drain itself is `shutdown.py`.
"""

import http.client
import json
import ssl
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from sidecar.commands.shared_flags import SIDECAR_URL, add_flag, renamed, shared, wrong_output
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text


_ABOUT_DRAIN = """\
Drain the sidecar on this host as SIGTERM would, and wait: it is not ready at
once, serves on for shutdown.lame_duck_seconds, then accepts no new connections,
and answers when nothing is in flight or shutdown.grace_seconds have passed.
SIGTERM then waits no second time. There is no way back: if no SIGTERM comes
until shutdown.grace_seconds are over, the sidecar ends with code 0, and
Kubernetes (or another supervisor) starts a new one, which serves.
"""
_EXAMPLES_OF_DRAIN = """\
examples:
  lifecycle: {preStop: {exec: {command: [sidecar, drain]}}}
      In the sidecar's container. An engine's container has no `sidecar`; there,
      curl --noproxy '*' -fsS -m 60 -X POST http://127.0.0.1:9901/-/drain does
      the same.

exit codes: 0 drained; 1 requests are still in flight, or no sidecar answered;
2 wrong flags.
"""
_LONGEST_SECONDS = 86_400.0
"""The longest grace that a config allows: the answer comes at its end at the latest."""


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    parser = Parser(
        prog="sidecar drain",
        description=_ABOUT_DRAIN,
        epilog=_EXAMPLES_OF_DRAIN,
        old=renamed("drain"),
    )
    add_flag(parser, shared("sidecar.url"), SIDECAR_URL)
    add_flag(parser, shared("output"))
    try:
        known = parser.parse_args(list(argv))
    except SystemExit as stop:  # help: 0; a wrong flag: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = {name: value for name, value in vars(known).items() if value is not None}
    connection, wrong = _connection(told["sidecar.url"]), wrong_output(told)
    if connection is None:
        wrong = ["--sidecar.url is no http:// or https:// address", *wrong]
    if connection is None or wrong:
        sys.stderr.write(errors_text(f"sidecar drain: {each}" for each in wrong))
        return MISUSED
    return _drained(connection, as_json=told.get("output") == "json")


def _connection(url: str) -> http.client.HTTPConnection | None:
    """A connection that is not open yet; None for what is no address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if host is None or parts.scheme not in ("http", "https"):
        return None
    if parts.scheme == "https":
        # Loopback, and the certificate names the pod: nothing stands between.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        return http.client.HTTPSConnection(host, port, timeout=_LONGEST_SECONDS, context=context)
    return http.client.HTTPConnection(host, port, timeout=_LONGEST_SECONDS)


def _drained(connection: http.client.HTTPConnection, *, as_json: bool) -> int:
    """Ask, wait, and print the answer."""
    try:
        connection.request("POST", "/-/drain")
        answer = connection.getresponse()
        said = answer.read(4096).decode("utf-8", "replace").strip()
        end = json.loads(said)
        drained = answer.status == 200 and end["drained"] is True
        words = _words(drained, end["in_flight"], end["waited_seconds"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        sys.stderr.write(
            errors_text(
                ["sidecar drain: no sidecar answered there; --sidecar.url says which one to ask (its admin side)"]
            )
        )
        return FAILED
    finally:
        connection.close()
    sys.stdout.write(f"{said if as_json else words}\n")
    return OK if drained else FAILED


def _words(drained: bool, in_flight: int, waited_seconds: float) -> str:
    first = "drained: nothing is in flight" if drained else f"not drained: {in_flight} requests are in flight"
    return f"{first}, {waited_seconds:.1f} s after the drain began"
