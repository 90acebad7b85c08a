"""How costs grow with sizes, on figures that are written here; the part `scale` without a load, and its load without a sidecar."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import curves, report, scale
from bench.peers.curves import Curve, Point, exponent
from bench.peers.scale import SIZES
from bench.peers.table import Results
from sidecar.config.file import load


@pytest.mark.parametrize(
    ("power", "factor"), [(0.0, 7.0), (1.0, 0.002), (2.0, 3.0), (-0.5, 40.0)], ids=["same", "linear", "square", "falls"]
)
def test_the_exponent_of_a_power_is_that_power_whatever_its_unit(power: float, factor: float) -> None:
    sizes = [1, 10, 30, 100, 300]
    assert exponent(sizes, [factor * size**power for size in sizes]) == pytest.approx(power, abs=1e-9)


def test_the_exponent_lies_between_those_of_uneven_steps() -> None:
    """Twice the size costs the same, then four times as much: by least squares over the logarithms, just between 0 and 2."""
    assert exponent([1, 2, 4], [5, 5, 20]) == pytest.approx(1.0)


def test_one_size_has_no_exponent() -> None:
    with pytest.raises(ValueError, match="1 sizes have no slope"):
        exponent([300, 300], [1.0, 2.0])


def figures(*rounds: tuple[float, float]) -> Results:
    results = Results()
    for round_, (small, large) in enumerate(rounds):
        results.add("sidecar", "prompt-600", round_, small)
        results.add("sidecar", "prompt-60000", round_, large)
    return results


POINTS = Point(600, "600 B", "sidecar", "prompt-600"), Point(60_000, "60 KB", "sidecar", "prompt-60000")
CURVE = Curve("CPU, us", "sidecar", "bytes", POINTS)


def test_a_slow_minute_of_the_machine_does_not_change_the_exponent() -> None:
    """The machine was four times as slow in the second round, in which the curve is higher and as steep."""
    results = figures((100.0, 1000.0), (400.0, 4000.0), (100.0, 1000.0))
    assert curves.lines(results, [CURVE], {"sidecar": "the sidecar"}) == [
        "| cost | of | over | by size | exponent |",
        "|---|---|---|---|---|",
        "| CPU, us | the sidecar | bytes | 600 B: 100, 60 KB: 1,000 | 0.50 (0.50 to 0.50) |",
    ]


def test_a_round_that_lacks_a_size_has_no_exponent_and_a_curve_of_one_size_no_line() -> None:
    results = figures((100.0, 10_000.0))
    results.add("sidecar", "prompt-600", 1, 120.0)
    assert curves.exponents(results, POINTS) == [pytest.approx(1.0)]
    assert curves.lines(results, [Curve("CPU, us", "sidecar", "bytes", POINTS[:1])], {}) == []


def test_the_report_has_the_curves_over_streams_prompts_and_series() -> None:
    results = figures((100.0, 1000.0))
    for streams, cost in ((1, 40.0), (300, 20.0)):
        results.add("sidecar", f"event-{streams}", 0, cost)
    for number, size in enumerate(SIZES):
        results.add(size.row, "scale-series", 0, 1000.0 * 10**number)
        results.add(size.row, "scale-event", 0, 15.0)
        results.add(size.row, "scale-first", 0, 2.0 * 10**number)
    text = "\n".join(report.body(results, {"sidecar": "sidecar"}))
    slope = math.log(0.5) / math.log(300)
    assert [line for line in text.splitlines() if "the sidecar |" in line] == [
        f"| CPU per event, us | the sidecar | streams of 50 tokens a second | 1: 40, 300: 20 | {slope:.2f} |",
        "| CPU per prompt, us | the sidecar | bytes of the prompt | 600 B: 100, 60 KB: 1,000 | 0.50 |",
        "| CPU per event, 300 streams, us | the sidecar | series | 1,000: 15, 10,000: 15, 100,000: 15 | 0.00 |",
        "| the first scrape after load, ms | the sidecar | series | 1,000: 2, 10,000: 20, 100,000: 200 | 1.00 |",
    ]
    assert f"| {SIZES[0].title} | 1000 |" in text


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.row)
def test_each_size_is_a_config_that_the_sidecar_takes(size: scale.Size, tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yml"
    file.write_text(size.config)
    config = load(str(file), {"engine.url": "http://127.0.0.1:8000"})
    assert (len(config.engine.models), 1 + len(config.lanes.names)) == (size.models, size.lanes)


def pages() -> Iterator[tuple[float, bytes]]:
    """The first scrape takes 30 ms, and those after it 1 to 5."""
    page = b'# HELP a b c\na_total{lane="x y"} 3.0\nb 0.0\n\nc{le="+Inf"} 1e+06\n'
    yield 0.030, page
    yield from ((seconds / 1000, page) for seconds in (5, 1, 2, 4, 3))


def test_the_first_scrape_after_load_stands_beside_the_median_of_those_without() -> None:
    fetched = pages()
    assert scale.scraped(lambda: next(fetched)) == {
        "scale-series": 3,
        "scale-used": 2,
        "scale-first": pytest.approx(30.0),
        "scale-scrape": pytest.approx(3.0),
        "scale-page": pytest.approx(0.068, abs=0.01),
    }
