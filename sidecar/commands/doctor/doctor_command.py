"""`sidecar doctor`: reads its own flags, asks every source that they name, and prints one line per link, or JSON.

Exit codes: 0 no link is broken; 1 a link is broken, or, with --strict, not known; 2 wrong flags, all of them listed. This module
knows flags and texts; the files beside it ask and judge.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sidecar.commands.doctor.attached_pods import FROM_A_CLUSTER
from sidecar.commands.doctor.gathered import ConfigCheck, Evidence
from sidecar.commands.doctor.links import Finding, State
from sidecar.commands.inject.audit import audited
from sidecar.commands.inject.manifest_shapes import odd_shapes
from sidecar.commands.inject.manifest_text import Document, ManifestError, read
from sidecar.commands.shared_flags import SIDECAR_URL, add_flag, renamed, shared, wrong_output
from sidecar.config.file import ConfigErrors, load
from sidecar.config.flag_parser import Parser, shown_word
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, folded, width
from sidecar.config.notes import notes
from sidecar.config.schema import Config, ProxyConfig
from sidecar.config.values import is_http_address, parse_engine_url
from sidecar.objectives.attribution import SIDECAR, Blame


DOCTOR_VERSION = 1
"""Version of the schema of `--output=json`, which is raised as that of `/diagnosis` (docs/diagnosis.md)."""

_ABOUT_DOCTOR = """\
Check every link from the engine to a page, before and after attaching: engine,
sidecar, scrape, rules, Alertmanager, receivers, the links in pages, clocks and
limits. It only asks; nothing is changed and nothing is sent, unless you give
--send-test-page. One line per link: ok, broken or unknown, and what to do next.
Each flag makes more links checkable; without flags it asks the sidecar on this
host.
"""
_EXAMPLES_OF_DOCTOR = """\
examples:
  sidecar doctor --engine.url=http://127.0.0.1:8000
      Before attaching: does the engine answer, and which of its flags are
      missing?
  sidecar doctor --prometheus.url=http://prometheus:9090 \\
      --alertmanager.url=http://alertmanager:9093
      After attaching: is this very process scraped, are all rules loaded, would
      a page of each phase reach its receiver?
  sidecar doctor --prometheus.url=http://prometheus:9090 --send-test-page
      Also send one page that is marked TEST, read from Alertmanager's counters
      whether it was delivered, and resolve it.

