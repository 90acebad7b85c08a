"""The optional rules on a real Prometheus: what they record is what dashboards compute, and dashboards draw with them and without.

Minutes of random histograms of three pods are written to a server that evaluates the file often. Every number is asked for at the
instant at which it was recorded, so that both must be equal to the last digit but for the order of sums.
"""

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from bench.query_time import LENGTHS, Made, children, names_read, target, write
from bench.remote_write import SCRAPE_SECONDS, encoded, prometheus
from sidecar.commands.export.rules.dashboard_rules import GROUPS, RECORDED
from sidecar.commands.export.rules.rule import Record
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Counter, Histogram
from tests.drawn.asking import Look, filled_in, variables_of
from tests.grafana.boards import UIDS, Json, board, switch, targets


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(180)]

PODS, LANES = 3, 2
HISTORY_SAMPLES, AHEAD_SAMPLES = 30, 20
COARSE = {"llm-fleet Pods by lane E", "llm-fleet Room and work, by pod F"}
"""Numbers of requests and tokens: over so few seconds their growth depends on when the two were sampled. Means do not."""
BY_THE_HOUR = ":1h]"
"""Part of a query that reads what was recorded at full hours: some minutes of history hold none."""
RULES = [rule for group in GROUPS for rule in group.rules if isinstance(rule, Record)]


def pages(rng: Random) -> Iterator[Made]:
    """Every series of a page; buckets grow in an order that a histogram can have."""
    for metric in CATALOGUE:
        for pod in range(PODS):
            for own in children(metric, LANES):
                labels = {"__name__": metric.name, **target(pod), **own}
                if not isinstance(metric, Histogram):
                    counted = isinstance(metric, Counter)
                    yield Made(encoded(labels), rng.random() if counted else 0.0, 0.0 if counted else 1.0)
                    continue
                grown = 0.0
                for edge in (*metric.buckets, float("inf")):
                    grown += rng.random() / 2
                    le = "+Inf" if edge == float("inf") else str(edge)
                    yield Made(encoded({**labels, "__name__": f"{metric.name}_bucket", "le": le}), grown)
                yield Made(encoded({**labels, "__name__": f"{metric.name}_count"}), grown)
                yield Made(encoded({**labels, "__name__": f"{metric.name}_sum"}), grown * rng.uniform(0.1, 2))


@pytest.fixture(scope="module")
def lived() -> Iterator[Look]:
    """A look at the last seconds of a minute in which the rules are evaluated, after some minutes of history."""
    with tempfile.TemporaryDirectory() as name, prometheus(Path(name), (DASHBOARD_RULES,)) as url:
        now_at = int(datetime.now(UTC).timestamp())  # noqa: TID251  samples carry the time of day
        began_ms = (now_at - HISTORY_SAMPLES * SCRAPE_SECONDS) * 1000
        write(url, list(pages(Random(14))), range(HISTORY_SAMPLES + AHEAD_SAMPLES), began_ms)
        time.sleep(45)
        ended_at = int(datetime.now(UTC).timestamp())  # noqa: TID251  as above
        yield Look(url, ended_at - 40, ended_at)


