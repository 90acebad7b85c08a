"""TGI's times are strings for people; they are read exactly as Rust writes them, or not at all."""

import pytest

from sidecar.engines.tgi import duration, report_in_span
from sidecar.ledger.report import EngineReport
from tests.support.spans import fixture


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0ns", 0.0),
        ("999ns", 999e-9),
        ("1\u00b5s", 1e-6),
        ("456.7\u00b5s", 456.7e-6),
        ("456.7us", 456.7e-6),
        ("12.3ms", 0.0123),
        ("641.203125ms", 0.641203125),
        ("1s", 1.0),
        ("1.000000001s", 1.000000001),
        ("90.5s", 90.5),
        ("18446744073709551615.999999999s", 18446744073709551615.999999999),
    ],
)
def test_a_rust_duration_is_read_in_all_its_units(text: str, seconds: float) -> None:
    """There are no minutes: 90.5 s stay 90.5 s (`impl fmt::Debug for Duration`)."""
    assert duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "ms",
        "-1ms",
        "+1ms",
        "1m",
        "1h",
        "1 ms",
        "1.ms",
        ".5ms",
        "1e3ms",
        "nan",
        "infs",
        "1ms\n",
        "\u0661ms",
        "9" * 21 + "s",
        5,
        True,
        None,
    ],
)
def test_anything_else_is_no_duration(value: object) -> None:
    assert duration(value) is None


def test_the_handlers_span_states_queue_and_validation() -> None:
    """Prefill and decode come as one number: neither is stated. The span of the HTTP request states nothing."""
    http, handler = fixture("tgi").spans

    assert report_in_span(http) is None
    assert report_in_span(handler) == EngineReport(queue_seconds=0.1, front_end_seconds=0.01)
