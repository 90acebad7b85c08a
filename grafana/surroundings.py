"""The things that every dashboard has around its panels: variables to choose by, alerts as annotations, and links that keep time and choice.

Knows the labels that alerts carry (alert_rules/) and the names of the variables, which alerts put into their links. Refuses to know
panels. A lane's alert has no pod and a pod's has no lane: an annotation is shown if its label is chosen or missing.
"""

from collections.abc import Iterator, Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from grafana.colours import NEUTRAL, RED, WARN
from grafana.panel import Board, Choice
from grafana.pod_names import WHOLE_POD
from grafana.query import COMPUTED, VARIABLES, promql
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.dashboard_rules import MARK, NOW, PART
from sidecar.metrics.target_labels import CLUSTER


ALL = ".*"
"""Also of a label that is missing: most fleets have no `cluster`, and outside Kubernetes nothing says a namespace unless the scrape
configuration does."""
_NO_JOB = "-"
"""A pattern that matches no job: no scrape configuration is called so."""
_SOURCE = {
    CLUSTER: "llm_sidecar_build_info",
    "namespace": "llm_sidecar_build_info",
    "pod": "llm_sidecar_build_info",
    "model": "llm_requests_received_total",
    "lane": "llm_requests_received_total",
    "prompt_bucket": "llm_requests_total",
}
"""Sources of a variable's values: series that are there before the first request."""
_WITH_FALLBACK = ("model", "lane")
"""Variables whose label has the value `other`, which is no choice while nothing is counted under it."""
_TITLES = {
    CLUSTER: "Cluster",
    "namespace": "Namespace",
    "pod": "Pod",
    "model": "Model",
    "lane": "Lane",
    "prompt_bucket": "Prompt tokens",
}


def _datasource() -> common_models.DataSourceRef:
    return common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")


