"""The lean page has all that the rules, their words, autoscaling and a rollout's gate read, in at most 400 series of a usual pod."""

import asyncio
import re
from collections.abc import Iterator

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.compare.gate_questions import CUT_QUESTION, GATE_QUESTIONS
from sidecar.commands.export.rules.page_facts import AIM, WORST_LIMIT
from sidecar.config.schema import PromptBucketsConfig
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import CATALOGUE, LEAN, LEAN_SUMS_OVER, catalogue, series_in_use
from sidecar.metrics.children import GaugeChild
from sidecar.metrics.exposition import Pages
from sidecar.metrics.lean_page import lean_families
from sidecar.metrics.negotiation import Format
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.alert_rules.syntax import OF_ALERTS, Labels, asked_in, exposed, inside, recorded, rules, selectors
from tests.support.promtool import check_metrics, samples
from tests.support.vllm_stream import post
from tests.support.walk import HEAD, LAST, TOKEN, Walk
from tools.sizing_tables import PROCESS_SERIES


MOST_SERIES = 400
"""Most series of one pod with one model and three lanes, but those of the objective `stall`."""
OF_STALLS = 16
"""Series that a lane with the objective `stall` has more."""
MOST_OF_OTHER = 20
"""Most series that requests with a wrong model in each lane, and some of an undeclared lane, add to it."""
OF_PROMETHEUS = 5
"""`up` and the four scrape_* that Prometheus adds to each target."""
SUMMED = {label.name for label in LEAN_SUMS_OVER}


def expressions() -> Iterator[str]:
    """All that is evaluated for an alert: the rules, and the queries in its words. Only the latency beside its threshold is left out of the
    words where sidecars have lean pages."""
    for rule in rules():
        if rule.name not in (WORST_LIMIT.name, AIM.name):
            yield rule.expr
        yield from asked_in(rule)


READ_BESIDE = {
    c.REQUESTS_IN_FLIGHT: "autoscaling",
    c.SLO_UNDECIDED_MISSES: "autoscaling",
    c.ENGINE_REQUESTS_RUNNING: "autoscaling",
    c.READY: "autoscaling",
    c.ANSWERS_TOTAL: "the gate",
    c.EMPTY_ANSWERS_TOTAL: "the gate",
    c.GOOD_REQUESTS_TOTAL: "the gate",
    c.ENGINE_INFO: "the dashboards' notes on deploys",
    c.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS: "the dashboards' notes on reloads",
    c.WITHOUT_PROXY: "sidecar doctor, and a person, who sees which requests are counted at all",
    c.EVIDENCE_RATIO: "a person, who sees what has grown beside the root",
    c.VERIFY_PROBES_TOTAL: "a person, who sees what a header takes out of the lanes",
}
"""Metrics on the lean page that no rule reads, with their reader."""


def test_the_lean_page_is_what_the_rules_read_and_what_has_another_reader() -> None:
    """A new rule that reads more fails here, and so does a metric that has no reader any more."""
    read = {node.name or "" for text in expressions() for node in selectors(promql.parse(text))}
    needed = {metric for metric in CATALOGUE if metric.name in read}

    assert {metric.name for metric in LEAN} == {metric.name for metric in (*needed, *READ_BESIDE)}
    assert len(LEAN) == len(needed) + len(READ_BESIDE)


def test_no_rule_needs_a_label_that_the_lean_page_sums_over() -> None:
    """Worked out through every operator, as Prometheus does it."""
    known = {**exposed(catalogue(profile="lean")), **recorded(), OF_ALERTS: frozenset({"alertname", "severity"})}
    lost = []
    for text in expressions():
        labels, tree = Labels(known), promql.parse(text)
        labels.of(tree)
        lost += [one for one in labels.lost if one.split(" in ", 1)[0] in SUMMED]
        lost += [
            f"{node.name}: {matcher.name}"
            for node in inside(tree)
            if isinstance(node, promql.VectorSelector)
            for matcher in node.matchers.matchers
            if matcher.name in SUMMED
        ]

    assert lost == []


def test_the_gate_of_a_rollout_reads_only_what_is_there() -> None:
    asked = [part for question in (*GATE_QUESTIONS.values(), CUT_QUESTION) for part in (question.counted, question.of)]
    there = {metric.name: {label.name for label in metric.labels} for metric in catalogue(profile="lean")}

    assert {part.metric for part in asked} <= there.keys()
    assert {
        (part.metric, name)
        for part in asked
        for name in re.findall(r"(\w+)[=!]", part.matchers)
        if name not in there[part.metric]
    } == set()


def test_what_the_lean_page_sums_over_are_counters() -> None:
    """Gauges cannot be added up without a rule that says how. No histogram is on the page: all children have one value."""
    summed = [metric for metric in LEAN if any(label in LEAN_SUMS_OVER for label in metric.labels)]

    assert {metric.kind for metric in summed} == {"counter"}
    assert {metric.kind for metric in LEAN} == {"counter", "gauge", "info"}


def busy() -> Metrics:
    """A registry of one model and three lanes in which all that can exist of them does; of incidents there is one at a time."""
    metrics = Metrics(
        lanes=["interactive", "batch", "code"],
        prompt_buckets=[f"to-{edge}" for edge in PromptBucketsConfig().edges],
        models=["llama"],
    )
    for family in metrics.families:
        if family.metric == c.WITHOUT_PROXY:
            continue  # requests pass this one
        if family.metric.name.startswith("llm_incident_"):
            family.child(*family.metric.together[0])
        elif family.metric in (c.SIDECAR_BUILD_INFO, c.ENGINE_INFO):
            family.child(*(label.values[0] if label.values else "1" for label in family.metric.labels))
        else:
            family.begin()
    for family in metrics.families:
        for number, child in enumerate(family.children.values()):
            if family.metric.kind in {"gauge", "info"}:
                child.set(1.0)
            elif family.metric.kind == "counter":
                child.inc(number + 0.5)
    return metrics


