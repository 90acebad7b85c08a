"""Snapshots of a registry: consistent at one instant, cheap where nothing changed, and the growth between two."""

from sidecar.history.series import SHOWN_SECONDS
from sidecar.history.slices import Sliced, run_now
from sidecar.history.snapshot import CHILDREN_PER_SLICE, counted, grown, observed, take
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


CHAT, BATCH = ("llama", "chat", "0-512", "true"), ("llama", "batch", "0-512", "true")


def registry(*models: str, lanes: int = 0) -> Metrics:
    more = [f"lane{number}" for number in range(lanes)]
    return Metrics(lanes=["chat", "batch", *more], prompt_buckets=["0-512", "512-4k"], models=["llama", *models])


def ends(metrics: Metrics, *who: str) -> None:
    """One request of this model, lane and prompt bucket ends."""
    metrics.counter(c.REQUESTS_TOTAL).child(*who[:3], "ok").inc()
    metrics.histogram(c.REQUEST_SECONDS).child(*who).observe(1.0)


def slices_of(work: Sliced[object]) -> int:
    return 1 + sum(1 for _ in work)


def test_a_request_stands_in_every_family_of_a_snapshot_or_in_none() -> None:
    """Otherwise it would be in one table of the page and missing in the next."""
    metrics = registry()
    ends(metrics, *CHAT)
    taking = take(metrics, 5.0)
    next(taking)
    ends(metrics, *CHAT)

    snapshot = run_now(taking)

    assert snapshot.counters["llm_requests_total"]["llama", "chat", "ok"] == 1
    assert snapshot.histograms["llm_request_seconds"][CHAT].count == 1


def test_snapshots_share_what_has_not_changed() -> None:
    """Half an hour of snapshots costs memory for changed children only."""
    metrics = registry()
    ends(metrics, *CHAT)
    before = run_now(take(metrics, 5.0))
    ends(metrics, *BATCH)

    after = run_now(take(metrics, 10.0, before))

    of_before, of_after = (one.histograms["llm_request_seconds"] for one in (before, after))
    assert of_after[CHAT] is of_before[CHAT]
    assert (BATCH in of_before, BATCH in of_after) == (False, True)


def test_a_snapshot_keeps_no_copy_of_what_stood_still() -> None:
    """Neither of a whole family, nor of the labels and numbers beside those that changed."""
    metrics = registry()
    ends(metrics, *CHAT)
    before = run_now(take(metrics, 5.0))
    same = run_now(take(metrics, 10.0, before))
    ends(metrics, *BATCH)
    changed = run_now(take(metrics, 15.0, same))

    name = c.REQUESTS_TOTAL.name
    assert all(same.counters[name] is before.counters[name] for name in before.counters)
    assert all(same.gauges[name] is before.gauges[name] for name in before.gauges)
    keys = {id(key) for key in before.counters[name]}
    assert keys <= {id(key) for key in changed.counters[name]}
    assert changed.counters[name] == {**before.counters[name], ("llama", "batch", "ok"): 1}


def test_growth_is_summed_over_the_labels_that_are_not_asked_for() -> None:
    metrics = registry("mixtral")
    ends(metrics, *CHAT)
    then = run_now(take(metrics, 0.0))
    ends(metrics, *CHAT)
    ends(metrics, "mixtral", *CHAT[1:])
    ends(metrics, *BATCH[:3], "false")
    now = run_now(take(metrics, 60.0, then))

    requests = run_now(counted(then, now, c.REQUESTS_TOTAL, "lane"))
    seconds = run_now(observed(then, now, c.REQUEST_SECONDS, "lane"))
    streamed = run_now(observed(then, now, c.REQUEST_SECONDS, only={"streaming": "true"}))

    assert requests == {("chat",): 2, ("batch",): 1}
    assert {lane: (total.count, total.sum) for (lane,), total in seconds.items()} == {
        "chat": (2, 2.0),
        "batch": (1, 1.0),
    }
    assert streamed[()].count == 2


def test_growth_since_the_process_began_needs_no_second_snapshot() -> None:
    metrics = registry()
    ends(metrics, *CHAT)

    assert run_now(counted(None, run_now(take(metrics, 0.0)), c.REQUESTS_TOTAL, "outcome"))["ok",] == 1


def test_a_counter_that_stood_still_grew_by_nothing_and_an_unknown_one_is_absent() -> None:
    """A counter without growth gives 0, one that does not exist gives None; a diagnosis tells the two apart."""
    metrics = registry()
    metrics.counter(c.SLO_BLAMED_MISSES_TOTAL).child("llama", "chat", "ttft", "queue").inc()
    then = run_now(take(metrics, 0.0))

    growth = run_now(grown(then, run_now(take(metrics, 300.0, then)), SHOWN_SECONDS))

    told = [growth.counted(c.SLO_BLAMED_MISSES_TOTAL, "llama", "chat", "ttft", phase) for phase in ("queue", "decode")]
    assert told == [0.0, None]
    assert growth.seconds == 300.0


def test_many_children_are_summed_in_many_slices() -> None:
    few, many = registry(), registry(lanes=98)
    then = run_now(take(many, 0.0))
    for lane in many.lanes.shown():
        for bucket in many.prompt_buckets.shown():
            ends(many, "llama", lane, bucket, "true")
    now = run_now(take(many, 1.0, then))

    children = len(now.histograms["llm_request_seconds"])
    assert slices_of(take(many, 1.0)) - slices_of(take(few, 1.0)) == children // CHILDREN_PER_SLICE == 2
    assert slices_of(observed(then, now, c.REQUEST_SECONDS, "lane")) == 1 + 2
