"""The knowledge of a learner comes back from its state as it was, and an odd state is refused with its place."""

import json
from collections.abc import Callable
from dataclasses import astuple
from math import inf, nan
from random import Random
from typing import Any, ClassVar

import pytest

from sidecar.pod.backlog import Backlog
from sidecar.pod.costs.cached_share import CachedShares
from sidecar.pod.costs.least_squares import LeastSquares
from sidecar.pod.costs.prefill_cost import Curve, Length
from sidecar.pod.costs.prefill_work import Prefilling, PrefillWork
from sidecar.pod.costs.step_model import StepModel
from sidecar.pod.long_prompts import LongPrompts
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.reading import LaneCounts, Reading
from sidecar.pod.usual.comparison import Comparison
from sidecar.pod.usual.learner import Amount, Inner, Learner, OddStateError, Table, Text
from tests.pod.costs.stepping import SteppedEngine, traffic


class Case:
    """One kind of learner: how it learns, and what it answers when it is asked."""

    def __init__(
        self,
        make: Callable[[], Learner],
        teach: Callable[[Any, Random, float], float],
        answer: Callable[[Any, float], object],
    ) -> None:
        """`teach`: lets time pass from an instant on; returns the instant of its end."""
        self.make, self.teach, self.answer = make, teach, answer


def _compared(one: Comparison, rng: Random, at: float) -> float:
    for _ in range(200):
        at += 5.0
        one.add(at, rng.uniform(5, 15), 10.0, calm=True)
    return at


def _backlog(one: Backlog, rng: Random, at: float) -> float:
    for _ in range(500):
        at += 1.0
        one.tick(at, rng.randrange(2, 5), calm=True)
    return at


def _busy_backlog(one: Backlog, at: float) -> list[float]:
    one.tick(at + 5.0, 0, calm=False)
    at += 10.0
    answers = []
    for waiting in range(8):
        one.tick(at + waiting, waiting, calm=False)
        answers.append(one.since(at + waiting))
    return answers


def _long_prompts(one: LongPrompts, rng: Random, at: float) -> float:
    for key in range(1000):
        at += 0.5
        one.received(key, rng.choice(("chat", "code")), rng.uniform(10, 3000), at)
        one.computed(key, at + 0.1)
        one.tick(at, calm=True)
    return at


def _held_up(one: LongPrompts, at: float) -> list[bool]:
    found = []
    for step, tokens in enumerate((100, 2000, 3500, 5000, 50_000)):
        arrived_at = at + 1000.0 * (step + 1)
        one.received(("asked", tokens), "chat", tokens, arrived_at)
        found.append(one.hold_up(arrived_at, arrived_at + 1.0, None))
        one.computed(("asked", tokens), arrived_at + 1.0)
    return found


def _shares(one: CachedShares, rng: Random, at: float) -> float:
    for _ in range(100):
        at += 3.0
        one.learn("chat", 1000.0, rng.uniform(0, 900), at)
    return at


def _fitted(one: LeastSquares, rng: Random, at: float) -> float:
    for _ in range(200):
        x = (1.0, rng.uniform(1, 9), rng.uniform(1, 900))
        one.add(x, 3.0 * x[0] + 0.5 * x[1] + 0.01 * x[2], 5.0)
    return at


def _curve(one: Curve, rng: Random, at: float) -> float:
    for _ in range(200):
        length = rng.uniform(50, 5000)
        one.learn(length, length * 1e-4 * rng.uniform(0.9, 1.1))
    return at


def _work(one: PrefillWork, rng: Random, at: float) -> float:
    for _ in range(200):
        at, request = at + 20.0, Prefilling()
        length = rng.uniform(50, 5000)
        one.received(request)
        seen = one.first_token(request, at + length * 1e-4)
        assert seen is not None
        one.left(request, at + 5.0)
        one.prefilled("llama", Length(length, "tokens"), seen, length * 1e-4, learn=True)
    return at


