"""One run through the product and the planned rules, graded as the incident bench grades: its cases and false pages.

It turns pages at scrapes into what `grade.py` reads. It refuses to know thresholds (`rules.py`) and the rules of
grading (`grade.py`).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.incidents.grade import Case, FalsePage, Who, graded, pod_name
from bench.incidents.job import Job, Played, played
from bench.incidents.prometheus import CONFIDENCE, Firing, Heard
from bench.incidents.world import Mode
from bench.roots.cache import Cache
from bench.roots.growth import Growth, by, together
from bench.roots.passage import BLAMED, CAUSES, MISSES, ROOTS, Scraped, scraped
from bench.roots.record import Recorded, recorded, replayed
from bench.roots.rules import FAST_SCRAPES, LaneKey, Page, Rules
from sidecar.pod.decision import Decision


AFTER_SCRAPES = 4
"""A run that ends so soon after its last consequences has no time in which a page is false."""


@dataclass(frozen=True, slots=True)
class Told:
    """One run and mode: its pages and grades."""

    job: Job
    mode: Mode
    cases: list[Case]
    false: list[FalsePage]
    phases: frozenset[str]
    """Phases that paged from the fault to the end of its consequences."""
    paged: bool
    """Whether a lane burned that must page."""
    product_seconds: float
    """Seconds for the product; next to none if its samples were kept."""


@dataclass(frozen=True, slots=True)
class Began:
    """A page that began to fire."""

    at: float
    page: Page


def told(cache: Cache, job: Job, *, votes: str = ROOTS, minute: bool = False, quick: bool = False) -> list[Told]:
    """The grades of a job in each of its modes."""
    play = cache.run(job, lambda: played(job))
    found = []
    for mode in job.modes:
        began = time.perf_counter()
        scrape = samples_of(cache, job, play, mode, quick=quick)
        seconds = time.perf_counter() - began
        rules = Rules(scrape, votes=votes, minute=minute)
        found.append(replace(graded_in(job, play, scrape, mode, rules), product_seconds=seconds))
    return found


def recorded_of(cache: Cache, job: Job, play: Played, mode: Mode) -> Recorded:
    """The evidence that the roots of a run were decided from in one mode, kept or recorded now."""
    lengths = play.world.estimated_lengths
    return cache.evidence(job, str(mode), lambda: recorded(play.engine, play.run, mode, estimated_lengths=lengths))


def told_again(cache: Cache, job: Job, *, decision: Callable[[], Decision] = Decision) -> list[Told]:
    """The grades of a job in each of its modes, if this decision decides what was recorded."""
    play = cache.run(job, lambda: played(job))
    found = []
    for mode in job.modes:
        scrape = replayed(recorded_of(cache, job, play, mode), decision)
        found.append(graded_in(job, play, scrape, mode, Rules(scrape)))
    return found


def samples_of(cache: Cache, job: Job, play: Played, mode: Mode, *, quick: bool = False) -> Scraped:
    """The samples of a run in one mode, kept or made now. `quick`: of pods at fault (`passage.py`)."""
    lengths = play.world.estimated_lengths
    quick = quick and len(play.run.at_fault) < play.run.pods
    return cache.samples(
        job,
        f"{mode}-quick" if quick else str(mode),
        lambda: scraped(play.engine, play.run, mode, estimated_lengths=lengths, quick=quick),
    )


def graded_in(job: Job, play: Played, scrape: Scraped, mode: Mode, rules: Rules) -> Told:
    """The grades of one run's samples."""
    pages = beginnings(rules.looks(), scrape.every_seconds)
    heard = _heard(play, scrape, pages)
    who = Who(job.kind, job.engine, job.seed, mode, play.front_end)
    cases, false = graded(who, play.truth, heard, play.run.fault_at)
    return Told(
        job,
        mode,
        [case for case in cases if case.severity == "page"],
        false,
        frozenset(each.labels["phase"] for each in heard.during),
        any(lane.must_page for lane in play.truth.lanes.values()),
        0.0,
    )


