"""The diagnosis on the status page: first one sentence on what is wrong, then lane by lane.

Draws the findings of `sidecar/diagnosis/`, the same that `/diagnosis` answers, so that the page, the diagnosis and the
alerts count the same roots over the same window. An engine that is down comes before all lanes; one that has not come up yet is no fault. The order of broken lanes: those with an objective,
then a failing engine, then a phase known from more than a few misses, then the highest burn; a lane with too few samples
comes after lanes that are well. Texts of data files and names of lanes are escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeGuard
from urllib.parse import urlencode

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.html import items, percent, plain, prose, quiet, section, span
from sidecar.admin.page.picture import BLAME_ORDER, stacked
from sidecar.diagnosis.document import DOWN_RUNBOOK
from sidecar.diagnosis.findings import Diagnosis, Outcome, Step
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.verdict import MANY_MISSES
from sidecar.diagnosis.why import NAMES, healed, of_window
from sidecar.diagnosis.wording import digits, instant, listed, phase_name, times
from sidecar.slo.attribution import Blame
from sidecar.slo.objective import Objective


STEPS = 3
STEPS_SECOND = 1
NOT_TO_DO = 2


def worst_first(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Broken lanes by severity, then lanes without an answer, then good ones, then those with too few samples."""
    order = {Outcome.VERDICT: 0, Outcome.REFUSED: 1, Outcome.WELL: 2}
    return sorted(
        diagnoses,
        key=lambda one: (
            3 if one.has_few_samples else order[one.outcome],
            not _has_objective(one),
            one.phase != Blame.ENGINE,
            *_doubt(one),
            -_over(one),
        ),
    )


def _doubt(d: Diagnosis) -> tuple[bool, bool]:
    """Sort key for weak evidence: an unattributed verdict, and fewer than MANY_MISSES misses.

    A lane with five requests may show the highest burn, but says least about the cause.
    """
    return d.phase == Blame.UNATTRIBUTED, (_missed(d) or 0.0) < MANY_MISSES


def _has_objective(d: Diagnosis) -> bool:
    """Whether the lane has an objective: only such a lane can page."""
    m = d.measured
    return any(latency.misses is not None for latency in (m.ttft, m.inter_token, m.e2e))


def _missed(d: Diagnosis) -> float | None:
    latency = {Objective.TTFT: d.measured.ttft, Objective.TPOT: d.measured.inter_token}.get(d.first or Objective.E2E)
    return (latency or d.measured.e2e).misses


def _over(d: Diagnosis) -> float:
    number = {Objective.TTFT: d.ttft, Objective.TPOT: d.inter_token}.get(d.first or Objective.E2E)
    over = d.measured.e2e.burn if number is None else number.over
    return over or 0.0


# --- the headline --------------------------------------------------------------------------------------------------------


def headline(
    ordered: Sequence[Diagnosis], anatomy: Anatomy, ready: tuple[bool, str], down: EngineDown | None = None
) -> str:
    """The section with the one sentence on what is wrong, or that nothing is. `ordered`: worst first."""
    said, evidence, kind, phase = _said(ordered, anatomy, ready)
    if _is_bad(down):
        said, evidence, kind, phase = _engine_down(down, ordered, ready[1])
    elif down is not None and not any(d.outcome is Outcome.VERDICT for d in ordered):
        said, evidence, kind, phase = f"The engine has not come up yet{_since(down)}", "", "", ""
    first = f' data-phase="{phase}"' if phase else ""
    why = f"<p>{evidence}</p>" if evidence else ""
    return (
        f'<section id="headline" data-live aria-labelledby="headline-title" class="{kind}"{first}>'
        f'<h1 id="headline-title">{said}</h1>{why}</section>'
    )


def in_short(ordered: Sequence[Diagnosis], down: EngineDown | None = None) -> str:
    """Text for the browser tab: an engine that is down, or the first phase and its lane if a lane is broken, else empty."""
    if _is_bad(down):
        return f"engine {_state(down)} · "
    broken = [d for d in ordered if d.outcome is Outcome.VERDICT]
    return f"{_phase(broken[0])}, {_who(broken[0], ordered)} · " if broken else ""


def _is_bad(down: EngineDown | None) -> TypeGuard[EngineDown]:
    return down is not None and not down.coming_up


def _since(down: EngineDown) -> str:
    return "" if down.seconds is None or round(down.seconds) == 0 else f", for {span(down.seconds)}"


def _state(down: EngineDown) -> str:
    return "stalled" if down.stalled else "down"


def _engine_down(down: EngineDown, ordered: Sequence[Diagnosis], why: str) -> tuple[str, str, str, str]:
    broken = [d for d in ordered if d.outcome is Outcome.VERDICT]
    also = f" {len(broken)} {'lane is' if len(broken) == 1 else 'lanes are'} broken." if broken else ""
    what = f"Not ready: {why}." if down.stalled else "It fails its health checks."
    sentence = f"{what}{also}"
    link = f'<a href="/runbooks/{DOWN_RUNBOOK}">Runbook {DOWN_RUNBOOK}</a>'
    said = f'<span class="chip p-{Blame.ENGINE}">{Blame.ENGINE}</span> The engine is {_state(down)}{_since(down)}'
    return said, f"{escape(sentence)} {link}", "bad", Blame.ENGINE.value


