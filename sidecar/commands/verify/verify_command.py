"""`sidecar verify`: reads its own flags and the API keys, sends the probes, prints text or JSON.

Exit codes: 0 the report agrees with the clock and no stream is held back; 1 it does not, one is, or nothing could be verified, or Ctrl-C; 2 wrong flags,
all of them listed. It knows flags and texts; `verify_run.py` sends, `verify_findings.py` judges.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from sidecar.commands.shared_flags import add_flag, gone, shared, wrong_output
from sidecar.commands.verify.probe_shapes import MOST_OUTPUT_TOKENS, VERIFY_PROBES, key_variable
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, width
from sidecar.config.values import USER_OF_URL, is_http_address
from sidecar.engines.probe.api_key import EngineApiKey
from sidecar.engines.probe.where import unix_path


_ABOUT_VERIFY = f"""\
Before the first hop: send {len(VERIFY_PROBES)} named probes to an engine, one at a time, at
most {MOST_OUTPUT_TOKENS} output tokens each, and say whether their output arrives as it is
made, and whether the engine's own report agrees with the client's clock. With
the users' address too (--entry.url: a gateway, an ingress), say what the hops
between add to the time to first token, and which of them holds streams back.
"""
_EXAMPLES_OF_VERIFY = f"""\
examples:
  sidecar verify --engine.url=http://127.0.0.1:8000
      An engine alone, before anything stands in front of it.
  sidecar verify --engine.url=http://10.0.0.7:8000 \\
      --entry.url=https://llm.example.com --entry.api-key-file=key.txt
      The same engine, and the address that users have.
  sidecar verify --engine.url=http://127.0.0.1:8000 --output=json > verify.json
      A document without keys, prompts and answers (docs/verify.md says what it
      holds): please send it to the project if you have a GPU or a cluster.

API keys are no flags: a file that --engine.api-key-file or --entry.api-key-file
names, or the variables {key_variable("engine")} and
{key_variable("entry")}. SSL_CERT_FILE names an authority of yours.

A sidecar on the way recognises the probes and counts them in no lane. They load
the engine like any request: a few hundred output tokens in all.
exit codes: 0 nothing differs; 1 the report contradicts the clock, a hop holds
streams back, an address does not answer, or Ctrl-C; 2 wrong flags.
"""
_VERIFY_FLAGS = (
    shared("engine.url", "the engine's own address: http://host:port, https:// or unix:/path"),
    ("entry.url", "URL", "the address that users have, in front of gateway, TLS and network"),
    ("model", "NAME", "the model to ask for (default: the first one that is listed)"),
    ("entry.model", "NAME", "its name at the entry (default: the same)"),
    ("engine.api-key-file", "FILE", "holds the API key of the engine"),
    ("entry.api-key-file", "FILE", "holds the API key of the entry"),
    shared("output"),
)


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    try:
        parser = _parser()
        known, unknown = parser.parse_known_args(list(argv))
    except SystemExit as stop:  # help: 0; a flag without its value: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = {name: value for name, value in vars(known).items() if value is not None}
    keys, errors = _keys(told)
    errors = [*parser.unknown(unknown), *_errors(told), *errors]
    if errors:
        lines = [f"sidecar verify: {error}" for error in errors]
        sys.stderr.write(errors_text([*lines, "`sidecar verify --help` explains, with examples."]))
        return MISUSED
    try:
        return _run(told, keys)
    except KeyboardInterrupt:
        sys.stderr.write("\nsidecar verify: stopped; its connection is closed, so that the engine ends the probe\n")
        return FAILED


def _run(told: Mapping[str, str], keys: Mapping[str, str]) -> int:
    # Sockets and a loop are loaded only if something is asked.
    from sidecar.commands.verify.verify_findings import State, findings  # noqa: PLC0415
    from sidecar.commands.verify.verify_output import verify_json, verify_text  # noqa: PLC0415
    from sidecar.commands.verify.verify_run import UnverifiableError, places_of, verified  # noqa: PLC0415

    places = places_of(told, keys)
    try:
        evidence, identity = asyncio.run(verified(places, _tell))
    except UnverifiableError as errors:
        sys.stderr.write(errors_text([f"sidecar verify: {error}" for error in errors.args]))
        return FAILED
    found = findings(evidence)
    if told.get("output") == "json":
        sys.stdout.write(verify_json(evidence, found, identity, places[0].model))
    else:
        sys.stdout.write(verify_text(evidence, found, width()))
    return FAILED if any(one.state is State.DIFFERS for one in found) else OK


def _tell(name: str) -> None:
    """The name of the probe that is sent now, where a person waits."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{name}" if name != VERIFY_PROBES[-1].name else "\r\x1b[K")
        sys.stderr.flush()


def _parser() -> Parser:
    parser = Parser(
        prog="sidecar verify",
        gone=gone("verify"),
        description=_ABOUT_VERIFY,
        epilog=_EXAMPLES_OF_VERIFY,
    )
    for flag in _VERIFY_FLAGS:
        add_flag(parser, flag)
    return parser


def _errors(told: Mapping[str, str]) -> list[str]:
    errors = []
    if not {"engine.url", "entry.url"} & told.keys():
        errors.append("--engine.url: is needed, or --entry.url, or both")
    for name in ("engine.url", "entry.url"):
        url = told.get(name, "http://there")
        if USER_OF_URL.search(url):
            errors.append(
                f"--{name}: has a user or a key in it; --{name.replace('url', 'api-key-file')} names a file for that"
            )
        elif not is_http_address(url) and not (unix_path(url) and name == "engine.url"):
            errors.append(f"--{name}: {url!r} is no http:// or https:// address")
    for name, needs in (
        ("entry.model", "entry.url"),
        ("entry.api-key-file", "entry.url"),
        ("engine.api-key-file", "engine.url"),
    ):
        if name in told and needs not in told:
            errors.append(f"--{name}: only with --{needs}")
    return [*errors, *wrong_output(told)]


def _keys(told: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The API key of each address, by its name, and why one cannot be read."""
    keys: dict[str, str] = {}
    errors: list[str] = []
    for name in ("engine", "entry"):
        file = told.get(f"{name}.api-key-file", "")
        why: list[str] = []
        keys[name] = EngineApiKey(os.environ.get(key_variable(name), ""), file, why.append).read()
        errors += [f"--{name}.api-key-file: {file}: {each}" for each in why]
    return keys, errors
