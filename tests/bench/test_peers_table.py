"""The arithmetic of `make bench`: ratios within a round, medians, verdicts and the picture, on figures that are written here."""

from bench.peers import draw, verdicts
from bench.peers.table import Column, Results, failures, ratios, spread, table
from bench.peers.verdicts import Bound


EVENT = Column("event", "us an event")
ROWS = {"router": "the router", "sidecar": "the sidecar", "nginx": "nginx"}


def run() -> Results:
    """Three rounds in which the machine was twice as slow in the second."""
    results = Results()
    for round_, (router, sidecar) in enumerate([(10.0, 14.0), (20.0, 28.0), (10.0, 15.0)]):
        results.add("router", "event", round_, router)
        results.add("sidecar", "event", round_, sidecar)
    results.fail("nginx", "nginx is not installed")
    return results


def test_a_slow_minute_of_the_machine_changes_both_figures_and_not_their_ratio() -> None:
    results = run()
    found = ratios(results.values("sidecar", "event"), results.values("router", "event"))
    assert found == [1.4, 1.4, 1.5]
    assert (spread(found).median, spread(found).lowest, spread(found).highest) == (1.4, 1.4, 1.5)


def test_a_round_that_either_row_lacks_has_no_ratio() -> None:
    assert ratios({0: 3.0, 1: 4.0, 2: 5.0}, {0: 1.0, 2: 0.0}) == [3.0]


def test_a_row_shows_the_spread_of_its_ratio_and_a_proxy_that_failed_its_reason() -> None:
    assert table(run(), ROWS, [EVENT, Column("rss", "MB")], "router") == [
        "| proxy | us an event |",
        "|---|---|",
        "| the router | 10.0 (10.0 to 20.0) |",
        "| the sidecar | 15.0, **x 1.40 (1.40 to 1.50)** |",
        "| nginx | **nginx is not installed** |",
    ]


def test_a_reason_is_kept_once_and_named_with_its_row() -> None:
    results = run()
    results.fail("sidecar", "300 errors, the first: closed within an answer")
    results.fail("sidecar", "300 errors, the first: closed within an answer")
    assert failures(results, ROWS) == [
        "the sidecar: 300 errors, the first: closed within an answer",
        "nginx: nginx is not installed",
    ]


def test_a_bound_is_met_or_missed_by_its_share() -> None:
    at_most = Bound("", "sidecar", "event", "router", 1.0, 0.9, 1.25)
    at_least = Bound("", "sidecar", "rate", None, 30_000, 40_000, 22_000, at_least=True)
    assert [verdicts.verdict(at_most, 1.4, limit) for limit in (1.4, 1.25, 1.0)] == [
        "met",
        "**missed by 12 %**",
        "**missed by 40 %**",
    ]
    assert [verdicts.verdict(at_least, 24_000, limit) for limit in (22_000, 30_000)] == ["met", "**missed by 25 %**"]


def test_bounds_are_ratios_to_the_router_where_they_say_so() -> None:
    results = Results()
    results.add("vllm-router", "request", 0, 100.0)
    results.add("sidecar", "request", 0, 250.0)
    results.add("pure", "request", 0, 276.0)
    results.add("sidecar", "rest", 0, 61.0)
    request, rest = verdicts.lines(results)[2:]
    assert request == (
        "| CPU per one-token request, to vllm-router | 2.50 | 2.00: **missed by 25 %** | 1.50: **missed by 67 %** "
        "| 2.76 | 2.30: **missed by 20 %** |"
    )
    assert rest == "| RSS at rest, MB | 61 | 55: **missed by 11 %** | 45: **missed by 36 %** | - | - |"


def test_the_picture_states_each_figure_in_words_and_leaves_out_what_was_not_measured() -> None:
    svg = draw.picture(run(), ROWS, [EVENT, Column("rss", "MB")], "router")
    assert [words in svg for words in (">10.0<", ">15.0, x 1.40<", ">us an event<", ">nginx<", ">MB<")] == [
        *(True, True, True),
        *(False, False),
    ]
    assert draw.SIDECAR in svg
