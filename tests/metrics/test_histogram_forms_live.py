"""Rules, dashboards and diagnosis say the same of classic histograms, native ones, both, and a fleet that mixes them.

Four fleets of two pods with the same numbers stand in namespaces of their own. Their pages are scraped by a real Prometheus with
native histograms on: by 2.42, which drops the classic form of a native histogram, and by 3.x. Then everything that reads is asked.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import aiohttp
import pytest
import yaml

from bench.bounds.full_page import QuietApp
from sidecar.admin.listener import AdminListener
from sidecar.commands.demo.processes import LOOPBACK, running
from sidecar.commands.export.rules.dashboard_rules import RECORDED
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis import promql
from sidecar.health.health import lags_of
from sidecar.history.growth import Windows, quantile
from sidecar.history.series import GROWTH_SERIES, SHOWN_SECONDS
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter, Gauge, Histogram, NativeForm
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED
from sidecar.metrics.registry import Metrics
from sidecar.observe.record import Recorder
from tests.alert_rules.syntax import FILES, FOLDER, Shipped, groups
from tests.grafana.boards import UIDS, Json, board, panels, targets
from tests.support.ports import free_port
from tests.support.tools import need_newer, need_tool


pytestmark = [pytest.mark.live, pytest.mark.timed]

FORMS: tuple[NativeForm, ...] = get_args(NativeForm)
KEPT = "kept"
"""The namespace whose classic series Prometheus 3 is told to keep beside the native ones."""
FLEETS: Mapping[str, tuple[NativeForm, NativeForm]] = {
    **{form: (form, form) for form in FORMS},
    "mixed": ("off", "only"),
    KEPT: ("beside", "beside"),
}
"""Namespace to the forms of its two pods. The first is all classic: the others are compared with it."""
VERSIONS = ("v1", "v2")
"""Versions of the two pods, for the canary's dashboard."""
SCRAPE_SECONDS = 0.5
STANDS_SECONDS = 10.0
"""How long the numbers stand still, so that each page is scraped with the same ones."""
TOLERANCE = 0.06
"""Relative: the pages are scraped at instants of their own, so growth is extrapolated from one interval more or less of forty."""
WORST_POD, FACTS = "lane:llm_slo_misses:worst_pod", ":llm_page:facts"
NUMBER = re.compile(r"[0-9.]+")
OF_A_BUCKET = 0.15
"""Relative, of quantiles: classic ones are interpolated within a bucket, whose samples lie evenly here."""
SEVERAL_BUCKETS = 0.7
"""The same where the samples are those that an alert speaks of, which are at one end of their bucket."""
SAMPLES = 600
"""Observations of each child of a histogram: enough for a p99 of each pod alone."""
EVENTS = {
    c.INTER_TOKEN_SECONDS.name,
    c.STREAM_EVENTS_PER_READ.name,
    c.PROMPT_TOKENS.name,
    c.OVERHEAD_SECONDS.name,
    c.EVENT_LOOP_LAG_SECONDS.name,
}
"""Histograms that are observed in the product's own way, which counts beside them for rules."""
GROWTH = {c.SLO_REQUESTS_TOTAL.name: 100, c.SLO_MISSES_TOTAL.name: 60, c.SLO_ALLOWED_MISSES_TOTAL.name: 5}
"""Counters whose growth decides whether a lane burns; each other one grows by a small number of its own."""
NOT_BY_HAND = {
    metric.name
    for metric in (
        *(c.STATED_PROMPTS_TOTAL, c.STATED_PROMPT_TOKENS_TOTAL, c.STREAM_READS_TOTAL),
        *(c.TIMED_READS_TOTAL, c.EVENT_LOOP_CHECKS_TOTAL),
    )
}
"""Counters that the product itself takes from what it observes."""
WEEK_AGO = "LLMPromptsGrowing"
"""It compares with a week ago, which no test waits for: asked is its present half."""
FIVE = {"LLMNothingComesBack", "LLMEventsInBursts", WEEK_AGO, "LLMSidecarStarved", "LLMSidecarSlow"}
"""Alerts on numbers that are observed in histograms."""

Rows = Mapping[frozenset[tuple[str, str]], float]


