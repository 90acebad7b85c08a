"""From the command to the first page: `sidecar demo --incident KIND`, again and again, each a process as a user runs it.

Each run has ports and a seed of its own. The demo writes faults, heals and notifications down (`--events`); this module reads
them as they come, so that seconds count from the command on, the start of Python included. A run lasts until
the next fault, which comes a minute after the heal at least, and when the page is resolved. At the end stand a table and the bounds that were missed: exit code 1 then, 2 if a program is missing.

Run: `make bench-first-page`, or `python -m bench.first_page`; `--runs 1 --kinds queue,decode` for a few; `--report`
writes docs/evidence/first-page.md anew. It refuses to know rules, routes and what the sidecar measured. On a machine that does other work the sidecar lacks CPU, and says so by a page of its own.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from bench import checkout, machine
from bench.incidents.notifications import PAGE_SUFFIX, Told, new_of
from sidecar.commands.demo.incidents import (
    FAULT_SECONDS,
    HEALS_SECONDS,
    HEALTHY_SECONDS,
    INCIDENTS,
    LEARNING_SECONDS,
    RESOLVES_SECONDS,
)
from sidecar.commands.demo.servers import INSTALL, programs
from sidecar.commands.demo.shipped import DEMO
from tests.support.control import Control


RUNS = 5
FIRST_PAGE_SECONDS = 60.0
MOST_TIMES = 10.0
"""The demo's rules may run at most so many times as fast as in production."""
ONE_NOTIFICATION = 23 / 25
"""Share of the runs that must have exactly one notification for their fault."""
PATIENCE_SECONDS = LEARNING_SECONDS + FAULT_SECONDS + HEALTHY_SECONDS + RESOLVES_SECONDS
"""A run that sees no second fault by then is over."""
WRITTEN_TO = checkout.REPOSITORY / "docs" / "evidence" / "first-page.md"
POLL_SECONDS = 0.1
ENDS_SECONDS = 60.0
"""The demo's four programs have some 10 s each to end."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, judged. Seconds are from the command on; None: it did not come."""

    kind: str
    load_average: float
    """Programs that wanted a CPU just before the run, a mean over a minute."""
    fault_seconds: float | None
    page_seconds: float | None
    phase: str | None
    early: int
    """Firing notifications of pages before the fault."""
    notifications: int
    """New notifications of pages from the fault on; a further lane that joins later is one more."""
    receivers: tuple[str, ...]
    """Receivers of pages that were told of a firing alert from the fault on."""
    tickets: tuple[str, ...]
    resolved_seconds: float | None
    """Every page was resolved by then."""
    runbook: bool
    """The first page has a link to a runbook."""


Event = tuple[float, Mapping[str, Any]]
"""Seconds from the command on, and what the demo wrote down."""


def judged(kind: str, events: Sequence[Event], load_average: float) -> Run:
    """One run, judged by its events."""
    fault_at = next((at for at, each in events if each["event"] == "fault"), None)
    told = [(told_of(at, each), each) for at, each in events if each["event"] == "notification"]
    firing = [(each, body) for each, body in told if each.status == "firing" and each.receiver != "watchdog"]
    pages = [(each, body) for each, body in firing if each.receiver.endswith(PAGE_SUFFIX)]
    after = [(each, body) for each, body in pages if fault_at is not None and each.at >= fault_at]
    labels = [alert for _, body in after for alert in body["alerts"] if alert["status"] == "firing"]
    fresh = [each for each in new_of([one for one, _ in told]) if each.receiver.endswith(PAGE_SUFFIX)]
    return Run(
        kind=kind,
        load_average=load_average,
        fault_seconds=fault_at,
        page_seconds=after[0][0].at if after else None,
        phase=labels[0]["labels"].get("phase") if labels else None,
        early=len(pages) - len(after),
        notifications=len([each for each in fresh if fault_at is not None and each.at >= fault_at]),
        receivers=tuple(dict.fromkeys(each.receiver for each, _ in after)),
        tickets=tuple(dict.fromkeys(each.receiver for each, _ in firing if not each.receiver.endswith(PAGE_SUFFIX))),
        resolved_seconds=resolved_at([each for each, _ in told]),
        runbook=bool(labels and labels[0]["runbook_url"]),
    )


