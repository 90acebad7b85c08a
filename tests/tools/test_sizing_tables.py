"""The tables of docs/sizing.md repeat the catalogue's sums and the bench's figures, and compute no others."""

import pytest

from sidecar.metrics.catalogue import series_ceiling, series_in_use
from sidecar.metrics.vocabulary import ROOT_PHASE
from tests.alert_rules.syntax import recorded
from tools.sizing_tables import _bench_row, blocks, recorded_series


PAGE = """<!-- make bench: begin -->
| proxy | CPU |
|---|---|
| sidecar, usage silent 1234 | 9 |
| sidecar, usage asked and cut 1234 | 14.1 (13.6 to 15.7), **x 0.84** | 10.4 |
"""


def test_the_smallest_pod_has_the_series_that_the_page_of_metrics_states() -> None:
    """One lane and one model are two values of each label, because the fallback is one; six prompt buckets."""
    _, series = blocks()
    first = next(line for line in series.text.splitlines() if line.startswith("| 1 | 1 |"))

    assert first.split(" | ")[2:4] == [f"{series_in_use(2, 6, 2):,}", f"{series_ceiling(2, 6, 2):,}"]


def test_what_is_recorded_is_counted_apart_by_the_labels_that_each_rule_keeps() -> None:
    """A series of a pod does not multiply with the fleet, and one of a lane does not with its pods. One rule by hand: the roots of a
    pod are eight phases of each model.
    """
    one, three = recorded_series(1, 1), recorded_series(1, 3)

    assert all(2.8 * alone < all_three <= 3 * alone for alone, all_three in zip(one, three, strict=True)), (
        "few rules keep no model"
    )
    assert recorded()["pod:llm_slo_roots:increase2m"] >= {"model", "pod", "phase"}
    assert one[0] > len(ROOT_PHASE.values)


def test_a_load_costs_its_events_and_its_requests() -> None:
    """No stream costs nothing, and three times as many streams cost at most three times as much."""
    cost, _ = blocks()
    cores = [float(line.split(" | ")[3]) for line in cost.text.splitlines()[2:]]

    assert cores[0] == 0
    assert cores[1] < cores[2] <= 3 * cores[1] + 0.01


def test_the_row_of_the_compiled_sidecar_is_read_from_the_bench() -> None:
    assert _bench_row(PAGE)[1:] == ["14.1 (13.6 to 15.7), **x 0.84**", "10.4"]


def test_a_page_without_that_row_is_told() -> None:
    with pytest.raises(ValueError, match="no row 'sidecar, usage asked and cut'"):
        _bench_row("nothing")
