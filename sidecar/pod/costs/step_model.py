"""The cost of the engine's steps: fitted while all is well, and compared with what steps cost now. Pure.

A step takes a fixed time, and some time for each sequence and for each token in their contexts; prompts that share
steps add to them. The cost of decode is fitted to steps without a prompt, the cost of prefill to what stretches between
two such steps take beyond their decode. Two factors compare now with that: *decode* (`decode_now.py`), and *prefill* from
the excess of the stretches over what their prompts should cost, the open one's too. Each has an interval, and decides nothing while
1 lies inside.

It knows steps (`steps.py`) and whether it may learn (`learning`: the caller says so while no objective burns). It
refuses to name a cause, and says why where it cannot answer.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from math import inf
from typing import Any, ClassVar

from sidecar.pod.costs.alike_steps import LIKE_USUAL
from sidecar.pod.costs.cost_names import Unpriced
from sidecar.pod.costs.decode_now import DECODE_SECONDS, DecodeNow
from sidecar.pod.costs.least_squares import LeastSquares
from sidecar.pod.costs.linear_costs import Compared, Costs, decode_terms, prompt_terms, seconds_of
from sidecar.pod.costs.possible_fits import PossibleFits, Told
from sidecar.pod.costs.steps import Prompt, Step
from sidecar.pod.costs.stretch import EndedStretch, Stretch
from sidecar.pod.costs.waits import Doing, Waits
from sidecar.pod.factor import Excess, Factor, ratio_of, without_hiccups
from sidecar.pod.usual.cost_guard import CostGuard
from sidecar.pod.usual.learner import Amount, Inner, Learner, Maybe, Row, Table


LEARN_EVERY_SECONDS = 0.25
"""One step in this time teaches, so that a cost rests on minutes: an engine's first seconds are slow."""
FEWEST_STEPS = 200
"""Pure steps that taught before the first fit: most of a minute. With each doubling of their number, the older ones
lose half of their weight, until `HALVED_AT` does that."""
FIT_EVERY_STEPS = 100
FEWEST_STRETCHES = 20
"""Stretches with prompts before prefill has a cost."""
PREFILL_SECONDS = 90.0
"""Age of the oldest stretch that speaks for now."""
LONGEST_STRETCH_SECONDS = 20.0
"""Under load no step may be pure for minutes: a stretch then ends after this time."""
FEWEST_STRETCHES_NOW, KEPT_STRETCHES = 3, 1024
WORST_RESIDUAL = 0.25
"""Mean relative error of pure steps while learning, above which the cost is not that of one scheduler's steps."""
WORST_STRETCH = 0.5
"""The same for the work of stretches with prompts, which are fewer."""
OF_RESIDUAL = 0.75
"""Share of the mean error of calm steps by which a fit is wrong of itself, in nineteen of twenty times, however many steps are counted: its terms
are not all that a step costs, and the wire is not all that the engine does (docs/evidence/step-costs.md).
"""
PREFILL_WRONG = 0.08
"""By this share the fit of prompts is wrong beyond that."""
LEAST_EXCESS = 0.5
"""Share of that work by which steps with prompts take longer. Below it, prompts share no steps with decodes."""
LEAST_COVERAGE = 0.8
COVERAGE_WEIGHT = 0.001
"""Weight of the newest step in the mean coverage."""
CALM_MEMORY = 0.998
TYPICAL_SEQUENCES, TYPICAL_CONTEXT = 8, 2000
OUTLIER = 3.0
"""A step of this many times its cost is a hiccup: it teaches nothing, and one alone does not speak for now."""
STRETCH_OUTLIER = 2.0
"""So many times the cost of the middle one a stretch of prompts counts at most: hiccups there are long beside it or none."""
MATURE_STEPS, MATURE_STRETCHES = 1200, 100
"""Before so many were learned from (some minutes), the usual cost is not known well enough to refuse anything."""
MATURE_BATCH_STEPS = 200
"""The same for batches of about this size: what a larger one costs is only known once it was seen."""
RECENT = 64
"""Steps, or a third of it stretches, whose cost is compared with the usual one before more is learned."""


