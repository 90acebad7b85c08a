"""The series that `sidecar check` predicts are those of a process in which everything is used."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config, MetricsConfig
from sidecar.config.series_count import series_ceiling, series_in_use, too_many
from sidecar.ledger.account import Account, Estimate
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import OTHER, UNKNOWN, RequestLabels
from sidecar.observe.instruments import Instruments
from sidecar.observe.request_record import RequestRecord
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from sidecar.wiring import metrics_of
from tests.support.configs import section_of


USAGE = Usage(prompt_tokens=1000, cached_tokens=600, completion_tokens=5)
MARKS = Marks(
    accepted_at=1.0,
    received_at=1.1,
    first_token_at=2.0,
    last_token_at=3.0,
    ended_at=3.0,
    flushed_at=3.25,
    paused_seconds=0.25,
    output_events=5,
    choices=1,
    usage=USAGE,
)
REPORT = EngineReport(queue_seconds=0.25, prefill_seconds=0.5, decode_seconds=1.0)
PRESETS = ("none", "interactive", "batch", "code")
EDGES = (512, 4096, 16384, 65536, 131072, 262144, 524288, 1048576)


def config(presets: list[str], models: int, edges: int = 4, *, split: bool = False, limit: int = 1_000_000) -> Config:
    """A config with a lane for each preset."""
    lanes = [f"lane-{number}" for number in range(len(presets))]
    return section_of(
        Config,
        {
            "engine": {"url": "http://127.0.0.1:8000", "models": [f"model-{number}" for number in range(models)]},
            "lanes": {"header": "x-lane", "names": lanes[1:], "default": lanes[0]},
            "prompt_buckets": {"edges": EDGES[:edges]},
            "objectives": {lane: {"preset": preset} for lane, preset in zip(lanes, presets, strict=True)},
            "metrics": {"series_limit": limit, "inter_token_by_prompt_bucket": split},
        },
    )


def fully_used(config: Config, *, late: bool = False) -> int:
    """The series of a process in which each lane carried a reported stream of each model and each prompt length, and in which all
    that has no lane and no model, such as the budgets, was counted too. `late`: the engine told the models after a first scrape.
    """
    unsaid = replace(config, engine=replace(config.engine, models=()))
    metrics = metrics_of(unsaid if late else config)
    instruments = Instruments.on(metrics, objectives_of(config), estimate=True)
    recorder, slo, estimates = instruments.recorder, instruments.slo, instruments.estimates
    assert estimates is not None
    metrics.refresh(0.5)
    recorder.admit_models(config.engine.models)
    lanes, lengths = (
        [each for each in closed.shown() if each not in (OTHER, UNKNOWN)]
        for closed in (metrics.lanes, metrics.prompt_buckets)
    )
    for labels in map(RequestLabels, *zip(*product(config.engine.models, lanes, lengths), strict=True)):
        ledger, request = close_ledger(MARKS, streaming=True, report=REPORT), RequestRecord()
        account = replace(Account(labels, True, Outcome.OK, MARKS, ledger), key=request)
        instruments.in_flight.enter(request, labels, 1.0)
        slo.received(request, 1.1, labels, streaming=True, prompt_tokens=1000.0)
        recorder.connected(labels, 0.001)
        slo.answering(request, 1.9, streaming=True)
        slo.output(request, 1, 2.0)
        slo.output(request, 4, 3.0)
        recorder.gaps[labels].observe(0.25)
        recorder.per_read[labels].observe(1)
        recorder.ended(account)
        slo.ended(request, account, 3.25)
        recorder.settled(account)
        slo.settled(request, account, 3.25)
        instruments.in_flight.leave(request)
        for seconds, low, high in ((0.25, 0.0, 9.0), (0.75, 0.0, 1e-9), (0.75, 8.0, 9.0)):
            estimates.compare(replace(account, estimate=Estimate(seconds, low, high, "idle")))
    for family in metrics.families:
        if all(label.values for label in family.metric.labels):
            family.begin()
    metrics.refresh(10.0)
    return metrics.series


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(PRESETS), min_size=1, max_size=10),
    *(st.integers(1, 4), st.integers(1, 8)),
    *(st.booleans(), st.booleans()),
)
def test_the_series_of_full_use_are_predicted_within_a_fifth(
    presets: list[str], models: int, edges: int, split: bool, late: bool
) -> None:
    """For any number of lanes, models and prompt lengths, with any objectives, and whether config or engine tells the models."""
    drawn = config(presets, models, edges, split=split)

    assert 0.8 <= series_in_use(drawn) / fully_used(drawn, late=late) <= 1.2


def test_ten_lanes_of_three_models_fit_the_default_limit() -> None:
    """With three objectives each, in full use; the config is not refused, and nothing is counted in another's place. Where the
    engine tells the models, the page is the same: nothing was begun for `other` before.
    """
    limit = MetricsConfig().series_limit
    large = config(["interactive", "code"] * 5, models=3, limit=limit)

    assert list(too_many(large, series_in_use)) == []
    unlimited = config(["interactive", "code"] * 5, models=3)
    used, used_late = (fully_used(large, late=late) for late in (False, True))
    assert [used, used_late] == [fully_used(unlimited, late=late) for late in (False, True)]
    assert used == used_late < limit < series_ceiling(large)


def test_a_config_that_needs_more_than_its_limit_is_refused_by_both_numbers() -> None:
    small = config(["interactive"], models=1, limit=1000)

    counted = "2 lanes, 6 prompt buckets and 2 models (fallbacks included)"
    wanted = f"make {series_in_use(small)} series in full use; take fewer of them, or a higher limit"
    assert [*too_many(small, series_in_use)] == [(("metrics", "series_limit"), f"is 1000, but {counted} {wanted}")]
