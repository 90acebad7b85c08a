"""The report of an engine on one request, and on one of several choices."""

from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport, of_choices
from sidecar.timeline.events import Usage


def test_of_several_choices_the_first_to_have_a_token_says_how_long_that_took() -> None:
    """The decodes of several choices overlap, so decode is unknown. If one report is incomplete, none is used, because
    it might have been the first."""
    fast, slow = EngineReport(0.1, 0.3, 0.2), EngineReport(0.3, 0.2, 0.9)

    assert of_choices([slow, fast]) == EngineReport(0.1, 0.3, None)
    assert of_choices([slow]) == slow
    assert of_choices([fast, EngineReport(None, 0.1, 0.1)]) == EngineReport()


def test_a_report_without_times_leaves_what_the_server_in_front_states() -> None:
    """Both phases as one number still bound the estimate; the tokens are the engine's."""
    front = EngineReport(merged=True, merged_seconds=0.3, parts=(StatedPart(Part.ROUTER, 0.1),))
    usage = Usage(600, None, None)

    found = EngineReport(usage=usage).beside(front)

    assert (found, found.usage) == (front, usage)
