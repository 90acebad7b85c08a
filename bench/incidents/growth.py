"""Plays two days of slow growth: prompts grow until an objective burns, and the page has to name the right phase.

A baseline that follows what is usual follows such a growth too. The run is graded as an incident is (`grade.py`); the rules are asked
for their alerts alone, because words and evidence of 12,000 instants would cost more than all else. It knows what grows, for how
long, and on which engine. It refuses to know how (`shapes.py`), and what is right (`kinds.py`, `truth.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.incidents.grade import MISSED, UNATTRIBUTED, WRONG, Case, FalsePage, Who, graded
from bench.incidents.healthy import STEP_SECONDS, fired, of_long_prompts, placed
from bench.incidents.play import play
from bench.incidents.product import sampled
from bench.incidents.prometheus import Firing, Heard, names_in
from bench.incidents.saturation import fair, saturates_at
from bench.incidents.shapes import Companion, Onset, Shape, Traffic, incident_of
from bench.incidents.truth import Truth, truth_of
from bench.incidents.world import Mode


GROWTH_SEED = 8_000_000
GROWTH_SECONDS = 2 * 86_400.0
KIND, MAGNITUDE = "prompts-grow", 0.4
"""Prompts are 2.2 times as long at the end. At this load, objectives burn from about the middle on."""
PROMPT_TOKENS = 3_000
UTILISATION = 0.4
"""Load before the growth, as a share of what the engine can do."""
KNOWN_LIMIT = (
    "what is usual follows such a growth: half of its weight is half an hour old, in which prompts grow by a hundredth; what is left"
    " is the queue before them"
)
"""Why the product does not name the phase today, by a run of two days in November 2026 (over three hours it did). A wrong phase is
counted and told, and fails nothing; empty once it is mended."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One run of slow growth, with its grades."""

    number: int
    engine: str
    requests: int
    hours: float
    """Length of the growth."""
    paged: tuple[str, float] | None
    """Phase of the first page that names one, and the hours from the beginning of the growth to it."""
    cases: tuple[Case, ...]
    false: tuple[FalsePage, ...]

    @property
    def burned(self) -> bool:
        """Whether an objective burned that is owed a page; otherwise the run has shown nothing."""
        return any(case.owed and case.severity == "page" for case in self.cases)

    @property
    def wrong(self) -> list[str]:
        """First pages that name another phase, in words, or that no page names any."""
        cases = [case for case in self.cases if case.severity == "page" and case.phase_result == WRONG]
        words = [f"{'/'.join(case.key)} paged {case.said}, not {' or '.join(case.phases)}" for case in cases]
        return words if self.paged or not self.burned else [*words, "no page names a phase"]

    @property
    def false_or_missed(self) -> list[str]:
        """Pages that should not have been sent, in words, and lanes that were owed one."""
        missed = [case for case in self.cases if case.owed and case.severity == "page" and case.phase_result == MISSED]
        return [
            *(f"{'/'.join(case.key)} burned and was not paged" for case in missed),
            *(f"{page.alert} {'/'.join(page.key or ())}: {page.why}" for page in self.false),
        ]


def failures(of: Growth, limit: str = KNOWN_LIMIT) -> list[str]:
    """The faults for which the run fails, in words. `limit`: reason for which a wrong phase is known and does not."""
    shown = [] if of.burned else ["no objective burned: nothing was shown"]
    return [*shown, *of.false_or_missed, *([] if limit else of.wrong)]


def limits(of: Growth, limit: str = KNOWN_LIMIT) -> list[str]:
    """A known limit as lines of text: what was counted of it, or that it was not met; none without a known limit."""
    if not limit:
        return []
    counted = [f"KNOWN LIMIT: {words}" for words in of.wrong]
    return [*counted, f"the reason: {limit}"] if counted else ["the known limit was not met: take it out of growth.py"]


def growth(number: int, seconds: float = GROWTH_SECONDS) -> Growth:
    """Play one growth over so many seconds."""
    seed = GROWTH_SEED + number
    shape = Shape(KIND, None, MAGNITUDE, Onset.GROWTH, seconds, Companion.NOTHING, False, Traffic.STEADY, (1, 1))
    engine, world = placed(2 * number, seed)
    engine = of_long_prompts(engine, PROMPT_TOKENS)
    factor = UTILISATION * saturates_at(engine, world)
    engine = fair(engine, world, factor)
    incident = incident_of(shape, engine, factor, Random(f"{seed}/{KIND}"), world)
    run = play(engine, seed, incident, world=world, factor=factor)
    # Its pair would tell where requests waited, which no grade asks for.
    truth = truth_of(engine, shape.kinds, run, run)
    began = fired(sampled(engine, run, Mode.REPORTS, names_in(), every_seconds=STEP_SECONDS), run.ends_at)
    who = Who(KIND, engine.name, seed, Mode.REPORTS, front_end=False)
    cases, false = graded(who, truth, heard(began, truth, run.fault_at), run.fault_at)
    paged = first_named(began, run.fault_at)
    return Growth(number, engine.name, len(run.requests), seconds / 3600.0, paged, tuple(cases), tuple(false))


def heard(began: Sequence[Firing], truth: Truth, fault_at: float) -> Heard:
    """The alerts that began, before the growth, until its consequences are over, and after them."""
    return Heard(
        [each for each in began if each.at < fault_at],
        [each for each in began if fault_at <= each.at <= truth.quiet_at],
        [each for each in began if each.at > truth.quiet_at],
        {},
        {},
    )


def first_named(began: Sequence[Firing], fault_at: float) -> tuple[str, float] | None:
    """Phase and hours of the first page since the fault that names a phase; None without one."""
    for each in sorted(began, key=lambda each: each.at):
        phase = each.labels.get("phase", UNATTRIBUTED)
        if each.at >= fault_at and each.labels["severity"] == "page" and phase != UNATTRIBUTED:
            return phase, (each.at - fault_at) / 3600.0
    return None


def told_growth(of: Growth) -> str:
    """One growth as a line of text."""
    phase, hours = of.paged or ("nothing", of.hours)
    results = Counter(case.phase_result for case in of.cases if case.severity == "page")
    first = ", ".join(f"{name} {count}" for name, count in sorted(results.items())) or "none"
    return (
        f"{'two days' if of.hours == 48 else f'{of.hours:g} h'} of growth: paged {phase} after {hours:.1f} h;"
        f" {KIND} on {of.engine}: {of.requests:,} requests, first pages of what burned: {first}, false pages: {len(of.false)}"
    )
