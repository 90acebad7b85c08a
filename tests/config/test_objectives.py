"""A lane's objectives for each prompt bucket come from the bucket's own value, else the lane's, else its preset's."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.buckets import PromptBuckets
from sidecar.config.file import ConfigErrors, load
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config, restart_needed
from sidecar.ledger.account import Phase
from sidecar.objectives.objective import NO_AIMS, TTFT_SHARES, Aim, Aims, Objective
from tests.support.configs import LANES, config_with, few


BUCKETS = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")


def thresholds(config: Config, lane: str, objective: Objective) -> list[float | None]:
    """Thresholds in the order of the buckets, `unknown` last."""
    aims = [objectives_of(config).aims(lane, bucket).aim(objective) for bucket in BUCKETS]
    return [None if aim is None else aim.threshold_seconds for aim in aims]


def test_a_config_that_says_nothing_promises_by_the_lane_names(tmp_path: Path) -> None:
    """Interactive, batch and code lanes have default objectives; lanes with other names and `other` have none."""
    config = config_with(tmp_path)
    objectives = objectives_of(config)

    assert thresholds(config, "interactive", Objective.TTFT) == [1.5, 1.5, 6.0, 24.0, 48.0, 1.5]
    assert thresholds(config, "default", Objective.TTFT) == thresholds(config, "interactive", Objective.TTFT)
    assert thresholds(config, "interactive", Objective.TPOT) == [0.08] * 6
    assert thresholds(config, "interactive", Objective.E2E) == [30.0, 30.0, 35.0, 53.0, 77.0, 30.0]
    assert thresholds(config, "interactive", Objective.STALL) == [2.0] * 6
    assert thresholds(config, "batch", Objective.TTFT) == [30.0, 30.0, 36.0, 59.0, 89.0, 30.0]
    assert thresholds(config, "code", Objective.TTFT) == [0.5, 0.5, 2.0, 8.0, 16.0, 0.5]
    assert objectives.aims("code", "unknown") == Aims(Aim(0.5, 0.9), Aim(0.04, 0.9), Aim(5.0, 0.9), TTFT_SHARES)
    assert objectives.aims("docs", "0-512") == NO_AIMS
    assert objectives.aims("other", "0-512") == NO_AIMS


def test_every_declared_lane_has_every_bucket(tmp_path: Path) -> None:
    """Every lane has an entry for every bucket, so that all series exist from the start."""
    config = config_with(tmp_path, edges="prompt_buckets: {edges: [100, 20000]}")
    table = objectives_of(config).by_lane

    assert tuple(table) == config.lanes.declared
    assert {tuple(buckets) for buckets in table.values()} == {PromptBuckets((100, 20_000)).labels}


def test_the_bucket_speaks_before_the_lane_and_the_lane_before_the_preset(tmp_path: Path) -> None:
    """A bucket or a lane states only what differs; the rest comes from the next level."""
    said = """\
  interactive:
    ttft: {threshold_seconds: 2}
    prompt_buckets: {4k-16k: {ttft: {target: 0.9}}, 64k+: {ttft: none}, unknown: {e2e: {threshold_seconds: 9}}}
