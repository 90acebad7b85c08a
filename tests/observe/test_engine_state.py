"""The engine's state on the sidecar's page: values that are known are on it, unknown ones are absent."""

from sidecar.engines.probe.agreement import MIN_REQUESTS, Agreement, Tally
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices
from sidecar.observe.engine_state import EngineStateRecorder


def shown(metrics: Metrics) -> list[str]:
    text = b"".join(slices(metrics, openmetrics=False, at=0.0)).decode()
    return [line for line in text.splitlines() if line.startswith("llm_engine_") and "scrapes" not in line]


def test_before_the_first_reading_nothing_is_said_about_the_engine() -> None:
    """A zero would be a claim. Only the scrapes of the engine are counted from the start, for `rate()`."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    EngineStateRecorder(metrics)

    assert shown(metrics) == []
    assert {labels for labels, *_ in metrics.counter(c.ENGINE_SCRAPES_TOTAL).children} == set(
        c.ENGINE_SCRAPES_TOTAL.labels[0].values
    )


def test_what_a_reading_does_not_state_is_taken_off_and_what_was_counted_stays() -> None:
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    recorder = EngineStateRecorder(metrics)

    recorder.read(EngineState(requests_waiting=0.0, kv_cache_usage_ratio=0.5), Growth({Count.PREEMPTIONS: 0.0}))
    recorder.read(EngineState(requests_waiting=2.0), Growth({Count.PREEMPTIONS: 3.0}, restarted=True))

    assert shown(metrics) == [
        "llm_engine_requests_waiting 2",
        "llm_engine_preemptions_total 3",
        "llm_engine_restarts_total 1",
    ]

    recorder.unknown()

    assert shown(metrics) == ["llm_engine_preemptions_total 3", "llm_engine_restarts_total 1"]


def test_accepted_drafts_stand_beside_the_drafts_where_the_engine_speculates() -> None:
    """Without speculative decoding the engine's page has neither, and no acceptance of 0 is told."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    recorder = EngineStateRecorder(metrics)

    recorder.read(EngineState(), Growth({Count.PREEMPTIONS: 0.0}))
    assert not [line for line in shown(metrics) if "draft" in line]

    recorder.read(EngineState(), Growth({Count.DRAFT_TOKENS: 30.0, Count.ACCEPTED_DRAFT_TOKENS: 12.0}))
    assert [line for line in shown(metrics) if "draft" in line] == [
        "llm_engine_draft_tokens_total 30",
        "llm_engine_accepted_draft_tokens_total 12",
    ]


def test_the_comparison_with_our_own_sums_stands_beside_the_state_and_goes_with_it() -> None:
    metrics, tally = Metrics(lanes=["chat"], prompt_buckets=["0-512"]), Tally()
    recorder = EngineStateRecorder(metrics, Agreement(tally), lambda: (100.0, 0))
    quiet = EngineState()

    recorder.read(quiet, Growth({Count.REQUESTS: 0.0, Count.QUEUE_SECONDS: 0.0}))
    tally.counts[Count.REQUESTS] += MIN_REQUESTS / 2
    tally.counts[Count.QUEUE_SECONDS] += 8.0
    recorder.read(quiet, Growth({Count.REQUESTS: float(MIN_REQUESTS), Count.QUEUE_SECONDS: 10.0}))

    ratios = ["llm_engine_traffic_seen_ratio 0.5", 'llm_engine_report_agreement_ratio{phase="queue"} 0.8']
    assert [line for line in shown(metrics) if "ratio" in line] == ratios

    recorder.unknown()

    assert [line for line in shown(metrics) if "ratio" in line] == []


def test_an_engine_whose_counts_grow_works_at_that_instant() -> None:
    now = 100.0
    recorder = EngineStateRecorder(Metrics(lanes=["chat"], prompt_buckets=["0-512"]), now=lambda: (now, 0))
    grew_at = [recorder.grew_at]
    for count in (0.0, 5.0, 0.0):
        now += 5.0
        recorder.read(EngineState(), Growth({Count.OUTPUT_TOKENS: count}))
        grew_at.append(recorder.grew_at)

    assert grew_at == [float("-inf"), float("-inf"), 110.0, 110.0]


def test_an_engine_counts_its_output_if_the_last_page_that_was_read_stated_it() -> None:
    """A page that cannot be read takes nothing back: the engine may hang."""
    recorder = EngineStateRecorder(Metrics(lanes=["chat"], prompt_buckets=["0-512"]))
    counts = [recorder.counts_output]
    for growth in (Growth({Count.REQUESTS: 1.0}), Growth({Count.OUTPUT_TOKENS: 0.0})):
        recorder.read(EngineState(), growth)
        counts.append(recorder.counts_output)
    recorder.unknown()
    counts.append(recorder.counts_output)

    assert counts == [False, False, True, True]


def test_the_requests_that_the_engine_runs_are_known_until_a_page_does_not_say_so() -> None:
    recorder = EngineStateRecorder(Metrics(lanes=["chat"], prompt_buckets=["0-512"]))
    running = [recorder.running]
    recorder.read(EngineState(requests_running=2.0), Growth({}))
    running.append(recorder.running)
    recorder.unknown()
    running.append(recorder.running)

    assert running == [None, 2.0, None]
