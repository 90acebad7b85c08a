"""`sidecar baseline export`: asks a healthy pod for its usual values, and writes them to a file for other pods.

Exit codes: 0 the file is written; 1 no answer, or nothing worth a file; 2 wrong flags. This module knows flags and texts;
`observe/baselines.py` reads the file, where `baseline.file` names it.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sidecar.commands.shared_flags import SIDECAR_URL, add_flag, renamed, shared
from sidecar.config.flag_parser import Parser
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text
from sidecar.config.values import is_http_address
from sidecar.pod.usual.baseline import RefusedError, parsed


_ABOUT_BASELINE = """\
Write the usual values of a healthy pod to a file: what its traffic and its
engine's work usually look like, as numbers, without texts of requests. A new
pod that is given the file (baseline.file in its config) can name what broke
from its first minute on; without it, it has to see some minutes of healthy
traffic first.
"""
_EXAMPLES_OF_BASELINE = """\
examples:
  sidecar baseline export --out=baseline.json
      Ask the sidecar on this host.
  kubectl port-forward pod/llm-0 9901 &
  sidecar baseline export --sidecar.url=http://127.0.0.1:9901 \\
      --out=baseline.json
  kubectl create configmap llm-baseline --from-file=baseline.json
      Ask one pod, and put the file where all pods of the fleet can mount it:
      with baseline.file: /etc/llm/baseline.json in their config.

The file holds for one engine: the same product and version, models,
quantization and GPU. A sidecar in front of another engine refuses it, and says
in its log which part differs. A pod that remembers its own past
(state.directory) prefers that to the file.

exit codes: 0 the file is written; 1 no answer, or the pod is not healthy enough
to be the example; 2 wrong flags.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command. Raises for nothing that a user can type."""
    try:
        known = _parser().parse_args(list(argv))
    except SystemExit as stop:  # help: 0; a wrong flag: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    url = vars(known)["sidecar.url"]
    if not is_http_address(url):
        return _said("--sidecar.url is no http:// or https:// address", MISUSED)
    # Sockets and a loop are loaded only if there is something to ask.
    from sidecar.commands.diagnose.sources import AskingError, one_baseline  # noqa: PLC0415

    try:
        text = json.dumps(asyncio.run(one_baseline(url)), allow_nan=False).encode() + b"\n"
        told = parsed(text)
    except AskingError as error:
        return _said(f"{error}\n--sidecar.url says which sidecar to ask (its admin side)", FAILED)
    except (RefusedError, ValueError) as refused:
        return _said(f"{url} answers with something else: {refused}", FAILED)
    if told["burning"] or told["provisional"]:
        why = "its objectives burn now" if told["burning"] else "it learned from a burn, for lack of calm (provisional)"
        return _said(f"this pod is no example for others: {why}; ask a healthy one", FAILED)
    try:
        Path(known.out).write_bytes(text)
    except OSError as error:
        return _said(f"--out: {known.out}: {error.strerror}", FAILED)
    sys.stdout.write(f"{known.out}: {len(text)} bytes; name it in baseline.file of the other pods' config\n")
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="sidecar baseline",
        description=_ABOUT_BASELINE,
        epilog=_EXAMPLES_OF_BASELINE,
        old=renamed("baseline"),
    )
    parser.add_argument("verb", choices=("export",), metavar="export", help="the one thing that it does")
    add_flag(parser, shared("sidecar.url"), SIDECAR_URL)
    parser.add_argument("--out", metavar="FILE", required=True, help="the file to write")
    return parser


def _said(why: str, code: int) -> int:
    sys.stderr.write(errors_text([f"sidecar baseline: {why}; `sidecar baseline --help` explains."]))
    return code
