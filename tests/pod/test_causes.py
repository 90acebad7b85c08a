"""One closed table says what can break, whose phase it is, and who hears of it."""

from pathlib import Path

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import CAUSES_BY_PHASE, PHASE_OF, Cause, receiver


ALERTMANAGER = Path(__file__).parents[2] / "alert_rules" / "alertmanager.yml"


def test_every_cause_has_exactly_one_phase() -> None:
    listed = [cause for causes in CAUSES_BY_PHASE.values() for cause in causes]

    assert sorted(listed) == sorted(Cause)
    assert {cause: PHASE_OF[cause] for cause in (Cause.LOAD, Cause.HOP, Cause.SIDECAR_LATE)} == {
        Cause.LOAD: "queue",
        Cause.HOP: "stream",
        Cause.SIDECAR_LATE: "sidecar",
    }


def test_every_phase_but_the_unknown_one_has_causes() -> None:
    assert {*Blame, SIDECAR} - CAUSES_BY_PHASE.keys() == {Blame.UNATTRIBUTED}


def test_every_phase_of_the_table_has_receivers_in_the_shipped_alertmanager_file() -> None:
    """A route of the shipped file sends each phase's pages and tickets to the receivers that the table names."""
    routes = read_yaml(ALERTMANAGER.read_text())["route"]["routes"]
    by_phase = {
        matcher.removeprefix('phase="').removesuffix('"'): (route["receiver"], route["routes"][0]["receiver"])
        for route in routes
        for matcher in route.get("matchers", ())
        if matcher.startswith('phase="')
    }

    assert by_phase == {
        phase: (receiver(phase, "ticket"), receiver(phase, "page")) for phase in (*CAUSES_BY_PHASE, Blame.UNATTRIBUTED)
    }


def test_every_phase_of_a_root_has_a_runbook() -> None:
    assert CHAPTERS.keys() - {Blame.UNATTRIBUTED} == CAUSES_BY_PHASE.keys()
