"""A bound is broken when it is so each time, beside a control that was on time."""

import pytest

from bench.bounds import __main__ as bounds
from bench.bounds.__main__ import MOST_TIMES, Group, Verdict, judged
from bench.bounds.bound import Bound


def bound(measured: float, name: str = "a turn") -> Bound:
    return Bound(name, 2.0, measured, "ms", "1 to 3 in 3 rounds", "nothing")


def group_of(**measured: list[float]) -> Group:
    """A group of bounds, with the figures of each in the order in which they are measured."""

    async def group() -> list[Bound]:
        return [bound(figures.pop(0), name) for name, figures in measured.items()]

    return group


@pytest.mark.parametrize(
    ("measured", "broken"),
    [
        pytest.param({"a": [1.0], "b": [1.0]}, [], id="kept"),
        pytest.param({"a": [3.0, 1.0], "b": [1.0, 1.0]}, [], id="noise"),
        pytest.param({"a": [3.0, 1.0], "b": [1.0, 3.0]}, [], id="noise, now here, now there"),
        pytest.param({"a": [3.0] * MOST_TIMES, "b": [1.0, 3.0, 3.0]}, ["a"], id="broken each time"),
        pytest.param({"a": [3.0] * MOST_TIMES, "b": [3.0] * MOST_TIMES}, ["a", "b"], id="two"),
    ],
)
def test_a_bound_is_broken_if_it_is_so_each_time(measured: dict[str, list[float]], broken: list[str]) -> None:
    """A group is measured again only while one of its bounds was over its limit each time."""
    well = {"c": [1.0]}

    assert verdict([], measured, well) == Verdict(3 - len(broken), broken, {})
    assert [*measured.values(), *well.values()] == [[]] * (len(measured) + 1)


@pytest.mark.parametrize(
    ("late", "found"),
    [
        pytest.param(["", "full", ""], Verdict(0, ["a"], {}), id="in time twice: broken"),
        pytest.param(["full", "", "full"], Verdict(0, [], {"a": "full"}), id="in time once: not measured"),
        pytest.param(["full"] * 3, Verdict(0, [], {"a": "full"}), id="late each time: not measured"),
    ],
)
def test_a_bound_that_is_over_its_limit_beside_a_late_control_was_not_measured(late: list[str], found: Verdict) -> None:
    assert verdict(late, {"a": [3.0] * MOST_TIMES}) == found


def verdict(late: list[str], *groups: dict[str, list[float]]) -> Verdict:
    """The verdict on these groups, with the words of the control in each measurement."""
    says = iter(late + [""] * MOST_TIMES * len(groups))
    return judged([group_of(**each) for each in groups], lambda *_: next(says))


@pytest.mark.parametrize(
    ("found", "code", "told"),
    [
        (Verdict(3, [], {}), 0, ""),
        (Verdict(2, ["a"], {}), 1, "BROKEN: a\n"),
        (Verdict(2, [], {"b": "full"}), 0, "NOT MEASURED: b: this machine was busy: full\n"),
    ],
)
def test_only_a_broken_bound_ends_the_command_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: Verdict, code: int, told: str
) -> None:
    monkeypatch.setattr(bounds, "judged", lambda *_: found)
    monkeypatch.setattr(bounds, "give_back_large_blocks", lambda: True)
    monkeypatch.setattr("gc.freeze", lambda: None)

    assert bounds.main() == code
    out, err = capsys.readouterr()
    assert err == told
    assert out.endswith(
        f"{found.kept} bounds kept, {len(found.broken)} broken, {len(found.not_measured)} not measured\n"
    )
