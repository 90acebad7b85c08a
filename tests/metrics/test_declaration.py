"""The types that declare a metric know how many series it can reach."""

from sidecar.metrics.catalogue import CATALOGUE, SHORT_BUCKETS
from sidecar.metrics.declaration import Counter, Label, Sizes


PARTS_OF_A_REQUEST = (
    "llm_request_seconds",
    "llm_request_phase_seconds",
    "llm_time_to_first_token_seconds",
    "llm_time_to_first_output_token_seconds",
)


def test_a_series_count_is_its_lines() -> None:
    """29 edges, +Inf, sum and count, for each of 2 lanes."""
    upload = next(metric for metric in CATALOGUE if metric.name == "llm_request_upload_seconds")

    assert len(SHORT_BUCKETS) == 29
    assert upload.series(Sizes(2, 6, 2)) == 2 * 32


def test_no_part_of_a_request_ends_at_a_lower_edge_than_the_request() -> None:
    """A wait of a quarter of an hour has a quantile in its phase, as it has one in the whole: a share of a stack must not be cut off."""
    of_parts = {metric.name: metric.buckets for metric in CATALOGUE if metric.name in PARTS_OF_A_REQUEST}

    assert {edges[-1] for edges in of_parts.values()} == {1200.0}
    assert (len(of_parts), len(set(of_parts.values()))) == (len(PARTS_OF_A_REQUEST), 1)


LANE = Label("lane", told_by="the config", most=16)
OUTCOME = Label("outcome", ("ok", "engine_error", "rejected"))


def test_a_label_of_run_time_counts_as_many_values_as_there_are_now_or_may_be() -> None:
    """Lanes are known by number; a set that the engine fills counts as full, its fallback included."""
    version = Label("version", told_by="the engine", most=4)

    assert [Sizes(5, 6, 2).of(label) for label in (LANE, OUTCOME, version)] == [5, 3, 5]


def test_combinations_that_cannot_be_are_not_counted() -> None:
    """Only the listed combinations of the last labels' values are possible."""
    source, reason = Label("source", ("engine", "none")), Label("reason", ("in_band", "no_report", "no_token"))
    together = (("engine", "in_band"), ("none", "no_report"), ("none", "no_token"))
    free = Counter("llm_x_total", (LANE, source, reason))
    bound = Counter("llm_x_total", (LANE, source, reason), together=together)

    assert (free.children(Sizes(5, 6, 2)), bound.children(Sizes(5, 6, 2))) == (30, 15)
