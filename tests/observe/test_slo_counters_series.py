"""The series of objectives: thresholds and targets, what a reload changes, and that every series begins at 0."""

from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import LABEL_OVERFLOW_TOTAL
from sidecar.slo.attribution import VOTES
from sidecar.slo.objective import Aims, Objectives
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import AIMS, BUCKETS, LOOSE, SloHarness


# --- configs -------------------------------------------------------------------------------------------------------------


def gauges(harness: SloHarness) -> dict[tuple[str, ...], tuple[float | None, float | None]]:
    """(lane, bucket, objective) to (threshold, target), for those on the page."""
    targets = harness.metrics.gauge(c.SLO_TARGET_RATIO).children
    thresholds = harness.metrics.gauge(c.SLO_THRESHOLD_SECONDS).children
    return {key: (child.value, targets[key].value) for key, child in thresholds.items() if child.value is not None}


def test_thresholds_and_targets_are_on_the_page() -> None:
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS, "512+": LOOSE}}))

    assert gauges(harness) == {
        ("chat", "0-512", "ttft"): (1.0, 0.9),
        ("chat", "0-512", "tpot"): (0.25, 0.95),
        ("chat", "0-512", "e2e"): (8.0, 0.99),
        ("chat", "512+", "ttft"): (10.0, 0.5),
    }


def test_a_reload_takes_what_is_gone_off_the_page_and_counts_on() -> None:
    """Chat gets another threshold, batch loses its objectives: the gauges change, the counters keep their values."""
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS}, "batch": {"0-512": AIMS}}))
    harness.comes(lane="batch").ends(Outcome.REJECTED)

    harness.slo.replace(Objectives({"chat": {"0-512": LOOSE}}))

    assert gauges(harness) == {("chat", "0-512", "ttft"): (10.0, 0.5)}
    assert harness.burn("batch", "ttft") == (1, 1, 0.1)


def test_a_request_in_flight_keeps_what_it_was_promised() -> None:
    """The request from before the reload has missed after one second; the one after it has ten."""
    harness = SloHarness()
    before = harness.comes()
    harness.slo.replace(Objectives({"chat": {"0-512": LOOSE}}))
    after = harness.comes()

    harness.later(5.0)
    for request in (before, after):
        request.settles(request.speaks().ends(tokens=1))

    assert harness.burn("ttft") == (2, 1, 0.6)


def test_a_lane_whose_promises_are_gone_still_settles_what_it_owed() -> None:
    harness = SloHarness()
    request = harness.comes().speaks(after=2.0)
    account = request.ends(tokens=1)

    harness.slo.replace(Objectives())
    request.settles(account, EngineReport(1.9, 0.1, 0.0))

    assert (harness.votes(), gauges(harness)) == ({("ttft", "queue"): 1}, {})


# --- at 0 from the start -------------------------------------------------------------------------------------------------


def test_every_series_that_a_rule_reads_stands_at_0_before_it_happens() -> None:
    """They are there at once, for each model: per bucket each objective set for it, and each vote possible in this
    lane.
    """
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS, "512+": LOOSE}}))
    counters = harness.metrics.counter

    declared = {("0-512", "ttft"), ("0-512", "tpot"), ("0-512", "e2e"), ("512+", "ttft")}
    models = ("llama",)
    for metric in (c.SLO_REQUESTS_TOTAL, c.SLO_MISSES_TOTAL, c.SLO_ALLOWED_MISSES_TOTAL):
        found = counters(metric).children
        assert {*found} == {(model, "chat", *rest) for model in models for rest in declared}
        assert {child.value for child in found.values()} == {0}
    assert {*counters(c.SLO_BLAMED_MISSES_TOTAL).children} == {
        (model, "chat", objective, phase) for model in models for objective, phases in VOTES.items() for phase in phases
    }
    assert {*counters(c.GOOD_REQUESTS_TOTAL).children} == {("llama", "chat", bucket) for bucket in BUCKETS}
    assert {*counters(c.REQUESTS_RECEIVED_TOTAL).children} == {("llama", lane) for lane in ("chat", "batch")}
    assert harness.overdue() == 0


def test_a_model_that_was_not_expected_begins_at_0_with_the_page_after_its_first_request() -> None:
    """The request itself is counted; from then on the series of `other` stand at 0 like those of the engine's models."""
    harness = SloHarness()
    harness.slo.received(
        "key", harness.now, RequestLabels("gpt-9", "batch", "0-512"), streaming=True, prompt_tokens=None
    )

    harness.page()

    assert harness.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).children["other", "batch"].value == 1
    assert harness.metrics.counter(c.SLO_MISSES_TOTAL).children["other", "chat", "0-512", "ttft"].value == 0


def test_models_and_lanes_that_are_told_later_begin_at_0_with_the_next_page() -> None:
    harness = SloHarness(models=())
    harness.metrics.models.admit(["mixtral"])
    harness.metrics.lanes.admit(["night"])
    harness.slo.replace(Objectives({"night": {"0-512": AIMS}}))
    harness.metrics.models.admit(["llama"])

    harness.page()

    for model in ("mixtral", "llama"):
        assert (model, "night", "0-512", "ttft") in harness.metrics.counter(c.SLO_MISSES_TOTAL).children
        assert (model, "night") in harness.metrics.gauge(c.REQUESTS_OVERDUE).children
        assert (model, "night") in harness.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).children
    assert harness.count(LABEL_OVERFLOW_TOTAL) == 0


def test_what_is_promised_of_one_objective_makes_no_series_of_another() -> None:
    """A lane of whole answers has no TTFT."""
    harness = SloHarness(Objectives({"batch": {"0-512": Aims(e2e=AIMS.e2e), "512+": Aims()}}))

    assert {key[2:] for key in harness.metrics.counter(c.SLO_REQUESTS_TOTAL).children} == {("0-512", "e2e")}
    assert {key[2] for key in harness.metrics.counter(c.SLO_BLAMED_MISSES_TOTAL).children} == {"e2e"}
    assert {key[2] for key in harness.metrics.counter(c.GOOD_REQUESTS_TOTAL).children} == {"0-512"}