def _said(ordered: Sequence[Diagnosis], anatomy: Anatomy, ready: tuple[bool, str]) -> tuple[str, str, str, str]:
    broken = [d for d in ordered if d.outcome is Outcome.VERDICT]
    if broken:
        worst = broken[0]
        assert worst.phase is not None
        assert worst.first is not None
        also = len(broken) - 1
        more = quiet(f" and {also} more {'lane is' if also == 1 else 'lanes are'} broken") if also else ""
        held = "misses its" if _has_objective(worst) else "has no objective, but is slow in its"
        sentence = (
            f'<span class="chip p-{worst.phase}">{escape(_phase(worst))}</span> '
            f"{escape(_who(worst, ordered))} {held} {NAMES[worst.first]}{more}"
        )
        return sentence, prose(_in_brief(worst)), "bad", str(worst.phase)
    if not ready[0]:
        return "Not ready", escape(ready[1]), "bad", ""
    refused = [d for d in ordered if d.outcome is Outcome.REFUSED and not d.has_few_samples]
    if refused:
        return f"No verdict on {escape(_who(refused[0], ordered))}", prose(refused[0].missing[0].what), "unsure", ""
    if not ordered:
        return ("Quiet", "No request in the window.", "", "") if anatomy.ever else ("No traffic yet", "", "", "")
    if not any(_has_objective(d) for d in ordered):
        return "No objectives", "No lane with traffic has an objective, so no lane here can page.", "", ""
    few = [d for d in ordered if d.has_few_samples]
    untold = "" if not few else f"Too few samples to judge {listed([_who(d, ordered) for d in few], 'and')}."
    if any(_has_objective(d) for d in ordered if not d.has_few_samples):
        return "Every objective is met", escape(untold), "good", ""
    return "Too few samples", escape(untold), "", ""


def _in_brief(d: Diagnosis) -> str:
    """The root with its confidence, its cause and size, since when, and where the missed requests waited."""
    verdict = d.measured.verdicts.get(d.first) if d.first is not None else None
    if verdict is None:
        return d.evidence[0]
    said = [_of_root(d)] if d.phase != Blame.UNATTRIBUTED else [*d.because[:1]]
    if verdict.waited_in:
        said.append(f"Waited in {phase_name(max(verdict.waited_in, key=verdict.waited_in.__getitem__))}.")
    return " ".join((*said, *d.changes[:1]))


def _of_root(d: Diagnosis) -> str:
    cause = "Cause not known" if d.cause is None else f"Cause {d.cause}"
    ratio = None if d.cause is None else d.measured.ratios.get(d.cause)
    size = "" if ratio is None else f", {times(ratio)} the usual"
    since = "" if d.since_at is None else f", since {instant(d.since_at)}"
    return f"{cause}{size}{since}{_confidence(d)}."


def _confidence(d: Diagnosis) -> str:
    """The confidence with its count and window; empty if no miss is decided."""
    if d.confidence is None or d.first is None:
        return ""
    verdict = d.measured.verdicts[d.first]
    return f", confidence {percent(d.confidence)} (of {digits(verdict.counted)} misses{of_window(verdict)})"


def _phase(d: Diagnosis) -> str:
    perhaps = f", perhaps {listed([phase_name(one) for one in d.candidates])}" if d.candidates else ""
    return f"{phase_name(d.phase or '')}{perhaps}"


def _who(d: Diagnosis, among: Sequence[Diagnosis]) -> str:
    """The lane, with its model if there are several."""
    lane = d.measured.lane or ""
    return lane if len({one.measured.model for one in among}) < 2 else f"{lane} ({d.measured.model})"


# --- lane by lane --------------------------------------------------------------------------------------------------------


def verdicts(ordered: Sequence[Diagnosis]) -> str:
    """The section. `ordered`: worst first."""
    broken = [d for d in ordered if d.outcome is Outcome.VERDICT]
    refused = [d for d in ordered if d.outcome is Outcome.REFUSED and not d.has_few_samples]
    well = [d for d in ordered if d.outcome is Outcome.WELL]
    parts = [_card(d, ordered, folded=number > 0) for number, d in enumerate(broken)]
    parts += [_refused(d, ordered) for d in refused]
    if well:
        parts.append(plain(f"Nothing is broken in {listed([_who(d, ordered) for d in well], 'and')}."))
    parts += [plain(f"{_who(d, ordered)}: {sentence}") for d in well for sentence in healed(d.measured)]
    parts += [f'<p class="plain">{escape(_who(d, ordered))}: {_untold(d)}</p>' for d in ordered if d.has_few_samples]
    if not parts:
        parts.append(plain("No lane had a request within the window: there is nothing to judge."))
    phase = broken[0].phase if broken else None
    return section("verdict", "Verdict", "as in the alerts", "".join(parts), phase=phase or "")


