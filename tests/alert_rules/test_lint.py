"""Demands on rules before they are played: only what exists, only what Prometheus 2.42 knows, and one closed set of phases.

Read from the shipped files as trees. What pint checks and cannot be installed here is checked in its spirit; no rule is evaluated.
"""

import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import promql_parser as promql
import pytest

from sidecar.commands.export.rules.page_facts import LANE_FACTS, WORST
from sidecar.commands.export.rules.pages import BURN_ALERTS
from sidecar.commands.export.rules.target_alerts import DOWN
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.target_labels import CLUSTER, ONE_ENGINE, ONE_POD, ONE_PROCESS
from sidecar.objectives.attribution import SIDECAR, Blame
from tests.alert_rules.syntax import (
    FILES,
    FOLDER,
    KNOWN,
    RATES,
    Labels,
    Shipped,
    asked_in,
    counters,
    groups,
    inside,
    operator,
    recorded,
    rules,
    selectors,
)
from tests.support.shipped_rules import shipped_rules
from tests.support.tools import need_newer, need_tool


CHECKOUT = FOLDER.parent
RULES = rules()
SCRAPE_SECONDS = 15
ANNOTATION_BYTES, OBJECT_BYTES = 90_000, 160_000
"""The size that the texts of all alerts may take together, and the PrometheusRule: kubectl apply keeps a copy of an object in an annotation of 262,144."""
CLOSED = {*Blame, SIDECAR}
"""Every value that the label `phase` can have, anywhere."""

FUNCTIONS_OF_2_42 = {
    *("abs", "clamp_max", "clamp_min", "count_over_time", "histogram_quantile", "increase", "label_replace"),
    *(
        "last_over_time",
        "max_over_time",
        "min_over_time",
        "avg_over_time",
        "quantile_over_time",
        "rate",
        "scalar",
        "vector",
    ),
    *(
        "sum_over_time",
        "changes",
        "resets",
        "present_over_time",
        "time",
        "timestamp",
        "absent",
        "round",
        "hour",
        "minute",
    ),
    *("year", "month", "day_of_month", "floor", "label_join"),
}
"""Those of 2.42 that mean the same in 3.x (histogram_fraction does not, holt_winters has another name)."""

each_rule = pytest.mark.parametrize("rule", RULES, ids=str)
each_alert = pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.is_record], ids=str)
each_record = pytest.mark.parametrize("rule", [rule for rule in RULES if rule.is_record], ids=str)


@each_alert
def test_a_text_hands_a_query_no_label_that_may_be_missing(rule: Shipped) -> None:
    """vmalert gives nil for a label that the alert does not have, of which `%q` writes what is no PromQL: then no alert is sent. What scraping adds
    may be missing; a metric's own labels are always there."""
    handed = [
        argument
        for text in rule.fields["annotations"].values()
        for argument in re.findall(r'printf "(?:[^"\\]|\\.)*"([^|}]*)\|', text)
        + re.findall(r"{{ *([^{}|]*)\| urlquery", text)
    ]

    own = r'\(or \$labels\.[a-z_]+ ""\)|\$labels\.(?:model|lane|objective|phase)\b'

    assert [argument for argument in handed if "$labels." in re.sub(own, "", argument)] == []


# --- what promtool says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", [need_tool, need_newer])
def test_promtool_has_nothing_to_say(needed: Callable[[str], Path]) -> None:
    """Not even a rule that stands twice."""
    command = [str(needed("promtool")), "check", "rules", "--lint=all", "--lint-fatal"]
    judged = subprocess.run(
        [*command, *(str(FOLDER / name) for name in FILES)], capture_output=True, text=True, check=False, timeout=60
    )

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_the_committed_files_are_the_generated_ones() -> None:
    """`sidecar export rules` writes them anew."""
    written = shipped_rules()

    assert sorted(name for name, text in written.items() if (FOLDER / name).read_text() != text) == []


# --- what they read --------------------------------------------------------------------------------------------------------


@each_rule
def test_a_rule_reads_what_exists(rule: Shipped) -> None:
    """Series that are exposed or recorded, by labels that they carry: anything else is silence, and no error."""
    unknown = []
    for node in selectors(promql.parse(rule.expr)):
        series = node.name or ""
        wanted = {matcher.name for matcher in node.matchers.matchers}
        unknown += [series] if series not in KNOWN else [f"{series}: {label}" for label in wanted - KNOWN[series]]

    assert unknown == []