class Pod:
    """The registry of one sidecar whose every number grows."""

    def __init__(self, form: NativeForm) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"], native_histograms=form)
        self._recorder = Recorder(self.metrics)
        self._lag = lags_of(self.metrics)
        self.metrics.info(c.SIDECAR_BUILD_INFO, "1", "3.11", "compiled", "full")

    def works(self) -> None:
        """The same growth each time, and the same for each pod."""
        for number, family in enumerate(self.metrics.families):
            metric = family.metric
            if isinstance(metric, Counter) and metric.name not in NOT_BY_HAND:
                for place, values in enumerate(family.combinations()):
                    family.child(*values).inc(GROWTH.get(metric.name, 30 + (number + place) % 7))
            elif isinstance(metric, Gauge):
                for place, values in enumerate(family.combinations()):
                    family.child(*values).set(1.0 + (number + place) % 3)
            elif isinstance(metric, Histogram) and metric.name not in EVENTS:
                low, high = metric.buckets[len(metric.buckets) // 3 :][:2]
                for values in family.combinations():
                    child = family.child(*values)
                    for place in range(SAMPLES):
                        child.observe(low + (high - low) * (place + 0.5) / SAMPLES)
        self._streams()

    def _streams(self) -> None:
        """Streams observe their gaps, reads and prompts, and the sidecar its own lateness beside them."""
        labels = RequestLabels("llama", "chat", "0-512")
        prompts = self.metrics.histogram(c.PROMPT_TOKENS).of[labels]
        for number in range(200):
            self._recorder.gaps[labels].observe(0.016 + number / 50_000)
            self._recorder.per_read[labels].observe(9 if number % 4 == 0 else 1)
            prompts.observe(100 + number)
        for number in range(2 * SAMPLES_NEEDED[0.99]):  # of one fleet in five minutes
            self._recorder.overhead(0.02 if number % 20 == 0 else 0.0001)
            self._lag(0.4 if number % 10 == 0 else 0.001)


def expressions() -> dict[str, str]:
    """All expressions of the shipped rules, those for pictures too, by the rule's name and number."""
    shipped = [Shipped(group["name"], rule) for group in groups((*FILES, DASHBOARD_RULES)) for rule in group["rules"]]
    return {
        f"{number} {rule.name}": rule.expr.split("> 1.3")[0] if rule.name == WEEK_AGO else rule.expr
        for number, rule in enumerate(shipped)
    }


@cache
def drawn() -> dict[str, str]:
    """The dashboards' queries of histograms, by dashboard, panel and letter: of what is recorded for pictures, and of what that is made of."""
    found = {}
    for uid in UIDS:
        for panel, target in targets(board(uid)):
            if "histogram_" in target["expr"]:
                for computed in (".*", "none"):
                    text = target["expr"].replace("$computed", computed)
                    found[f"{uid} {panel['title']} {target['refId']} {computed}"] = text
        found |= {
            f"{uid} {panel['title']}": in_all(panel) for panel in panels(board(uid)) if panel["type"] == "heatmap"
        }
    return found


def in_all(heatmap: Json) -> str:
    """How many requests both queries of a heatmap draw together, over the time shown: each once, whatever the forms of its pod."""
    classic, native = (target["expr"].replace("$__rate_interval", "$__range") for target in heatmap["targets"])
    return f"(max({classic}) or vector(0)) + (histogram_count({native}) or vector(0)) > 0"


def in_namespace(expr: str, namespace: str) -> str:
    """A dashboard's query about one fleet, as Grafana sends it."""
    chosen = {
        "__rate_interval": f"{1.5 * STANDS_SECONDS:.0f}s",
        "__range": f"{2 * STANDS_SECONDS:.0f}s",
        "cluster": ".*",
        "namespace": namespace,
    }
    chosen |= dict(zip(("baseline", "canary"), VERSIONS, strict=True))
    for name, value in (chosen | dict.fromkeys(("pod", "model", "lane", "prompt_bucket"), ".+")).items():
        expr = re.sub(rf"\${name}\b", value, expr)
    return expr


def written(folder: Path, addresses: Mapping[str, str], *, keeps: bool) -> Path:
    """The configuration: the shipped rules, each evaluated once a second, and two targets in each namespace."""
    for name in (*FILES, DASHBOARD_RULES):
        loaded = read_yaml((FOLDER / name).read_text())
        for group in loaded["groups"]:
            group["interval"] = "1s"
        (folder / name).write_text(yaml.safe_dump(loaded))
    scraped = []
    for namespace, forms in FLEETS.items():
        targets = [
            {
                "targets": [addresses[form]],
                "labels": {"job": "llm", "namespace": namespace, "pod": f"p-{version}", "app_version": version},
            }
            for form, version in zip(forms, VERSIONS, strict=True)
        ]
        often = f"{SCRAPE_SECONDS * 1e3:.0f}ms"
        one = {"job_name": namespace, "scrape_interval": often, "scrape_timeout": often, "static_configs": targets}
        scraped.append(one | ({"always_scrape_classic_histograms": True} if keeps and namespace == KEPT else {}))
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump({"rule_files": [*FILES, DASHBOARD_RULES], "scrape_configs": scraped}))
    return path


