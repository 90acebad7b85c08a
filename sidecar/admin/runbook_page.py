"""The page around a runbook: its style, and the box on top that says which lane, pod and engine it is filled in for.

It knows the words of the box. It refuses to judge: the present cause comes from `sidecar/diagnosis/`. Names of lanes, models
and pods are escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from sidecar.admin.page.html import items, percent, prose
from sidecar.admin.page.style import STYLE
from sidecar.admin.page.verdicts import first_steps, runbook_path, step_words
from sidecar.admin.runbook_labels import ALL_ENGINES, Asked
from sidecar.diagnosis.document import DOWN_RUNBOOK
from sidecar.diagnosis.findings import Diagnosis, Outcome
from sidecar.diagnosis.interventions import CHAPTERS, ENGINES
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import worst_first
from sidecar.diagnosis.wording import instant, phase_name, times
from sidecar.engines.kinds import KINDS


_STYLE = """
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:10px 14px;border:1px solid var(--line);background:var(--card);border-radius:8px}
code,pre{font:13px/1.45 ui-monospace,"DejaVu Sans Mono",monospace}li{margin:4px 0}
article th,article td{text-align:left;vertical-align:top}article td code{overflow-wrap:anywhere}
article td{min-width:6.5em}article td:first-child{min-width:11em}thead th{white-space:nowrap}
.box,.answer{border-left:4px solid var(--line);padding:4px 12px;margin:8px 0;background:var(--card)}
.answer p,.answer ul{margin:2px 0}.present td{background:var(--card)}.present td:first-child{padding-left:8px;border-left:4px solid var(--fg)}
mark{background:none;color:var(--bad);font-weight:600}.choices a{margin-right:10px}
@media (max-width:600px){article table,article tbody,article tr,article td{display:block}article thead{display:none}
article tr{border-bottom:1px solid var(--line);padding:8px 0}article td{border:0;padding:2px 0;display:flex;gap:8px}
article td::before{content:attr(data-head);flex:0 0 6.5em;color:var(--quiet)}article td>div{min-width:0}}
""".strip()


def page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}{_STYLE}</style></head><body>'
        f'<nav><a href="/">llm-phase-sidecar</a><a href="/runbooks/">all runbooks</a></nav><main><article>{body}</article></main>'
        "</body></html>"
    )


def no_such_runbook(names: Iterable[str]) -> str:
    listed = items(f'<a href="/runbooks/{name}">{name}</a>' for name in names)
    return page("No such runbook", f"<h1>No such runbook</h1><p>The runbooks are:</p>{listed}")


def under_title(html: str, box: str) -> str:
    """The page's body with the box below the first heading."""
    title, end, rest = html.partition("</h1>")
    return f"{title}{end}{box}{rest}"


# --- the box -------------------------------------------------------------------------------------------------------------


def box(
    asked: Asked,
    places: Sequence[str],
    choices: Mapping[str, Sequence[str]],
    present: str,
    *,
    pod: str,
    port: int | None = None,
) -> str:
    """HTML. `places`: the labels that the runbook has a place for; `choices`: label to its possible values; `present`: HTML
    about the present state; `pod`: the one that answers; `port`: that of its admin listener, if it is known.
    """
    lines = [f'<span class="state bad">✗</span> {escape(text)}' for text in asked.refused]
    lines.append(present)
    known = [name for name in asked.values if name in places or name in asked.given]
    if known:
        lines.append("Filled in: " + ", ".join(f"{name} <code>{escape(asked.values[name])}</code>" for name in known))
    # The lane decides what is broken now, also where no query has a place for it.
    for name in dict.fromkeys(("lane", *places)) if places else ():
        if name not in asked.values and name in choices:
            links = "".join(
                f'<a href="{escape(link({**asked.given, name: one}))}">{escape(one)}</a>' for one in choices[name]
            )
            lines.append(f'Choose the {name}: <span class="choices">{links}</span>')
    missing = [name for name in places if name not in asked.values and name not in choices]
    if missing:
        said = ", ".join(f"<mark>${name}</mark>" for name in missing)
        lines.append(f"Not known here: {said}. The link in a page gives them; or add <code>?{missing[0]}=...</code>")
    lines.append(_of_pod(asked.values, pod, port))
    return f'<div class="box" id="box">{"".join(f"<p>{line}</p>" for line in lines if line)}</div>'