@each_rule
def test_a_rule_groups_and_joins_by_labels_that_are_there(rule: Shipped) -> None:
    """On both sides; a label that one has lost matches nothing, or everything."""
    labels = Labels(KNOWN)
    labels.of(promql.parse(rule.expr))

    assert labels.lost == []


@pytest.mark.parametrize(
    ("expr", "lost"),
    [
        ("llm_requests_overdue unless on (lane) vector(1)", ["lane in vector(1)"]),
        ("sum by (pod) (llm_requests_overdue) * on (pod, lane) llm_requests_overdue", ["lane in sum by (pod)(llm_requests_overdue{})"]),
        ("sum by (phase) (llm_requests_overdue)", ["phase in sum by (phase)(llm_requests_overdue{})"]),
        ("sum by (lane) (llm_requests_overdue) * on (lane) group_left (model) group by (lane) (llm_requests_overdue)", ["model in group by (lane)(llm_requests_overdue{})"]),
    ],
)  # fmt: skip
def test_a_lost_label_is_found(expr: str, lost: list[str]) -> None:
    """Or the promise above would be empty."""
    labels = Labels(KNOWN)
    labels.of(promql.parse(expr))

    assert labels.lost == lost


def test_whatever_tells_namespaces_apart_tells_clusters_apart() -> None:
    """Else two clusters with namespaces named alike would be one: in groupings, in joins, and in the queries of messages."""
    for_pictures = [Shipped("", rule) for group in groups((DASHBOARD_RULES,)) for rule in group["rules"]]
    asked = [query for rule in RULES if not rule.is_record for query in asked_in(rule)]
    texts = [*(rule.expr for rule in (*RULES, *for_pictures)), *asked]
    grouped = [found[1] for text in texts for found in re.finditer(r"\b(?:by|on) \(([^)]*)\)", text)]
    matched = [found[1] for text in asked for found in re.finditer(r"\{([^}]*)\}", text)]
    merged = {one for one in (*grouped, *matched) if re.search(r"\bnamespace\b", one) and CLUSTER not in one}

    assert (len(grouped) > 300, len(matched) > 100, merged) == (True, True, set())


@each_rule
def test_a_matcher_names_a_value_that_exists(rule: Shipped) -> None:
    """The value is of a closed set, or an edge of a histogram as the page writes it."""
    values = {
        (name, label.name): set(label.values)
        for metric in CATALOGUE
        for label in metric.labels
        if label.values
        for name in (metric.name, f"{metric.name}_bucket", f"{metric.name}_count")
    }
    edges = {(f"{metric.name}_bucket", "le"): {str(edge) for edge in metric.buckets} | {"+Inf"} for metric in CATALOGUE}
    phases = {(name, "phase"): set(map(str, CLOSED)) for name, labels in recorded().items() if "phase" in labels}
    closed = {**values, **{key: edge for key, edge in edges.items() if len(edge) > 1}, **phases}
    wrong = [
        f"{node.name}: {matcher.name}={value}"
        for node in selectors(promql.parse(rule.expr))
        for matcher in node.matchers.matchers
        for value in str(matcher.value).split("|")
        if (node.name or "", matcher.name) in closed and value not in closed[node.name or "", matcher.name]
    ]

    assert wrong == []


@each_rule
def test_a_rate_is_of_a_counter_and_over_four_scrapes(rule: Shipped) -> None:
    """Growth is taken of recorded sums only where they are one process's, or a restart would be growth; and one lost scrape leaves two samples."""
    wrong = []
    rising = counters() | {name for name in recorded() if re.fullmatch(r"instance:\w+:sum", name)}
    for node in inside(promql.parse(rule.expr)):
        if isinstance(node, promql.Call):
            function = str(node).split("(", maxsplit=1)[0]
            ranges = [one for one in node.args if isinstance(one, promql.MatrixSelector)]
            names = {one.vector_selector.name for one in ranges}
            # Three scrapes are counted beside the shortest of its windows.
            short = [
                one for one in ranges if one.range < timedelta(seconds=4 * SCRAPE_SECONDS) and rule.name != DOWN.name
            ]
            if short or (function in RATES) != (names <= rising and bool(names)):
                wrong.append(str(node))

    assert wrong == []


@each_rule
def test_a_rule_needs_nothing_newer_than_2_42(rule: Shipped) -> None:
    """No function, no field, and no number that is written as a duration."""
    used = {
        str(node).split("(", maxsplit=1)[0] for node in inside(promql.parse(rule.expr)) if isinstance(node, promql.Call)
    }

    assert used - FUNCTIONS_OF_2_42 == set()
    assert set(rule.fields) <= {"record", "alert", "expr", "labels", "annotations", "for", "keep_firing_for"}
    assert re.findall(r"[<>=] *\d+[smhdw]\b", rule.expr) == []


