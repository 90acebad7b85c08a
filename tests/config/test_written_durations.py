"""Durations have one form everywhere: numbers with units that fall, and no guess about what else is written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.environment import PREFIX
from sidecar.config.file import ConfigErrors, load
from sidecar.config.schema import KEYS, AimConfig, TokenAimConfig
from sidecar.config.written_durations import seconds_of_duration, seconds_of_flag
from tests.support.configs import URL, few


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("2s", 2.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("1m30s", 90.0),
        ("1h 1m 1s", 3661.0),
        ("1.5h", 5400.0),
        ("250us", 0.00025),
        ("1,500 ms", 1.5),
        ("2min", 120.0),
        ("1d", 86_400.0),
        ("0", 0.0),
        (" 2S ", 2.0),
    ],
)
def test_what_people_write_is_understood(text: str, seconds: float) -> None:
    assert seconds_of_duration(text) == pytest.approx(seconds)
    assert seconds_of_flag(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "2", "-2s", "+2s", "2 seconds", "1e3s", "30s1m", "1m1m", "s", "1..5s", "1,50s", ".5s", "nans", "\uff12s"],
)
def test_all_else_is_refused_with_the_forms(text: str) -> None:
    """A number without a unit too: whether it means seconds is for the caller to say."""
    with pytest.raises(ValueError, match=r"^is no duration: write 500ms, 2s, 5m, 1h or 1m30s$"):
        seconds_of_duration(text)


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("0.5", 0.5), ("75s", 75.0)])
def test_a_bare_number_is_seconds_where_a_flag_says_so(text: str, seconds: float) -> None:
    assert seconds_of_flag(text) == seconds


@pytest.mark.parametrize("text", ["-2", "nan", "inf", "1e3", "1,500", "two"])
def test_a_flag_takes_no_other_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds_of_flag(text)


@given(st.text(alphabet="0123456789.,hmsud in", max_size=40))
def test_any_text_is_seconds_of_at_least_0_or_refused(text: str) -> None:
    try:
        seconds = seconds_of_duration(text)
    except ValueError:
        return
    assert seconds >= 0


OTHER_VALUES = {
    "shutdown.lame_duck_seconds": ("1s500ms", "1.5"),
    "proxy.tunnel_total_timeout_seconds": ("25h", "90000"),
}
"""Values that contradict no other key."""


def test_every_time_of_a_config_takes_units() -> None:
    """In a file, in a variable, and as before without a unit."""
    keys = [key for key in KEYS if key.endswith("_seconds") and key != "engine.pool_idle_seconds"]
    assert len(keys) >= 12
    for key in keys:
        section, name = key.split(".")
        variable = f"{PREFIX}{section}__{name}".upper()
        values = OTHER_VALUES.get(key, ("1m30s", "90"))
        read = [
            getattr(getattr(load(None, {"engine.url": URL}, {variable: each}, series_in_use=few), section), name)
            for each in values
        ]
        assert (key, read) == (key, [float(values[1])] * 2)


def test_thresholds_take_units_and_a_wrong_one_says_which(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yml"
    file.write_text(
        f"engine: {{url: '{URL}', pool_idle_seconds: 500ms}}\n"
        "objectives: {default: {ttft: {threshold_seconds: 800ms, target: 0.9}, tpot: {threshold_seconds: 50ms}}}\n"
    )
    config = load(str(file), series_in_use=few)
    own = config.objectives["default"]

    assert isinstance(own.ttft, AimConfig)
    assert isinstance(own.tpot, TokenAimConfig)
    assert (config.engine.pool_idle_seconds, own.ttft.threshold_seconds, own.tpot.threshold_seconds) == (0.5, 0.8, 0.05)

    file.write_text(f"engine: {{url: '{URL}', gap_timeout_seconds: soon, connect_timeout_seconds: 48h}}\n")
    with pytest.raises(ConfigErrors) as caught:
        load(str(file), series_in_use=few)
    form = "must be a number above 0 and at most 86400, or with a unit: 500ms, 2s, 5m, 1h or 1m30s; it is"
    assert sorted(line.partition(": ")[2] for line in caught.value.lines) == [
        f'engine.connect_timeout_seconds: {form} "48h"',
        f'engine.gap_timeout_seconds: {form} "soon"',
    ]
