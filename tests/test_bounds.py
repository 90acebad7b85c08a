"""A bound: the figure that is compared with it, and when it counts as broken."""

import asyncio

import pytest

from bench.bounds import __main__ as bounds
from bench.bounds.__main__ import MOST_TIMES, Group, Verdict, judged
from bench.bounds.added_latency import limit_ms
from bench.bounds.bound import Bound, longest_step, table
from bench.bounds.plain_relay import running_plain_relay
from bench.origin import Reader, running_origin


def bound(measured: float, name: str = "a turn") -> Bound:
    return Bound(name, 2.0, measured, "ms", "1 to 3 in 3 rounds", "nothing")


def group_of(**measured: list[float]) -> Group:
    """A group of bounds, with the figures of each in the order in which they are measured."""

    async def group() -> list[Bound]:
        return [bound(figures.pop(0), name) for name, figures in measured.items()]

    return group


@pytest.mark.parametrize(("measured", "kept"), [(1.9, True), (2.0, True), (2.1, False)])
def test_a_bound_is_kept_up_to_its_limit(measured: float, *, kept: bool) -> None:
    assert bound(measured).kept == kept
    assert ("| BROKEN |" not in table([bound(measured)])) == kept


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


def test_a_bound_that_is_kept_beside_a_late_control_is_kept() -> None:
    assert verdict(["full"], {"a": [1.0]}) == Verdict(1, [], {})


def test_a_machine_that_is_late_beside_one_group_excuses_no_other() -> None:
    says = iter(["full", ""] * MOST_TIMES)
    groups = [group_of(a=[3.0] * MOST_TIMES), group_of(b=[3.0] * MOST_TIMES)]

    assert judged(groups, lambda *_: next(says)) == Verdict(0, ["b"], {"a": "full"})


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


def test_a_step_counts_at_its_quickest() -> None:
    """Another machine delays the third step in the first round only: that does not count."""
    assert longest_step([[0.1, 0.4, 9.0], [0.2, 0.5, 0.1], [0.1, 0.4, 0.3]]) == 0.4
    assert longest_step([]) == 0.0


def test_rounds_of_different_work_are_not_compared() -> None:
    with pytest.raises(ValueError, match="longer"):
        longest_step([[0.1], [0.1, 0.2]])


@pytest.mark.parametrize(
    ("plain_ms", "limit"),
    [
        pytest.param(0.9, 2.0, id="a usual machine: the bound"),
        pytest.param(1.5, 3.0, id="a slow machine: twice what the relay adds"),
        pytest.param(40.0, 6.0, id="a relay with a fault: three times the bound"),
    ],
)
def test_the_limit_of_added_latency_follows_a_slow_machine_so_far(plain_ms: float, limit: float) -> None:
    assert limit_ms(2.0, plain_ms) == limit


def test_the_relay_that_the_sidecar_is_compared_with_passes_all_events() -> None:
    async def story() -> None:
        async with running_origin() as origin:
            relaying = running_plain_relay(origin.port)
            reader = await Reader.open(await asyncio.to_thread(relaying.__enter__))
            try:
                await reader.ask("15 events 0.004 seconds")
                assert reader.events == 15
            finally:
                await asyncio.to_thread(relaying.__exit__, None, None, None)

    asyncio.run(story())
