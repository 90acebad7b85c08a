"""The report of an engine on one request, and on one of several choices."""

from sidecar.ledger.report import EngineReport, of_choices


def test_of_several_choices_the_first_to_have_a_token_says_how_long_that_took() -> None:
    """The decodes of several choices overlap, so decode is unknown. If one report is incomplete, none is used, because
    it might have been the first."""
    fast, slow = EngineReport(0.1, 0.3, 0.2), EngineReport(0.3, 0.2, 0.9)

    assert of_choices([slow, fast]) == EngineReport(0.1, 0.3, None)
    assert of_choices([slow]) == slow
    assert of_choices([fast, EngineReport(None, 0.1, 0.1)]) == EngineReport()
