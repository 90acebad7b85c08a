"""The loss of the verdict without each of its rules, on evidence that was recorded once: `make ablate`.

A rule is a reason of the decision (`sidecar/pod/reasons.py`), or a ratio that a reason is made of, with the learner behind it. Without it
the same looks and misses are decided anew. What is lost is the share of lanes that are right by S2 with it and not without it, less those
that are right without it alone, each lane of a run beside itself; the bracket comes from resampling runs. A rule whose bracket holds 0 has
not shown on these shapes that the score needs it: it stands for a story, or it goes.

It refuses to know what a rule does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.incidents.grade import RIGHT, WRONG, Case
from bench.incidents.job import Job, played
from bench.incidents.measures import Measure, measured
from bench.incidents.world import Mode
from bench.roots.cache import Cache
from bench.roots.verdicts import Told, told_again
from sidecar.pod.causes import WORTH_NAMING, Cause
from sidecar.pod.decision import Decision
from sidecar.pod.reasons import Reason
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import WEIGHTS, weigh


ALL = "all rules"
Rules = Mapping[str, Callable[[], Decision]]
"""The name of a rule that is left out, to a function that makes a decision without it."""


class _Blinded(Decision):
    """A decision that does not see some of the signs."""

    def __init__(self, hide: Callable[[Signs], Signs]) -> None:
        super().__init__()
        self._hide = hide

    def see(self, at: float, signs: Signs) -> None:
        super().see(at, self._hide(signs))


def rules() -> Rules:
    """All rules, and each that is left out."""
    found: dict[str, Callable[[], Decision]] = {ALL: Decision}
    for reason in Reason:
        weights = {each: weight for each, weight in WEIGHTS.items() if each is not reason}
        found[f"reason {reason}"] = partial(Decision, partial(weigh, weights=weights))
    for cause in WORTH_NAMING:
        found[f"ratio of {cause}"] = partial(_Blinded, partial(_without, cause))
    found["ratio of events per read"] = partial(_Blinded, _without_together)
    found["whether requests wait for prompts"] = partial(_Blinded, _without_computes)
    return found


def _without(cause: Cause, signs: Signs) -> Signs:
    return replace(signs, grown={each: factor for each, factor in signs.grown.items() if each is not cause})


def _without_together(signs: Signs) -> Signs:
    return replace(signs, together=None)


def _without_computes(signs: Signs) -> Signs:
    return replace(signs, computes_ratio=None)


def told_without(cache: Cache, job: Job) -> dict[str, list[Told]]:
    """The grades of one job with all rules, and without each in turn."""
    cache.run(job, lambda: played(job))
    return {name: told_again(cache, job, decision=make) for name, make in rules().items()}


def table(parts: Sequence[Mapping[str, Sequence[Told]]]) -> str:
    """One line for each rule: what S2 loses without it in each mode, and what is wrong more often. The costliest first."""
    modes = [mode for mode in Mode if any(each.mode is mode for part in parts for each in part[ALL])]
    lost = {
        name: [(_loss(parts, name, mode, RIGHT), _loss(parts, name, mode, WRONG)) for mode in modes]
        for name in rules()
        if name != ALL
    }
    lines = [f"{'without':36}" + "".join(f"{f'{mode}: S2 lost':>30}{'wrong':>8}" for mode in modes)]
    for name, each in sorted(lost.items(), key=lambda item: -sum(s2.value for s2, _ in item[1])):
        cells = (f"{_points(s2):>30}{0.0 - wrong.value * 100:>+8.1f}" for s2, wrong in each)
        lines.append(f"{name:36}{''.join(cells)}")
    return "\n".join(lines)


def _loss(parts: Sequence[Mapping[str, Sequence[Told]]], name: str, mode: Mode, result: str) -> Measure:
    """Mean over lanes: 1 if this result is there with all rules and not without this one, -1 the other way round."""
    return measured([pair for part in parts for pair in _pairs(part[ALL], part[name], mode, result)])


def _pairs(
    whole: Sequence[Told], less: Sequence[Told], mode: Mode, result: str
) -> Iterator[tuple[tuple[str, int], float]]:
    for one, other in zip(whole, less, strict=True):
        if one.mode is mode:
            for case, without in zip(one.cases, other.cases, strict=True):
                yield (one.job.kind, one.job.seed), float(_is(case, result)) - float(_is(without, result))


def _is(case: Case, result: str) -> bool:
    return case.phase_result == result


def _points(measure: Measure) -> str:
    """Points of a hundred lanes."""
    return f"{measure.value * 100:+.1f} [{measure.low * 100:+.1f}, {measure.high * 100:+.1f}] of {measure.size}"
