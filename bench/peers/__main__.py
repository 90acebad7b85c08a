"""`make bench`: CPU and latency that the sidecar adds, beside other proxies in the same minutes. Some five minutes.

A mock vLLM and a load, one program in C++, run on core 1. Each proxy runs on core 0, all by itself while it is measured: the
proxies take turns, window by window. Measured are token events with 100 and 300 streams of 50 tokens a second, and
one-token requests with prompts of log-uniform length (20 to 128,000 tokens of four bytes) in six lanes. The sidecar stands in
the table twice: asking the engine for usage and cutting it out again (as shipped), and not asking. `--pure` adds the same two rows of the
same wheel in pure Python.

  direct        no proxy: what engine and load cost by themselves
  nginx         one worker, buffering off; measures nothing
  vllm-router   0.1.17 from PyPI, one worker, round robin; measures requests
  sidecar       this checkout's, compiled (`SIDECAR_BUILD=compiled pip install .`), which takes a minute when a source has changed

A figure is the median over rounds with (lowest to highest); **x** is the ratio to vllm-router, taken round by round. A window
in which other processes took more than a tenth of a core is played again, twice at most.
`--full` is `make bench-full`: at most an hour, with `--pure`, with HAProxy, Envoy, sglang-router and LiteLLM as well, and with the parts
prompts, logprobs, ends, starts, situations, scale, saturation, idle and varied.

`--check`, which `make thorough` runs, measures only the sidecar beside vllm-router, with 300 streams and requests, in short windows, and
exits with 1 where a ratio is far above its bound: a minute, and two to make the environments.

  make bench ARGS="--only sidecar,vllm-router --parts events --rounds 3"
  make bench ARGS="--beside ../earlier"        also the sidecar of another checkout, such as a worktree of a commit
  make bench-full ARGS="--parts prompts,idle"
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from bench import machine
from bench.checkout import is_frozen, named
from bench.peers import check, full, report, scale
from bench.peers.bench import Bench, Progress
from bench.peers.build import CACHE, MissingError, generator
from bench.peers.measure import Generator
from bench.peers.parts import QUICK, QUICK_STREAMS, Part, Plan
from bench.peers.rows import chosen, rows
from bench.peers.table import Results, failures


LAST = CACHE / "last.json"


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--full", action="store_true", help="all proxies and all parts")
    found.add_argument("--check", action="store_true", help="whether a ratio is far above its bound: exit code 1")
    found.add_argument(
        "--only", default="", metavar="ROWS", help="such as sidecar,vllm-router (also: direct, nginx, pure, beside)"
    )
    found.add_argument("--parts", default="", metavar="PARTS", help="such as events,requests; all by default")
    found.add_argument("--seconds", type=float, default=None, help="of each window (default 4, full 3, check 2)")
    found.add_argument("--rounds", type=int, default=None, help="default 5, full and check 3")
    found.add_argument("--minutes", type=float, default=10.0, help="of varied traffic (default 10)")
    found.add_argument("--pure", action="store_true", help="the sidecar in pure Python too")
    found.add_argument("--beside", type=Path, default=None, metavar="CHECKOUT", help="a second sidecar, of this tree")
    found.add_argument(
        "--report", action="store_true", help="write docs/evidence/performance.md; the tree must be committed"
    )
    return found


def prepare() -> None:
    """This process and all that it starts: priority over the machine's other work, and as many files as it may have."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("make bench: told to stop"))  # or the proxies would live on
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def plan_of(said: argparse.Namespace) -> Plan:
    """How much is measured: by the kind of run, and by what the command line says."""
    if said.check:
        usual = Plan(check.ROUNDS, check.SECONDS, check.STREAMS)
    elif said.full:
        usual = Plan(3, 3.0, full.STREAMS, said.minutes, full=True)
    else:
        usual = Plan(5, 4.0, QUICK_STREAMS)
    return replace(usual, rounds=said.rounds or usual.rounds, seconds=said.seconds or usual.seconds)


def played(bench: Bench, parts: Sequence[Part], plan: Plan) -> None:
    """All parts, with the time that they still take on stderr."""
    seconds = sum(part.seconds(len(bench.running) - 1, plan) for part in parts)
    print(
        f"{', '.join(part.name for part in parts)}: {seconds / 60:.1f} minutes by the plan", file=sys.stderr, flush=True
    )
    plan.progress = Progress(seconds)
    for part in parts:
        part.play(bench, plan)


def checked(bench: Bench, parts: Sequence[Part], plan: Plan) -> int:
    """The exit code of `--check`."""
    unstarted = bench.results.reasons

    def measure() -> Results:
        bench.results = Results(reasons={row: [*reasons] for row, reasons in unstarted.items()})
        played(bench, parts, plan)
        return bench.results

    found = check.broken(measure)
    for line in found:
        print(f"BROKEN: {line}", file=sys.stderr)
    return 1 if found else 0


def main() -> int:
    parser = options()
    said = parser.parse_args()
    if said.check and (said.full or said.report or said.only or said.parts):
        parser.error("--check says itself what it measures, and its figures are for no report")
    only = check.ROWS if said.check else said.only
    among = chosen(rows(said.beside, full=said.full, pure=said.pure), only)
    known = full.parts(among) if said.full else QUICK
    names = said.parts.split(",") if said.parts else [part.name for part in known]
    parts = [part for part in known if part.name in names]
    if not among or not parts:
        parser.error("nothing is left to measure: see --only and --parts in --help")
    if said.report and not is_frozen():
        parser.error("--report: the tree has changes that are not committed: commit them first")
    plan = plan_of(said)
    tree, began, results = named(), time.monotonic(), Results()
    prepare()
    try:
        program = generator()
    except MissingError as reason:
        print(f"make bench: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        load = Generator(program)
        stack.callback(load.close)
        bench = Bench(load, results, Path(folder))
        bench.start(among, stack)
        if said.check:
            return checked(bench, parts, plan)
        played(bench, parts, plan)
        titles = {
            row.key: f"{row.title} {bench.running[row.key].version if row.key in bench.running else ''}".strip()
            for row in among
        }
        noisy = f"{bench.noisy} of {bench.windows} windows beside other work of the machine"
    summary = (
        f"{tree}; {machine.named()}; {plan.rounds} rounds of {plan.seconds:g} s in turns; {noisy}; "
        f"{time.monotonic() - began:.0f} s in all."
    )
    print("\n".join([*report.body(results, titles), summary]))
    saved = {"summary": summary, "titles": titles, "rounds": results.rounds, "reasons": results.reasons}
    LAST.write_text(json.dumps(saved, indent=1))
    if said.report:
        report.write(results, titles, summary, "make bench-full" if said.full else "make bench")
    missing = failures(results, titles | full.SITUATIONS | scale.TITLES)
    for line in missing:
        print(f"MISSING: {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
