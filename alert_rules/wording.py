"""What a page says: summary, description and links, with numbers in human units. The links' base addresses are set here, once.

Templates are Prometheus's own and run in 2.42: `query` asks for the worst pod, its share and the cause when the alert fires.
"""

from collections.abc import Mapping

from sidecar.slo.attribution import Blame


RUNBOOKS = "http://llm-phase-sidecar:9901/runbooks"
"""Where runbooks are served: a sidecar's admin listener has them. `python -m alert_rules --runbook-base=URL` writes another."""
DASHBOARDS = "http://grafana:3000/d"
"""Grafana. `--dashboard-base=URL` writes another."""

_LANE = 'namespace="{{ $labels.namespace }}",model="{{ $labels.model }}",lane="{{ $labels.lane }}"'
_SELECTED = (
    '{namespace=\\"%s\\",model=\\"%s\\",lane=\\"%s\\",objective=\\"%s\\"}',
    "$labels.namespace $labels.model $labels.lane $labels.objective",
)


def _asked(query: str, then: str, otherwise: str = "") -> str:
    """A query about this very lane and objective; `%` in it stands for its selector."""
    count = query.count("%")
    selector, names = _SELECTED
    text = query.replace("%", selector)
    return (
        f'{{{{ with printf "{text}" {" ".join([names] * count)} | query }}}}{then}'
        + (f"{{{{ else }}}}{otherwise}" if otherwise else "")
        + "{{ end }}"
    )


_WORST_POD = _asked(
    "topk(1, sum by (pod) (increase(llm_slo_misses_total%[5m])) > 0) / scalar(sum(increase(llm_slo_misses_total%[5m])))",
    ', worst pod {{ . | first | label "pod" }} ({{ . | first | value | humanizePercentage }} of the misses)',
)
_WAITED = _asked(
    "topk(1, lane:llm_slo_waited_in:ratio%)",
    '{{ . | first | value | humanizePercentage }} of the split misses waited in {{ . | first | label "phase" }}',
    "nobody knows yet where the misses waited",
)
_SHARE_SPLIT = _asked(
    "lane:llm_slo_votes:split% / scalar(sum(lane:llm_slo_votes:window%)) >= 0",
    "{{ . | first | value | humanizePercentage }} of the closed misses carry a split",
    "no miss has been closed yet",
)
_CAUSE = _asked("lane:llm_slo_verdict:cause%", '{{ . | first | label "cause" }}', "none")
_GROWN = (
    '{{ with printf "topk(5, model:llm_evidence:ratio{namespace=\\"%s\\",model=\\"%s\\"})"'
    " $labels.namespace $labels.model | query }}"
    ' Against its own last quiet hour:{{ range . }} {{ .Labels.evidence }} {{ .Value | printf "%.2f" }}x{{ end }}.{{ end }}'
)
_PROVISIONAL = _asked(
    "lane:llm_slo_verdict:provisional%",
    " Provisional: too few ledgers have closed, so the engine's own state (waiting, running) decides.",
)

OBJECTIVES = (
    '{{ if eq $labels.objective "ttft" }}TTFT{{ else if eq $labels.objective "tpot" }}TPOT{{ else }}E2E{{ end }}'
)

MEANING: Mapping[Blame, str] = {
    Blame.QUEUE: "Requests wait for the engine's scheduler; what runs is not the reason that they are late.",
    Blame.PREFILL: "Prompts take longer to compute than they did, or more of them has to be computed.",
    Blame.FIRST_TOKEN: "Time is lost before the scheduler or behind it: tokenising, templates, the API server, the network.",
    Blame.UNATTRIBUTED: "Nobody can split the time to first token, so no phase is named: see which flag of the engine would tell.",
    Blame.DECODE: "Tokens after the first come too slowly.",
    Blame.STREAM: "The engine made the tokens; something on their way held them back: a slow client, or a hop that buffers.",
    Blame.ENGINE: "The engine failed, is silent or preempts: no phase explains the misses.",
}


def most_on(metric: str, matchers: str, window: str, labels: tuple[str, ...]) -> str:
    """The pod that has most of a counter's growth, and its share, for an alert that sums over pods. `matchers`: further ones, or empty."""
    chosen = ",".join([*(f'{label}=\\"%s\\"' for label in labels), *([matchers] if matchers else [])])
    growth = f"increase({metric}{{{chosen}}}[{window}])"
    names = " ".join(f"$labels.{label}" for label in labels)
    return (
        f'{{{{ with printf "topk(1, sum by (pod) ({growth}) > 0) / scalar(sum({growth}))" {names} {names} | query }}}}'
        ', worst pod {{ . | first | label "pod" }} ({{ . | first | value | humanizePercentage }} of it){{ end }}'
    )


def burn_annotations(name: str, blame: Blame, windows: str, bases: tuple[str, str]) -> dict[str, str]:
    """The four annotations of a burn alert; its value is the burn rate. `bases`: of runbooks and dashboards."""
    return {
        "summary": f'{{{{ $labels.lane }}}}: {OBJECTIVES} budget burning {{{{ $value | printf "%.1f" }}}}x, {_WAITED}{_WORST_POD}',
        "description": (
            f"{MEANING[blame]} Lane {{{{ $labels.lane }}}} of model {{{{ $labels.model }}}} in namespace"
            f" {{{{ $labels.namespace }}}} misses its {OBJECTIVES} objective ({windows}). Verdict: {blame}. Cause hint: {_CAUSE}.{_GROWN}"
            f" {_SHARE_SPLIT}.{_PROVISIONAL}"
        ),
        **links(
            name,
            bases,
            "&var-lane={{ $labels.lane }}&var-model={{ $labels.model }}&var-namespace={{ $labels.namespace }}",
        ),
    }


def links(name: str, bases: tuple[str, str], variables: str, dashboard: str = "llm-anatomy") -> dict[str, str]:
    """Where to read on. `variables`: the dashboard's, as `&var-x=...`."""
    return {
        "runbook_url": f"{bases[0]}/{name}",
        "dashboard_url": f"{bases[1]}/{dashboard}?{variables.lstrip('&')}",
    }