def page(metrics: Metrics, *, whole: bool = False) -> bytes:
    return b"".join(Pages(metrics, "lean").slices(Format.TEXT, 0.0, whole=whole))


def test_a_pod_of_one_model_and_three_lanes_has_at_most_400_series() -> None:
    """In Prometheus, with all that can exist on it: each outcome and reason. Full use, which docs/sizing.md states, has none of the
    seldom finish reasons.
    """
    text = page(busy())
    shown = len(samples(text))
    stalls = sum(("objective", "stall") in labels for _, labels in samples(text))
    stated = series_in_use(4, len(PromptBucketsConfig().edges) + 2, 2, catalogue(profile="lean"))

    check_metrics(text)
    assert stated <= shown <= stated + 20
    assert stalls == 3 * OF_STALLS
    assert shown - stalls + PROCESS_SERIES + OF_PROMETHEUS <= MOST_SERIES


def asks(walk: Walk, lane: str, model: str, answer: bytes) -> int:
    """The series on the lean page once this request is answered."""
    walk.client().send(post({"model": model, "stream": True}, f"x-lane: {lane}"))
    walk.engine.send(answer)
    return len(samples(page(walk.metrics)))


def test_wrong_models_and_lanes_add_what_is_counted_of_them_alone() -> None:
    """One request with a misspelt model began 257 series at 0, and one of an undeclared lane 65 more."""
    lanes = ("interactive", "batch", "code")
    aims = Aims(ttft=Aim(1.0, 0.99), tpot=Aim(0.1, 0.99), e2e=Aim(30.0, 0.99))
    objectives = Objectives({lane: dict.fromkeys(("0-512", "512-4k", "4k+", "unknown"), aims) for lane in lanes})
    walk = Walk(objectives=objectives, lanes=lanes[1:])
    good = HEAD + TOKEN + LAST + b"0\r\n\r\n"
    refused = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"

    usual = [asks(walk, lane, "tiny", good) for lane in lanes][-1]
    for lane in lanes:
        asks(walk, lane, "misspelt", refused)
    asks(walk, "undeclared", "tiny", good)
    wrong = asks(walk, "undeclared", "misspelt", refused)

    assert 0 < wrong - usual <= MOST_OF_OTHER
    assert wrong + PROCESS_SERIES + OF_PROMETHEUS <= MOST_SERIES
    assert walk.value("llm_requests_total", model="other", lane="batch") == 1
    shown = page(walk.metrics).decode().splitlines()
    assert [line for line in shown if '="other"' in line and line.endswith(" 0") and "overflow" not in line] == []


def test_where_no_model_has_a_name_other_is_all_there_is() -> None:
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    metrics.counter(c.GOOD_REQUESTS_TOTAL).child("other", "chat", "0-512")

    assert b'llm_good_requests_total{model="other",lane="chat"} 0' in page(metrics)
    metrics.models.admit(["llama"])
    assert b"llm_good_requests_total{" not in page(metrics)


def test_the_numbers_are_those_of_the_whole_page_added_up() -> None:
    metrics = busy()
    lean, whole = samples(page(metrics)), samples(page(metrics, whole=True))

    added: dict[object, float] = {}
    for (name, labels), value in whole.items():
        key = name, frozenset(pair for pair in labels if pair[0] not in SUMMED)
        added[key] = added.get(key, 0.0) + value
    assert lean == {key: added[key] for key in lean}
    assert {name for name, _ in lean} == {metric.name for metric in LEAN if metric != c.WITHOUT_PROXY}


def test_a_sum_takes_in_what_is_made_later_and_never_falls() -> None:
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512", "512-4k"], models=["llama"])
    counted = metrics.counter(c.GOOD_REQUESTS_TOTAL)
    (family,) = [one for one in lean_families(metrics) if one.metric.name == c.GOOD_REQUESTS_TOTAL.name]
    seen = []

    for bucket in ("512-4k", "0-512", "unknown", "512-4k"):
        counted.child("llama", "chat", bucket).inc(0.1)
        seen.append({labels: child.value for labels, child in family.children.items() if isinstance(child, GaugeChild)})

    assert [list(each) for each in seen] == [[("llama", "chat")]] * 4
    values = [each["llama", "chat"] for each in seen]
    assert values == [0.1, 0.2, 0.1 + 0.1 + 0.1, 0.2 + 0.1 + 0.1]


def test_a_lean_page_ends_with_the_process_alone_and_the_whole_page_as_any_other() -> None:
    """Rules read when it began; of hundreds of pods no reader wants the garbage collector's counters."""
    pages = Pages(busy(), "lean")
    lean, whole = (of_the_process(pages, whole=whole) for whole in (False, True))

    assert "process_start_time_seconds" in lean
    assert len(lean) == PROCESS_SERIES
    assert not any(name.startswith("python_") for name in lean)
    assert whole == of_the_process(Pages(busy()), whole=False) > {"python_info", "python_gc_collections"}


def of_the_process(pages: Pages, *, whole: bool) -> set[str]:
    """The families from prometheus_client on the page."""
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    asyncio.run(pages.write(write, Format.TEXT, gzip=False, at=0.0, whole=whole))
    families = text_string_to_metric_families(b"".join(written).decode())
    return {family.name for family in families if family.name.startswith(("process_", "python_"))}