def beginnings(looks: Iterable[Sequence[Page]], every_seconds: float) -> list[Began]:
    """Every beginning of a page, in order. A page is the same while its subject and its phase are."""
    found = []
    before: set[tuple[object, str]] = set()
    for number, pages in enumerate(looks):
        found += [Began(number * every_seconds, page) for page in pages if (page.subject, page.phase) not in before]
        before = {(page.subject, page.phase) for page in pages}
    return found


def _heard(play: Played, scrape: Scraped, pages: Sequence[Began]) -> Heard:
    run, step = play.run, scrape.every_seconds
    quiet_at = min(run.ends_at, step * (play.truth.quiet_at // step + 1))
    late = [each for each in pages if each.at > quiet_at] if run.ends_at - quiet_at > AFTER_SCRAPES * step else []
    during = [each for each in pages if run.fault_at <= each.at <= quiet_at]
    scrapes = {
        each.page.subject.lane: round(each.at / step) for each in reversed(during) if each.page.subject.lane is not None
    }
    return Heard(
        before=_firsts(each for each in pages if each.at < run.fault_at),
        during=_firsts(during, scrape),
        after=_firsts(late),
        waited_in=_waited(scrape, scrapes),
        evidence={},
    )


def _firsts(began: Iterable[Began], scrape: Scraped | None = None) -> list[Firing]:
    """The first beginning of each page, as an alert; with the samples also its annotations."""
    found: dict[tuple[object, str], Firing] = {}
    for each in began:
        lane, pod = each.page.subject
        labels = {"alertname": "LLMPodBurn", "severity": "page", "phase": each.page.phase}
        if lane is not None:
            words = each.page.phase.title().replace("_", "")
            labels |= {"alertname": f"LLM{words}Burn", "lane": lane[0], "objective": lane[1]}
        if pod is not None:
            labels["pod"] = pod_name(pod)
        if (each.page.subject, each.page.phase) not in found:
            annotations = {} if scrape is None else _annotations(each, scrape)
            found[each.page.subject, each.page.phase] = Firing(each.at, labels, annotations)
    return list(found.values())


def _annotations(began: Began, scrape: Scraped) -> dict[str, str]:
    """The annotations that the bench reads, as `alert_rules/wording.py` asks for them."""
    at, (lane, pod), phase = round(began.at / scrape.every_seconds), began.page.subject, began.page.phase
    every = scrape.pods if pod is None else [scrape.pods[pod]]
    causes = together(by(columns, CAUSES, "phase", "cause") for columns in every)
    cause = _most({key[1]: growth for key, growth in causes.items() if key[0] == phase}, at, FAST_SCRAPES)
    misses = {pod_name(number): by(columns, MISSES, "lane", "objective") for number, columns in enumerate(scrape.pods)}
    worst = (
        _most({name: counts[lane] for name, counts in misses.items() if lane in counts}, at, FAST_SCRAPES)
        if lane is not None
        else None
    )
    words = {CONFIDENCE: f"{began.page.share:.2f}", "cause": cause, "worst_pod": worst}
    return {name: text for name, text in words.items() if text is not None}


def _waited(scrape: Scraped, scrapes: Mapping[LaneKey, int]) -> dict[LaneKey, str]:
    """Lane to the phase in which most of its misses had waited at its first page."""
    votes = together(by(pod, BLAMED, "lane", "objective", "phase") for pod in scrape.pods)
    found = {}
    for key, at in scrapes.items():
        most = _most({each[2]: growth for each, growth in votes.items() if each[:2] == key}, at, FAST_SCRAPES)
        if most is not None:
            found[key] = most
    return found


def _most(growths: Mapping[str, Growth], scrape: int, scrapes: int) -> str | None:
    grown = Counter({name: growth.over(scrape, scrapes) for name, growth in growths.items()})
    return max(grown, key=lambda name: grown[name]) if any(grown.values()) else None
