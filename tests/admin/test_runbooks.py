"""The runbooks: a person on call can rely on their structure and queries, and the admin listener serves them."""

import re
import subprocess
from pathlib import Path

import promql_parser as promql
import pytest
import yaml
from markdown_it import MarkdownIt
from yarl import URL

from sidecar.admin.runbooks import INDEX, draw, read
from sidecar.ledger.account import Phase
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from sidecar.slo.causes import NO_CAUSE, Cause
from tests.support.admin import Visit, visit
from tests.support.tools import need_tool


CHECKOUT = Path(__file__).parents[2]
RECORDING_RULES = CHECKOUT / "alert_rules" / "llm-recording.yml"

HEADINGS = [
    "Meaning",
    "Confirm",
    "Spike or steady state",
    "Fixes",
    "What not to do",
    "What would prove this wrong",
    "Who it may really be",
]
COLUMNS = ["fix", "targets", "cost", "works when", "vLLM", "SGLang", "TensorRT-LLM", "TGI"]
COSTS = ["minutes", "restart", "replicas", "project"]
"""Cheapest first: the order of every table of fixes."""
REGIMES = {"spike", "steady", "both"}
GROWN_CAUSES = (Cause.PREFILL_COST, Cause.UNCACHED, Cause.LOAD, Cause.PROMPT_MIX, Cause.DECODE_COST)
FAULTS = (Cause.DOWN, Cause.SILENCE, Cause.PREEMPTION)
CAUSES = {*GROWN_CAUSES, *FAULTS, Cause.KV, Cause.SLOTS, NO_CAUSE}
"""Causes that the tables of the burn runbooks explain."""
PHASES = {phase.value for phase in Phase} | {"engine", "sidecar"}
EVIDENCE = {*GROWN_CAUSES, NO_CAUSE}
"""Evidence that can stand beside every verdict that is read from votes: what grew, or `none`."""
CAUSES_OF: dict[str, set[str]] = {
    "LLMQueueBurn": EVIDENCE | {Cause.KV, Cause.SLOTS},
    "LLMPrefillBurn": EVIDENCE,
    "LLMFirstTokenBurn": EVIDENCE,
    "LLMUnattributedBurn": EVIDENCE | {Cause.KV, Cause.SLOTS},
    "LLMDecodeBurn": EVIDENCE | {Cause.KV},
    "LLMStreamBurn": EVIDENCE,
    "LLMEngineBurn": {*FAULTS, Cause.KV},
}

TARGET_LABELS = {"namespace", "job", "pod"}
"""Labels that Prometheus adds."""
CONSTANT_LABELS = {"quantization", "gpu_type"}
NOT_OURS = {"up": set(), "ALERTS": {"alertname", "alertstate"}, "prometheus_notifications_dropped_total": set()}
RECORDED = {
    "lane:llm_slo_waited_in:ratio": {"namespace", "job", "model", "lane", "objective", "phase"},
}
"""Series that `alert_rules/` record, with their labels."""

TEXTS = read()
NAMES = [name for name in TEXTS if name != INDEX]
each_runbook = pytest.mark.parametrize("name", NAMES)


def declared() -> dict[str, set[str]]:
    """Series name to labels, for every series that the sidecar exposes."""
    found: dict[str, set[str]] = {}
    for metric in CATALOGUE:
        labels = {label.name for label in metric.labels} | TARGET_LABELS | CONSTANT_LABELS
        if isinstance(metric, Histogram):
            found |= {f"{metric.name}{suffix}": labels for suffix in ("_sum", "_count")}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found


KNOWN = declared() | RECORDED | {other: labels | TARGET_LABELS for other, labels in NOT_OURS.items()}
"""Series name to labels, for every series that a query may use."""