"""
    objectives = objectives_of(config_with(tmp_path, said))

    assert objectives.aims("interactive", "512-4k").ttft == Aim(2.0, 0.95)
    assert objectives.aims("interactive", "4k-16k").ttft == Aim(8.0, 0.9)
    assert objectives.aims("interactive", "64k+").ttft is None
    assert objectives.aims("interactive", "64k+").tpot == Aim(0.08, 0.95)
    assert objectives.aims("interactive", "unknown").ttft == Aim(2.0, 0.95)
    assert objectives.aims("interactive", "unknown").e2e == Aim(9.0, 0.95)


def test_longer_buckets_have_at_least_what_a_shorter_one_was_given(tmp_path: Path) -> None:
    """Longer buckets inherit at least the relaxed threshold of a shorter one, so that they need not be stated."""
    said = "  interactive: {prompt_buckets: {512-4k: {ttft: {threshold_seconds: 10}}}}\n"

    assert thresholds(config_with(tmp_path, said), "interactive", Objective.TTFT) == [1.5, 10.0, 10.0, 24.0, 48.0, 1.5]


def test_a_lane_without_a_preset_gets_exactly_what_it_says(tmp_path: Path) -> None:
    """No prompt length raises its thresholds, and nothing is added to them."""
    config = config_with(tmp_path, "  docs: {ttft: {threshold_seconds: 3, target: 0.99}}\n")

    assert thresholds(config, "docs", Objective.TTFT) == [3.0] * 6
    assert objectives_of(config).aims("docs", "64k+") == Aims(ttft=Aim(3.0, 0.99))


def test_a_preset_can_be_given_to_any_lane_and_taken_from_any(tmp_path: Path) -> None:
    """The name of a lane decides only if the config names no preset."""
    config = config_with(tmp_path, "  docs: {preset: batch}\n  interactive: {preset: none}\n")

    assert thresholds(config, "docs", Objective.TTFT)[0] == 30.0
    assert objectives_of(config).aims("interactive", "0-512") == NO_AIMS


def test_none_switches_one_objective_off_and_the_others_stay(tmp_path: Path) -> None:
    """Without a TTFT threshold the end-to-end threshold is no longer raised with it."""
    config = config_with(
        tmp_path,
        "  interactive: {ttft: none}\n  code: {ttft: none, prompt_buckets: {64k+: {e2e: {threshold_seconds: 7}}}}\n",
    )

    assert thresholds(config, "interactive", Objective.TTFT) == [None] * 6
    assert thresholds(config, "interactive", Objective.TPOT) == [0.08] * 6
    assert thresholds(config, "interactive", Objective.E2E) == [30.0] * 6
    assert thresholds(config, "code", Objective.E2E) == [5.0, 5.0, 5.0, 5.0, 7.0, 5.0]


def test_a_stall_has_a_target_of_its_own_where_its_preset_has_one(tmp_path: Path) -> None:
    """Its threshold is the same for every length; a lane may change it, switch it off, or have one where its preset has none."""
    said = """\
  interactive: {stall: {threshold_seconds: 3}, prompt_buckets: {64k+: {stall: {threshold_seconds: 20}}}}
  default: {stall: none}
  batch: {stall: {threshold_seconds: 30}}
"""
    config = config_with(tmp_path, said)
    objectives = objectives_of(config)

    assert thresholds(config, "interactive", Objective.STALL) == [3.0, 3.0, 3.0, 3.0, 20.0, 3.0]
    assert objectives.aims("interactive", "64k+").stall == Aim(20.0, 0.99)
    assert objectives.aims("interactive", "64k+").tpot == Aim(0.08, 0.95)
    assert objectives.aims("default", "0-512").stall is None
    assert objectives.aims("batch", "0-512").stall == Aim(30.0, 0.9)


def test_a_bucket_may_promise_what_its_lane_does_not(tmp_path: Path) -> None:
    """A bucket that states a whole objective needs none of its lane; a preset, if any, still gives the target."""
    said = """\
  docs: {prompt_buckets: {0-512: {e2e: {threshold_seconds: 9, target: 0.9}}}}
  batch: {ttft: none, prompt_buckets: {64k+: {ttft: {threshold_seconds: 9}}}}
