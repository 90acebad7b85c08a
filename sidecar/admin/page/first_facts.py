"""The lines below the headline: lane, objective, since when, burn, root, what changed, what to do first, and the runbook.

Draws one finding of `sidecar/diagnosis/` and what happened around it. Each line answers in a few words, because the first
screen of a phone has some ten lines; the verdict's card below has the rest. An answer that is not known says why, and an
incident that may be older than this process says so. Texts of data files and names of lanes are escaped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.html import percent, prose, quiet, span
from sidecar.admin.page.latency_tables import objective_text
from sidecar.admin.page.verdicts import first_steps, runbook_path, step_words, who
from sidecar.diagnosis.document import DOWN_RUNBOOK
from sidecar.diagnosis.findings import Diagnosis, Outcome
from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import has_objective
from sidecar.diagnosis.why import NAMES, beside, in_use, latency_of, of_window, rejections
from sidecar.diagnosis.wording import digits, listed, phase_name, times, to_the_second
from sidecar.history.ring import MINUTE_SECONDS
from sidecar.history.series import LONG_SECONDS
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective


GROWN = 3
"""Numbers that have grown, the largest first, and as many that have not."""
LANES_NAMED = 3
_RELOADS_AFTER_SECONDS = 10.0
"""A config that was loaded so long after the process began was loaded again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The clock of the page, and what happened to the engine and to this process."""

    at_unix: float
    """Unix time of the page."""
    uptime_seconds: float
    missed_since_at_unix: float | None = None
    """Unix time since which the first lane misses its objective too often; None if the history does not tell."""
    engine_restarted_seconds: float | None = None
    """Seconds since the engine's last restart, to a minute; None if there was none in the last half hour."""
    config_loaded_at_unix: float | None = None
    """Unix time at which the config in force was loaded; None if unknown."""


def facts_of_lane(d: Diagnosis, among: Sequence[Diagnosis], anatomy: Anatomy, around: Around) -> str:
    """The lines about a broken lane. `among`: all lanes."""
    assert d.phase is not None
    fix = next((step_words(step) for step in first_steps(d)), quiet("no fix is known: see the runbook"))
    return _drawn(
        [
            *_lane(d, among, anatomy),
            ("Since", _since_of_lane(d, around)),
            ("Burn", _burn(d)),
            ("Root", prose(_root(d))),
            ("Changed", prose(" ".join(_changed(d, around)))),
            ("Do first", fix),
            ("Runbook", _link(runbook_path(CHAPTERS[d.phase], d), CHAPTERS[d.phase])),
        ]
    )


def facts_of_engine(
    down: EngineDown, d: Diagnosis | None, among: Sequence[Diagnosis], anatomy: Anatomy, around: Around
) -> str:
    """The lines about an engine that is down or stalled. `d`: the worst of the broken lanes, if there is one."""
    began_at = None if down.seconds is None else around.at_unix - down.seconds
    steps = [] if d is None or d.phase != Blame.ENGINE else first_steps(d)
    if down.never_up and down.why is not None:
        fix = prose(f"Compare `engine.url` with the address and port of the engine: {down.why}")
    else:
        fix = step_words(steps[0]) if steps else prose(chapters()[CHAPTERS[Blame.ENGINE]].fixes[0].fix)
    return _drawn(
        [
            *([("Lane", quiet("none misses an objective yet"))] if d is None else _lane(d, among, anatomy)),
            ("Since", quiet("not known") if began_at is None else _since(began_at, around, around.uptime_seconds)),
            *([] if d is None else [("Burn", _burn(d)), ("Root", prose(_root(d)))]),
            ("Changed", prose(" ".join(_changed(d, around)))),
            ("Do first", fix),
            ("Runbook", _link(f"/runbooks/{DOWN_RUNBOOK}", DOWN_RUNBOOK)),
        ]
    )