def sections(text: str) -> dict[str, str]:
    """Heading to the text below it."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def tables(section: str) -> list[list[list[str]]]:
    """The tables of a section as rows of cells, header row included, read as Markdown reads them."""
    found: list[list[list[str]]] = []
    in_cell = False
    for token in MarkdownIt("commonmark").enable("table").parse(section):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in {"th_open", "td_open", "th_close", "td_close"}:
            in_cell = token.nesting == 1
        elif in_cell:
            found[-1][-1].append(token.content)
    return found


def queries(name: str) -> list[str]:
    """The queries under Confirm, with example values in place of the page's labels."""
    fenced = re.findall(r"^```promql\n(.*?)^```$", sections(TEXTS[name])["Confirm"], re.MULTILINE | re.DOTALL)
    return [re.sub(r"\$(namespace|model|lane|pod)\b", "x", query) for query in fenced]


def nodes_of(query: str) -> list[promql.Expr]:
    """All nodes of the query's parsed expression."""
    return inside(promql.parse(query))


def inside(expression: promql.Expr) -> list[promql.Expr]:
    """This expression and all expressions inside it."""
    found: list[promql.Expr] = []

    def visit_one(node: promql.Expr) -> bool:
        found.append(node)
        return True

    promql.walk(expression, visit_one)
    return found


# --- their texts ---------------------------------------------------------------------------------------------------------


def test_there_are_runbooks() -> None:
    """Without any runbook the tests below would pass trivially."""
    assert len(NAMES) >= 27
    assert INDEX in TEXTS


@each_runbook
def test_every_runbook_has_the_same_headings_in_the_same_order(name: str) -> None:
    """A person, and `sidecar diagnose`, find each part under its heading."""
    text = TEXTS[name]

    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [name, *HEADINGS]
    assert [heading for heading, body in sections(text).items() if not body] == []


@each_runbook
def test_a_meaning_is_one_paragraph_and_a_runbook_is_short(name: str) -> None:
    lines = TEXTS[name].splitlines()

    assert "\n\n" not in sections(TEXTS[name])["Meaning"]
    assert 40 <= len(lines) <= 110
    assert [line for line in lines if "—" in line] == []


@each_runbook
def test_two_queries_confirm_and_each_says_what_to_expect(name: str) -> None:
    """There is no third query, and none outside of Confirm."""
    confirm = sections(TEXTS[name])["Confirm"]
    after = re.split(r"^```$", confirm, flags=re.MULTILINE)[1:]

    assert TEXTS[name].count("```promql") == len(queries(name)) == 2
    assert [text.strip().startswith("Expect ") for text in after] == [True, True]


@each_runbook
def test_every_query_asks_for_series_and_labels_that_exist(name: str) -> None:
    """Metrics are in the catalogue and have these labels; recorded series are in the contract of the rules."""
    unknown = []
    for query in queries(name):
        for node in nodes_of(query):
            if isinstance(node, promql.VectorSelector):
                series = node.name or ""
                labels = {matcher.name for matcher in node.matchers.matchers}
                unknown += [series] if series not in KNOWN else [f"{series}: {x}" for x in labels - KNOWN[series]]

    assert unknown == []


@each_runbook
def test_every_query_groups_by_labels_that_its_series_carry(name: str) -> None:
    lost = []
    for query in queries(name):
        for node in nodes_of(query):
            if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                names = [n.name or "" for n in inside(node.expr) if isinstance(n, promql.VectorSelector)]
                lost += [f"{name}: {x}" for name in names for x in set(node.modifier.labels) - KNOWN[name]]

    assert lost == []


@each_runbook
def test_a_bucket_that_is_named_is_an_edge(name: str) -> None:
    """A wrong `le` is no error for Prometheus: the query returns nothing."""
    edges = {f"{m.name}_bucket": {float(edge) for edge in m.buckets} for m in CATALOGUE if isinstance(m, Histogram)}
    wrong = []
    for query in queries(name):
        for series, value in re.findall(r'(\w+)\{[^}]*\ble=~?"([^"]+)"', query):
            wrong += [f"{series} {le}" for le in value.split("|") if float(le) not in edges[series]]

    assert wrong == []