def told_of(at: float, event: Mapping[str, Any]) -> Told:
    """A notification as the incident bench counts them."""
    by_status: dict[str, frozenset[frozenset[tuple[str, str]]]] = {
        status: frozenset(frozenset(alert["labels"].items()) for alert in event["alerts"] if alert["status"] == status)
        for status in ("firing", "resolved")
    }
    group = frozenset({("group", str(event["group"]))})
    return Told(at, event["receiver"], event["status"], group, by_status["firing"], by_status["resolved"])


def resolved_at(told: Sequence[Told]) -> float | None:
    """When the last page that fired was resolved; None while one fires, or if none did."""
    fires: set[tuple[str, object]] = set()
    last: float | None = None
    for each in told:
        if each.receiver.endswith(PAGE_SUFFIX):
            (fires.discard if each.status == "resolved" else fires.add)((each.receiver, each.group))
            last = each.at
    return None if fires else last


def missed(runs: Sequence[Run]) -> Iterator[str]:
    """The bounds above that these runs miss, one sentence each."""
    if DEMO.times > MOST_TIMES:
        yield f"the rules run {DEMO.times:g} times as fast; {MOST_TIMES:g} are allowed"
    for run in runs:
        if run.early:
            yield f"{run.kind}: {run.early} pages before the fault"
        if run.phase != run.kind:
            yield f"{run.kind}: the first page is of {run.phase or 'no phase: none came'}"
        elif run.page_seconds is not None and run.page_seconds > FIRST_PAGE_SECONDS:
            yield f"{run.kind}: the first page came after {run.page_seconds:.0f} s; {FIRST_PAGE_SECONDS:.0f} are allowed"
        if len(run.receivers) > 1:
            yield f"{run.kind}: {len(run.receivers)} receivers: {', '.join(run.receivers)}"
        if run.phase and not run.runbook:
            yield f"{run.kind}: the first page has no link to a runbook"
    single, wanted = sum(run.notifications == 1 for run in runs), ceil(ONE_NOTIFICATION * len(runs))
    if single < wanted:
        yield f"one notification for the fault in {single} of {len(runs)} runs; {wanted} are wanted"


def verdict(runs: Sequence[Run], late: Sequence[str]) -> tuple[list[str], list[str]]:
    """The bounds that are missed, and the runs that say nothing of them, a sentence each.

    `late` says of each run why a control beside it was late, "" if it was in time. Such a run counts only as long as all is well.
    """
    if not (problems := list(missed(runs))):
        return [], []
    told = [f"{run.kind}: this machine was busy: {why}" for run, why in zip(runs, late, strict=True) if why]
    measured = [run for run, why in zip(runs, late, strict=True) if not why]
    return (list(missed(measured)) if measured else []) if told else problems, told


def table(runs: Sequence[Run]) -> list[str]:
    """The runs as lines of at most 80 columns."""
    head = f"{'incident':<9}{'load':>5}{'fault s':>8}{'page s':>7}{'over s':>7}  {'first':<8}{'early':>6}{'told':>5}"
    lines = [f"{head}{'tickets':>8}  receivers"]
    for run in runs:
        fault, page, over = map(_seconds, (run.fault_seconds, run.page_seconds, run.resolved_seconds))
        receivers = "+".join(each.removesuffix(PAGE_SUFFIX) for each in run.receivers) or "-"
        lines.append(
            f"{run.kind:<9}{run.load_average:>5.1f}{fault:>8}{page:>7}{over:>7}  {run.phase or '-':<8}{run.early:>6}"
            f"{run.notifications:>5}{len(run.tickets):>8}  {receivers}"
        )
    pages = sorted(run.page_seconds for run in runs if run.page_seconds is not None)
    if pages:
        lines.append(
            f"first page: {pages[0]:.0f} to {pages[-1]:.0f} s from the command, in {len(pages)} of {len(runs)} runs"
        )
    return lines


