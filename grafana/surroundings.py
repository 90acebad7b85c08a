"""What every dashboard has around its panels: variables to choose by, alerts as annotations, and links that keep time and choice.

Knows the labels that alerts carry (alert_rules/) and the names of the variables, which alerts put into their links. Refuses to know
panels. A lane's alert has no pod and a pod's has no lane: an annotation is shown if its label is chosen or missing.
"""

from collections.abc import Iterator, Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from grafana.panel import Board, Choice
from grafana.query import VARIABLES


ALL = ".*"
"""Also of a label that is missing: outside Kubernetes nothing says a namespace unless the scrape configuration does."""
_SOURCE = {
    "namespace": "llm_sidecar_build_info",
    "pod": "llm_sidecar_build_info",
    "model": "llm_requests_received_total",
    "lane": "llm_requests_received_total",
    "prompt_bucket": "llm_requests_total",
}
"""Where the values of a variable come from: series that are there from the start."""
_TITLES = {"namespace": "Namespace", "pod": "Pod", "model": "Model", "lane": "Lane", "prompt_bucket": "Prompt tokens"}


def _datasource() -> common_models.DataSourceRef:
    return common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")


def variables(choices: Sequence[Choice] = ()) -> Iterator[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    """The data source, then each label; a later one offers only what the earlier ones leave."""
    yield dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    chosen: list[str] = []
    for name in VARIABLES:
        # prompt_bucket's series has them all; a pod has no model.
        text = f"label_values({_SOURCE[name]}{{{','.join(chosen)}}}, {name})"
        everything = models.VariableOption(selected=True, text=["All"], value=["$__all"])
        yield _query(name, _TITLES[name], text).multi(True).include_all(True).all_value(ALL).current(everything)
        chosen.append(f'{name}=~"${name}"')
    for choice in choices:
        yield _query(
            choice.name, choice.title, f"label_values({choice.series}{{{','.join(chosen[:2])}}}, {choice.label})"
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
    """Pages in red and tickets in orange, each under its phase."""
    for severity, colour in (("page", "red"), ("ticket", "orange")):
        chosen = ",".join(f'{name}=~"(|${name})"' for name in ("namespace", "pod", "model", "lane"))
        yield (
            dashboard.AnnotationQuery()
            .name(f"{severity.capitalize()}s")
            .datasource(_datasource())
            .enable(True)
            .icon_color(colour)
            .expr(f'ALERTS{{alertname=~"LLM.*",alertstate="firing",severity="{severity}",{chosen}}}')
            .step("30s")
            .title_format("{{alertname}}: {{phase}}")
            .text_format("{{lane}} {{model}} {{pod}}")
            .tag_keys("phase,lane,pod")
        )


def links(board: Board, runbook_base: str) -> Iterator[dashboard.DashboardLink]:
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
            .url(f"{runbook_base}/{name}")
            .icon("doc")
            .tooltip("What to check first, and which fixes target this phase")
            .target_blank(True)
        )


def kept(uid: str, *labels: str) -> str:
    """The address of another dashboard from a table's row: time, data source and variables kept, the row's own labels chosen."""
    own = "".join(f"&var-{label}=${{__data.fields.{label}}}" for label in labels)
    others = "".join(f"&${{{name}:queryparam}}" for name in VARIABLES if name not in labels)
    return f"/d/{uid}?${{__url_time_range}}&${{datasource:queryparam}}{others}{own}"