def variables(
    choices: Sequence[Choice] = (), parts: Sequence[str] = ()
) -> Iterator[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    """The data source, then each label; a later one offers only what the earlier ones leave.

    `parts`: the groups of the optional rule file that the dashboard reads; without them nothing needs the switch.
    """
    yield dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    chosen: list[str] = []
    for name in VARIABLES:
        # prompt_bucket's series has them all; a pod has no model.
        series = f"{_SOURCE[name]}{{{','.join(chosen)}}}"
        everything = models.VariableOption(selected=True, text=["All"], value=["$__all"])
        if name in _WITH_FALLBACK:
            # Only what had traffic: `other` may be there at 0.
            text = f"query_result(count by ({name}) (increase({series}[$__range]) > 0))"
            made = _query(name, _TITLES[name], text).regex(f'/{name}="([^"]+)"/')
        else:
            made = _query(name, _TITLES[name], f"label_values({series}, {name})")
        yield made.multi(True).include_all(True).all_value(ALL).current(everything)
        chosen.append(f'{name}=~"${name}"')
    if parts:
        yield _computed(parts)
    for choice in choices:
        order = "sort_desc" if choice.youngest_first else "sort"
        selected = ",".join([*chosen[:3], f'{choice.label}!=""'])
        pods = f"process_start_time_seconds{{{selected}}}"
        # Unsorted by Grafana, so that the first value, which is chosen when the dashboard opens, is the query's first.
        yield (
            _query(choice.name, choice.title, f"query_result({order}(min by ({choice.label}) ({pods})))")
            .regex(f'/{choice.label}="([^"]+)"/')
            .sort(models.VariableSort.DISABLED)
        )


def _computed(parts: Sequence[str]) -> dashboard.QueryVariable:
    """Out of sight: `.*`, or a pattern that matches no job where all these groups of rules for pictures were evaluated from the start
    of the time shown to its end. What they record has no pod and no prompt bucket: an empty label matches All, and no other choice.
    """
    chosen = ",".join(f'{name}=~"${name}"' for name in (CLUSTER, "namespace", "pod", "prompt_bucket"))
    recorded = f'{MARK}{{{chosen},{PART}=~"{"|".join(parts)}"}}'
    stored = " and ".join(
        f"count(group by ({PART}) ({recorded}{at})) == {len(parts)}" for at in (" offset $__range", "")
    )
    text = (
        f'query_result(label_replace({stored}, "{COMPUTED}", "{_NO_JOB}", "", "")'
        f' or on () label_replace(vector(1), "{COMPUTED}", "{ALL}", "", ""))'
    )
    return (
        _query(COMPUTED, "Computed", text)
        .regex(f'/{COMPUTED}="([^"]+)"/')
        .sort(models.VariableSort.DISABLED)
        .hide(models.VariableHide.HIDE_VARIABLE)
        .current(models.VariableOption(selected=True, text=ALL, value=ALL))
    )


def _query(name: str, title: str, text: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(title)
        .datasource(_datasource())
        # As an object it is what Grafana itself saves since 9.0; a bare string would be migrated at each load.
        .query({"query": text, "refId": name})
        .definition(text)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def annotations() -> Iterator[dashboard.AnnotationQuery]:
    """Pages and tickets, each under its phase; then what was changed: versions that are new, engines that restarted, configs.

    An alert of several lanes or pods is drawn once: each would tint the panel again, until no line can be read.
    A cluster is a tag: of a label that is absent, a text shows the label's name.
    """
    for severity, colour in (("page", RED), ("ticket", WARN)):
        chosen = ",".join(f'{name}=~"(|${name})"' for name in (CLUSTER, "namespace", "pod", "model", "lane"))
        firing = f'ALERTS{{alertname=~"LLM.*",alertstate="firing",severity="{severity}",{chosen}}}'
        each = f"group by (severity, alertname, phase, {CLUSTER}, namespace) ({firing})"
        yield (
            _annotation(f"{severity.capitalize()}s", colour, each)
            .title_format("{{alertname}}: {{phase}}")
            .text_format("{{namespace}}")
            .tag_keys(f"phase,{CLUSTER}")
        )
    for name, (expr, title, text) in _CHANGES.items():
        yield _annotation(name, NEUTRAL, promql(expr)).title_format(title).text_format(text).tag_keys(CLUSTER)


_DEPLOYED = f"{CLUSTER}, namespace, engine, version, app_version"
"""Labels of a deploy; `app_version` is the pod's own version, where Prometheus puts it on the target."""
_VERSIONS = f"group by ({_DEPLOYED}) (llm_engine_info)"
_CHANGES = {
    "Deploys": (
        f"{_VERSIONS} unless on ({_DEPLOYED}) {_VERSIONS.removesuffix(')')} offset {NOW})",
        "{{engine}} {{version}} {{app_version}} is new",
        "{{namespace}}",
    ),
    "Engine restarts": (
        f"sum by (POD) (increase(llm_engine_restarts_total[{NOW}])) > 0",
        "engine restarted",
        "{{pod}}",
    ),
    "Config changes": (
        f"max by (POD) (changes(llm_sidecar_config_last_reload_success_timestamp_seconds[{NOW}])) > 0",
        "config reloaded",
        "{{pod}}",
    ),
}
"""Name to the query, its title and its text. A change is marked for as long as `NOW`: a minute may hold one sample of a slow scrape."""


def _annotation(name: str, colour: str, expr: str) -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(_datasource())
        .enable(True)
        .icon_color(colour)
        .expr(expr)
        .step("30s")
    )


def links(board: Board) -> Iterator[dashboard.DashboardLink]:
    """All our dashboards in one menu, with time and variables kept; then the runbooks that this one follows."""
    yield (
        dashboard.DashboardLink("LLM dashboards")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["llm-phase-sidecar"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    for name in board.runbooks:
        yield (
            dashboard.DashboardLink(f"Runbook {name}")
            .type(models.DashboardLinkType.LINK)
            .url(f"{RUNBOOKS}/{name}")
            .icon("doc")
            .tooltip("What to check first, and which fixes target this phase")
            .target_blank(True)
        )


def kept(uid: str, *labels: str) -> str:
    """The address of another dashboard from a table's row: time, data source and variables kept, the row's own labels chosen, its cluster
    among them. A row without a cluster leaves that parameter empty, which chooses series without the label.
    """
    labels = (CLUSTER, *labels)
    own = "".join(f"&var-{label}=${{__data.fields.{label}}}" for label in labels)
    others = "".join(f"&${{{name}:queryparam}}" for name in VARIABLES if name not in labels)
    return f"/d/{uid}?${{__url_time_range}}&${{datasource:queryparam}}{others}{own}"


ONLY_THIS_POD = ("pod", "Only ${__data.fields.pod}", kept("llm-anatomy", "namespace", "pod"))
"""The link of a table's pods. Its title, which the pointer shows, has the whole name."""
THE_POD_OF_A_ROW = (
    "pod",
    ONLY_THIS_POD[1].replace("fields.pod", f"fields.{WHOLE_POD}"),
    ONLY_THIS_POD[2].replace("fields.pod", f"fields.{WHOLE_POD}"),
)
"""The same in a table whose rows stand for several answers: Grafana knows a column that it folded by its heading alone."""