def test_prometheus_itself_understands_every_query(tmp_path: Path) -> None:
    promtool = need_tool("promtool")
    rules = [
        {"record": f"shown:{name}:{number}", "expr": query}
        for name in NAMES
        for number, query in enumerate(queries(name))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))

    answer = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)

    assert f"{2 * len(NAMES)} rules found" in answer.stdout, answer.stdout + answer.stderr


def test_the_recorded_series_are_recorded() -> None:
    groups = yaml.safe_load(RECORDING_RULES.read_text())["groups"]

    recorded = {rule.get("record") for group in groups for rule in group["rules"]}
    mentioned = {series for text in TEXTS.values() for series in re.findall(r"\b\w+:llm_\w+:\w+", text)}

    assert RECORDED.keys() <= mentioned
    assert mentioned - recorded == set()


# --- fixes ---------------------------------------------------------------------------------------------------------------


def fixes(name: str) -> list[dict[str, str]]:
    ((head, *rows),) = tables(sections(TEXTS[name])["Fixes"])
    assert head == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@each_runbook
def test_fixes_are_ranked_by_cost_and_say_when_they_work(name: str) -> None:
    costs = [COSTS.index(fix["cost"]) for fix in fixes(name)]

    assert costs == sorted(costs)
    assert len(costs) >= 3
    assert {fix["works when"] for fix in fixes(name)} - REGIMES == set()
    assert [fix for fix in fixes(name) if "" in fix.values()] == []


@each_runbook
def test_every_fix_targets_something_that_a_page_can_name(name: str) -> None:
    targets = {target for fix in fixes(name) for target in fix["targets"].split(", ")}

    assert targets - {*Cause} - PHASES == set()


@pytest.mark.parametrize("name", CAUSES_OF)
def test_a_burn_runbook_knows_what_to_do_for_each_cause_that_its_page_can_name(name: str) -> None:
    ((_, *rows),) = tables(sections(TEXTS[name])["Who it may really be"])
    named = {cause for row in rows for cause in re.findall(r"`(\w+)`", row[0])}
    targets = {target for fix in fixes(name) for target in fix["targets"].split(", ")}

    assert named == CAUSES_OF[name]
    for row in rows:  # `none` has no fix, and a cause of another runbook has its fixes there
        causes = set(re.findall(r"`(\w+)`", row[0]))
        assert causes == {NO_CAUSE} or causes <= targets or "LLM" in row[2] or name == "LLMStreamBurn", row


def test_every_cause_is_handled_by_some_burn_runbook() -> None:
    assert set().union(*CAUSES_OF.values()) == CAUSES


def test_every_burn_runbook_knows_flags_of_all_four_engines() -> None:
    """Every burn runbook has a flag of every engine, except LLMStreamBurn on TGI: TGI has no flag for buffering."""
    silent = [
        (name, engine) for name in CAUSES_OF for engine in COLUMNS[4:] if all(fix[engine] == "-" for fix in fixes(name))
    ]

    assert silent == [("LLMStreamBurn", "TGI")]


# --- links ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_between_runbooks_leads_somewhere(name: str) -> None:
    """Links between runbooks work as files here and on GitHub; the listener turns them into links to pages."""
    links = re.findall(r"\]\(([^)]+)\)", TEXTS[name])

    assert [link for link in links if not link.endswith(".md") or link.removesuffix(".md") not in TEXTS] == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_metric_that_is_mentioned_exists(name: str) -> None:
    mentioned = set(re.findall(r"\bllm_[a-z_]+\b", re.sub(r"\w+:llm_\w+", "", TEXTS[name])))
    known = {metric.name for metric in CATALOGUE} | declared().keys()

    assert mentioned - known == set()


def test_the_index_lists_every_runbook_once_by_phase() -> None:
    (head, *rows), *_ = tables(TEXTS[INDEX])
    listed = [re.sub(r"\[(\w+)\]\(\1\.md\)", r"\1", row[1]) for row in rows]

    assert head == ["phase", "runbook", "severity", "it fires when"]
    assert sorted(listed) == NAMES
    assert {row[0] for row in rows} == PHASES
    assert "python -m alert_rules --runbook-base=" in TEXTS[INDEX]


