"""Shows one run: its truth, the first page of each lane, and what its pod counted every 15 s around the fault.

It only prints. It refuses to grade (`verdicts.py`) and to judge (`rules.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from bench.incidents.fault import NOTHING, Fault
from bench.incidents.grade import Case
from bench.incidents.job import Job, Played
from bench.incidents.samples import Column
from bench.incidents.truth import LaneTruth
from bench.incidents.world import KIND_WORLD, Mode, World
from bench.roots.cache import Cache
from bench.roots.growth import Growth, by, values_of
from bench.roots.passage import (
    AGE,
    BLAMED,
    CAUSES,
    COST,
    COST_HIGH,
    COST_LOW,
    EVIDENCE,
    MISSES,
    REQUESTS,
    ROOTS,
    UNDECIDED,
    Columns,
    Scraped,
)
from bench.roots.rules import Rules
from bench.roots.verdicts import Told, beginnings, graded_in, samples_of


FROM_SECONDS, UNTIL_SECONDS = -60.0, 300.0
"""Around the fault."""
HEADINGS = (
    "t: seconds since the fault. miss: missed/decided in these 15 s by lane/objective. root, cause: their growth.\n"
    "und: undecided now. waited: blamed votes as ledgers close. now: evidence ratios, and cost ratios [low high]."
)


def shown(
    cache: Cache,
    job: Job,
    play: Played,
    mode: Mode,
    *,
    votes: str,
    minute: bool,
    quick: bool,
    pod: int | None = None,
    lane: str | None = None,
) -> str:
    """All that is known of one run. `pod`, `lane`: of the time line; None: the first pod at fault, every lane."""
    scrape = samples_of(cache, job, play, mode, quick=quick)
    rules = Rules(scrape, votes=votes, minute=minute)
    told = graded_in(job, play, scrape, mode, rules)
    number = play.run.at_fault[0] if pod is None else pod
    parts = [
        *_head(job, play, mode),
        *_lanes(play, told),
        *_pages(play, scrape, rules),
        f"\npod {number} of {play.run.pods}{'' if lane is None else f', lane {lane}'}\n{HEADINGS}\n",
        *_time_line(scrape.pods[number], scrape, play.run.fault_at, lane),
    ]
    return "\n".join(parts)


def _head(job: Job, play: Played, mode: Mode) -> Iterator[str]:
    run, truth = play.run, play.truth
    yield f"\n# {job.kind}/{job.seed}/{mode}, {'un' if job.unkind else ''}kind world, {job.engine}"
    if play.world != KIND_WORLD:
        yield f"world: {_set(play.world, KIND_WORLD)}"
    yield f"magnitude {play.magnitude:.2f}, load factor {play.factor:.2f}, pods at fault {run.at_fault} of {run.pods}"
    after = {"heals": truth.heals_at, "quiet": truth.quiet_at, "ends": run.ends_at}
    yield f"fault at {run.fault_at:.0f}, " + ", ".join(f"{on} {at - run.fault_at:+.0f} s" for on, at in after.items())
    if play.incident.setup != NOTHING:
        yield f"set-up: {_set(play.incident.setup)}"
    for episode in play.incident.episodes:
        until = "the end of the incident" if episode.ends is None else f"{episode.ends:+.0f} s"
        yield f"fault from {episode.begins:+.0f} s until {until}: {_set(episode.fault)}"
    if play.incident.made_of:
        yield f"made of: {', '.join(play.incident.made_of)}"


def _set(given: Fault | World, usual: Fault | World = NOTHING) -> str:
    """The fields that are not as usual."""
    names = [each.name for each in fields(given)]
    changed = [(name, getattr(given, name)) for name in names if getattr(given, name) != getattr(usual, name)]
    return ", ".join(f"{name} {_short(value)}" for name, value in changed)


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_short(each)}" for key, each in value.items()) + "}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _lanes(play: Played, told: Told) -> Iterator[str]:
    cases = {case.key: case for case in told.cases}
    yield "\nlanes: the truth, and the first page"
    for key, lane in sorted(play.truth.lanes.items()):
        what = "must page" if lane.must_page else "burns" if lane.burns else "may page" if lane.may_page else "calm"
        yield f"  {'/'.join(key):20} {what:10} {lane.misses:>5}/{lane.requests:<6}" + (
            _case(cases[key], lane, play.run.fault_at) if key in cases else ""
        )
    for each in told.false:
        yield f"  FALSE: {each.alert} {each.key or ''} {each.phase} at {each.seconds:+.0f} s ({each.why})"


def _case(case: Case, lane: LaneTruth, fault_at: float) -> str:
    due = "" if lane.burns_at is None else f" due {lane.burns_at - fault_at:+.0f} s,"
    right = f"S2 {'|'.join(case.phases)} S1 +{'|'.join(sorted({*case.strict} - {*case.phases})) or '-'}"
    at = "" if case.seconds_since_fault is None else f" at {case.seconds_since_fault:+.0f} s"
    share = "" if case.confidence is None else f" share {case.confidence:.2f}"
    return (
        f"{right},{due} waited in truth {case.proximate} -> {case.phase_result.upper()}: {case.said}{at}{share}"
        f" ({case.alert}, cause {case.cause}, waited {case.waited_in}, pod {case.named_pod})"
    )


def _pages(play: Played, scrape: Scraped, rules: Rules) -> Iterator[str]:
    yield "\nevery page that began"
    for each in beginnings(rules.looks(), scrape.every_seconds):
        lane, pod = each.page.subject
        who = f"pod {pod}" if lane is None else "/".join(lane)
        roots = sorted(((count, phase) for phase, count in each.page.roots.items() if count), reverse=True)
        told = ", ".join(f"{phase} {count:.3g}" for count, phase in roots) or "nothing decided"
        yield f"  {each.at - play.run.fault_at:+6.0f} s  {who:20} {each.page.phase:13} {each.page.seconds:.0f} s: {told}"


def _time_line(columns: Columns, scrape: Scraped, fault_at: float, lane: str | None) -> Iterator[str]:
    of_lane = {
        key: column
        for key, column in columns.items()
        if lane is None
        or key[0] == CAUSES
        or lane in (*values_of(key[1], "lane"), "/".join(values_of(key[1], "lane", "objective")))
    }
    misses, requests = (by(of_lane, name, "lane", "objective") for name in (MISSES, REQUESTS))
    roots, blamed = (by(of_lane, name, "phase") for name in (ROOTS, BLAMED))
    causes = by(of_lane, CAUSES, "phase", "cause")
    first, last = (round((fault_at + each) / scrape.every_seconds) for each in (FROM_SECONDS, UNTIL_SECONDS))
    for at in range(max(1, first), min(last + 1, scrape.scrapes)):
        cells = [
            ("miss", _missed(misses, requests, at)),
            ("root", _grown(roots, at)),
            ("cause", _grown(causes, at)),
            ("und", _undecided(of_lane, at)),
            ("waited", _grown(blamed, at)),
            ("now", _now(columns, at)),
        ]
        words = " | ".join(f"{name} {text}" for name, text in cells if text)
        yield f"{at * scrape.every_seconds - fault_at:+5.0f}  {words}"


def _missed(misses: Mapping[tuple[str, ...], Growth], requests: Mapping[tuple[str, ...], Growth], at: int) -> str:
    found = []
    for key, growth in sorted(misses.items()):
        if growth.over(at, 1) > 0:
            found.append(f"{'/'.join(key)} {growth.over(at, 1):.0f}/{requests[key].over(at, 1):.0f}")
    return " ".join(found)


def _grown(growths: Mapping[tuple[str, ...], Growth], at: int) -> str:
    grown = sorted(((growth.over(at, 1), key) for key, growth in growths.items()), reverse=True)
    return " ".join(f"{':'.join(key)} {value:.3g}" for value, key in grown if value > 1e-9)


def _undecided(columns: Columns, at: int) -> str:
    waiting = sum(column[at] or 0.0 for (name, _), column in columns.items() if name == UNDECIDED)
    return f"{waiting:.3g}" if waiting else ""


def _now(columns: Columns, at: int) -> str:
    words = [f"{cause} {value:.2f}" for (cause,), value in _values(columns, EVIDENCE, ("cause",), at)]
    low, high = (dict(_values(columns, name, ("part",), at)) for name in (COST_LOW, COST_HIGH))
    for part, value in _values(columns, COST, ("part",), at):
        words.append(f"{part[0]} cost {value:.2f}" + (f" [{low[part]:.2f} {high[part]:.2f}]" if part in low else ""))
    words += [
        f"incident {phase}:{cause} for {value:.0f} s"
        for (phase, cause), value in _values(columns, AGE, ("phase", "cause"), at)
    ]
    return ", ".join(words)


def _values(columns: Columns, name: str, labels: Sequence[str], at: int) -> list[tuple[tuple[str, ...], float]]:
    found: list[tuple[tuple[str, ...], float]] = []
    for (metric, pairs), column in sorted(columns.items(), key=lambda each: each[0]):
        value = _at(column, at) if metric == name else None
        if value is not None:
            found.append((values_of(pairs, *labels), value))
    return found


def _at(column: Column, at: int) -> float | None:
    return column[at] if at < len(column) else None
