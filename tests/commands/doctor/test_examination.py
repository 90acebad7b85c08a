"""Answers of a sound chain that change, and break no link or several; `breaks.py` has those that break one. Unknown is never ok."""

import re

import pytest

from sidecar.commands.doctor.examination import JUDGES, examine
from sidecar.commands.doctor.expected_rules import PAGES_GROUP, expected
from sidecar.commands.doctor.gathered import Evidence, seconds
from sidecar.commands.doctor.links import Link, State
from sidecar.commands.doctor.own_side import LEAST_SEEN
from sidecar.commands.export.expression_names import metrics_in, undeclared
from tests.commands.doctor.breaks import LEAN, without_sidecar
from tests.commands.doctor.one_change import (
    NO_ANSWER,
    on_page,
    prometheus,
    said,
    states,
)
from tests.commands.doctor.sound_evidence import (
    api,
    groups,
    sound,
    told,
)


def test_the_watchdog_of_another_package_is_no_second_copy_of_ours() -> None:
    """kube-prometheus-stack brings an alert of this name, with a runbook on the internet. It does not stand in for ours either."""
    theirs = {
        "name": "Watchdog",
        "type": "alerting",
        "query": "vector(1)",
        "labels": {"severity": "none"},
        "annotations": {"runbook_url": "https://runbooks.prometheus-operator.dev/runbooks/general/watchdog"},
        "health": "ok",
        "state": "firing",
        "alerts": [],
        "lastEvaluation": "2026-09-21T14:13:18Z",
    }
    general = {"name": "general.rules", "interval": 30, "evaluationTime": 0.01, "rules": [theirs]}
    both, alone = sound(), sound()
    prometheus("rules", api({"groups": [general, *groups()]}))(both)
    ours = [{**group, "rules": [one for one in group["rules"] if one["name"] != "Watchdog"]} for group in groups()]
    prometheus("rules", api({"groups": [general, *ours]}))(alone)

    assert states(both)[State.OK] == [link.label for link in Link]
    assert (states(alone)[State.BROKEN], "Watchdog" in said(alone, Link.RULES)) == (["rules"], True)


def test_each_link_has_a_judge() -> None:
    assert tuple(JUDGES) == tuple(Link)


def test_a_lean_pod_is_no_fault_where_nothing_wants_more() -> None:
    lean = sound()
    on_page('python_version="3.11"', LEAN)(lean)

    assert states(lean)[State.BROKEN] == []


def test_the_links_behind_a_broken_one_are_unknown_and_say_so() -> None:
    evidence = sound()
    without_sidecar(evidence)
    found = {one.link: [cause.label for cause in one.follows] for one in examine(evidence) if one.follows}

    assert found == {
        link: ["sidecar"]
        for link in (Link.READY, Link.TRAFFIC, Link.CLIENTS, Link.COUNTED, Link.LIMITS, Link.SCRAPE, Link.LABELS)
    } | {Link.LABELS: ["sidecar"]}


# --- one spelling --------------------------------------------------------------------------------------------------------


def test_the_shipped_rules_are_read_as_they_are() -> None:
    """The group of pages exists, each metric that a rule reads is declared, and the bypass has the alert's threshold."""
    rules = [rule for group in groups() for rule in group["rules"]]
    (bypassed,) = [rule["query"] for rule in rules if rule["name"] == "LLMSidecarBypassed"]

    assert sum(expected().counts.values()) == len(rules)
    assert PAGES_GROUP in {group["name"] for group in groups()}
    assert undeclared({name for rule in rules for name in metrics_in(rule["query"])}) == []
    assert bypassed.endswith(f"< {LEAST_SEEN}")


@pytest.mark.parametrize(("text", "value"), [("15s", 15.0), ("1m30s", 90.0), ("500ms", 0.5), ("0s", 0.0)])
def test_a_duration_is_read_in_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


