"""Objectives are looked up by lane and prompt length; a lane or length without objectives gets none."""

import pytest

from sidecar.objectives.objective import NO_AIMS, TTFT_SHARES, Aim, Aims, Objective, Objectives


SHORT = Aims(ttft=Aim(1.0, 0.99), e2e=Aim(30.0, 0.95))
LONG = Aims(ttft=Aim(10.0, 0.99), stall=Aim(2.0, 0.99))


def test_a_lane_and_a_length_have_promises_of_their_own() -> None:
    objectives = Objectives({"chat": {"0-512": SHORT, "512+": LONG}})

    assert objectives.aims("chat", "0-512") is SHORT
    assert objectives.aims("chat", "512+") is LONG


@pytest.mark.parametrize(("lane", "bucket"), [("chat", "unknown"), ("batch", "0-512"), ("other", "other")])
def test_where_nothing_is_promised_nothing_is_held(lane: str, bucket: str) -> None:
    assert Objectives({"chat": {"0-512": SHORT}}).aims(lane, bucket) is NO_AIMS


def test_aims_are_true_if_anything_is_promised() -> None:
    assert [bool(aims) for aims in (NO_AIMS, SHORT, Aims(tpot=Aim(0.1, 0.9)), Aims(stall=Aim(2.0, 0.99)))] == [
        False,
        True,
        True,
        True,
    ]


def test_each_objective_has_its_aim() -> None:
    assert [SHORT.aim(objective) for objective in Objective] == [SHORT.ttft, None, SHORT.e2e, None]
    assert [LONG.aim(objective) for objective in Objective] == [LONG.ttft, None, None, LONG.stall]


def test_a_target_allows_the_rest() -> None:
    assert Aim(1.0, 0.9).allowed_misses == pytest.approx(0.1)


def test_what_a_threshold_is_meant_for_is_all_of_it() -> None:
    assert sum(TTFT_SHARES.values()) == pytest.approx(1)


def test_a_config_that_changes_later_changes_nothing_here() -> None:
    """The tables are copied, so objectives change only by being replaced as a whole."""
    told = {"chat": {"0-512": SHORT}}
    objectives = Objectives(told)
    told["chat"].clear()

    assert objectives.aims("chat", "0-512") is SHORT
