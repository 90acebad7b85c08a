"""The page that an engine would have of a run, as promtool reads it, and the answer of `diagnose` by it."""

from dataclasses import replace

import pytest

from bench.engine_page import (
    MOST_PODS,
    NOT_ON_THE_PAGE,
    PAGES,
    STEP_SECONDS,
    Answer,
    answered,
    chosen,
    instants,
    named,
    page,
    until,
    written,
)
from bench.incidents import shapes
from bench.incidents.request import Request, Run, State, TruePhases
from bench.incidents.truth import LaneTruth, Truth
from sidecar.diagnosis import engine_series
from sidecar.engines.probe.state_names import StateNames
from tests.support.tools import need_tool


NAMES: dict[str, StateNames] = {kind.name: names for kind, names in engine_series.kinds()}
AT = 1500.0


SCRAPES = round(AT / STEP_SECONDS) + 1


def run_of(phases: TruePhases, *, then: TruePhases | None = None, waiting: int = 0, running: int = 4) -> Run:
    """Two requests a second, all with these times and, in the last five minutes, those; the engine then has so many of them."""
    requests = []
    for number in range(round(2 * AT)):
        at = number / 2
        own = phases if then is None or at < AT - 300 else then
        first = at + own.front_end + own.queue + own.prefill
        reads = [first + own.decode / 10 * token for token in range(11)]
        requests.append(
            Request(
                number,
                "chat",
                500,
                11,
                streaming=True,
                received_at=at,
                reads=reads,
                events=[1] * 11,
                ended_at=reads[-1],
                phases=own,
            )
        )
    states = [
        State(at, True, *((waiting, running) if at >= AT - 300 else (0, 4)), 0.5, 0, int(1000 * at), int(500 * at), 0)
        for at in (5.0 * each for each in range(round(AT / 5) + 1))
    ]
    return Run(requests, states, AT, AT, AT)


def test_the_page_begins_anew_with_its_process() -> None:
    """Observations since 300 s alone, which is two a second; a bucket has what is not longer than its edge, and a sum has seconds."""
    run = run_of(TruePhases(0.0, 0.0, 0.5, 1.0, 0.0, 0.0))
    run.states = [replace(each, process=int(each.at >= 300)) for each in run.states]
    columns = written(run, 0, NAMES["vllm"], PAGES["vllm"], AT).columns
    name = "vllm:time_to_first_token_seconds"

    assert len(columns[f"{name}_count", ()]) == SCRAPES
    assert columns[f"{name}_count", ()][-1] == 2 * (AT - 300) + 1
    assert columns[f"{name}_sum", ()][-1] == pytest.approx(0.5 * (2 * (AT - 300) + 1))
    assert columns[f"{name}_bucket", (("le", "0.25"),)][-1] == 0
    assert columns[f"{name}_bucket", (("le", "0.5"),)] == columns[f"{name}_bucket", (("le", "+Inf"),)]
    assert columns["vllm:num_requests_waiting", ()] == [0] * SCRAPES
    assert columns["up", ()] == [1.0] * SCRAPES


def test_an_engine_that_is_down_has_no_page_and_prometheus_says_so() -> None:
    run = run_of(TruePhases(0.0, 0.0, 0.5, 1.0, 0.0, 0.0))
    run.states = [replace(each, up=each.at < 500) for each in run.states]
    columns = written(run, 0, NAMES["vllm"], PAGES["vllm"], AT).columns

    assert (columns["vllm:num_requests_running", ()][-1], columns["up", ()][-1]) == (None, 0.0)


WELL = TruePhases(0.01, 0.02, 0.2, 0.3, 0.0, 0.0)


@pytest.mark.long
@pytest.mark.parametrize("engine", PAGES)
@pytest.mark.parametrize(
    ("now", "waiting", "running", "phase"),
    [
        (TruePhases(0.01, 8.0, 0.2, 0.3, 0.0, 0.0), 16, 2, "queue"),
        (TruePhases(0.01, 4.0, 0.25, 3.0, 0.0, 0.0), 8, 8, "decode"),
    ],
)
def test_what_the_page_shows_is_what_diagnose_names(
    engine: str, now: TruePhases, waiting: int, running: int, phase: str
) -> None:
    """The command's own queries, evaluated by promtool: a queue before fewer slots, and one behind gaps that are ten times as long."""
    need_tool("promtool")
    kind = next(kind for kind, _ in engine_series.kinds() if kind.name == engine)
    samples = written(run_of(WELL, then=now, waiting=waiting, running=running), 0, NAMES[engine], PAGES[engine], AT)

    told, past = answered([samples], NAMES[engine], [AT])

    assert named(kind, told[AT], until(past, AT)) == phase


def test_grades_are_counted_by_engine_and_by_the_phase_that_broke() -> None:
    found = [
        Answer("vllm", "a", 1.0, frozenset({"queue"}), "queue"),
        Answer("vllm", "a", 2.0, frozenset({"queue"}), "prefill"),
        Answer("vllm", "b", 1.0, frozenset({"decode", "prefill"}), "unattributed"),
        Answer("sglang", "b", 1.0, frozenset({"decode", "prefill"}), "well"),
    ]

    told = page(found).splitlines()

    assert told == [
        "all: 1 right, 1 wrong, 2 not told, of 4 questions about 2 runs; said prefill 1 times",
        "vllm: 1 right, 1 wrong, 1 not told, of 3 questions about 2 runs; said prefill 1 times",
        "  decode or prefill: 0 right, 0 wrong, 1 not told, of 1 questions about 1 runs",
        "  queue: 1 right, 1 wrong, 0 not told, of 2 questions about 1 runs; said prefill 1 times",
        "sglang: 0 right, 0 wrong, 1 not told, of 1 questions about 1 runs",
        "  decode or prefill: 0 right, 0 wrong, 1 not told, of 1 questions about 1 runs",
    ]


def test_shapes_that_no_page_can_tell_or_that_take_hours_are_left_out() -> None:
    found = [shapes.drawn("a", number) for number in chosen("a", 30)]

    assert len(found) == 30
    assert all(shape.fleet[0] <= MOST_PODS and not {shape.fault, shape.other} & NOT_ON_THE_PAGE for shape in found)
    assert chosen("a", 5, first=chosen("a", 10)[5]) == chosen("a", 10)[5:]


def test_questions_are_asked_of_each_lane_that_must_page_a_minute_apart() -> None:
    def lane(burns_at: float | None, *, must_page: bool = True) -> LaneTruth:
        none = frozenset[str]()
        return LaneTruth(none, none, none, None, must_page, False, False, False, burns_at, 1, 1)

    times = [300.0, 310.0, 361.0, 590.0, None]
    lanes = {(str(number), "ttft"): lane(at) for number, at in enumerate(times)}
    truth = Truth({**lanes, ("batch", "ttft"): lane(100.0, must_page=False)}, 600.0, 600.0)

    assert instants(Run([], [], 200.0, 900.0, 800.0), truth) == [540.0, 600.0]