# --- how they are served -------------------------------------------------------------------------------------------------


def test_a_runbook_is_a_page_that_loads_nothing_and_a_text() -> None:
    async def scenario(visit: Visit) -> None:
        status, headers, body = await visit.ask("/runbooks/LLMQueueBurn")
        page = body.decode()
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "<h1>LLMQueueBurn</h1>" in page
        assert '<a href="/runbooks/LLMPrefillBurn">LLMPrefillBurn</a>' in page
        assert page.count('<div class="scroll"><table>') == page.count("<table>") == 2
        assert re.findall(r"<script|src=|https?://", page) == []

        status, headers, text = await visit.ask("/runbooks/LLMQueueBurn.md")
        assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert text.decode() == TEXTS["LLMQueueBurn"]

    visit(scenario)


def test_the_index_leads_to_every_runbook_and_the_landing_page_to_the_index() -> None:
    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/runbooks/")
        linked = re.findall(r'href="/runbooks/(\w+)"', body.decode())
        assert (status, sorted(linked)) == (200, NAMES)
        for name in linked:
            assert (await visit.ask(f"/runbooks/{name}"))[0] == 200

        status, headers, _ = await visit.ask("/runbooks")
        assert (status, headers["Location"]) == (308, "/runbooks/")
        assert b'<a href="/runbooks/">' in (await visit.ask("/"))[2]

    visit(scenario)


def test_head_says_what_get_would() -> None:
    async def scenario(visit: Visit) -> None:
        for path in ("/runbooks/", "/runbooks/Watchdog", "/runbooks/Watchdog.md", "/runbooks/nothing"):
            status, headers, body = await visit.ask(path, "HEAD")
            got = await visit.ask(path)
            assert (status, headers["Content-Type"], body) == (got[0], got[1]["Content-Type"], b"")
        assert (await visit.ask("/runbooks/Watchdog", "POST"))[0] == 405

    visit(scenario)


def test_an_unknown_name_is_answered_with_the_names_that_there_are() -> None:
    async def scenario(visit: Visit) -> None:
        for name in ("LLMNoSuch", "llmqueueburn", "LLMQueueBurn.html", "LLMQueueBurn/"):
            status, headers, body = await visit.ask(f"/runbooks/{name}")
            page = body.decode()
            assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
            assert sorted(re.findall(r'href="/runbooks/(\w+)"', page)) == NAMES
            assert "NoSuch" not in page

    visit(scenario)


@pytest.mark.parametrize(
    "name",
    [
        "..%2f__init__.py",
        "%2e%2e/__init__.py",
        "..%2f..%2fpyproject.toml",
        "%2fetc%2fpasswd",
        "..%5c__init__.py",
        "LLMQueueBurn.md%00",
        "..%2frunbooks%2fLLMQueueBurn",
        "./LLMQueueBurn.md.md",
    ],
)
def test_a_name_never_becomes_a_path(name: str) -> None:
    """The name in the URL is looked up in a closed set; even a detour to an existing runbook is not found."""

    async def scenario(visit: Visit) -> None:
        # encoded=True: the client sends the path unchanged, without making it harmless.
        url = URL(f"http://127.0.0.1:{visit.port}/runbooks/{name}", encoded=True)
        async with visit.session.get(url, allow_redirects=False) as answer:
            assert (answer.status, b"The runbooks are" in await answer.read()) == (404, True)

    visit(scenario)


def test_what_a_runbook_says_is_text() -> None:
    """HTML in a runbook is shown as text and never run; a link to another site stays unchanged."""
    drawn = draw("# A\n\n<script>alert(1)</script>\n\n[b](README.md) [c](http://x/y.md)\n")

    assert "<script>" not in drawn
    assert '<a href="/runbooks/">b</a> <a href="http://x/y.md">c</a>' in drawn
