"""Writes docs/evidence/incidents.md: how the bench works, the truth of each kind, and results of the last whole run.

It knows prose, and the tables of other modules. It refuses to compute. The page is written by the bench only.
"""

from collections.abc import Sequence

from bench.incidents.engines import ENGINES, HIGHEST_LOAD, LOWEST_LOAD
from bench.incidents.healthy import HealthyDay
from bench.incidents.kinds import KINDS, Kind
from bench.incidents.play import GIVE_UP_SHARE, LATE_RUNS_SHARE, LATE_SECONDS, LOST_REPORTS_SHARE
from bench.incidents.report import days_line, table
from bench.incidents.run import Done


def page(finished: Sequence[Done], days: Sequence[HealthyDay], broken: Sequence[str], minutes: float) -> str:
    """The whole page."""
    seeds = sorted({done.job.seed for done in finished})
    parts = [
        "# The incident bench: does the page name the right phase?\n",
        (
            "Written by `make bench-incidents`, which plays incidents on simulated replicas in virtual time, feeds the requests to the"
            " product's own ledger, objectives, blame and metrics at the instants at which a sidecar would have seen them, gives the"
            " series that rules read to a real Prometheus rule engine (promtool) with the shipped rule files untouched, and compares the"
            " alerts that come out with what was truly wrong.\n"
        ),
        _how(),
        "## What is played\n",
        _kinds(),
        _engines(),
        (
            f"## What came of it\n\nSeeds {seeds[0]} to {seeds[-1]}, {len(finished)} runs, {minutes:.0f} minutes."
            " Rules and defaults are tuned on seeds 0 to 9 and on the engines that are not held out.\n"
        ),
        _kept(broken),
    ]
    for reports, title in ((True, "With the engine's reports"), (False, "Estimator only")):
        runs = [done for done in finished if reports in done.job.modes]
        if not runs:
            parts.append(f"### {title}\n\nNot played.\n")
            continue
        cases = [case for done in runs for case in done.cases if case.reports is reports]
        false = [each for done in runs for each in done.false if each.reports is reports]
        own = sorted({done.job.seed for done in runs})
        parts.append(f"### {title}\n\nSeeds {own[0]} to {own[-1]}: {table(cases, false, len(runs))}")
    if not days:
        parts.append("### Healthy days\n\nNone were played.\n")
    else:
        parts.append("### Healthy days\n\n" + "".join(f"- {days_line(day)}\n" for day in days))
    return "\n".join(parts).rstrip() + "\n"


def _how() -> str:
    return (
        f"- A seed draws one load factor ({LOWEST_LOAD} to {HIGHEST_LOAD}) and, per kind, one magnitude, from barely over the objectives"
        " upwards. Twenty minutes are healthy, twelve are the incident (an hour where it burns too slowly to page), eight are what"
        " comes after. The same seed without the incident is its pair.\n"
        f"- {GIVE_UP_SHARE:.0%} of the victims give up some seconds past their threshold; {LOST_REPORTS_SHARE:.0%} of the reports are lost; in"
        f" {LATE_RUNS_SHARE:.0%} of the runs all reports come {LATE_SECONDS[0]:.0f} to {LATE_SECONDS[1]:.0f} s late.\n"
        "- *Root*: the fault that was put in, fixed in the table below before anything ran; several phases where several are right, with"
        " the reasons in `bench/incidents/kinds.py`. `engine` is added where the KV pool truly ran full while requests waited.\n"
        "- *Proximate*: the phase whose summed excess over the pair is the largest, from the simulator's state. A page's `phase` is held"
        " against the root, its *waited in* against the proximate.\n"
        "- A lane *must page* while at least half of its requests miss, or ten times what its target allows, with 10 misses or more, in"
        " the last two or five minutes, and still in the last one, for a minute on end. Its page is the first of its own and of those"
        " about its engine. A page is *false* before the fault, after what it left behind, and in lanes that come nowhere near.\n"
        "- `unattributed` is neither right nor wrong. The confusion matrix has a row for each set of right phases.\n"
    )


def _kinds() -> str:
    head = "| kind | what happens | TTFT | TPOT | E2E |\n|---|---|---|---|---|\n"
    return head + "".join(_kind(kind) for kind in KINDS)


def _kind(kind: Kind) -> str:
    cells = [", ".join(sorted(kind.roots[objective])) or "either's" for objective in ("ttft", "tpot", "e2e")]
    for lane, roots in kind.own_lane.items():
        cells[0] += f" ({lane}: {', '.join(sorted(roots['ttft']))})"
    if kind.kv:
        cells = [f"{cell} (+ engine)" for cell in cells]
    return f"| {kind.name} | {kind.says} | {' | '.join(cells)} |\n"


def _engines() -> str:
    head = (
        "| engine | token budget | slots | KV tokens | objectives of interactive: TTFT, TPOT | held out |\n"
        "|---|---|---|---|---|---|\n"
    )
    rows = []
    for engine in ENGINES:
        aims = engine.lane("interactive").aims
        assert aims.ttft is not None
        assert aims.tpot is not None
        limits = engine.limits
        budget = str(limits.max_num_batched_tokens) if limits.chunked_prefill else "whole prompts"
        rows.append(
            f"| {engine.name} | {budget} | {engine.slots} | {limits.kv_blocks * limits.block_size:,}"
            f" | {aims.ttft.target:.0%} in {aims.ttft.threshold_seconds:g} s, {aims.tpot.target:.0%} in"
            f" {aims.tpot.threshold_seconds * 1e3:.0f} ms | {'yes' if engine.held_out else ''} |\n"
        )
    return head + "".join(rows)


def _kept(broken: Sequence[str]) -> str:
    if not broken:
        return "Every bound of the issue was kept.\n"
    return "Not kept:\n\n" + "".join(f"- {words}\n" for words in broken)
