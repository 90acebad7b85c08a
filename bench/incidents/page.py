"""Writes docs/evidence/incidents.md: how the bench works, the truth of each kind, and results of the last whole run.

It knows prose, and the tables of other modules. It refuses to compute. The page is written by the bench only.
"""

from collections.abc import Mapping, Sequence

from bench.incidents.engines import ENGINES, HIGHEST_LOAD, LOWEST_LOAD
from bench.incidents.healthy import HealthyDay, summed
from bench.incidents.kinds import KINDS, Kind
from bench.incidents.measures import Woken
from bench.incidents.play import LATE_RUNS_SHARE
from bench.incidents.pod import GIVE_UP_SHARE, LATE_SECONDS, LOST_REPORTS_SHARE
from bench.incidents.report import Group, by_kind, grouped, misses, summary
from bench.incidents.run import Done
from bench.incidents.world import FLEETS


WORLDS = {False: "In the kind world", True: "In unkind worlds"}
"""Title of a part by whether its runs have unkind worlds."""


def page(
    finished: Sequence[Done],
    days: Sequence[HealthyDay],
    heard: Mapping[bool, Sequence[Woken]],
    broken: Sequence[str],
    played: str,
) -> str:
    """The whole page. `heard`: notifications of the runs in kind (False) and unkind (True) worlds. `played`: the run in
    words: how long it took, and from which tree.
    """
    seeds = sorted({done.job.seed for done in finished})
    groups = [group for unkind in WORLDS for group in _groups(finished, heard, unkind=unkind)]
    parts = [
        "# The incident bench: does the page name the right phase?\n",
        (
            "Written by `make bench-incidents`. It plays incidents on simulated replicas in virtual time, through the product's own ledger,"
            " objectives, attribution and metrics. A real Prometheus rule engine (promtool) evaluates the unchanged rule files. The alerts"
            " are compared with the fault that was injected. The terminal has more: tables by engine, objective and set of right phases.\n"
        ),
        _how(),
        "## Incidents and engines\n",
        _kinds(),
        _engines(),
        (
            f"## Results\n\nSeeds {seeds[0]} to {seeds[-1]}, {len(finished)} runs, {played}. Seeds below 1,000 and the named engines that are"
            " not held out were looked at while the product was made.\n"
        ),
        _kept(broken),
        summary(groups),
        "Goals that are not reached, and what stated confidence is worth:\n",
        *map(misses, groups),
        "## Right first pages by kind: lenient, of the lanes that had to page\n",
        by_kind(groups),
        "## While nothing is broken\n",
        summed(days) if days else "Nothing was played.\n",
    ]
    return "\n".join(parts).rstrip() + "\n"


def _groups(finished: Sequence[Done], heard: Mapping[bool, Sequence[Woken]], *, unkind: bool) -> list[Group]:
    runs = [done for done in finished if done.job.unkind is unkind]
    cases = [case for done in runs for case in done.cases]
    false = [each for done in runs for each in done.false]
    return grouped(cases, false, heard.get(unkind, ()), "unkind worlds," if unkind else "kind world,")


def _how() -> str:
    return (
        f"- A seed draws a load factor ({LOWEST_LOAD} to {HIGHEST_LOAD}) and, per kind, a magnitude. A run has 20 healthy minutes, 12 minutes of"
        " incident (60 if it burns too slowly to page) and 8 minutes after it. The same seed without the incident is its pair.\n"
        "- *The kind world* has one pod, no noise, lengths within a range, and a read for each event. *Unkind worlds* are drawn for each run"
        " (`bench/incidents/world.py`): 30 to 90 % load, noisy steps, lognormal lengths, merged reads, a sidecar with a CPU quota, several"
        f" tokens in an event, two ranks or models behind one port, prefill apart from decode, {len(FLEETS)} fleets of 1 to 16 pods.\n"
        "- *With reports*: the engine reports on each request. *Estimator only*: no reports, but cached tokens and the engine's metrics."
        " *Blind*: neither.\n"
        "- *Lenient* accepts each phase whose owner can mend the fault, *S2* only the phase of the injected cause"
        " (`sidecar/pod/causes.py`), *S1* that phase, decode for TPOT, and three further sets. In S1 and S2 a lane that burns without a page"
        " counts as missed. `unattributed` is neither right nor wrong.\n"
        f"- {GIVE_UP_SHARE:.0%} of the victims give up some seconds past their threshold; {LOST_REPORTS_SHARE:.0%} of the reports are lost; in"
        f" {LATE_RUNS_SHARE:.0%} of the runs all reports come {LATE_SECONDS[0]:.0f} to {LATE_SECONDS[1]:.0f} s late.\n"
        "- The right phases of each kind were fixed before the runs, with reasons in `bench/incidents/kinds.py`. `engine` is added if the KV"
        " pool ran full while requests waited (*+ engine*).\n"
        "- A lane *must page* if, for a whole minute, at least half of its requests miss, or ten times as many as its target allows, with 10"
        " misses or more. Its page is the first one about the lane or its engine. Seconds count from the fault or, if a lane began to burn"
        " later, from the first window that burned fast enough to page. A page is *false* before the fault, after recovery, and in lanes that"
        " do not come near these limits.\n"
        "- *Limits*: the simulator is no engine. The hash of the commit draws seeds and most engines, so nothing was tuned on them.\n"
    )


def _kinds() -> str:
    head = "| kind | what happens | TTFT | TPOT | E2E |\n|---|---|---|---|---|\n"
    return head + "".join(_kind(kind) for kind in KINDS)


def _kind(kind: Kind) -> str:
    cells = [", ".join(sorted(kind.roots[objective])) or "of either" for objective in ("ttft", "tpot", "e2e")]
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
        return "Every bound was kept.\n"
    return "Bounds that were not kept:\n\n" + "".join(f"- {words}\n" for words in broken)
