"""Numbers that a person gives to `sidecar diagnose`: each has a unit, and a wrong one is refused with its flag."""

import pytest

from sidecar.commands.diagnose import by_hand
from sidecar.commands.diagnose.by_hand import WrongValueError
from sidecar.diagnosis.why import queue_by_state


@pytest.mark.parametrize(
    ("text", "seconds"), [("3.2s", 3.2), ("80ms", 0.08), ("250us", 0.00025), ("2m", 120.0), ("1,500 ms", 1.5)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert by_hand.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["80", "", "fast", "-3s", "nans", "3 hours", "1e5s", "..s"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    """A bare number could be seconds or milliseconds, a thousand times apart."""
    with pytest.raises(WrongValueError):
        by_hand.duration(text)


def test_rates_ratios_counts_sizes_and_gpus() -> None:
    assert [by_hand.rate(text) for text in ("60", "60/s", "90/m", "7200/h")] == [60, 60, 1.5, 2]
    assert [by_hand.ratio(text) for text in ("0.95", "95%", "95 %", "1")] == [0.95, 0.95, 0.95, 1]
    assert [by_hand.count(text) for text in ("2200", "2.2k", "2,200")] == [2200, 2200, 2200]
    assert [by_hand.parameters(text) for text in ("13b", "0.5B", "350m")] == [13e9, 0.5e9, 350e6]
    assert [by_hand.gpus(text) for text in ("2xA100", "h100", "8 x L40S")] == [(2, "a100"), (1, "h100"), (8, "l40s")]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("rate", value) for value in ("60/d", "many", "-1")),
        *(("kv-usage", value) for value in ("95", "150%", "full")),
        *(("gpus", value) for value in ("2xB52", "0xA100", "two")),
        *(("model-size", value) for value in ("13", "large")),
        ("engine", "chatgpt"),
        ("regime", "calm"),
        ("ttft-threshold", "0s"),
        ("tpot-p99", "0ms"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_flag(flag: str, value: str) -> None:
    _, errors = by_hand.read({flag: value})

    assert [error.startswith(f"--{flag}: ") for error in errors] == [True]


def test_a_rate_by_hand_is_the_whole_engines() -> None:
    """The queue of the engine may be divided by it."""
    measured, _ = by_hand.read({"rate": "60/s", "waiting": "180"})

    assert queue_by_state(measured) == pytest.approx(3.0)