def labelled(found: list[Json]) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of an answer, by labels without the name."""
    return {
        tuple(sorted((name, value) for name, value in one["metric"].items() if name != "__name__")): float(
            one["value"][1]
        )
        for one in found
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_is_recorded_is_what_is_computed(lived: Look, rule: Record) -> None:
    """At the very instant of the evaluation."""
    own = ",".join(f'{name}="{value}"' for name, value in rule.labels.items())
    found = lived.ask("query", query=f"{rule.name}{{{own}}}[30s]", time=lived.ended_at)["result"]
    recorded_at = float(found[0]["values"][-1][0])
    query = f"sum without ({','.join(rule.labels)}) ({rule.name}{{{own}}})"
    recorded = labelled(lived.ask("query", query=query, time=recorded_at)["result"])
    computed = labelled(lived.ask("query", query=rule.expr, time=recorded_at)["result"])

    assert recorded == pytest.approx(computed, rel=1e-9)
    assert len(recorded) >= 1


def drawn(lived: Look, chosen: dict[str, str]) -> dict[str, list[Json]]:
    """The answers of every query that may read a recorded series, at one instant."""
    answers = {}
    for uid in UIDS:
        for panel, one in targets(board(uid)):
            of_minutes = "app_version" not in one["expr"] and BY_THE_HOUR not in one["expr"]
            if names_read(one["expr"]) & RECORDED and of_minutes:
                text = filled_in(one["expr"], lived, chosen)
                answers[f"{uid} {panel['title']} {one['refId']}"] = lived.answers(text, instant=True)
    return answers


def everything(lived: Look, **chosen: str) -> dict[str, str]:
    """Variables as Grafana fills them, the one out of sight by its own query."""
    look = Look(lived.url, lived.began_at, lived.ended_at, chosen)
    return variables_of(board("llm-fleet"), look)[1]


def test_dashboards_draw_the_same_with_the_rules_and_without(lived: Look) -> None:
    """The rules are 3 s apart here, which is how far the two may lie apart in time; all grows evenly."""
    stored = everything(lived)
    with_rules, without = drawn(lived, stored), drawn(lived, {**stored, "computed": ".*"})

    assert stored["computed"] == "-"
    assert [name for name, found in with_rules.items() if not found and "not streamed" not in name] == []
    assert len(with_rules) >= 30
    for name, found in with_rules.items():
        near = 0.02 if name not in COARSE else 0.5
        assert labelled(found) == pytest.approx(labelled(without[name]), rel=near), name


@pytest.mark.parametrize("chosen", [{"pod": "llm-1"}, {"prompt_bucket": LENGTHS[0]}], ids=["a pod", "a prompt length"])
def test_what_is_recorded_over_all_is_not_shown_for_one(lived: Look, chosen: dict[str, str]) -> None:
    """All is computed then."""
    assert everything(lived, **chosen)["computed"] == ".*"


def test_a_lane_that_is_chosen_is_read_from_what_is_recorded(lived: Look) -> None:
    assert everything(lived, lane="lane-0")["computed"] == "-"


def test_where_the_rules_were_not_evaluated_from_the_start_all_is_computed(lived: Look) -> None:
    """A line would begin in the middle."""
    earlier = Look(lived.url, lived.ended_at - 3600, lived.ended_at)

    assert everything(earlier)["computed"] == ".*"


@pytest.mark.parametrize(
    ("uid", "absent", "computed"),
    [
        ("llm-fleet", "phases", "-"),
        ("llm-fleet", "pods", ".*"),
        ("llm-anatomy", "", "-"),
        ("llm-anatomy", "phases", ".*"),
    ],
)
def test_a_group_that_is_not_loaded_leaves_alone_the_dashboards_that_do_not_read_it(
    lived: Look, uid: str, absent: str, computed: str
) -> None:
    """With the group of pods alone, Fleet reads it, and the other dashboards draw what they compute."""
    ((_, query, label),) = switch(board(uid))
    text = filled_in(query, lived, dict.fromkeys(("cluster", "namespace", "pod", "prompt_bucket"), ".*"))
    without = text.replace("job:llm_sidecar_build_info:count{", f'job:llm_sidecar_build_info:count{{part!="{absent}",')

    assert [one["metric"] for one in lived.answers(without, instant=True)] == [{label: computed}]


def test_without_the_rules_the_switch_is_answered_too(lived: Look) -> None:
    """By one value, so that Grafana has one."""
    ((name, query, label),) = switch(board("llm-fleet"))
    absent = query.replace("job:llm_sidecar_build_info:count", "job:absent:count")
    found = lived.answers(
        filled_in(absent, lived, dict.fromkeys(("namespace", "pod", "prompt_bucket"), ".*")), instant=True
    )

    assert (name, [one["metric"] for one in found]) == ("computed", [{label: ".*"}])