def test_groups_have_no_field_newer_than_2_42() -> None:
    assert {field for group in groups() for field in group} <= {"name", "interval", "rules", "limit"}


# --- what they record ------------------------------------------------------------------------------------------------------


LEVELS = {
    "instance": {*ONE_PROCESS, "model", "lane", "objective"},
    "target": {*ONE_PROCESS},
    "lane": {*ONE_ENGINE, "model", "lane", "objective"},
    "pod": {*ONE_POD, "model"},
    "sidecar": {*ONE_POD},
    "root": {"phase", "cause"},
    "workload": {*ONE_ENGINE, "workload"},
}
NEVER = {
    "instance": {"prompt_bucket"},
    "target": {"lane"},
    "lane": {"instance"},
    "pod": {"lane", "instance"},
    "sidecar": {"lane", "instance"},
    "root": {"pod", "lane", "instance"},
    "workload": {"pod", "lane", "instance"},
}
OF_A_POD = {WORST.name, LANE_FACTS.name}
"""Series of a lane that say which pod has most of its misses."""


@each_record
def test_a_recorded_name_says_its_level(rule: Shipped) -> None:
    """level:metric:operation, and its labels are that level's."""
    level, metric, operation = rule.name.split(":")

    assert (
        re.fullmatch(r"llm_[a-z0-9_]+", metric) is not None,
        re.fullmatch(r"[a-z0-9_]+", operation) is not None,
    ) == (True, True)
    assert LEVELS[level] - recorded()[rule.name] == set()
    assert NEVER[level] & recorded()[rule.name] == set()
    assert level != "lane" or ("pod" in recorded()[rule.name]) == (rule.name in OF_A_POD)


def test_what_is_recorded_is_read() -> None:
    """It is read by a rule, an annotation, a runbook, a dashboard, a command, or the explanation of a failed test; a series that is never asked for only costs."""
    texts = [path.read_text() for folder in ("sidecar", "docs", "grafana", "bench", "tests/support", "alert_rules/README.md") for path in sorted([CHECKOUT / folder, *(CHECKOUT / folder).rglob("*.*")]) if path.suffix in {".md", ".json", ".py"}]  # fmt: skip
    asked = [rule.expr for rule in RULES] + [" ".join(rule.fields.get("annotations", {}).values()) for rule in RULES]
    windows = re.compile(r"(?<=ratio_rate|..increase)\d+[mh]$")  # a template asks for the window of the verdict
    unread = [
        name
        for name in recorded()
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in (*asked, *texts))
        if not any(windows.sub("%s", name) in text for text in asked)
    ]

    assert set(unread) == set(FOR_OTHERS)


FOR_OTHERS = {
    "lane:llm_slo_burn:ratio_rate2m": "a burn rate of each window of the tiers, beside those that are read",
    "lane:llm_slo_burn:ratio_rate30m": "as above",
}
"""Recorded series that people read by their names, each with its reason."""


# --- what alerts carry -----------------------------------------------------------------------------------------------------


@each_alert
def test_an_alert_carries_what_routes_need(rule: Shipped) -> None:
    """A severity and a phase of the closed sets, and nothing that is computed: a label that changes makes another alert."""
    fixed = {"severity", "phase"} if rule.labels.get("phase") else {"severity"}
    assert set(rule.labels) == fixed
    assert rule.labels["severity"] in {"page", "ticket", "none"}
    assert rule.labels["phase"] in CLOSED if "phase" in fixed else "phase" in Labels(KNOWN).of(promql.parse(rule.expr))
    assert [value for value in rule.labels.values() if "{{" in value] == []


@each_alert
def test_an_alert_says_four_things_and_a_burn_gives_plain_values_for_programs(rule: Shipped) -> None:
    plain = {"cause", "confidence", "worst_pod"} if rule.name.endswith("Burn") else set()
    ranked = {"rank"} if rule.name in BURN_ALERTS.values() else set()
    assert set(rule.fields["annotations"]) == {
        "dashboard_url",
        "description",
        "runbook_url",
        "status_url",
        "summary",
        *plain,
        *ranked,
    }
    assert rule.fields["annotations"]["runbook_url"].partition("?")[0].endswith(f"/{rule.name}")