def report(runs: Sequence[Run], tree: str) -> str:
    """The page of evidence: what was run where, how each bound came out, and the runs of each kind."""
    problems = [f"- **Missed**: {each}." for each in missed(runs)] or ["Every bound is met."]
    once, right = sum(run.notifications == 1 for run in runs), sum(run.phase == run.kind for run in runs)
    kinds = list(dict.fromkeys(run.kind for run in runs))
    lines = [
        "# The first page of the demo: from the command to the pager",
        "",
        "`make bench-first-page ARGS=--report` wrote this page, and prints each run. A run is `sidecar demo --incident KIND` as a user types",
        "it, with a seed and ports of its own; seconds count from the command, the start of Python included.",
        "",
        f"{tree[0].upper()}{tree[1:]}; {machine.named()}.",
        "",
        f"- Prometheus scrapes, and rules and routes wait, {DEMO.times:g} times as fast as in production; at most {MOST_TIMES:g} are allowed.",
        f"- The first page has the phase of the fault in {right} of {len(runs)} runs.",
        f"- There is exactly one notification of pages for the fault in {once} of {len(runs)} runs.",
        (
            f"- The first page is to come within {FIRST_PAGE_SECONDS:g} s of the command, at one receiver, with a link to its runbook. Tickets"
            " are counted apart."
        ),
        (
            f"- Limit: the demo heals a fault {HEALS_SECONDS:g} s after its page, so nothing is said of the notifications of a fault that lasts."
        ),
        "",
        *problems,
        "",
        "Seconds and load: the median run, and the lowest to the highest. Pages, notifications and tickets: of all runs together.",
        "",
        "| incident | runs | load | fault, s | first page, s | resolved, s | pages before the fault | notifications | tickets | receivers |",
        f"|{'---|' * 10}",
        *(_row(kind, [run for run in runs if run.kind == kind]) for kind in kinds),
    ]
    return "\n".join([*lines, ""])


def _row(kind: str, runs: Sequence[Run]) -> str:
    cells = [
        kind,
        str(len(runs)),
        _spread([run.load_average for run in runs]),
        *(_spread([run.fault_seconds for run in runs]), _spread([run.page_seconds for run in runs])),
        _spread([run.resolved_seconds for run in runs]),
        *(str(sum(run.early for run in runs)), str(sum(run.notifications for run in runs))),
        str(sum(len(run.tickets) for run in runs)),
        ", ".join(dict.fromkeys(each for run in runs for each in run.receivers)) or "-",
    ]
    return f"| {' | '.join(cells)} |"


def _spread(seconds: Sequence[float | None]) -> str:
    """The median with the lowest and the highest, and how often there was none."""
    known = [each for each in seconds if each is not None]
    never = len(seconds) - len(known)
    told = [f"{median(known):.1f} ({min(known):.1f} to {max(known):.1f})"] if known else []
    return "; ".join([*told, *([f"never in {never}"] if never else [])])


def play(kind: str, seed: int) -> Run:
    """Run the demo once, watch it, and end it as Ctrl-C does, at the next fault."""
    load_average = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="first-page-") as name:
        folder = Path(name)
        log, output = folder / "events.jsonl", folder / "output.txt"
        command = [
            sys.executable,
            "-m",
            "sidecar",
            "demo",
            f"--incident={kind}",
            "--plain",
            "--fast",
            "--port=0",
            "--admin-port=0",
        ]
        began_at = time.monotonic()
        with output.open("w") as out:
            demo = subprocess.Popen(
                [*command, f"--seed={seed}", f"--events={log}"], stdout=out, stderr=out, start_new_session=True
            )
        events: list[Event] = []
        try:
            for event in _followed(log, demo, began_at):
                events.append(event)
                _say(kind, *event)
        finally:
            _end(demo)
        if demo.returncode:
            sys.stderr.write(output.read_text()[-2000:])
        return judged(kind, events, load_average)


