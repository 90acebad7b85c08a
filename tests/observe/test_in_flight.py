"""Requests in flight: gauges that cannot drift, and ages as of the scrape."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight, LaneInFlight
from sidecar.observe.request_record import RequestRecord


def metrics() -> Metrics:
    return Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])


def gauges(registry: Metrics, at: float) -> dict[tuple[str, ...], tuple[float | None, float | None]]:
    """(model, lane, state) to the number of requests and the oldest one's age in seconds."""
    registry.refresh(at)
    oldest = registry.gauge(c.OLDEST_REQUEST_SECONDS).children
    return {
        key: (child.value, oldest[key].value) for key, child in registry.gauge(c.REQUESTS_IN_FLIGHT).children.items()
    }


def test_a_request_waits_then_streams_then_is_gone() -> None:
    """Its age counts from its first byte, in both states."""
    registry = metrics()
    inside = InFlight(registry)
    of = defaultdict[int, RequestRecord](RequestRecord)

    inside.enter(of[1], RequestLabels("llama", "chat", "0-512"), 10.0)
    inside.enter(of[2], RequestLabels("llama", "chat", "0-512"), 12.0)
    assert gauges(registry, 15.0)["llama", "chat", "waiting"] == (2, 5.0)

    inside.streaming(of[1])
    assert gauges(registry, 16.0)["llama", "chat", "waiting"] == (1, 4.0)
    assert gauges(registry, 16.0)["llama", "chat", "streaming"] == (1, 6.0)

    inside.leave(of[1])
    inside.leave(of[2])
    assert gauges(registry, 17.0)["llama", "chat", "waiting"] == (0, 0)
    assert gauges(registry, 17.0)["llama", "chat", "streaming"] == (0, 0)
    assert len(inside) == 0


def test_every_lane_is_on_the_page_before_its_first_request() -> None:
    """Also for a lane or a model that becomes known later: an alert on the oldest request must not miss its series."""
    registry = metrics()
    InFlight(registry)

    first = gauges(registry, 1.0)
    registry.models.admit(["mixtral"])
    registry.lanes.admit(["night"])
    second = gauges(registry, 2.0)

    assert first["llama", "batch", "waiting"] == (0, 0)
    assert second["mixtral", "night", "streaming"] == (0, 0)
    assert (len(first), len(second)) == (2 * 2, 2 * 3 * 2)


def test_what_a_client_invents_is_counted_under_other() -> None:
    registry = metrics()

    InFlight(registry).enter(RequestRecord(), RequestLabels("gpt\udcff", "vip", "0-512"), 0.0)

    assert gauges(registry, 3.0)["other", "other", "waiting"] == (1, 3.0)


def test_the_page_of_a_lane_sums_its_models() -> None:
    inside = InFlight(metrics())
    of = defaultdict[int, RequestRecord](RequestRecord)
    inside.enter(of[1], RequestLabels("llama", "chat", "0-512"), 1.0)
    inside.enter(of[2], RequestLabels("gpt", "chat", "0-512"), 3.0)
    inside.enter(of[3], RequestLabels("llama", "batch", "0-512"), 2.0)
    inside.streaming(of[3])

    assert {"chat": LaneInFlight(2, 0, 4.0), "batch": LaneInFlight(0, 1, None)} == inside.by_lane(5.0)


@given(st.lists(st.tuples(st.sampled_from(["enter", "streaming", "leave"]), st.integers(0, 5))))
def test_no_order_of_calls_makes_the_gauges_drift(calls: list[tuple[str, int]]) -> None:
    """A request may enter or leave twice, or leave first: the gauges' sum is the number in flight, at the end 0."""
    registry = metrics()
    inside = InFlight(registry)
    of = defaultdict[int, RequestRecord](RequestRecord)
    expected: set[int] = set()

    for verb, key in calls:
        if verb == "enter":
            inside.enter(of[key], RequestLabels("llama", "chat", "0-512"), float(key))
            expected.add(key)
        elif verb == "streaming":
            inside.streaming(of[key])
        else:
            inside.leave(of[key])
            expected.discard(key)
        assert len(expected) == len(inside) == sum(count or 0 for count, _ in gauges(registry, 9.0).values())

    for key in range(6):
        inside.leave(of[key])
    assert sum((count or 0) + (age or 0) for count, age in gauges(registry, 9.0).values()) == 0


def test_the_oldest_are_told_one_by_one_with_where_they_are() -> None:
    """Over all lanes, oldest first; a client that does not read holds only its own stream."""
    inside = InFlight(metrics())
    of = defaultdict[int, RequestRecord](RequestRecord)
    for key, lane, at in ((1, "chat", 10.0), (2, "batch", 11.0), (3, "chat", 12.0), (4, "undeclared", 13.0)):
        inside.enter(of[key], RequestLabels("llama", lane, "0-512"), at)
    inside.streaming(of[1])
    inside.streaming(of[2])
    of[2].is_held = True

    told = inside.oldest(20.0, 3)
    assert [(one.labels.lane, one.stage.value, one.age_seconds) for one in told] == [
        ("chat", "streaming", 10.0),
        ("batch", "held", 9.0),
        ("chat", "waiting", 8.0),
    ]
    assert inside.oldest(20.0, 9)[3].labels.lane == "other"
    assert inside.by_lane(20.0)["batch"] == LaneInFlight(0, 1, None, held=1)

    of[2].is_held = False
    assert inside.oldest(20.0, 9)[1].stage.value == "streaming"


def test_who_left_holds_nothing_any_more() -> None:
    """This includes calls for a request that has left, or that never came."""
    inside = InFlight(metrics())
    of = defaultdict[int, RequestRecord](RequestRecord)
    inside.enter(of[1], RequestLabels("llama", "chat", "0-512"), 1.0)
    inside.streaming(of[1])
    of[1].is_held = True
    inside.leave(of[1])
    of[1].is_held = True
    of[7].is_held = False
    inside.enter(of[1], RequestLabels("llama", "chat", "0-512"), 2.0)
    inside.streaming(of[1])

    assert inside.by_lane(3.0)["chat"] == LaneInFlight(0, 1, None, held=0)


def test_where_no_request_passes_none_is_said_to_be_in_flight_nor_none() -> None:
    registry = Metrics(
        lanes=["chat"],
        prompt_buckets=["0-512"],
        models=["llama"],
        untold=[c.REQUESTS_IN_FLIGHT.name, c.OLDEST_REQUEST_SECONDS.name],
    )

    assert (InFlight(metrics()).is_known, InFlight(registry).is_known, gauges(registry, 20.0)) == (True, False, {})
