"""Rulers, and the intervals, fields and sizes that each of them takes, and how many rules a group may have there.

Each number has its source, read in November 2026. A limit that no source states is not checked: 0 means that none is known. It knows
no rule.
"""

from dataclasses import dataclass


MOST_INTERVAL_SECONDS = 60
"""The rules read windows of two minutes, and a growth needs two numbers in its window."""


@dataclass(frozen=True, slots=True)
class Ruler:
    """A ruler by its name on the command line. Seconds are whole."""

    name: str
    title: str
    load: tuple[str, ...]
    """Commands that bring the rules in; `{rules}` is their folder, `{place}` a namespace as kubectl's flag."""
    interval_seconds: int = 0
    """No group is evaluated more often, unless `--interval` says otherwise; 0: as each group is shipped."""
    least_interval_seconds: int = 1
    most_rules: int = 0
    """In one group."""
    most_groups: int = 0
    least_hold_seconds: int = 0
    """The shortest `for`, where there is one."""
    keeps_firing: bool = True
    """It takes `keep_firing_for`."""
    most_text_characters: int = 0
    """Length of an annotation as it stands in the rule. Texts that ask are longer: with a limit they ask nothing."""
    lag_seconds: int = 0
    """It evaluates over data that is so old."""
    rules_object: tuple[str, str] = ("monitoring.coreos.com/v1", "PrometheusRule")
    """`apiVersion` and `kind` of the object."""
    reads_objects: bool = True
    """False: rules come to it as files alone."""
    to_know: tuple[str, ...] = ()
    """Sentences about what is otherwise there, and what to do; `sidecar export` prints them."""


PROMETHEUS = Ruler("prometheus", "Prometheus", ("kubectl apply{place} -f {rules}/kubernetes/prometheus-rule.yaml",))
MIMIR = Ruler(
    "mimir",
    "Grafana Mimir",
    (
        "mimirtool rules load --address=ADDRESS --id=TENANT {rules}/llm-recording.yml {rules}/llm-alerts.yml {rules}/llm-dashboards.yml",
    ),
    most_rules=20,
    most_groups=70,
    lag_seconds=60,
    reads_objects=False,
)
"""Defaults of a tenant in Mimir's `pkg/util/validation/limits.go` (main, 2026): `ruler.max-rules-per-rule-group` 20,
`ruler.max-rule-groups-per-tenant` 70, `ruler.evaluation-delay-duration` 1m, `ruler.min-rule-evaluation-interval` 0s."""
GMP = Ruler(
    "gmp",
    "Google Cloud Managed Service for Prometheus",
    ("kubectl apply -f {rules}/kubernetes/prometheus-rule.yaml",),
    interval_seconds=30,
    keeps_firing=False,
    rules_object=("monitoring.googleapis.com/v1", "ClusterRules"),
    to_know=(
        "ClusterRules have no namespace and read the engines of the whole cluster; Google's Rules would read those of their own namespace alone.",
        "Google's collection reads no PodMonitor of prometheus-operator: write a PodMonitoring (monitoring.googleapis.com/v1) for the port admin in each namespace of engines.",
    ),
)
"""The types in prometheus-engine's `pkg/operator/apis/monitoring/v1/rules_types.go` (main, 2026): `Rules` read and write the series of
their own namespace alone, `ClusterRules` those of the cluster; a group has a name, an interval (default 1m, no floor) and rules, a rule
has no `keep_firing_for`. 30 s is ours: what a rule records is queried again
only after it was written to Cloud Monitoring, and every evaluation is billed by what it reads."""
AZURE = Ruler(
    "azure",
    "Azure Monitor managed service for Prometheus",
    (
        "az-prom-rules-converter -amw WORKSPACE_ID -l REGION -o llm-recording.json {rules}/llm-recording.yml",
        "az-prom-rules-converter -amw WORKSPACE_ID -l REGION -a ACTION_GROUP_ID -o llm-alerts.json {rules}/llm-alerts.yml",
        "az deployment group create -g RESOURCE_GROUP --template-file llm-recording.json",
        "az deployment group create -g RESOURCE_GROUP --template-file llm-alerts.json",
    ),
    interval_seconds=60,
    least_interval_seconds=60,
    most_rules=20,
    most_groups=500,
    least_hold_seconds=60,
    keeps_firing=False,
    most_text_characters=1024,
    reads_objects=False,
    to_know=(
        "az-prom-rules-converter gives every alert severity 3 and the same action group: pages and tickets call the same people. Split llm-alerts.yml by the label severity and convert each part with an action group of its own (-a).",
        "Watchdog always fires: take it out of llm-alerts.yml, or it calls the action group.",
    ),
)
"""Limits of an Azure Monitor workspace (Microsoft's page of service limits): 20 rules in a group, 500 groups, an interval of 1 to 15
minutes. The schema `azure-prometheus-rule-group.json` of Azure's az-prom-rules-converter: a label or an annotation has at most 1,024
characters, a rule at most 10 labels, and no `keep_firing_for`. A `for` below one minute is refused (Azure/prometheus-collector#672)."""
AMP = Ruler(
    "amp",
    "Amazon Managed Service for Prometheus",
    (
        "aws amp create-rule-groups-namespace --workspace-id=ID --name=llm-recording --data=fileb://{rules}/llm-recording.yml",
        "aws amp create-rule-groups-namespace --workspace-id=ID --name=llm-alerts --data=fileb://{rules}/llm-alerts.yml",
    ),
    interval_seconds=30,
    least_interval_seconds=30,
    reads_objects=False,
)
"""Its user guide, "Create a rules file": `keep_firing_for` is taken, the interval is 60 s unless stated; "Recording rules and alerting
rules": no order holds between groups. 30 s is the shortest interval that users report; no page of AWS that we could read states it, and
AWS may have set another one for an account."""

RULERS = {ruler.name: ruler for ruler in (PROMETHEUS, MIMIR, GMP, AZURE, AMP)}
