"""Readers of the history: each says a number, or why it is not known, and never 0 for an unknown."""

import pytest

from sidecar.history import rows as r
from sidecar.history.series import LONG_SECONDS, SHOWN_SECONDS
from sidecar.metrics import catalogue as c
from tests.support.ticked import Pod


def test_a_history_that_is_shorter_than_the_window_says_how_much_it_has_and_needs() -> None:
    pod = Pod().passes(40)
    pod.ends("ok", 3)
    reader = r.growth(c.REQUESTS_TOTAL)

    early = pod.reads(reader)
    pod.passes(SHOWN_SECONDS - 40)

    assert (early, pod.reads(reader)) == ("40 s of history, needs 5 min", {(): 3.0})


def test_growth_is_of_the_window_and_of_the_labels_that_are_asked_for() -> None:
    """Growth before the window is left out, and so are other lanes and outcomes."""
    pod = Pod()
    pod.ends("ok", 100)
    pod.passes(600)
    pod.ends("ok", 3)
    pod.ends("rejected", 1)
    pod.ends("ok", 7, lane="batch")

    told = [
        pod.reads(r.growth(c.REQUESTS_TOTAL, "outcome", of=("lane",)), lane="chat"),
        pod.reads(r.growth(c.REQUESTS_TOTAL, "lane", only={"outcome": ("ok", "rejected")})),
        pod.reads(r.growth(c.REQUESTS_TOTAL, without={"outcome": "ok"})),
        pod.reads(r.growth(c.REQUESTS_TOTAL, of=("lane",))),
        pod.reads(r.per_second(c.REQUESTS_TOTAL, of=("lane",)), lane="chat"),
    ]

    assert told == [
        {("ok",): 3.0, ("rejected",): 1.0},
        {("chat",): 4.0, ("batch",): 7.0},
        {(): 1.0},
        "it needs a lane",
        {(): pytest.approx(4.0 / SHOWN_SECONDS)},
    ]


def test_what_does_not_exist_is_unknown_and_not_zero() -> None:
    """A counter that the engine does not state, a gauge that is not set, a mean of nothing, a share of no request."""
    pod = Pod().passes(SHOWN_SECONDS)
    share = r.over(r.growth(c.REQUESTS_TOTAL, only={"outcome": "rejected"}), r.growth(c.REQUESTS_TOTAL))
    pod.ends("ok", 0)

    assert [
        pod.reads(r.growth(c.ENGINE_PREFIX_CACHE_HITS_TOTAL)),
        pod.reads(r.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO)),
        pod.reads(r.highest(c.ENGINE_KV_CACHE_USAGE_RATIO)),
        pod.reads(r.mean(c.PROMPT_TOKENS)),
        pod.reads(share),
    ] == [
        "this pod has no such number",
        "this pod does not know this number now",
        "this pod did not know this number in 5 min",
        "nothing was observed in 5 min",
        "nothing was counted in the window",
    ]


def test_a_gauge_is_read_now_and_at_its_highest() -> None:
    pod = Pod()
    kv, waiting = (pod.metrics.gauge(one).child() for one in (c.ENGINE_KV_CACHE_USAGE_RATIO, c.ENGINE_REQUESTS_WAITING))
    for value in (0.2, 0.9, 0.4):
        kv.set(value)
        pod.passes(SHOWN_SECONDS / 2)
    waiting.set(0)
    full = r.while_above_zero(r.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO), r.gauge(c.ENGINE_REQUESTS_WAITING))

    calm = pod.reads(full)
    waiting.set(12)

    assert (calm, pod.reads(full)) == ({}, {(): 0.4})
    assert pod.reads(r.highest(c.ENGINE_KV_CACHE_USAGE_RATIO)) == {(): 0.9}
    assert pod.reads(r.minus(r.gauge(c.ENGINE_REQUESTS_WAITING), r.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO))) == {(): 11.6}
    assert pod.reads(r.age(r.gauge(c.ENGINE_REQUESTS_WAITING))) == {(): 988.0}
    assert (
        pod.reads(r.above_zero(r.minus(r.gauge(c.ENGINE_REQUESTS_WAITING), r.gauge(c.ENGINE_REQUESTS_WAITING)))) == {}
    )


def test_a_histogram_is_read_as_mean_quantile_share_and_sum() -> None:
    pod = Pod().passes(SHOWN_SECONDS)
    for tokens in (10.0, 20.0, 30.0, 100.0):
        pod.metrics.histogram(c.PROMPT_TOKENS).child("llama", "chat").observe(tokens)

    assert [
        pod.reads(r.mean(c.PROMPT_TOKENS, "lane")),
        pod.reads(r.summed(c.PROMPT_TOKENS)),
        pod.reads(r.share_up_to(32.0, c.PROMPT_TOKENS)),
        pod.reads(r.quantile_of(0.75, c.PROMPT_TOKENS)),
    ] == [{("chat",): 40.0}, {(): 160.0}, {(): 0.75}, {(): 32.0}]


def test_a_question_that_the_history_cannot_hold_is_a_mistake_in_the_code() -> None:
    """A longer window, a label that was summed away, or a metric that no snapshot has."""
    with pytest.raises(ValueError, match="not held"):
        r.growth(c.REQUESTS_TOTAL, seconds=LONG_SECONDS + 1)
    with pytest.raises(ValueError, match="not held"):
        r.growth(c.RECEIVED_PROMPT_TOKENS_TOTAL, "lane")
    with pytest.raises(ValueError, match="not held"):
        r.mean(c.REQUEST_UPLOAD_SECONDS)
