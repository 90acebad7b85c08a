"""The page that an engine would have of a run, as promtool reads it, and the answer of `diagnose` by it."""

import pytest

from bench.engine_page import PAGES, SCRAPES, WINDOW_SECONDS, Answer, answered, page, written
from bench.incidents.request import Request, Run, State, TruePhases
from sidecar.diagnosis import engine_series
from sidecar.diagnosis.tree import contained
from sidecar.engines.probe.state_names import StateNames
from tests.support.tools import need_tool


NAMES: dict[str, StateNames] = {kind.name: names for kind, names in engine_series.kinds()}
AT = 600.0


def run_of(phases: TruePhases) -> Run:
    """Two requests a second, all with these times, on an engine with ten waiting; its process began at 300 s."""
    requests = [
        Request(number, "chat", 500, 11, streaming=True, received_at=number / 2, ended_at=AT, phases=phases)
        for number in range(1200)
    ]
    states = [State(5.0 * each, True, 10, 4, 0.5, 0, 100 * each, 50 * each, int(each >= 60)) for each in range(121)]
    return Run(requests, states, AT, AT, AT)


def test_the_page_begins_anew_with_its_process() -> None:
    """Observations since 300 s alone, which is two a second; a bucket has what is not longer than its edge."""
    samples = written(run_of(TruePhases(0.0, 0.0, 0.5, 1.0, 0.0, 0.0)), 0, NAMES["vllm"], PAGES["vllm"], AT)
    name = "vllm:time_to_first_token_seconds"

    assert len(samples.columns[f"{name}_count", ()]) == SCRAPES
    assert samples.columns[f"{name}_count", ()][-1] == 2 * (AT - 300) + 1
    assert samples.columns[f"{name}_bucket", (("le", "0.25"),)][-1] == 0
    assert samples.columns[f"{name}_bucket", (("le", "0.5"),)] == samples.columns[f"{name}_bucket", (("le", "+Inf"),)]
    assert samples.columns["vllm:num_requests_waiting", ()] == [10] * SCRAPES


@pytest.mark.long
@pytest.mark.parametrize("engine", PAGES)
@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        (TruePhases(0.01, 8.0, 0.35, 0.2, 0.0, 0.0), "queue"),
        (TruePhases(0.01, 0.01, 0.35, 9.0, 0.0, 0.0), "decode"),
    ],
)
def test_what_the_page_shows_is_what_diagnose_names(engine: str, phases: TruePhases, phase: str) -> None:
    """The command's own queries, evaluated by promtool."""
    need_tool("promtool")
    kind = next(kind for kind, _ in engine_series.kinds() if kind.name == engine)
    samples = written(run_of(phases), 0, NAMES[engine], PAGES[engine], AT)

    (one,) = engine_series.measured(kind, answered([samples], NAMES[engine]), None, WINDOW_SECONDS)
    assert one.load.arrivals_per_second == pytest.approx(2.0, rel=0.05)
    assert str(contained(one).phase) == phase


def test_the_shares_are_counted_by_engine_and_by_what_a_page_can_show() -> None:
    found = [
        Answer("vllm", "a", frozenset({"queue"}), "queue"),
        Answer("vllm", "b", frozenset({"queue"}), "prefill"),
        Answer("vllm", "c", frozenset({"decode"}), "well"),
        Answer("vllm", "d", frozenset({"stream"}), "decode"),
    ]

    told = page(found)

    assert "vllm, a phase of the engine broke: 1 right, 1 wrong, 1 none, of 3 runs" in told
    assert "vllm, a phase behind or of no engine's page broke: 0 right, 1 wrong, 0 none, of 1 runs" in told