def reading(at: float, count: float) -> Reading:
    lane = LaneCounts(count, count, 900 * count, count, 900 * count, 300 * count, count, 150 * count, count, count)
    return Reading(at, {"chat": lane}, reported=count, own_seconds=0.1 * count, expected_seconds=0.1 * count)


def _pod(one: Pod, rng: Random, at: float) -> float:
    count = 0.0
    for _ in range(200):
        at += 5.0
        count += rng.randrange(4, 9)
        one.read(reading(at, count), Costs(), calm=True)
    return at


def _signs(one: Pod, at: float) -> object:
    """Each pod is shown the same two minutes: its own past of the last minute is not part of its state."""
    count = 10_000.0
    for slice_number in range(24):
        count += 12.0
        one.read(reading(at + 1000.0 + 5.0 * slice_number, count), Costs(), calm=False)
    signs = one.signs(at + 1000.0 + 115.0, Costs())
    return signs.grown, signs.young, signs.together


CASES = {
    "comparison": Case(
        Comparison,
        _compared,
        lambda one, at: (one.young, one.add(at + 900.0, 25.0, 10.0, calm=False), one.since(at + 800.0)),
    ),
    "backlog": Case(Backlog, _backlog, _busy_backlog),
    "long prompts": Case(LongPrompts, _long_prompts, _held_up),
    "cached shares": Case(
        CachedShares, _shares, lambda one, _at: (one.uncached("chat", 500.0), one.uncached("x", 5.0))
    ),
    "least squares": Case(lambda: LeastSquares(3), _fitted, lambda one, _at: (one.weight, one.solved())),
    "curve": Case(
        Curve, _curve, lambda one, _at: (one.refusal, one.samples, [one.cost(10.0 * 2**n) for n in range(12)])
    ),
    "prefill work": Case(
        PrefillWork,
        _work,
        lambda one, _at: [one.cost_seconds("llama", Length(10.0 * 2**n, "tokens")) for n in range(12)],
    ),
    "pod": Case(Pod, _pod, _signs),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_a_restored_learner_answers_as_the_one_that_learned(name: str, seed: int) -> None:
    case = CASES[name]
    taught, restored = case.make(), case.make()
    at = case.teach(taught, Random(seed), 100.0)

    restored.restore(json.loads(json.dumps(taught.state())))

    assert restored.state() == taught.state()
    assert case.answer(restored, at) == case.answer(taught, at)
    assert case.answer(case.make(), at) != case.answer(taught, at)


@pytest.mark.parametrize("name", CASES)
def test_what_was_restored_goes_on_learning(name: str) -> None:
    """It fades as usual: after the same further lessons, both know the same."""
    case = CASES[name]
    taught, restored = case.make(), case.make()
    at = case.teach(taught, Random(1), 100.0)
    restored.restore(json.loads(json.dumps(taught.state())))

    later = case.teach(restored, Random(2), at + 5000.0)

    assert restored.state() != taught.state()
    assert case.answer(restored, later) != case.answer(case.make(), later)


def test_a_restored_step_model_compares_at_once() -> None:
    """The new process's first minute is compared with the cost that the old one learned."""
    taught = SteppedEngine(traffic(240.0)).until(240.0)
    later = SteppedEngine(traffic(60.0, seed=2), learns_until=0.0)
    later.model.restore(json.loads(json.dumps(taught.state())))

    model = later.until(60.0)

    assert model.costs is not None
    assert taught.costs is not None
    assert astuple(model.costs) == pytest.approx(astuple(taught.costs), rel=1e-3), (
        "the best fit of what was learned, which may be newer"
    )
    assert model.unknown is None
    decode, prefill = model.decode(60.0), model.prefill(60.0)
    assert not isinstance(decode, str)
    assert decode.value == pytest.approx(1.0, abs=0.1)
    assert not isinstance(prefill, str)
    assert prefill.value == pytest.approx(1.0, abs=0.35)


class Words(Learner):
    """Two words, and how often each was read."""

    KEPT: ClassVar = {"_times": Table(Text(), Amount())}

    def __init__(self) -> None:
        self._times = {"la": 3.0, "to": 1.0}


def test_a_state_is_copied_one_value_of_a_table_after_the_other() -> None:
    """A copy of all values at once would hold up every stream."""
    slices = [json.dumps(each) for each in Words().slices()]

    assert slices == ['{"times": [["la", 3.0]]}', *['{"times": [["la", 3.0], ["to", 1.0]]}'] * 2]
    assert json.loads(slices[-1]) == Words().state()


def test_a_young_learner_comes_back_young() -> None:
    for make in (Pod, StepModel, PrefillWork, LongPrompts, Backlog, CachedShares):
        learner = make()
        learner.restore(json.loads(json.dumps(make().state())))
        assert learner.state() == make().state()


# --- what is refused -----------------------------------------------------------------------------------------------------


def places(state: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every number in a state."""
    if isinstance(state, dict):
        return [found for name, each in state.items() for found in places(each, (*path, name))]
    if isinstance(state, list | tuple):
        return [found for at, each in enumerate(state) for found in places(each, (*path, at))]
    return [path] if isinstance(state, int | float) and not isinstance(state, bool) else []


def broken(state: Any, path: tuple[Any, ...], value: object) -> Any:
    state = json.loads(json.dumps(state))
    inner = state
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return state


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("value", [nan, inf, -inf, "7", True, [], {}, 10**400], ids=repr)
def test_no_odd_value_at_any_place_is_taken(name: str, value: object) -> None:
    """The learner is as it was before."""
    case = CASES[name]
    taught, learner = case.make(), case.make()
    case.teach(taught, Random(1), 100.0)
    before, found = learner.state(), places(taught.state())
    assert found

    for path in found[:: max(1, len(found) // 50)]:
        with pytest.raises(OddStateError):
            learner.restore(broken(taught.state(), path, value))
        assert learner.state() == before


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "Comparison: None is no mapping"),
        ({}, "Comparison.count: missing"),
        (Comparison().state() | {"colour": 1}, "Comparison.colour: unknown"),
        (Comparison().state() | {"learned": 1.5}, "Comparison.learned: 1.5 is no whole number"),
        (Comparison().state() | {"learned": -1}, "Comparison.learned: -1 is not a number from 0 on"),
        (Comparison().state() | {"value": 3.0}, "Comparison: a value of nothing that was expected"),
    ],
)
def test_the_refusal_says_the_place(state: object, why: str) -> None:
    with pytest.raises(OddStateError) as refused:
        Comparison().restore(state)

    assert str(refused.value) == why


def test_sums_of_another_number_of_terms_are_refused() -> None:
    with pytest.raises(OddStateError, match="not the sums of 3 terms"):
        LeastSquares(3).restore(LeastSquares(2).state())


def test_steps_that_cost_nothing_are_refused() -> None:
    """Each comparison with them would divide by zero."""
    with pytest.raises(OddStateError, match="costs: all are 0"):
        StepModel().restore(StepModel().state() | {"costs": [0.0, 0, 0.0]})


def test_a_table_without_end_and_a_key_that_comes_twice_are_refused() -> None:
    table = Table(Text(), Inner(Backlog), most=2)
    one = ["chat", Backlog().state()]

    with pytest.raises(OddStateError, match="3 values, more than 2"):
        table.read([one, one, one], "lanes")
    with pytest.raises(OddStateError, match="twice"):
        table.read([one, one], "lanes")
    with pytest.raises(OddStateError, match=r"lanes\[0\]\[0\]"):
        table.read([["x" * 300, Backlog().state()]], "lanes")


def test_a_number_may_be_whole_where_any_number_is_expected() -> None:
    """JSON knows one kind: a value of 3.0 may have been written as 3 by another program."""
    read = Amount().read(3, "value")

    assert (read, type(read)) == (3.0, float)


def test_a_state_of_before_lacks_only_what_is_kept_since() -> None:
    state = Pod().state()
    of_before = {name: each for name, each in state.items() if name != "a_token"}

    Pod().restore(of_before)
    with pytest.raises(OddStateError, match="load: missing"):
        Pod().restore({name: each for name, each in state.items() if name != "load"})