async def told(client: aiohttp.ClientSession, path: str, **asked: str) -> Any:
    """The data of an answer of Prometheus' API. Raises AssertionError if it is an error, or has warnings."""
    async with client.get(f"/api/v1/{path}", params=asked) as answer:
        said = await answer.json()
    assert (said["status"], said.get("warnings", [])) == ("success", []), f"{asked}: {said}"
    return said["data"]


async def by_namespace(client: aiohttp.ClientSession, query: str, at: str) -> dict[str, Rows]:
    """The rows of each namespace, by their other labels. A row that is about no namespace is about none of the fleets."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {namespace: {} for namespace in FLEETS}
    for labels, value in promql.samples(
        {"status": "success", "data": await told(client, "query", query=query, time=at)}
    ):
        kept = {name: text for name, text in labels.items() if name not in ("__name__", "instance")}
        namespace = kept.pop("namespace", None)
        if namespace is not None:
            found[namespace][frozenset(kept.items())] = value
    return dict(found)


async def of_each(client: aiohttp.ClientSession, query: str, at: str) -> dict[str, Rows]:
    """The rows of a dashboard's query, asked about one fleet after the other."""
    found = {}
    for namespace in FLEETS:
        asked = f'label_replace({in_namespace(query, namespace)}, "namespace", "{namespace}", "", "")'
        found[namespace] = (await by_namespace(client, asked, at))[namespace]
    return found


class Heard(NamedTuple):
    """The answers of one Prometheus. The rows of each question by its name, then by namespace."""

    rules: Mapping[str, Mapping[str, Rows]]
    boards: Mapping[str, Mapping[str, Rows]]
    diagnosed: Mapping[str, Windows]
    stored: Mapping[str, list[str]]
    """`classic` and `native` to the namespaces that have a histogram in this form."""
    failed: set[str]
    """Rules that cannot be evaluated."""


async def scenario(program: Path, folder: Path, *, keeps: bool) -> Heard:
    pods = {form: Pod(form) for form in FORMS}
    async with AsyncExitStack() as stack:
        addresses: dict[str, str] = {}
        for form, pod in pods.items():
            pod.works()
            listener = AdminListener(QuietApp(pod.metrics), pod.metrics, time.monotonic)
            ((host, port),) = await listener.start(LOOPBACK, 0)
            stack.push_async_callback(listener.stop)
            addresses[form] = f"{host}:{port}"
        address = f"{LOOPBACK}:{free_port()}"
        command: list[str | Path] = [
            *(
                program,
                f"--config.file={written(folder, addresses, keeps=keeps)}",
                f"--storage.tsdb.path={folder / 'data'}",
            ),
            *(f"--web.listen-address={address}", "--enable-feature=native-histograms"),
        ]
        await stack.enter_async_context(running("Prometheus", command, ready_url=f"http://{address}/-/ready"))
        client = await stack.enter_async_context(aiohttp.ClientSession(f"http://{address}"))
        await asyncio.sleep(STANDS_SECONDS)
        for pod in pods.values():  # within one turn of the loop: no page is between
            pod.works()
        await asyncio.sleep(STANDS_SECONDS)
        at = str((await told(client, "query", query="time()"))["result"][0])
        groups = (await told(client, "rules"))["groups"]
        name = c.INTER_TOKEN_SECONDS.name
        return Heard(
            rules={name: await by_namespace(client, query, at) for name, query in expressions().items()},
            boards={name: await of_each(client, query, at) for name, query in drawn().items()},
            diagnosed={namespace: await diagnosed(client, namespace, at) for namespace in FLEETS},
            stored={
                kind: [namespace for namespace, found in (await by_namespace(client, query, at)).items() if found]
                for kind, query in (("classic", f"{name}_count"), ("native", f"histogram_count({name})"))
            },
            failed={
                f"{rule['name']}: {rule.get('lastError')}"
                for group in groups
                for rule in group["rules"]
                if rule["health"] != "ok"
            },
        )


async def diagnosed(client: aiohttp.ClientSession, namespace: str, at: str) -> Windows:
    """The windows that `sidecar diagnose --prometheus.url` reads of one fleet."""

    async def answer(query: str) -> promql.Samples:
        return promql.samples({"status": "success", "data": await told(client, "query", query=query, time=at)})

    asked = promql.growth(promql.Fleet(namespace, "llm"), SHOWN_SECONDS)
    return promql.windows_of({key: await answer(query) for key, query in asked.items()}, {}, {}, SHOWN_SECONDS)


