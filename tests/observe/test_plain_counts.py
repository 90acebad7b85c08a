"""Counters for rules say at each scrape what their histograms say, and cost an observation nothing."""

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter
from sidecar.metrics.registry import Metrics
from sidecar.observe.record import Recorder


def said(metrics: Metrics, metric: Counter) -> dict[tuple[str, ...], float]:
    """The children of a counter that have counted anything."""
    return {labels: child.value for labels, child in metrics.counter(metric).children.items() if child.value}


def test_prompts_and_their_tokens_are_the_count_and_the_sum_of_the_histogram() -> None:
    """At the scrape, and not before; a second scrape adds what came between."""
    metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])
    Recorder(metrics)
    prompts = metrics.histogram(c.PROMPT_TOKENS)
    for tokens in (100, 900):
        prompts.child("llama", "chat").observe(tokens)

    found = [said(metrics, c.STATED_PROMPTS_TOTAL)]
    metrics.refresh(1.0)
    found += [said(metrics, c.STATED_PROMPTS_TOTAL), said(metrics, c.STATED_PROMPT_TOKENS_TOTAL)]
    prompts.child("llama", "chat").observe(7)
    prompts.child("llama", "batch").observe(20_000)
    metrics.refresh(2.0)
    metrics.refresh(3.0)
    found += [said(metrics, c.STATED_PROMPTS_TOTAL), said(metrics, c.STATED_PROMPT_TOKENS_TOTAL)]

    chat, batch = ("llama", "chat"), ("llama", "batch")
    assert found == [{}, {chat: 2}, {chat: 1000}, {chat: 3, batch: 1}, {chat: 1007, batch: 20_000}]


def test_reads_are_divided_at_their_limits() -> None:
    """Five events in a read are few, six are many; 5 ms until the write is in time."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
    recorder = Recorder(metrics)
    for events in (1, 5, 6, 250):
        recorder.per_read[RequestLabels("llama", "chat", "0-512")].observe(events)
    for seconds in (0.0001, 0.005, 0.0051):
        recorder.overhead(seconds)

    metrics.refresh(1.0)

    assert said(metrics, c.STREAM_READS_TOTAL) == {("chat", "few"): 2, ("chat", "many"): 2}
    assert said(metrics, c.TIMED_READS_TOTAL) == {("in_time",): 2, ("late",): 1}


def test_where_series_have_no_room_the_counter_of_other_has_all_of_them() -> None:
    """Two models, and room for the counters of neither: nothing is counted twice, and nothing is lost."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
    Recorder(metrics)
    metrics.models.admit(["mistral", "qwen"])
    for model in ("mistral", "qwen"):
        metrics.histogram(c.PROMPT_TOKENS).child(model, "chat").observe(10)
    metrics.spent = 1_000_000

    for at in (1.0, 2.0):
        metrics.refresh(at)

    assert said(metrics, c.STATED_PROMPTS_TOTAL) == {("other", "other"): 2}