def _end(demo: subprocess.Popen[bytes]) -> None:
    """End it as Ctrl-C does; a run that hangs at its end must not lose the results of the others."""
    demo.send_signal(signal.SIGINT)
    try:
        demo.wait(ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        demo.kill()
        demo.wait()
        print(
            f"  the demo did not end within {ENDS_SECONDS:.0f} s; its servers may still run (pgrep prometheus)",
            flush=True,
        )


def _followed(log: Path, demo: subprocess.Popen[bytes], began_at: float) -> Iterator[Event]:
    """The demo's events as they come, until a second fault begins, or the demo ends."""
    read, faults = 0, 0
    while demo.poll() is None:
        at = time.monotonic() - began_at
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        for line in lines[read:]:
            if not line.endswith("\n"):
                break
            read += 1
            event = json.loads(line)
            faults += event["event"] == "fault"
            if faults > 1:
                return
            yield at, event
        if at > PATIENCE_SECONDS:
            return
        time.sleep(POLL_SECONDS)


def _say(kind: str, at: float, event: Mapping[str, Any]) -> None:
    if event["event"] != "notification":
        print(f"  {at:6.1f} s  {event['event']} {event.get('incident', '')}", flush=True)
    elif event["receiver"] != "watchdog":
        names = ", ".join(f"{_named(each['labels'])} {each['status']}" for each in event["alerts"])
        print(f"  {at:6.1f} s  {kind}: {event['receiver']} is told: {names}", flush=True)


def _named(labels: Mapping[str, str]) -> str:
    return " ".join(labels[name] for name in ("alertname", "lane", "objective") if name in labels)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_page", description=__doc__, allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each kind (default %(default)s)")
    parser.add_argument("--kinds", default=",".join(INCIDENTS), help="incidents, with commas (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run (default %(default)s)")
    parser.add_argument("--report", action="store_true", help="write docs/evidence/first-page.md at the end")
    flags = parser.parse_args(argv)
    kinds = flags.kinds.split(",")
    strangers = sorted({*kinds} - {*INCIDENTS})
    if strangers or flags.runs < 1:
        print(f"--kinds: one of {', '.join(INCIDENTS)}; --runs: 1 or more", file=sys.stderr)
        return 2
    if flags.report and ((flags.runs, kinds) != (RUNS, [*INCIDENTS]) or not checkout.is_frozen()):
        print(
            "--report: of all kinds and runs, and of a tree whose changes are committed",
            file=sys.stderr,
        )
        return 2
    if programs() is None:
        print(f"Prometheus and Alertmanager are needed. On Debian: {INSTALL}", file=sys.stderr)
        return 2
    runs: list[Run] = []
    late: list[str] = []
    tree = checkout.named()
    with Control() as control:
        for number in range(flags.runs):
            for kind in kinds:
                print(f"run {len(runs) + 1} of {flags.runs * len(kinds)}: {kind}", flush=True)
                began_at = time.monotonic()
                runs.append(play(kind, flags.seed + number))
                late.append(control.why_late(began_at, time.monotonic()))
    print("\n".join(["", *table(runs), ""]))
    problems, unmeasured = verdict(runs, late)
    if flags.report:
        WRITTEN_TO.write_text(report(runs, tree))
    print("\n".join([f"NOT MEASURED  {each}" for each in unmeasured] + [f"MISSED  {each}" for each in problems]))
    print(f"{len(runs)} runs, {len(unmeasured)} not measured: {len(problems)} bounds are missed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
