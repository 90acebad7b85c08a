"""`diagnose` names, by the page that an engine would have of a run, what broke in that run."""

import pytest

from bench.engine_page import (
    PAGES,
    answered,
    named,
    until,
    written,
)
from bench.incidents.request import Request, Run, State, TruePhases
from sidecar.diagnosis import engine_series
from sidecar.engines.probe.state_names import StateNames
from tests.support.tools import need_tool


NAMES: dict[str, StateNames] = {kind.name: names for kind, names in engine_series.kinds()}
AT = 1500.0


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
