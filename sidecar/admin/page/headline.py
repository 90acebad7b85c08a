"""The first screen of the status page: one sentence on what is wrong, and below it what a person on call asks first.

Knows which lane stands for the page: the worst one. An engine that is down comes before all lanes; one that has not come up
yet is no fault. `first_facts.py` has the lines below the sentence. Texts of data files and names of lanes are escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import TypeGuard

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.first_facts import Around, facts_of_engine, facts_of_lane
from sidecar.admin.page.html import prose, quiet, span
from sidecar.admin.page.verdicts import phase_words, who
from sidecar.diagnosis.findings import Diagnosis, Outcome
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import has_objective
from sidecar.diagnosis.why import NAMES
from sidecar.diagnosis.wording import listed
from sidecar.objectives.attribution import Blame


def headline(
    ordered: Sequence[Diagnosis],
    anatomy: Anatomy,
    ready: tuple[bool, str],
    around: Around,
    down: EngineDown | None = None,
) -> str:
    """The section with the one sentence on what is wrong, or that nothing is. `ordered`: worst first."""
    broken = worst(ordered)
    said, more, kind, phase = _said(ordered, anatomy, ready)
    if _is_bad(down, broken):
        said, more, kind, phase = _engine_down(down, ordered, ready[1])
        more += facts_of_engine(down, broken, ordered, anatomy, around)
    elif broken is not None:
        more += facts_of_lane(broken, ordered, anatomy, around)
    elif down is not None:
        said, more, kind, phase = f"The engine has not come up yet{_since(down)}", _why(down), "", ""
    first = f' data-phase="{phase}"' if phase else ""
    return (
        f'<section id="headline" data-live aria-labelledby="headline-title" class="{kind}"{first}>'
        f'<h1 id="headline-title">{said}</h1>{more}</section>'
    )


def in_short(ordered: Sequence[Diagnosis], down: EngineDown | None = None) -> str:
    """Text for the browser tab: an engine that is down, or the first phase and its lane if a lane is broken, else empty."""
    broken = worst(ordered)
    if _is_bad(down, broken):
        return f"engine {_state(down)} · "
    return "" if broken is None else f"{phase_words(broken)}, {who(broken, ordered)} · "


def worst(ordered: Sequence[Diagnosis]) -> Diagnosis | None:
    """The broken lane that stands for the page; None if no lane is broken. `ordered`: worst first."""
    return next((d for d in ordered if d.outcome is Outcome.VERDICT), None)


def _is_bad(down: EngineDown | None, broken: Diagnosis | None) -> TypeGuard[EngineDown]:
    """An engine that still has time to come up is no fault, unless clients already miss it."""
    return down is not None and (not down.coming_up or (broken is not None and broken.phase == Blame.ENGINE))


def _why(down: EngineDown) -> str:
    return "" if down.why is None else f"<p>{escape(down.why)}</p>"


def _since(down: EngineDown) -> str:
    return "" if down.seconds is None or round(down.seconds) == 0 else f", for {span(down.seconds)}"


def _state(down: EngineDown) -> str:
    return "stalled" if down.stalled else "down"


def _engine_down(down: EngineDown, ordered: Sequence[Diagnosis], why: str) -> tuple[str, str, str, str]:
    broken = sum(d.outcome is Outcome.VERDICT for d in ordered)
    also = f" {broken} {'lane is' if broken == 1 else 'lanes are'} broken." if broken else ""
    what = (
        f"Not ready: {why}."
        if down.stalled
        else f"It fails its health checks: {down.why}"
        if down.why
        else "It fails its health checks."
    )
    said = f'<span class="chip p-{Blame.ENGINE}">{Blame.ENGINE}</span> The engine is {_state(down)}{_since(down)}'
    return said, f"<p>{escape(what + also)}</p>", "bad", Blame.ENGINE.value


def _said(ordered: Sequence[Diagnosis], anatomy: Anatomy, ready: tuple[bool, str]) -> tuple[str, str, str, str]:
    broken = worst(ordered)
    if broken is not None:
        assert broken.first is not None
        also = sum(d.outcome is Outcome.VERDICT for d in ordered) - 1
        more = quiet(f" and {also} more {'lane is' if also == 1 else 'lanes are'} broken") if also else ""
        held = "misses its" if has_objective(broken) else "has no objective, but is slow in its"
        sentence = (
            f'<span class="chip p-{broken.phase}">{escape(phase_words(broken))}</span> '
            f"{escape(who(broken, ordered))} {held} {NAMES[broken.first]}{more}"
        )
        return sentence, "", "bad", str(broken.phase)
    said, why, kind = _no_lane_broken(ordered, anatomy, ready)
    return said, f"<p>{why}</p>" if why else "", kind, ""


def _no_lane_broken(ordered: Sequence[Diagnosis], anatomy: Anatomy, ready: tuple[bool, str]) -> tuple[str, str, str]:
    if not ready[0]:
        return "Not ready", escape(ready[1]), "bad"
    refused = [d for d in ordered if d.outcome is Outcome.REFUSED and not d.has_few_samples]
    if refused:
        return f"No verdict on {escape(who(refused[0], ordered))}", prose(refused[0].missing[0].what), "unsure"
    if not ordered:
        return ("Quiet", "No request in the window.", "") if anatomy.ever else ("No traffic yet", "", "")
    if not any(has_objective(d) for d in ordered):
        return "No objectives", "No lane with traffic has an objective, so no lane here can page.", ""
    few = [d for d in ordered if d.has_few_samples]
    untold = "" if not few else f"Too few samples to judge {listed([who(d, ordered) for d in few], 'and')}."
    if any(has_objective(d) for d in ordered if not d.has_few_samples):
        return "Every objective is met", escape(untold), "good"
    return "Too few samples", escape(untold), ""