@pytest.fixture(scope="module", params=[need_tool, need_newer])
def heard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """The answers of 2.42, then those of 3.x, which alone can be told to keep both forms."""
    folder, keeps = tmp_path_factory.mktemp("prometheus"), request.param is need_newer
    return asyncio.run(scenario(request.param("prometheus"), folder, keeps=keeps))


def known_rows(name: str, rows: Rows) -> Rows:
    """Without what chance says: which of two pods is the worst, as both pods of a fleet of one form are one process; and in a page's facts the
    numbers in their words, which are of counters, and as far apart as the rows of the counters may be.
    """
    rule = name.split()[1]
    if rule == WORST_POD:
        return {frozenset(label for label in labels if label[0] != "pod"): value for labels, value in rows.items()}
    if not rule.endswith(FACTS):
        return rows
    kept = {frozenset((key, NUMBER.sub("N", text)) for key, text in labels if key != "pod") for labels in rows}
    return dict.fromkeys(kept, 1.0)


def differing(rows: Mapping[str, Mapping[str, Rows]], tolerance: Callable[[str], float]) -> dict[str, Any]:
    """Questions whose rows are not the same in each fleet."""
    return {
        f"{name} {namespace}": (found["off"], found[namespace])
        for name, found in rows.items()
        for namespace in FLEETS
        if known_rows(name, found[namespace])
        != pytest.approx(known_rows(name, found["off"]), rel=tolerance(name), nan_ok=True)
    }


def test_the_fleets_are_stored_in_the_forms_that_they_are_called_after(heard: Heard) -> None:
    """And each rule can be evaluated."""
    kept = {KEPT} & {*heard.stored["classic"]}

    assert heard.stored == {"classic": ["off", "mixed", *kept], "native": ["beside", "only", "mixed", KEPT]}
    assert heard.failed == set()


@pytest.mark.parametrize("heard", [need_newer], indirect=True)
def test_prometheus_3_keeps_both_forms_where_it_is_told_to(heard: Heard) -> None:
    assert KEPT in heard.stored["classic"]


def test_every_rule_says_the_same_of_each_fleet(heard: Heard) -> None:
    """On 2.42 and on 3.x; the five alerts on observed numbers have rows to compare, and so has most of what is recorded for pictures."""
    assert differing(heard.rules, lambda name: OF_A_BUCKET if re.search(r":p\d+_", name) else TOLERANCE) == {}
    speaking = {name.split()[1] for name, found in heard.rules.items() if found["off"]}
    assert speaking >= FIVE | RECORDED
    assert len([found for found in heard.rules.values() if found["off"]]) > len(heard.rules) / 2


def test_every_panel_shows_the_same_of_each_fleet(heard: Heard) -> None:
    """Those that read what is recorded for pictures, and what that is made of; each that reads a histogram has something to show."""

    def tolerance(name: str) -> float:
        if "histogram_quantile" not in drawn()[name]:
            return TOLERANCE
        return SEVERAL_BUCKETS if name.startswith("llm-sidecar") else OF_A_BUCKET

    assert differing(heard.boards, tolerance) == {}
    silent = {name for name, expr in drawn().items() if "offset 1w" not in expr and not heard.boards[name]["off"]}
    assert silent == set()


def test_diagnosis_reads_the_same_of_each_fleet(heard: Heard) -> None:
    """Growth, sums and counts, and the quantiles between the edges."""
    first = heard.diagnosed["off"].growth[SHOWN_SECONDS]
    for namespace, windows in heard.diagnosed.items():
        grown = windows.growth[SHOWN_SECONDS]
        assert grown.counters == {name: pytest.approx(rows, rel=TOLERANCE) for name, rows in first.counters.items()}
        for series in GROWTH_SERIES:
            if isinstance(series.metric, Histogram) and series.windows:
                totals, expected = (one.histograms[series.metric.name] for one in (grown, first))
                assert {*totals} == {*expected} != set(), f"{namespace} {series.metric.name}"
                for labels, total in totals.items():
                    whole = expected[labels]
                    assert (total.count, total.sum) == pytest.approx((whole.count, whole.sum), rel=TOLERANCE)
                    if series.buckets:
                        both = [quantile(0.5, one.counts, series.metric.buckets) for one in (total, whole)]
                        assert both[0] == pytest.approx(both[1], rel=OF_A_BUCKET), f"{namespace} {series.metric.name}"
