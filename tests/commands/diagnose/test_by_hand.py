"""Numbers that a person gives to `sidecar diagnose`: each has a unit, and a wrong one is refused with its flag."""

import pytest

from sidecar.commands.diagnose import by_hand
from sidecar.commands.diagnose.by_hand import WrongValueError
from sidecar.diagnosis.why import queue_by_state
from sidecar.pod.causes import Cause


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
        *(("preemptions", value) for value in ("2/d", "some")),
        *((name, "0") for name in ("slots", "prompt-mean-before")),
        ("rejected", "a few"),
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


def test_a_batch_limit_preemptions_rejections_and_the_prompt_of_before() -> None:
    flags = {
        "slots": "96",
        "rate": "4",
        "preemptions": "120/m",
        "rejected": "37",
        "prompt-mean": "2400",
        "prompt-mean-before": "800",
    }
    measured, errors = by_hand.read(flags)

    assert errors == []
    load = measured.load
    assert (load.slots, load.preemptions_per_second, load.preempted) == (96, 2.0, 0.5)
    assert (measured.rejected, measured.ratios) == (37, {Cause.PROMPT_MIX: 3.0})


def test_preemptions_without_a_rate_are_no_share_of_the_arrivals() -> None:
    load = by_hand.read({"preemptions": "2/s"})[0].load

    assert (load.preemptions_per_second, load.preempted) == (2.0, None)


def test_a_token_takes_at_least_the_reading_of_the_weights_and_of_the_cache() -> None:
    """13 billion parameters in two bytes; two A100 read 2 x 2.039 TB/s, and nine tenths of 2 x 80 GB are the engine's."""
    found, half = (by_hand.floor(13e9, 2, "a100", usage) for usage in (None, 0.5))

    assert found is not None
    assert half is not None
    assert (found.gpus, found.weights_bytes, found.most_bytes) == ("2 x A100 (80 GB)", 26e9, 144e9)
    assert half.most_bytes == 26e9 + 0.5 * 118e9
    assert (found.weights_seconds, found.most_seconds) == pytest.approx((26 / 4078, 144 / 4078))


def test_weights_that_leave_no_room_and_gpus_without_a_row_have_no_such_time() -> None:
    tight = by_hand.floor(70e9, 1, "h100", None)

    assert tight is not None
    assert (tight.most_bytes, tight.most_seconds) == (None, None)
    assert by_hand.floor(13e9, 1, "v100", None) is None


def test_a_rate_by_hand_is_the_whole_engines() -> None:
    """The queue of the engine may be divided by it."""
    measured, _ = by_hand.read({"rate": "60/s", "waiting": "180"})

    assert queue_by_state(measured) == pytest.approx(3.0)
