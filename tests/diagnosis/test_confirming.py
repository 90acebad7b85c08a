"""The words of a check: the number with its unit, what belongs to it, or the reason why it is unknown."""

import pytest

from sidecar.diagnosis.confirming import LINES_SHOWN, Answer, answered
from sidecar.history.series import SHOWN_SECONDS
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.pod.causes import ROOTS
from tests.support.ticked import Pod


def test_a_queue_is_told_with_its_size_and_how_many_times_the_usual_it_is() -> None:
    """The present number of this pod, before the reader has asked any Prometheus."""
    pod = Pod()
    unknown = run_now(answered("kv-usage-while-waiting", pod.moment()))
    for gauge, value in ((c.ENGINE_KV_CACHE_USAGE_RATIO, 0.98), (c.ENGINE_REQUESTS_WAITING, 0.0)):
        pod.metrics.gauge(gauge).child().set(value)
    gone = run_now(answered("kv-usage-while-waiting", pod.moment()))
    pod.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child().set(12)
    pod.metrics.gauge(c.EVIDENCE_RATIO).child("load").set(4.1)

    assert [unknown, gone, run_now(answered("kv-usage-while-waiting", pod.moment()))] == [
        Answer(False, ("unknown: this pod does not know this number now",)),
        Answer(True, ("no request waits in the engine now, 0 waiting",)),
        Answer(True, ("98 % full, 12 waiting, `load` is 4.1 x the usual",)),
    ]


def test_a_cause_is_told_with_the_size_of_its_incident_and_one_that_has_not_grown_without_a_number() -> None:
    pod = Pod()
    for gauge, value in ((c.ENGINE_KV_CACHE_USAGE_RATIO, 0.98), (c.ENGINE_REQUESTS_WAITING, 12.0)):
        pod.metrics.gauge(gauge).child().set(value)
    pod.metrics.gauge(c.EVIDENCE_RATIO).child("load").set(1.09)
    still = run_now(answered("kv-usage-while-waiting", pod.moment()))
    pod.metrics.gauge(c.INCIDENT_SIZE_RATIO).child("queue", "load", "second").set(4.1)

    assert [still, run_now(answered("kv-usage-while-waiting", pod.moment()))] == [
        Answer(True, ("98 % full, 12 waiting, `load` has not grown",)),
        Answer(True, ("98 % full, 12 waiting, `load` is 4.1 x the usual",)),
    ]


def test_rows_are_told_largest_first_and_the_last_are_counted() -> None:
    pod = Pod().passes(SHOWN_SECONDS)
    for number, (phase, cause) in enumerate(ROOTS[: LINES_SHOWN + 2], 1):
        pod.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).child("llama", phase, cause).inc(number)

    answer = run_now(answered("roots-of-model", pod.moment(model="llama")))

    phase, cause = ROOTS[LINES_SHOWN + 1]
    assert (answer.lines[0], answer.lines[-1]) == (f"`{phase}`, `{cause}`: {LINES_SHOWN + 2} misses", "and 2 more")
    assert len(answer.lines) == LINES_SHOWN + 1


def test_a_short_history_and_a_label_that_is_not_chosen_are_unknown() -> None:
    pod = Pod().passes(40)
    short = run_now(answered("roots-of-model", pod.moment(model="llama")))
    pod.passes(SHOWN_SECONDS)

    assert [short, run_now(answered("roots-of-model", pod.moment()))] == [
        Answer(False, ("unknown: 40 s of history, needs 5 min",)),
        Answer(False, ("unknown: it needs a model",)),
    ]


def test_no_miss_in_the_window_is_known_and_said() -> None:
    pod = Pod()
    pod.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).child("llama", *ROOTS[0]).inc(5)
    pod.passes(2 * SHOWN_SECONDS)

    assert run_now(answered("roots-of-model", pod.moment(model="llama"))) == Answer(
        True, ("no miss was decided in the window",)
    )


@pytest.mark.parametrize(("up", "stalled", "said"), [(1, 0, "1: it"), (0, 0, "0: it"), (0, 1, "-1: it")])
def test_the_state_of_an_engine_is_a_word(up: float, stalled: float, said: str) -> None:
    pod = Pod()
    pod.metrics.gauge(c.ENGINE_UP).child().set(up)
    pod.metrics.gauge(c.ENGINE_STALLED).child().set(stalled)

    assert run_now(answered("engine-state", pod.moment())).lines[0].startswith(said)


def test_a_lane_whose_usage_states_no_cached_tokens_is_not_told_zero() -> None:
    """Its counter begins at 0 and never grows: unknown is no 0 %, which the runbook would take for a changed template."""
    pod = Pod()
    for lane in ("chat", "batch"):
        pod.metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child("llama", lane).inc(0)
        pod.metrics.counter(c.UNCACHED_PROMPT_TOKENS_TOTAL).child("llama", lane).inc(0)
    pod.passes(SHOWN_SECONDS)
    for lane in ("chat", "batch"):
        pod.metrics.histogram(c.PROMPT_TOKENS).child("llama", lane).observe(1000)
    silent = run_now(answered("cached-share-by-lane", pod.moment()))
    pod.metrics.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child("llama", "chat").inc(750)
    pod.metrics.counter(c.UNCACHED_PROMPT_TOKENS_TOTAL).child("llama", "chat").inc(250)
    pod.metrics.gauge(c.EVIDENCE_RATIO).child("uncached").set(2.0)

    assert [silent, run_now(answered("cached-share-by-lane", pod.moment()))] == [
        Answer(False, ("unknown: nothing was counted in the window",)),
        Answer(True, ("`chat`: 75 %", "in all: `uncached` is 2 x the usual")),
    ]
