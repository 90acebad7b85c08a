"""The diagnosis on the status page, lane by lane, and the order of the lanes.

Draws the findings of `sidecar/diagnosis/`, the same that `/diagnosis` answers, so that the page, the diagnosis and the
alerts count the same roots over the same window. Texts of data files and names of lanes are escaped. It refuses to know the headline.
"""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlencode

from sidecar.admin.page.html import items, percent, plain, prose, quiet, section
from sidecar.admin.page.picture import BLAME_ORDER, stacked
from sidecar.diagnosis.findings import Diagnosis, Outcome, Step
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.diagnosis.order import has_objective
from sidecar.diagnosis.why import NAMES, healed
from sidecar.diagnosis.wording import effort, listed, phase_name


STEPS = 3
STEPS_SECOND = 1
NOT_TO_DO = 2


def phase_words(d: Diagnosis) -> str:
    """The phase of the root; an unattributed one with those that it can be."""
    perhaps = f", perhaps {listed([phase_name(one) for one in d.candidates])}" if d.candidates else ""
    return f"{phase_name(d.phase or '')}{perhaps}"


def who(d: Diagnosis, among: Sequence[Diagnosis]) -> str:
    """The lane, with its model if there are several."""
    lane = d.measured.lane or ""
    return lane if len({one.measured.model for one in among}) < 2 else f"{lane} ({d.measured.model})"


# --- lane by lane --------------------------------------------------------------------------------------------------------


def verdicts(ordered: Sequence[Diagnosis], *, is_down: bool = False) -> str:
    """The section. `ordered`: worst first. `is_down`: the engine answers no health check now."""
    broken = [d for d in ordered if d.outcome is Outcome.VERDICT]
    refused = [d for d in ordered if d.outcome is Outcome.REFUSED and not d.has_few_samples]
    well = [d for d in ordered if d.outcome is Outcome.WELL]
    parts = [_card(d, ordered, folded=number > 0) for number, d in enumerate(broken)]
    parts += [_refused(d, ordered) for d in refused]
    if well:
        lanes = listed([who(d, ordered) for d in well], "and")
        kept = f"{lanes}: no objective was missed too often in the window. The engine is down now."
        parts.append(plain(kept if is_down else f"Nothing is broken in {lanes}."))
    parts += [plain(f"{who(d, ordered)}: {sentence}") for d in well for sentence in healed(d.measured)]
    parts += [f'<p class="plain">{escape(who(d, ordered))}: {_untold(d)}</p>' for d in ordered if d.has_few_samples]
    if not parts:
        parts.append(plain("No lane had a request within the window: there is nothing to judge."))
    phase = broken[0].phase if broken else None
    return section("verdict", "Verdict", "as in the alerts", "".join(parts), phase=phase or "")


def _card(d: Diagnosis, among: Sequence[Diagnosis], *, folded: bool) -> str:
    """The card of one broken lane. `folded`: only the title line shows until it is unfolded."""
    assert d.phase is not None
    assert d.first is not None
    about = [f"worst: {NAMES[d.first]}"]
    if d.cause is not None:
        about.append(f"cause {d.cause}")
    if d.confidence is not None:
        about.append(f"confidence {percent(d.confidence)}")
    if d.regime is not None:
        about.append({"spike": "a spike", "steady": "steady"}[d.regime])
    if not has_objective(d):
        about.append("no objective and no page; judged by what readers expect")
    title = f'<span class="chip p-{d.phase}">{escape(phase_words(d))}</span> {escape(who(d, among))} {quiet(", ".join(about))}'
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


def first_steps(d: Diagnosis) -> list[Step]:
    """The steps against the phase of the root, or against the phases that it can be; best first."""
    firsts = {d.phase, *d.candidates}
    return [step for step in d.steps if step.phase in firsts]


def _steps(d: Diagnosis) -> Iterable[str]:
    firsts = {d.phase, *d.candidates}
    yield from map(step_words, first_steps(d)[:STEPS])
    yield from map(step_words, [step for step in d.steps if step.phase not in firsts][:STEPS_SECOND])


def step_words(step: Step) -> str:
    """HTML: the fix, this engine's flag, its phase and effort, when it helps, and the conditions."""
    flag = f" {prose(step.flag)}" if step.flag else ""
    after = "".join(f" Needs first: {prose(condition)}." for condition in step.after)
    about = escape(effort(step.phase, step.what.cost, step.what.works_when))
    return f'{prose(step.what.fix)}{flag} <span class="quiet">[{about}]</span>.{after}'


def _untold(d: Diagnosis) -> str:
    """HTML. A text that ends as a sentence gets no full stop."""
    how = ((one.what, one.how.rstrip("."), "" if one.how.endswith(("?", "!")) else ".") for one in d.missing)
    return " ".join(prose(text) for text in (*(f"{what}: {words}{end}" for what, words, end in how), *d.evidence))


def _refused(d: Diagnosis, among: Sequence[Diagnosis]) -> str:
    missing = items(prose(f"{one.what}: {one.how}") for one in d.missing)
    return f'<div class="card"><h3>No verdict on {escape(who(d, among))}</h3>{missing}</div>'