def _of_pod(values: Mapping[str, str], pod: str, port: int | None) -> str:
    wanted, own = values.get("pod"), f"pod <code>{escape(pod)}</code>"
    if wanted is None or wanted == pod:
        return f"Answers below are of {own}, from its last minutes. Load the page again for new ones."
    there = "Open the runbook on the admin port of that pod"
    if "namespace" in values and port is not None:
        command = f"kubectl -n {values['namespace']} port-forward pod/{wanted} {port}"
        there += f": <code>{escape(command)}</code>, and the same path on <code>http://127.0.0.1:{port}</code>"
    return (
        f'<span class="state bad">✗</span> The link is about pod <code>{escape(wanted)}</code>, but {own} answers, and the'
        f" numbers below are its own. {there}."
    )


def link(parameters: Mapping[str, str]) -> str:
    """The same page with these parameters."""
    return f"?{urlencode(parameters)}"


# --- the present ---------------------------------------------------------------------------------------------------------


def of_lane(diagnoses: Iterable[Diagnosis], values: Mapping[str, str], *, any_lane: bool) -> Diagnosis | None:
    """The diagnosis of the chosen lane, the worst one if it has several models. `any_lane`: of all, if none is chosen."""
    chosen = {name: values[name] for name in ("lane", "model") if name in values}
    if "lane" not in chosen and not any_lane:
        return None
    fits = (d for d in diagnoses if all(getattr(d.measured, name) == value for name, value in chosen.items()))
    return next(iter(worst_first(fits)), None)


def present(name: str, d: Diagnosis | None, lane: str | None, down: EngineDown | None) -> str:
    """One sentence about the present state of the lane, with a link if another runbook fits better."""
    if down is not None and not down.coming_up:
        more = "" if name == DOWN_RUNBOOK else f' Read <a href="/runbooks/{DOWN_RUNBOOK}">{DOWN_RUNBOOK}</a>.'
        return f"Now the engine is <strong>{'stalled' if down.stalled else 'down'}</strong>.{more}"
    if d is None:
        return "" if lane is None else f"Now: no request of lane {escape(lane)} in the window."
    who = f"Now lane {escape(d.measured.lane or '')}"
    if d.outcome is Outcome.WELL:
        return f"{who} is well: it meets what is promised."
    if d.outcome is Outcome.REFUSED or d.phase is None:
        return f"{who} has no verdict: {prose(d.missing[0].what)}." if d.missing else f"{who} has no verdict."
    size = "" if d.size is None else f" ({times(d.size.ratio.value)} the usual)"
    cause = "its cause is not known" if d.cause is None else f"cause <strong>{d.cause}</strong>{size}"
    sure = "" if d.confidence is None else f", confidence {percent(d.confidence)}"
    since = "" if d.since_at is None else f", since {instant(d.since_at)}"
    runbook = CHAPTERS[d.phase]
    path = escape(runbook_path(runbook, d))
    more = "" if runbook == name else f' Read <a href="{path}">{runbook}</a> too.'
    first = f" Do first: {step_words(steps[0])}" if (steps := first_steps(d)) and runbook == name else ""
    return f"{who}: phase <strong>{escape(phase_name(d.phase))}</strong>, {cause}{since}{sure}.{first}{more}"


def engines_shown(asked: Asked, recognised: str | None) -> tuple[tuple[str, ...], str]:
    """The engines whose columns are shown, and the sentence about them as HTML."""
    to_all = f'<a href="{escape(link({**asked.given, "engine": ALL_ENGINES}))}">all engines</a>'
    if asked.engine == ALL_ENGINES:
        return ENGINES, "The flags of all engines."
    if asked.engine:
        return (asked.engine,), f"The flags of {KINDS[asked.engine].title}, as the link asks; {to_all}."
    if recognised is None:
        return ENGINES, "The flags of all engines: the sidecar has not recognised its engine."
    if recognised in ENGINES:
        return (recognised,), f"The flags of {KINDS[recognised].title}, this pod's engine; {to_all}."
    title = KINDS[recognised].title if recognised in KINDS else "this pod's engine"
    return (), f"No flag of {escape(title)} is known here; {to_all}."
