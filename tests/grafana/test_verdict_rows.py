"""The rows of the verdict's table, as a real Prometheus answers its queries about fleets of 2, 8 and 64 pods.

The series are written by hand, so that the truth is known: which pods are hit, in which namespaces. Grafana then folds the answers of one
root into a row, which `tests/drawn` shows with Grafana's own code.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grafana.first_steps import ONE_POD, SEVERAL_PODS
from grafana.verdict import ALL_PODS
from tests.drawn.asking import ALL, Look, filled_in
from tests.grafana.boards import board, column_of, panels
from tests.support.backfilled import backfilled, sample_line


pytestmark = pytest.mark.long

LOOKED_AT = 1_767_225_600
BEGAN_SECONDS = 408
STEP_SECONDS = 15
STEPS = 24
LANES = ("interactive", "batch")
CHOSEN = dict.fromkeys(("cluster", "namespace", "pod", "model", "lane", "prompt_bucket", "computed"), ALL)


def constant(name: str, labels: dict[str, str], value: float) -> Iterator[str]:
    for step in range(STEPS + 1):
        yield sample_line(name, labels, value, LOOKED_AT - step * STEP_SECONDS)


def counter(name: str, labels: dict[str, str], a_second: float) -> Iterator[str]:
    for step in range(STEPS + 1):
        yield sample_line(name, labels, a_second * (STEPS - step) * STEP_SECONDS, LOOKED_AT - step * STEP_SECONDS)


def of_a_pod(engine: dict[str, str], pod: str, *, hit: bool) -> Iterator[str]:
    """Decode is slow on a pod that is hit, and its misses waited in the queue; the others miss one request now and then."""
    own = engine | {"pod": pod}
    for what, number in (("requests", 60.0), ("misses", 40.0 if hit else 3.1), ("allowed_misses", 3.0)):
        yield from constant("pod:llm_slo:increase2m", own | {"objective": "ttft", "of": what}, number)
    if not hit:
        return
    incident = {name: value for name, value in own.items() if name != "model"} | {
        "phase": "decode",
        "cause": "decode_cost",
    }
    for step in range(STEPS + 1):
        age = BEGAN_SECONDS - step * STEP_SECONDS
        yield sample_line("llm_incident_age_seconds", incident, age, LOOKED_AT - step * STEP_SECONDS)
    for lane in LANES:
        who = own | {"lane": lane, "objective": "ttft"}
        yield from counter("llm_slo_root_cause_misses_total", who | {"phase": "decode", "cause": "decode_cost"}, 0.3)
        yield from counter("llm_slo_blamed_misses_total", who | {"phase": "queue"}, 0.3)
        yield from counter("llm_slo_blamed_misses_total", who | {"phase": "decode"}, 0.1)


def of_an_engine(namespace: str, pods: int, hit: int) -> Iterator[str]:
    engine = {"namespace": namespace, "job": "llm-phase-sidecar", "model": "llama-70b"}
    for lane in LANES:
        who = engine | {"lane": lane, "objective": "ttft"}
        yield from constant("lane:llm_slo_root:share", who | {"phase": "decode", "window": "2m"}, 0.9)
        yield from constant("lane:llm_slo_burn:tier", who | {"tier": "fast" if lane == "interactive" else "slow"}, 1)
        yield from constant("lane:llm_slo_burn:ratio_rate5m", who, 12)
    for number in range(pods):
        yield from of_a_pod(engine, f"llama-7d9f8c6b5d-x{number:02}kp", hit=number < hit)


def asked(folder: Path, lines: Iterator[str]) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Column to its answers: labels and value."""
    table = next(panel for panel in panels(board("llm-anatomy")) if panel["title"].startswith("Verdict: "))
    by_series = sorted(
        lines, key=lambda line: (line.partition("{")[0], line.partition("}")[0], line.rpartition(" ")[2])
    )
    found = {}
    with backfilled(folder, by_series, f"--query.lookback-delta={STEP_SECONDS}s") as url:
        look = Look(url, LOOKED_AT - 3600, LOOKED_AT)
        for target in table["targets"]:
            answers = look.answers(filled_in(target["expr"], look, CHOSEN), instant=True)
            found[column_of(table, target["refId"])] = [(one["metric"], float(one["value"][1])) for one in answers]
    return found


@pytest.mark.parametrize(
    ("pods", "hit", "scope", "named"),
    [
        (2, 2, ALL_PODS, None),
        (2, 1, 1, "llama-7d9f8c6b5d-x00kp"),
        (8, 1, 1, "llama-7d9f8c6b5d-x00kp"),
        (64, 64, ALL_PODS, None),
        (64, 5, 5, None),
    ],
)
def test_the_scope_says_how_many_pods_are_hit(
    tmp_path: Path, pods: int, hit: int, scope: int, named: str | None
) -> None:
    """All, one, or a number; the pod is named if it is one alone, and the first step is then about that machine. A miss now and then on
    the others changes nothing. In each lane: page of the one and ticket of the other, the age, and where the misses waited.
    """
    rows = asked(tmp_path, of_an_engine("serving", pods, hit))

    assert {value for _, value in rows["scope"]} == {scope}
    assert {labels["pod"] for labels, _ in rows["hit_alone"]} == ({named} if named else set())
    assert {labels["do_first"] for labels, _ in rows["confidence"]} == {
        f"decode/decode_cost/{ONE_POD if scope == 1 else SEVERAL_PODS}"
    }
    assert {labels["waited_in"] for labels, _ in rows["its_misses"]} == {"queue"}
    assert {labels["lane"]: value for labels, value in rows["severity"]} == {"interactive": 2, "batch": 1}
    assert {value for _, value in rows["age"]} == {BEGAN_SECONDS}
    assert {len(rows[column]) for column in ("confidence", "scope", "its_misses", "severity", "age", "told_where")} == {
        len(LANES)
    }


def test_one_namespace_is_not_shown_and_several_are(tmp_path: Path) -> None:
    """The second engine is well; but which of the two a row is about has to be said."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    well = {"namespace": "other", "job": "llm-phase-sidecar", "model": "llama-70b"}
    alone = asked(tmp_path / "one", of_an_engine("serving", 2, 2))
    beside = asked(tmp_path / "two", iter([*of_an_engine("serving", 2, 2), *of_a_pod(well, "o-1", hit=False)]))

    assert {labels.get("where") for labels, _ in alone["told_where"]} == {None}
    assert {labels.get("where") for labels, _ in beside["told_where"]} == {"serving"}