def _card(d: Diagnosis, among: Sequence[Diagnosis], *, folded: bool) -> str:
    """The card of one broken lane. `folded`: only the title line shows until it is unfolded."""
    assert d.phase is not None
    assert d.first is not None
    about = [f"{NAMES[d.first]} first"]
    if d.cause is not None:
        about.append(f"cause {d.cause}")
    if d.confidence is not None:
        about.append(f"confidence {percent(d.confidence)}")
    if d.regime is not None:
        about.append({"spike": "a spike", "steady": "steady"}[d.regime])
    if not _has_objective(d):
        about.append("no objective and no page; judged by what readers expect")
    title = (
        f'<span class="chip p-{d.phase}">{escape(_phase(d))}</span> {escape(_who(d, among))} {quiet(", ".join(about))}'
    )
    if not folded:
        return f'<div class="card" data-phase="{d.phase}"><h3>{title}</h3>{_told(d)}</div>'
    name = escape(f"verdict-{d.measured.model}-{d.measured.lane}".replace(" ", "-"))
    return f'<details class="card" id="{name}" data-phase="{d.phase}"><summary>{title}</summary>{_told(d)}</details>'


def _told(d: Diagnosis) -> str:
    why = items(prose(text) for text in (*d.evidence, *_second(d)))
    changed = items(prose(text) for text in d.changes)
    sure = "not known" if d.confidence is None else percent(d.confidence)
    because = items(prose(text) for text in d.because)
    do_not = items(prose(f"{item.do}: {item.why}") for item in d.not_to_do[:NOT_TO_DO])
    runbook = CHAPTERS[d.phase] if d.phase is not None else ""
    return (
        f'{_waited(d)}<div class="two"><div><h4>Why</h4>{why}'
        f"{f'<h4>What changed</h4>{changed}' if d.changes else ''}<h4>Confidence: {sure}</h4>{because}</div>"
        f"<div><h4>Do, in this order</h4>{items(_steps(d), ordered=True)}"
        f"{f'<h4>Do not</h4>{do_not}' if do_not else ''}"
        f'<p><a href="{escape(runbook_path(runbook, d))}">Runbook {runbook}</a></p></div></div>'
    )


def runbook_path(runbook: str, d: Diagnosis) -> str:
    """The path of a runbook on this listener, filled in for the lane of a diagnosis."""
    about = {"lane": d.measured.lane, "model": d.measured.model}
    return f"/runbooks/{runbook}?{urlencode({name: value for name, value in about.items() if value})}"


def _waited(d: Diagnosis) -> str:
    """A bar of the phases in which missed requests waited: the root may lie elsewhere."""
    verdict = d.measured.verdicts.get(d.first) if d.first is not None else None
    if verdict is None or not verdict.waited_in:
        return ""
    shares = {phase.value: share for phase, share in verdict.waited_in.items()}
    bar = stacked(shares, 1.0, "Phases in which missed requests waited", whole=1.0, shares=True)
    told = [phase for phase in BLAME_ORDER if phase in shares]
    words = "".join(f'<span><i class="p-{one}"></i>{phase_name(one)} {percent(shares[one])}</span>' for one in told)
    return f'<p class="quiet">Phases in which missed requests waited:</p>{bar}<p class="legend">{words}</p>'


def _second(d: Diagnosis) -> Iterable[str]:
    if d.second is not None:
        near = {"near": "is near its threshold", "broken": "is broken too"}[d.second.state]
        yield f"Second: {NAMES[d.second.objective]} {near}, in {phase_name(d.second.phase)}."


def _steps(d: Diagnosis) -> Iterable[str]:
    firsts = {d.phase, *d.candidates}
    yield from map(_step, [step for step in d.steps if step.phase in firsts][:STEPS])
    yield from map(_step, [step for step in d.steps if step.phase not in firsts][:STEPS_SECOND])


def _step(step: Step) -> str:
    flag = f" {prose(step.flag)}" if step.flag else ""
    after = "".join(f" After: {prose(condition)}." for condition in step.after)
    about = escape(f"{phase_name(step.phase)}, {step.what.cost}, {step.what.works_when}")
    return f'{prose(step.what.fix)}{flag} <span class="quiet">{about}</span>{after}'


def _untold(d: Diagnosis) -> str:
    """HTML. A text that ends as a sentence gets no full stop."""
    how = ((one.what, one.how.rstrip("."), "" if one.how.endswith(("?", "!")) else ".") for one in d.missing)
    return " ".join(prose(text) for text in (*(f"{what}: {words}{end}" for what, words, end in how), *d.evidence))


def _refused(d: Diagnosis, among: Sequence[Diagnosis]) -> str:
    missing = items(prose(f"{one.what}: {one.how}") for one in d.missing)
    return f'<div class="card"><h3>No verdict on {escape(_who(d, among))}</h3>{missing}</div>'