def test_without_a_proxy_traffic_is_no_fault_and_what_spans_leave_out_is_said() -> None:
    """No client can send to a port that is not open. A doctor finds whether requests come as spans, and says that only those that ended
    well do.
    """
    by_spans = sound()
    on_page("llm_engine_traffic_seen_ratio 1\n", "llm_sidecar_without_proxy 1\n")(by_spans)
    by_spans.traffic = NO_ANSWER
    mute = sound()
    assert by_spans.page is not None
    mute.page = told("\n".join(line for line in by_spans.page.body.decode().splitlines() if "attribution" not in line))

    assert states(by_spans)[State.OK] == [link.label for link in Link]
    assert said(by_spans, Link.TRAFFIC).startswith("no port is open for traffic (--no-proxy)")
    assert "So objectives hold on what succeeded." in said(by_spans, Link.CLIENTS)
    assert said(mute, Link.CLIENTS).startswith(
        "no span of a request has come -> start the engine with the flags of docs/no_proxy.md"
    )


def of_an_engine(kind: str, *lines: str) -> Evidence:
    """A sidecar without traffic, with an engine of this kind ("" if it is not recognised), and these lines on its page."""
    evidence = sound()
    assert evidence.page is not None
    info = f'llm_engine_info{{engine="{kind}",version="1"}} 1'
    kept = [
        line
        for line in evidence.page.body.decode().splitlines()
        if not line.startswith(("llm_engine_info", "llm_phase_attribution", "llm_sidecar_spans", "llm_engine_traffic"))
    ]
    evidence.page = told("\n".join((*kept, *([info] if kind else []), "llm_sidecar_without_proxy 1", *lines, "")))
    return evidence


CAME = ('llm_sidecar_spans_total{result="taken"} 6', 'llm_sidecar_spans_total{result="unknown"} 2')
COUNTED_ONE = 'llm_phase_attribution_total{lane="chat",source="engine",reason="span_alone"} 7'


@pytest.mark.long
def test_spans_that_count_nothing_are_told_with_their_reason_and_not_with_flags_that_are_set() -> None:
    """The flags are right where spans come: then the kind is not known, or is none whose spans state requests."""
    found = {
        (kind, lines): said(of_an_engine(kind, *lines), Link.CLIENTS)
        for kind in ("", "ollama", "vllm")
        for lines in (CAME, (), (COUNTED_ONE,))
    }
    none = "8 spans came, and none states a whole request"
    unknown, unable = "The engine's kind is not known: ", "The spans of Ollama do not state requests"

    assert found["", CAME].startswith(f"{none}. {unknown}")
    assert "set engine.kind. -> docs/no_proxy.md says" in found["", CAME]
    assert found["ollama", CAME].startswith(f"{none}. {unable}")
    assert found["vllm", CAME].startswith(f"{none} -> start the engine with the flags")
    assert {found[kind, ()].partition(" -> ")[0] for kind in ("", "ollama", "vllm")} == {
        "no span of a request has come"
    }
    assert [unknown in found[kind, (COUNTED_ONE,)] for kind in ("", "vllm")] == [True, False]


@pytest.mark.parametrize("more", [(), ('llm_sidecar_otlp_dropped_total{reason="logs"} 190',), CAME, (COUNTED_ONE,)])
@pytest.mark.parametrize("kind", ["", "vllm", "ollama", "llama_cpp"])
def test_what_to_do_is_whole_sentences_of_any_engine(kind: str, more: tuple[str, ...]) -> None:
    """With advice and without, with a second thing to do and without: no end of a sentence stands before nothing."""
    findings = examine(of_an_engine(kind, *more))
    texts = [text for one in findings for text in (one.said, one.do) if text]

    assert [text for text in texts if re.search(r"[.;,:] *[.;,:]|[ ;,:]$|^[ .;,:]|  ", text)] == []
    reports = next(one.do for one in findings if one.link is Link.REPORTS)
    assert "send 20 requests within five minutes" in reports
    assert more != (COUNTED_ONE,) or "--" not in reports, "what the engine told shows that the flag is set"