A user and a password go into an address: https://USER:PASSWORD@HOST:PORT.
exit codes: 0 no link is broken; 1 a link is broken (with --strict also: a link
is unknown); 2 wrong flags. docs/doctor.md explains each link.
"""
_ASKED_URLS = (
    shared("engine.url"),
    shared("sidecar.url"),
    ("proxy.url", "URL", "a sidecar's traffic port (default: as in --config.file, else port 8900 of the same host)"),
    shared("prometheus.url", "the Prometheus that scrapes it and evaluates the rules"),
    ("alertmanager.url", "URL", "Alertmanager (default: the one to which Prometheus sends)"),
    ("grafana.url", "URL", "Grafana, with a user who may see the dashboards (default: as in the pages' links)"),
)
_ADDRESSES = tuple(name for name, _, _ in _ASKED_URLS)
_PHASES = (*map(str, Blame), SIDECAR)


def main(argv: Sequence[str], check_web_config: Callable[[str], None] = lambda _file: None) -> int:
    """Run the command. Raises for nothing that a user can type. `check_web_config`: raises ConfigErrors for a bad file."""
    parser = _parser()
    try:
        known, unknown_flags = parser.parse_known_args(list(argv))
    except SystemExit as stop:  # help: 0; a flag without its value: 2
        return stop.code if isinstance(stop.code, int) else MISUSED
    told = {name: value for name, value in vars(known).items() if value not in (None, False)}
    errors = [*parser.unknown(unknown_flags), *_errors(told)]
    manifests, unread = _manifests(told.get("manifests"))
    if errors := [*errors, *unread]:
        lines = [f"sidecar doctor: {error}" for error in errors]
        sys.stderr.write(errors_text([*lines, "`sidecar doctor --help` explains, with examples."]))
        return MISUSED
    checked, config = _checked(told, check_web_config)
    evidence = Evidence(
        explicit=frozenset(told), config=checked, template_texts=_texts(told.get("alertmanager.templates"))
    )
    if "manifests" in told:
        evidence.attached = audited(manifests)
    # Sockets and a loop are loaded only if there is something to ask.
    from sidecar.commands.doctor.gathering import Sources, examined  # noqa: PLC0415

    sources = Sources(
        sidecar_url=told.get("sidecar.url", SIDECAR_URL),
        engine_url=told.get("engine.url") or (config.engine.url if config is not None else None),
        proxy_url=told.get("proxy.url")
        or _traffic_of(told.get("sidecar.url", SIDECAR_URL), config.proxy if config is not None else ProxyConfig()),
        prometheus_url=told.get("prometheus.url"),
        alertmanager_url=told.get("alertmanager.url"),
        grafana_url=told.get("grafana.url"),
    )
    findings = asyncio.run(examined(sources, evidence, told.get("send-test-page")))
    sys.stdout.write(as_json(findings) if told.get("output") == "json" else as_text(findings, width()))
    bad = {State.BROKEN, State.UNKNOWN} if "strict" in told else {State.BROKEN}
    return FAILED if any(finding.state in bad for finding in findings) else OK


def _parser() -> Parser:
    parser = Parser(
        prog="sidecar doctor",
        description=_ABOUT_DOCTOR,
        epilog=_EXAMPLES_OF_DOCTOR,
        old=renamed("doctor"),
    )
    asked = parser.add_argument_group("sources to ask")
    for flag in _ASKED_URLS:
        add_flag(asked, flag)
    read = parser.add_argument_group("files to read on this machine")
    read.add_argument("--config.file", dest="config.file", metavar="FILE", help="the sidecar's config")
    read.add_argument(
        "--web.config.file", dest="web.config_file", metavar="FILE", help="TLS and passwords of its admin side"
    )
    read.add_argument(
        "--alertmanager.templates",
        dest="alertmanager.templates",
        metavar="DIR",
        help="the folder of Alertmanager's *.tmpl files",
    )
    read.add_argument(
        "--manifests",
        dest="manifests",
        metavar="FILE",
        help=f"manifests of workloads and Services, or what `{FROM_A_CLUSTER}` prints",
    )
    test = parser.add_argument_group("what is done and printed")
    test.add_argument(
        "--send-test-page",
        dest="send-test-page",
        metavar="PHASE",
        nargs="?",
        const=SIDECAR,
        help=f"send one page marked TEST to the receivers of this phase, and resolve it (default phase {SIDECAR})",
    )
    add_flag(test, shared("output"))
    test.add_argument("--strict", dest="strict", action="store_true", help="exit 1 also if a link is unknown")
    return parser


def _errors(told: Mapping[str, Any]) -> list[str]:
    errors = [
        f"--{name}: {shown_word(told[name])!r} is no http:// or https:// address"
        for name in _ADDRESSES
        if name in told and not _is_address(name, told[name])
    ]
    errors += wrong_output(told)
    if told.get("send-test-page", SIDECAR) not in _PHASES:
        errors.append(f"--send-test-page: {told['send-test-page']!r} is no phase; the phases are {', '.join(_PHASES)}")
    if "send-test-page" in told and not {"alertmanager.url", "prometheus.url"} & told.keys():
        errors.append("--send-test-page: needs --alertmanager.url, or --prometheus.url, which names its Alertmanager")
    folder = told.get("alertmanager.templates")
    if folder is not None and not Path(folder).is_dir():
        errors.append(f"--alertmanager.templates: there is no folder {folder}")
    return errors


def _manifests(file: str | None) -> tuple[list[Document], list[str]]:
    """The documents of the file, and why it cannot be read."""
    if file is None:
        return [], []
    try:
        found = read(Path(file).read_text(), file)
        odd = odd_shapes([one for document in found for one in document.objects], {})
        return found, [f"--manifests: {each}" for each in odd]
    except OSError as error:
        return [], [f"--manifests: {file}: {error.strerror}"]
    except (UnicodeDecodeError, ManifestError) as error:
        return [], [f"--manifests: {error}"]


def _is_address(name: str, value: str) -> bool:
    if name == "engine.url":
        try:
            parse_engine_url(value)
        except ValueError:
            return False
        return True
    # Loaded only if there is an address to ask.
    from yarl import URL  # noqa: PLC0415

    try:
        URL(value)  # it refuses more host names than the check below
    except ValueError:
        return False
    return is_http_address(value)


def _checked(
    told: Mapping[str, Any], check_web_config: Callable[[str], None]
) -> tuple[ConfigCheck | None, Config | None]:
    """The config as `serve` would read it, with the file of TLS and passwords; (None, None) if no file is named."""
    file, web = told.get("config.file"), told.get("web.config_file")
    if file is None and web is None:
        return None, None
    shown, flags = str(file or web), {key: told[key] for key in ("engine.url", "web.config_file") if key in told}
    try:
        config = load(file, flags, os.environ)
        check_web_config(config.web.config_file)
    except ConfigErrors as errors:
        return ConfigCheck(shown, errors.lines), None
    return ConfigCheck(shown, notes=tuple(notes(config))), config


def _traffic_of(sidecar_url: str, proxy: ProxyConfig) -> str:
    """The address of the traffic port: the same host as the admin side, with the config's port."""
    host = urlsplit(sidecar_url).hostname or ""
    return f"http://{f'[{host}]' if ':' in host else host}:{proxy.address.port}"


def _texts(folder: str | None) -> tuple[str, ...] | None:
    if folder is None:
        return None
    return tuple(path.read_text("utf-8", "replace") for path in sorted(Path(folder).glob("*.tmpl")))


# --- output --------------------------------------------------------------------------------------------------------------


def as_text(findings: Sequence[Finding], columns: int) -> str:
    """One paragraph per link: its state, its name, the facts; below, what to do next."""
    states, names = (max(map(len, words)) for words in (State, [one.link.label for one in findings]))
    lines: list[str] = []
    for one in findings:
        head = f"{one.state:<{states}}  {one.link.label:<{names}}  "
        whole = f"{head}{one.said} -> {one.do}" if one.do else f"{head}{one.said}"
        if len(whole) <= columns:
            lines.append(whole)
        else:
            lines += folded(one.said, columns, head)
            lines += folded(f"-> {one.do}", columns, " " * len(head), " " * (len(head) + 3)) if one.do else []
    counts = {state: sum(one.state is state for one in findings) for state in State}
    lines += ["", f"{counts[State.OK]} ok, {counts[State.BROKEN]} broken, {counts[State.UNKNOWN]} unknown."]
    return "".join(f"{line}\n" for line in lines)


def as_json(findings: Sequence[Finding]) -> str:
    """The findings for programs."""
    document = {
        "schema_version": DOCTOR_VERSION,
        "broken": [one.link.label for one in findings if one.state is State.BROKEN],
        "unknown": [one.link.label for one in findings if one.state is State.UNKNOWN],
        "links": [
            {
                "link": one.link.label,
                "state": one.state,
                "said": one.said,
                "do": one.do,
                "follows_from": [cause.label for cause in one.follows],
            }
            for one in findings
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
