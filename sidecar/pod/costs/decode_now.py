"""The cost of decodes now over their usual one, by the steps that still speak for now. Pure.

Steps that are known to hold no prompt tell it best. A fault that fills the steps with prompts ends those within seconds, and then
the ones from before it tell nothing of now: the steps that are most alike do, where any of them may hold no prompt. It knows both
kinds, and which of them to believe. It is told what decodes usually cost when it is asked, and refuses to know how that
is learned (`step_model.py`).
"""

from sidecar.pod.costs.alike_steps import LIKE_USUAL, AlikeSteps
from sidecar.pod.costs.linear_costs import Compared, Costs
from sidecar.pod.costs.pure_steps import PureSteps
from sidecar.pod.costs.steps import Step


DECODE_SECONDS = 60.0
"""Age of the oldest step that speaks for now."""
NEAR_SECONDS, NEAREST_SECONDS, FEWEST_NEAR = 10.0, 3.0, 10
FEWEST_NOW = 20
DEAREST_DECODE = 10.0
"""Decodes that would have to cost more than so many times the usual, with prompts at their usual cost, are not what is dear: a judgement, as
no fault that was played or seen made them so dear."""


class DecodeNow:
    """The recent steps of one engine, and the decode factor by them."""

    def __init__(self) -> None:
        self._pure = PureSteps()
        self._alike = AlikeSteps()

    def add_pure(self, step: Step, seconds: float, weight: float) -> None:
        """A step without a prompt has ended (`PureSteps.add`)."""
        self._pure.add(step, seconds, weight)

    def add(self, step: Step, seconds: float, prompt_seconds: float, begun_seconds: float) -> None:
        """A step with or without a prompt has ended (`AlikeSteps.add`)."""
        self._alike.add(step, seconds, prompt_seconds, begun_seconds)

    def forget(self) -> None:
        """The engine was replaced."""
        self._pure.forget()
        self._alike.forget()

    def factor(self, at: float, seconds: float, usual: Costs, usual_excess: float) -> Compared | None:
        """The decode factor at this instant, from the steps of the last so many seconds; None if too few of them tell it, or if prompts may explain them.

        `usual_excess`: what prompts took to what they should take, while all was well.
        """
        since = at - seconds
        if self._alike.enough(at - NEAR_SECONDS) and self._pure.stopped(at, DECODE_SECONDS, NEAR_SECONDS):
            # That decodes cost the usual before tells nothing of now. That they were dear already does.
            before = self._pure.factor(since, FEWEST_NOW, usual)
            dear = before if before is not None and before.factor.low > LIKE_USUAL else None
            return self._alike.factor(max(since, at - NEAR_SECONDS), usual_excess, usual) or dear
        found = self._pure.factor(since, FEWEST_NOW, usual) or self._alike.factor(since, usual_excess, usual)
        if found is None:
            return None
        if self._tells(at):
            return self._pure.risen(at, NEAREST_SECONDS, FEWEST_NEAR, usual, found.factor) or found
        alike = self._alike.factor(at - NEAREST_SECONDS, usual_excess, usual)
        if alike is not None and alike.factor.low > max(LIKE_USUAL, found.factor.high):
            return alike  # a fault has begun: until half of the window is its own, the prompts alone would seem dearer
        return found if found.factor.low > LIKE_USUAL or self.known(at, usual, usual_excess) else None

    def _tells(self, at: float) -> bool:
        """Whether any of the last seconds' steps is pure: then prompts do not fill them all, and the pure steps go on telling."""
        return self._pure.ended_since(at - NEAREST_SECONDS)

    def known(self, at: float, usual: Costs, usual_excess: float) -> bool:
        """Whether the last seconds tell how dear decodes are: a pure step or one that is like them is among these, or decodes cost about
        the usual at most, or they would have to be dearer than any fault makes them. Else which of the two is dear is open.
        """
        if self._tells(at) or self._alike.factor(at - NEAREST_SECONDS, usual_excess, usual) is not None:
            return True
        dearest = self._alike.dearest(at - NEAREST_SECONDS, usual_excess, usual)
        return dearest is None or dearest.most <= LIKE_USUAL or dearest.least > DEAREST_DECODE

    def near(self, at: float, usual: Costs, usual_excess: float) -> Compared | None:
        """The factor of the very last seconds, from fewer steps. When decodes become dear, each second in which this does not know
        it yet makes the prompts of that second look dear.
        """
        return (
            self._pure.factor(at - NEAREST_SECONDS, FEWEST_NEAR, usual)
            or (None if self._tells(at) else self._alike.factor(at - NEAREST_SECONDS, usual_excess, usual))
            or self._pure.factor(at - NEAR_SECONDS, FEWEST_NEAR, usual)
            or self._alike.factor(at - NEAR_SECONDS, usual_excess, usual)
        )