class StepModel(Learner):
    """The cost of one engine's steps. A step takes some microseconds, an answer under 1 ms."""

    KEPT: ClassVar = {
        "costs": Maybe(Row(Amount(), Amount(), Amount(), make=Costs, split=astuple)),
        "_decode_fit": Inner(lambda: LeastSquares(3)),
        "_prefill_fit": Inner(lambda: LeastSquares(2)),
        "_per_token": Maybe(Row(Amount(), Amount())),
        **dict.fromkeys(("_learned_stretches", "_learned_steps", "_next_fit", "_next_halving"), Amount(whole=True)),
        **dict.fromkeys(("_error", "_calm_work", "_residual"), Amount()),
        "_calm_excess": Amount(-inf),
        "_learned_batches": Table(Amount(whole=True), Amount(whole=True)),
    }

    def __init__(self) -> None:
        self.learning = True
        """Whether no objective burns now."""
        self.costs: Costs | None = None
        self._decode_fit = LeastSquares(3)
        self._prefill_fit = LeastSquares(2)
        self._per_token: tuple[float, ...] | None = None
        self._learned_stretches = 0
        self._error = 0.0
        """Sum over stretches while learning of the error of their expected work; fades."""
        self._calm_excess = self._calm_work = 0.0
        """Sums over stretches while learning, which fade: a fit of relative errors leaves a bias in the sums."""
        self._next_fit = self._next_halving = FEWEST_STEPS
        self._learned_steps = 0
        self._residual = 0.0
        """Mean relative error of pure steps while learning; fades."""
        self._next_learn_at = 0.0
        self._decode_guard = CostGuard(RECENT)
        self._prefill_guard = CostGuard(RECENT // 3)
        self._coverage = 1.0
        """Mean coverage of steps; fades."""
        self.seen = 1.0  # share of the engine's running requests that pass the sidecar (`seen_share.py`)
        self._decode_fits = PossibleFits()
        self._prefill_fits = PossibleFits()
        self._now = DecodeNow()
        self._stretch: Stretch | None = None
        self._near: tuple[float, float] = (float("-inf"), 1.0)  # instant and decode factor, as last computed
        self._waits = Waits()
        self._stretches: deque[EndedStretch] = deque(maxlen=KEPT_STRETCHES)
        self._learned_batches: dict[int, int] = {}
        """Octave of batch sizes (1, 2 to 3, 4 to 7, ...) to the number of its steps that taught."""

    def step(self, step: Step) -> None:
        """Take in one step."""
        self._coverage += (step.coverage - self._coverage) * COVERAGE_WEIGHT
        if step.seconds is None or not step.sequences or not step.counted:
            self._stretch = None
            return
        if step.pure:
            self._take_pure(step, step.seconds)
        else:
            self._take_mixed(step, step.seconds)

    def take(self, found: Mapping[str, Any]) -> None:
        """Put a restored state into force: ratios to the costs that were known before are dropped."""
        super().take(found)
        # The best fit of all that was learned is in force from now on, and not the last one of before.
        if self.costs is not None:
            self._fit_decode()
        if self._per_token is not None and self._learned_stretches >= FEWEST_STRETCHES:
            self._fit_prefill()
        self.forget()

    def forget(self) -> None:
        """The engine was replaced. The costs stay: a new process of the same engine is compared with the old one."""
        self._now.forget()
        self._stretches.clear()
        self._waits.forget()
        self._stretch = None

    @property
    def unknown(self) -> Unpriced | None:
        """The reason for which there are no factors; None if there may be some."""
        if min(self._coverage, self.seen) < LEAST_COVERAGE:
            return Unpriced.COVERAGE
        if self.costs is None:
            return Unpriced.YOUNG
        return Unpriced.RESIDUALS if self._residual > WORST_RESIDUAL else None

    def decode(self, at: float, seconds: float = DECODE_SECONDS) -> Factor | Unpriced:
        """The decode factor at this instant, from the steps of the last so many seconds, as wide as the possible fits leave it."""
        found = self.decode_told(at, seconds)
        return found if isinstance(found, Unpriced) else found.widest

    def prefill(self, at: float, seconds: float = PREFILL_SECONDS) -> Factor | Unpriced:
        """The same for prefill, from the prompts of the last so many seconds."""
        found = self.prefill_told(at, seconds)
        return found if isinstance(found, Unpriced) else found.widest

    def decode_told(self, at: float, seconds: float) -> Told | Unpriced:
        """The decode factor as all fits tell it."""
        found = self._decode(at, seconds)
        return found if isinstance(found, Unpriced) else self._decode_fits.told(found, OF_RESIDUAL * self._residual)

    def prefill_told(self, at: float, seconds: float) -> Told | Unpriced:
        """The prefill factor as all fits tell it."""
        if (unknown := self.unknown) is not None:
            return unknown
        if self._per_token is None:
            return Unpriced.YOUNG
        if self._prefill_error > WORST_STRETCH:
            return Unpriced.RESIDUALS
        recent = [each for each in self._stretches if each.ended_at >= at - seconds]
        found = self._prefill(recent, self._per_token)
        if parts := self._open_parts(at, at - seconds):
            so_far = self._prefill([*recent, *parts], self._per_token)
            found = max(filter(None, (found, so_far)), key=lambda each: each.factor.value, default=None)
        return (
            Unpriced.FEW
            if found is None
            else self._prefill_fits.told(found, PREFILL_WRONG + OF_RESIDUAL * self._residual)
        )

    def _open_parts(self, at: float, since: float) -> list[EndedStretch]:
        """The parts of the open stretch, unless dear decodes may explain them. A fault that fills the steps with prompts may not let it
        end, and those before it tell nothing of now.
        """
        stretch = self._stretch
        if stretch is None or not stretch.measured or not self.decodes_known(at):
            return []
        return stretch.so_far(self._near[1], since)

    def decodes_known(self, at: float) -> bool:
        """Whether the last seconds tell how dear decodes are; else it is open which of the two is dear (`DecodeNow.known`)."""
        return self.costs is not None and self._now.known(at, self.costs, self._usual_excess)

    def _prefill(self, stretches: Sequence[EndedStretch], per_token: Sequence[float]) -> Compared | None:
        """The prefill factor of these stretches by the best fit; None if too few of them had prompts."""
        found = [Excess(each.ended_at, each.excess, seconds_of(per_token, each.terms)) for each in stretches]
        if sum(each.work > 0.0 for each in found) < FEWEST_STRETCHES_NOW:
            return None
        found = without_hiccups(found, STRETCH_OUTLIER)
        terms = tuple(sum(each) for each in zip(*(each.terms for each in stretches), strict=True))
        return Compared(ratio_of(found, self._usual_excess), terms)

    def _decode(self, at: float, seconds: float) -> Compared | Unpriced:
        """The decode factor by the best fit."""
        unknown, costs = self.unknown, self.costs
        if unknown is not None or costs is None:
            return unknown or Unpriced.YOUNG
        return self._now.factor(at, seconds, costs, self._usual_excess) or Unpriced.FEW

    def prefill_seconds(self, tokens: float) -> float | None:
        """Seconds that an uncached prompt of so many tokens usually adds to the steps; None if unknown."""
        terms = prompt_terms([Prompt(tokens, tokens)])
        if (
            self.unknown is not None
            or self._per_token is None
            or not self._prefill_fits.agree(terms, 1.0 + WORST_STRETCH)
        ):
            return None
        return seconds_of(self._per_token, terms)

    def while_waiting(self, at: float) -> Doing | None:
        """The work of the engine while requests wait; None if they hardly do, or if its steps are unknown or hide it."""
        return None if self.unknown is not None or self._hides_prompts else self._waits.doing(at)

    @property
    def _hides_prompts(self) -> bool:
        """Whether prompts share no steps with decodes: then their cost is fitted to noise, which adds up to nothing."""
        return self._calm_excess < LEAST_EXCESS * self._calm_work

    def step_seconds(self, at: float) -> float | None:
        """Seconds of one decode step of TYPICAL_SEQUENCES with TYPICAL_CONTEXT tokens each, as dear as steps are now.

        It needs no past of this pod, so that pods can be compared with each other. None if it is unknown, or if the possible fits
        differ by more than WORST_RESIDUAL in what it costs beside the present steps.
        """
        now, shape = (
            self._decode(at, DECODE_SECONDS),
            decode_terms(TYPICAL_SEQUENCES, TYPICAL_SEQUENCES * TYPICAL_CONTEXT),
        )
        if self.costs is None or isinstance(now, Unpriced):
            return None
        known = self._decode_fits.agree(shape, 1.0 + WORST_RESIDUAL, beside=now.terms)
        return now.factor.value * seconds_of(astuple(self.costs), shape) if known else None

    def _take_pure(self, step: Step, seconds: float) -> None:
        expected = nearest = seconds
        if self.costs is not None:
            expected = self.costs.decode_seconds(step.sequences, step.context_tokens)
            nearest = self._decode_fits.nearest(seconds, expected, decode_terms(step.sequences, step.context_tokens))
        self._end_stretch(step.ended_at, seconds / nearest)
        if self.costs is not None:
            # A hiccup weighs no more than `OUTLIER` times its cost.
            self._now.add_pure(step, seconds, step.steps * min(seconds, OUTLIER * nearest))
            self._see(step, seconds)
            self._waits.step(step, seconds, expected)
            self._guard(step, seconds, nearest)
        young = self.costs is None or self._learned_steps < MATURE_STEPS
        usual = (young or self._decode_guard.usual) and seconds <= OUTLIER * nearest
        if self.learning and usual and step.ended_at >= self._next_learn_at:
            self._learn(step, seconds, expected, nearest)
            octave = step.sequences.bit_length()
            self._learned_batches[octave] = self._learned_batches.get(octave, 0) + 1
            self._next_learn_at = step.ended_at + LEARN_EVERY_SECONDS

    def _guard(self, step: Step, seconds: float, nearest: float) -> None:
        """Compare a step with the usual cost, unless batches of its size are new: what they cost is not known yet."""
        if self._learned_batches.get(step.sequences.bit_length(), 0) < MATURE_BATCH_STEPS:
            return
        if self._decode_guard.relearns(step.ended_at, seconds, nearest, learning=self.learning):
            self._start_anew()

    def _start_anew(self) -> None:
        """Another cost of decode is the usual one: nothing that was learned with the old one holds."""
        self.costs, self._per_token = None, None
        self._decode_fit, self._prefill_fit = LeastSquares(3), LeastSquares(2)
        self._learned_steps = self._learned_stretches = 0
        self._next_fit = self._next_halving = FEWEST_STEPS
        self._learned_batches.clear()
        self._residual = self._error = self._calm_excess = self._calm_work = 0.0
        self.forget()

    def _learn(self, step: Step, seconds: float, expected: float, nearest: float) -> None:
        self._decode_fit.add(decode_terms(step.sequences, step.context_tokens), seconds, expected)
        self._learned_steps += 1
        if self.costs is not None:
            self._residual += (abs(seconds / nearest - 1.0) - self._residual) / min(1000, self._learned_steps)
        if self._learned_steps >= self._next_halving:
            self._next_halving *= 2
            self._decode_fit.halve()
        if self._learned_steps >= self._next_fit:
            self._next_fit += FIT_EVERY_STEPS
            self._fit_decode()

    def _fit_decode(self) -> None:
        found = self._decode_fits.fit_to(self._decode_fit, self._residual)
        self.costs = self.costs if found is None else Costs(*found)

    def _fit_prefill(self) -> None:
        self._per_token = self._prefill_fits.fit_to(self._prefill_fit, self._prefill_error) or self._per_token

    def _take_mixed(self, step: Step, seconds: float) -> None:
        costs = self.costs
        if costs is None:
            return
        expected = costs.decode_seconds(step.sequences, step.context_tokens)
        self._see(step, seconds)
        near = self._decode_near(step.ended_at)
        self._waits.step(step, seconds, expected * near)
        stretch = self._stretch
        if stretch is None:
            stretch = self._stretch = Stretch(step.ended_at - seconds)
        stretch.add(step, seconds, expected, near)
        if step.ended_at - stretch.began_at > LONGEST_STRETCH_SECONDS:
            self._end_stretch(step.ended_at, inf)

    def _end_stretch(self, at: float, after: float) -> None:
        """`after`: cost of the step without a prompt that ended it, over the usual one; infinite without such a step."""
        stretch, self._stretch = self._stretch, None
        if stretch is None or not stretch.prompts:
            return
        ended = stretch.ended(at, self._decode_near(at))
        excess, terms = ended.excess, ended.terms
        if self._per_token is not None:
            work = seconds_of(self._per_token, terms)
            nearest = self._prefill_fits.nearest(excess, work, terms)
            usual_work, dear = self._usual_excess * work, stretch.decodes_at_most(self._usual_excess * work)
            # One that dear decodes may explain does not count, unless the step after it is nearer to the usual than to such decodes.
            if excess <= LIKE_USUAL * usual_work or after * after <= dear or self.decodes_known(at):
                self._stretches.append(ended)
            if self._prefill_guard.relearns(at, excess, nearest, learning=self.learning):
                self._prefill_fit, self._learned_stretches = LeastSquares(2), 0
                self._calm_excess = self._calm_work = self._error = 0.0
            if self._teaches:
                self._calm_excess = CALM_MEMORY * self._calm_excess + excess
                self._calm_work = CALM_MEMORY * self._calm_work + work
                self._error = CALM_MEMORY * self._error + abs(excess - nearest)
        if self._teaches:
            self._learn_prefill(terms, excess)

    @property
    def prefill_is_usual(self) -> bool:
        """Whether prompts cost what they usually do and no objective burns, so that they may be learned from."""
        return self.learning and self._prefill_guard.usual

    @property
    def _teaches(self) -> bool:
        """Whether a stretch may be learned from."""
        return self.learning and (self._learned_stretches < MATURE_STRETCHES or self._prefill_guard.usual)

    def _decode_near(self, at: float) -> float:
        """The decode factor of the last seconds, computed once a second: a stretch is not judged by older steps."""
        if at - self._near[0] >= 1.0:
            self._near = at, self._decode_of_seconds(at)
        return self._near[1]

    def _decode_of_seconds(self, at: float) -> float:
        if self.costs is None:
            return 1.0
        now = self._now.near(at, self.costs, self._usual_excess) or self._decode(at, DECODE_SECONDS)
        return now.factor.value if isinstance(now, Compared) else 1.0

    def _see(self, step: Step, seconds: float) -> None:
        work, begun = self._usual_work(step.prompts), self._usual_work(() if step.begun is None else (step.begun,))
        self._now.add(step, seconds, work, begun)

    def _usual_work(self, prompts: Sequence[Prompt]) -> float:
        return seconds_of(self._per_token, prompt_terms(prompts)) if prompts and self._per_token is not None else 0.0

    @property
    def _usual_excess(self) -> float:
        """The seconds that prompts took over those that they should take, while learning."""
        return self._calm_excess / self._calm_work if self._calm_excess > 0 and self._calm_work > 0 else 1.0

    @property
    def _prefill_error(self) -> float:
        """Mean relative error of a stretch while learning."""
        return self._error / self._calm_work if self._calm_work > 0 else 0.0

    def _learn_prefill(self, terms: tuple[float, float], excess: float) -> None:
        if terms[0] <= 0 or excess <= 0:
            return
        expected = excess if self._per_token is None else seconds_of(self._per_token, terms)
        self._prefill_fit.add(terms, excess, max(expected, 1e-6))
        self._learned_stretches += 1
        if self._learned_stretches % FEWEST_STRETCHES == 0:
            self._fit_prefill()