"""
    config = config_with(tmp_path, said)

    assert thresholds(config, "batch", Objective.TTFT) == [None, None, None, None, 9.0, None]
    assert objectives_of(config).aims("batch", "64k+").ttft == Aim(9.0, 0.9)
    assert objectives_of(config).aims("docs", "0-512") == Aims(e2e=Aim(9.0, 0.9))
    assert objectives_of(config).aims("docs", "512-4k") == NO_AIMS


def test_blame_shares_are_the_lanes_own(tmp_path: Path) -> None:
    """Shares set for one lane leave those of the other lanes unchanged."""
    objectives = objectives_of(
        config_with(tmp_path, "  batch: {blame_shares: {queue: 0.9, prefill: 0.1, first_token: 0}}\n")
    )

    assert objectives.aims("batch", "0-512").shares == {Phase.QUEUE: 0.9, Phase.PREFILL: 0.1, Phase.FIRST_TOKEN: 0.0}
    assert objectives.aims("code", "0-512").shares == TTFT_SHARES


def test_a_lane_or_bucket_with_all_keys_commented_out_says_nothing(tmp_path: Path) -> None:
    """A lane or bucket without any key counts as unset, as a section does, so that a template can stay in the file."""
    config = config_with(tmp_path, "  interactive:\n  code:\n    prompt_buckets:\n      0-512:\n")

    assert objectives_of(config).by_lane == objectives_of(config_with(tmp_path)).by_lane


def test_objectives_change_without_a_restart(tmp_path: Path) -> None:
    """Objectives are read for each request, and no value is derived from them at the start."""
    old, new = config_with(tmp_path), config_with(tmp_path, "  interactive: {ttft: {threshold_seconds: 9}}\n")

    assert old.objectives != new.objectives
    assert restart_needed(old, new) == []


def lanes_of(
    aim: st.SearchStrategy[object], odd: st.SearchStrategy[object] | None = None
) -> st.SearchStrategy[dict[str, object]]:
    """Lanes with these objectives; if `odd` is given, also with that value in a wrong place."""
    strange = st.nothing() if odd is None else odd
    aims = {"ttft": aim, "tpot": aim, "e2e": aim}
    buckets = st.dictionaries(st.sampled_from(BUCKETS), st.fixed_dictionaries({}, optional=aims) | strange, max_size=3)
    preset = st.sampled_from(["interactive", "batch", "code", "voice", "agent"])
    keys = {**aims, "preset": preset | strange, "prompt_buckets": buckets | strange}
    if odd is not None:
        keys["blame_shares"] = odd
    return st.dictionaries(st.sampled_from(LANES), st.fixed_dictionaries({}, optional=keys), max_size=2)


def outcome(said: dict[str, object], file: Path) -> Config | tuple[str, ...]:
    """The config, or the errors for which it is refused."""
    lanes = {"header": "x-lane", "names": LANES}
    file.write_text(json.dumps({"engine": {"url": "http://127.0.0.1:8000"}, "lanes": lanes, "objectives": said}))
    try:
        return load(str(file), series_in_use=few)
    except ConfigErrors as refused:
        return refused.lines


RIGHT = st.one_of(
    st.just("none"),
    st.fixed_dictionaries({}, optional={"threshold_seconds": st.floats(0.01, 10), "target": st.floats(0.5, 0.9999)}),
)
ODD: st.SearchStrategy[object] = st.sampled_from(
    [0, 0.5, 99, -1, True, None, "none", "99%", "x", [], {}, {"target": 99}, {"queue": 1}]
)


@pytest.mark.long
@given(lanes_of(RIGHT))
def test_right_values_are_taken_or_contradict_each_other(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, object]
) -> None:
    """A config that is taken has thresholds that do not fall with length. One that is refused would have falling ones,
    or lacks a value."""
    config = outcome(said, tmp_path_factory.getbasetemp() / "right.yml")

    if isinstance(config, Config):
        for lane, objective in itertools.product(config.lanes.declared, Objective):
            known = [seconds for seconds in thresholds(config, lane, objective)[:-1] if seconds is not None]
            assert known == sorted(known)
    else:
        reasons = ("longer prompts cannot have less time", "sets none", "sets one")
        assert [line for line in config if not any(reason in line for reason in reasons)] == []


@given(lanes_of(RIGHT | ODD, ODD))
def test_odd_values_are_refused_in_words(tmp_path_factory: pytest.TempPathFactory, said: dict[str, object]) -> None:
    """For any value in place of an objective, only objectives are named in the errors, and nothing is raised."""
    config = outcome(said, tmp_path_factory.getbasetemp() / "odd.yml")

    assert isinstance(config, Config) or [line for line in config if ": objectives." not in line] == []


@pytest.mark.parametrize(
    ("engine", "tpot_seconds"),
    [
        ("models: [llama-3.1-8b]", 0.05),
        ("models: [llama-3.3-70b]", 0.08),
        ("models: [llama-3.1-405b, llama-3.1-8b]", 0.12),
        ("models: [llama-3.1-8b], model_size_billions: 405", 0.12),
        ("models: [deepseek-r1]", 0.08),
    ],
)
def test_a_larger_model_has_more_time_per_token(engine: str, tpot_seconds: float, tmp_path: Path) -> None:
    """The size that the config states comes before one in a model's name; unknown is as it was. A lane's own value stays."""
    file = tmp_path / "c.yml"
    file.write_text(
        f"engine: {{url: http://127.0.0.1:1, {engine}}}\n"
        "lanes: {header: x-lane, names: [chat]}\nobjectives: {chat: {tpot: {threshold_seconds: 0.07}}}\n"
    )
    config = load(str(file))

    assert thresholds(config, "default", Objective.TPOT) == [tpot_seconds] * 6
    assert thresholds(config, "chat", Objective.TPOT) == [0.07] * 6