@each_alert
def test_a_template_names_labels_that_survive(rule: Shipped) -> None:
    """Labels that the expression aggregates away would be empty in the message."""
    carried = Labels(KNOWN).of(promql.parse(rule.expr)) | set(rule.labels)
    named = {label for text in rule.fields["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}

    assert named - carried == set()


@each_alert
def test_a_query_in_a_template_reads_what_exists(rule: Shipped) -> None:
    """And a text about a lane, over all its pods, asks which of them is the worst; two of a pod ask for the reason."""
    lost = []
    for query in asked_in(rule):
        for node in selectors(promql.parse(query)):
            wanted = {matcher.name for matcher in node.matchers.matchers}
            lost += [f"{node.name}: {label}" for label in wanted - KNOWN[node.name or ""]]
        labels = Labels(KNOWN)
        labels.of(promql.parse(query))
        lost += labels.lost

    assert lost == []
    carried = Labels(KNOWN).of(promql.parse(rule.expr))
    of_pods = "lane" in carried and "pod" not in carried
    assert bool(asked_in(rule)) == of_pods or rule.name in ("LLMPodBurn", "LLMEngineDown")


@each_alert
def test_an_alert_compares_something(rule: Shipped) -> None:
    """An expression without a comparison fires whenever there are samples; only the watchdog may."""
    compared = [
        node
        for node in inside(promql.parse(rule.expr))
        if isinstance(node, promql.BinaryExpr) and operator(node) in {"<", ">", "<=", ">=", "==", "!="}
    ]

    assert bool(compared) == (rule.name != "Watchdog")


def test_pages_of_burns_are_kept_firing_and_what_mutes_them() -> None:
    """A page that touches its threshold must not end and begin again; the order of inhibition tells two phases apart meanwhile.

    Nor must a pod's ticket: the few requests of one pod scatter more than those of a lane.
    """
    kept = {(rule.name, rule.labels["severity"]) for rule in RULES if "keep_firing_for" in rule.fields}

    muting = ("LLMEngineDown", "LLMNothingComesBack", "LLMSidecarStarved")
    pages = {(name, "page") for name in (*BURN_ALERTS.values(), "LLMPodBurn", *muting)}
    assert kept == {*pages, ("LLMPodBurn", "ticket")}


# --- how many, how deep ----------------------------------------------------------------------------------------------------


def depths() -> dict[str, int]:
    """Recorded name to the length of the chain of recorded rules that ends with it. Raises RecursionError for a circle.

    The facts of pages do not count: they stand in the group of the alerts that read them, so that none of them is late.
    """
    reads: dict[str, set[str]] = {}
    for rule in RULES:
        if rule.is_record and rule.group != "llm-phase-pages":
            reads.setdefault(rule.name, set()).update(
                node.name or "" for node in selectors(promql.parse(rule.expr)) if node.name in recorded()
            )

    def depth(name: str) -> int:
        return 1 + max(map(depth, reads[name]), default=0)

    return {name: depth(name) for name in reads}


def test_recorded_rules_are_few_shallow_and_feed_none_of_themselves() -> None:
    """Mimir refuses more; a chain over groups is one evaluation late at each of its levels."""
    many = [len([rule for rule in group["rules"] if "record" in rule]) for group in groups()]

    assert sum(many) <= 40
    assert max(many) <= 16
    assert max(len(group["rules"]) for group in groups()) <= 20
    assert max(depths().values()) <= 4


LONG = {
    "LLMEngineDown": "one gauge per pod: an engine that was up before its sidecar restarted does not load its model",
    DOWN.name: "one constant gauge per pod: a sidecar that went down a day ago is still missed",
    "LLMSidecarAbsent": "the same gauge: sidecars of a job that were there a day ago are still missed",
    "LLMSidecarNeverScraped": "the same gauge: a target that once answered was scraped",
}
"""Alerts that read raw series over more than half an hour, each with the reason why that is cheap."""


def test_nothing_reads_raw_series_over_more_than_half_an_hour() -> None:
    """Long windows are sums of recorded sums: six hours of a fleet's counters would be millions of samples at each evaluation."""
    far = {
        rule.name
        for rule in RULES
        for node in inside(promql.parse(rule.expr))
        if isinstance(node, promql.MatrixSelector)
        if node.range > timedelta(minutes=30) and node.vector_selector.name not in recorded()
    }

    assert far == set(LONG)


def test_the_texts_and_the_object_are_small() -> None:
    texts = [text for rule in RULES for text in rule.fields.get("annotations", {}).values()]

    assert sum(len(text.encode()) for text in texts) <= ANNOTATION_BYTES
    assert (FOLDER / "kubernetes/prometheus-rule.yaml").stat().st_size <= OBJECT_BYTES