def _drawn(lines: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{told}</dd></div>' for name, told in lines)}</dl>"


def _link(path: str, name: str) -> str:
    return f'<a href="{escape(path)}">{name}</a>'


def _lane(d: Diagnosis, among: Sequence[Diagnosis], anatomy: Anatomy) -> Iterable[tuple[str, str]]:
    others = [who(one, among) for one in among if one.outcome is Outcome.VERDICT and one is not d]
    more = [f"{len(others) - LANES_NAMED} more"] if len(others) > LANES_NAMED else []
    also = quiet(f" broken too: {listed(others[:LANES_NAMED] + more, 'and')}") if others else ""
    yield "Lane", f"{escape(who(d, among))}{also}"
    assert d.first is not None
    budget = next(
        (
            one
            for one in anatomy.budgets
            if (one.lane, one.objective) == (d.measured.lane, d.first) and has_objective(d)
        ),
        None,
    )
    kept = "" if budget is None else f", {objective_text(budget)}"
    yield "Objective", f"{NAMES[d.first]}{kept}"


def _since_of_lane(d: Diagnosis, around: Around) -> str:
    """The beginning of the incident; of the misses, if they are too few to open one."""
    if d.since_at is not None:
        return _since(d.since_at, around, around.uptime_seconds)
    if around.missed_since_at_unix is not None:
        return _since(around.missed_since_at_unix, around, min(around.uptime_seconds, LONG_SECONDS))
    return quiet("not known: no incident is open on this pod, and misses are few")


def _since(at_unix: float, around: Around, known_seconds: float) -> str:
    """`known_seconds`: length of the past that is known; what is as old may be older."""
    age_seconds = max(0.0, around.at_unix - at_unix)
    said = f"{to_the_second(at_unix)}, {span(age_seconds)} ago"
    if known_seconds - age_seconds >= MINUTE_SECONDS:
        return said
    return f"at least {said} {quiet(f'(this page knows the last {span(known_seconds)})')}"


def _burn(d: Diagnosis) -> str:
    assert d.first is not None
    latency = latency_of(d.measured, d.first)
    if latency.burn is None or latency.misses is None:
        over = d.inter_token.over if d.first is Objective.TPOT else d.ttft.over
        return quiet("no objective") + ("" if over is None else f" p99 {times(over)} what readers expect")
    of = f" of {digits(latency.judged)} requests, {percent(latency.misses / latency.judged)}," if latency.judged else ""
    window = "" if d.measured.window_seconds is None else f" in the last {span(d.measured.window_seconds)}"
    return f"<strong>{times(latency.burn)}</strong> the allowed misses: {digits(latency.misses)}{of}{window}"


def _root(d: Diagnosis) -> str:
    """The cause with its size and confidence, or why there is none; and where the missed requests waited."""
    verdict = d.measured.verdicts.get(d.first) if d.first is not None else None
    if verdict is None:
        return d.evidence[0]
    said = [*rejections(d.measured), _cause(d)] if d.phase != Blame.UNATTRIBUTED else [*d.because[:1]]
    if verdict.waited_in:
        said.append(f"Waited in {phase_name(max(verdict.waited_in, key=verdict.waited_in.__getitem__))}.")
    return " ".join(said)


def _cause(d: Diagnosis) -> str:
    cause = "Cause not known" if d.cause is None else f"Cause {d.cause}"
    size = "" if d.size is None else f", {times(d.size.ratio.value)} the usual"
    return f"{cause}{size}{_confidence(d)}."


def _confidence(d: Diagnosis) -> str:
    """The confidence with its count and window; empty if no miss is decided."""
    if d.confidence is None or d.first is None:
        return ""
    verdict = d.measured.verdicts[d.first]
    misses = f"{digits(verdict.counted)} misses{of_window(verdict)}"
    count = f"{misses} are decided" if d.phase in verdict.confidences else f"of {misses}"
    return f", confidence {percent(d.confidence)} ({count})"


def _changed(d: Diagnosis | None, around: Around) -> Iterable[str]:
    """Numbers that have grown over the usual ones and numbers that have not, and what happened within the last half hour."""
    ratios = {} if d is None else d.measured.ratios
    grown, still = beside(ratios, None if d is None else d.cause)
    if not ratios:
        yield "Nothing usual is known yet to compare with."
    for name, found in (("Grown", grown), ("Not grown", still)):
        more = f" and {len(found) - GROWN} more" if len(found) > GROWN else ""
        if found:
            yield f"{name}: {', '.join(found[:GROWN])}{more}."
    if d is not None:
        yield from in_use(d.measured)
    happened = [*_happened(around)]
    yield from happened or [f"No restart and no new config in the last {span(LONG_SECONDS)}."]


def _happened(around: Around) -> Iterable[str]:
    if around.engine_restarted_seconds is not None:
        yield f"The engine restarted {span(around.engine_restarted_seconds)} ago."
    loaded_at = around.config_loaded_at_unix
    if loaded_at is not None:
        age_seconds = max(0.0, around.at_unix - loaded_at)
        if age_seconds < LONG_SECONDS and around.uptime_seconds - age_seconds > _RELOADS_AFTER_SECONDS:
            yield f"The config was loaded again {span(age_seconds)} ago."
    if around.uptime_seconds < LONG_SECONDS:
        yield f"This sidecar began {span(around.uptime_seconds)} ago."
