"""The fixes that runbooks and diagnosis share, and the non-fixes: the texts of `interventions/*.yml`.

One file per runbook, of the same name. A fix is a mapping of

| key | holds |
|---|---|
| `name` | unique among all files; or `same_as`, the name of a fix that stands elsewhere (with `targets` of its own, if they differ) |
| `fix` | what to do, in one line |
| `targets` | the causes (`sidecar/pod/causes.py`) or phases that it works against; in the runbook of a phase each with its expected effect: the least and the largest share, 0 to 1, of what the cause adds to the phase's time that the fix takes away |
| `source` | of those shares: a paper, or an engine's documentation; absent: `EXPECTATION` |
| `stronger`, `weaker` | lists of signs (`levers.py`) under which the largest share is expected, or the least |
| `evidence` | list of signs and causes: without one of them the fix comes after all that need none |
| `only_if`, `never_if` | lists of signs and causes: without one of the first, and with one of the second, the fix is not advised |
| `cost` | `minutes`, `restart`, `replicas` or `project` |
| `works_when` | `spike`, `steady` or `both` |
| a kind of engine (`ENGINES`) | the engine's own flag; absent: it has none, or the fix is made elsewhere |
| `effect` | why so much is to be expected, in words |
| `after` | what must be so before it is worth doing |
| `depends` | what its effect depends on elsewhere, such as another lever |
| `lever` | the technique, by its name in the serving literature (`levers.py`). A fix with a lever has the keys below as well |
| `needs` | list: what must be there, in words; or the name of another fix |
| `conflicts` | list of fixes that undo it, or that it excludes. Mutual: each names the other |
| `synergies` | list of fixes that make it worth more. Mutual |
| `quality_risk` | `none`; or `check`: answers change, and must be compared with a quality floor |
| `load` | `low` (it works while the batch is small), `high` (while it is full) or `both` |

An entry of `not_to_do` has `do` and `why`, and `lever` where it is about one. A test holds the files to this form
(`tests/diagnosis/intervention_form.py`).

The order of the fixes is one computation (`ordered`): the expected effect on the causes of the case, over the effort. Where several
causes are possible, the effect is the mean over them. A second fix that pulls the same lever is worth half: the first has taken its part.

Knows the files and their form, and how fixes are ranked. Refuses to know what is wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.levers import BOTH, Cost, Lever, LoadLevel, QualityRisk
from sidecar.diagnosis.measured import Regime
from sidecar.engines.kinds import KINDS
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import CAUSES_BY_PHASE, PHASE_OF, Cause


ENGINES = tuple(
    sorted((name for name, kind in KINDS.items() if kind.flags_column), key=lambda name: KINDS[name].flags_column)
)
"""The engines whose flags are known, by their kind, in the order of the runbooks' columns."""

CHAPTERS: Mapping[str, str] = {
    Blame.QUEUE: "LLMQueueBurn",
    Blame.PREFILL: "LLMPrefillBurn",
    Blame.FIRST_TOKEN: "LLMFirstTokenBurn",
    Blame.UNATTRIBUTED: "LLMUnattributedBurn",
    Blame.DECODE: "LLMDecodeBurn",
    Blame.STREAM: "LLMStreamBurn",
    Blame.ENGINE: "LLMEngineBurn",
    SIDECAR: "LLMSidecarBurn",
}
"""Phase of a root to the runbook with its fixes."""

File = Mapping[str, Any]
"""One parsed file: `fixes` and `not_to_do`."""

OF_A_CASE = ("stronger", "weaker", "evidence", "only_if", "never_if")
"""Keys that hold signs and causes of a case."""
EXPECTATION = "expectation from how engines schedule"
"""The source of an effect that no paper and no documentation states: no measurement."""
EFFORT: Mapping[Cost, float] = {Cost.MINUTES: 1.0, Cost.RESTART: 2.0, Cost.REPLICAS: 4.0, Cost.PROJECT: 8.0}
"""The effort of each cost, over which the effect is divided. A restart empties a cache and takes minutes; a replica costs GPUs; a project
has days."""
RISK_LEAVES = 0.9
"""Share of its effect that a fix keeps that may change the answers: of equals it comes last."""
REPEATED_LEVER_LEAVES = 0.5
"""Share of its effect that a fix keeps for each fix before it that pulls the same lever."""


class Gain(NamedTuple):
    """Expected effect of a fix: the share of what a cause adds to a phase's time that the fix takes away, 0 to 1."""

    low: float
    high: float


UNKNOWN_GAIN = Gain(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Intervention:
    name: str
    fix: str
    targets: tuple[str, ...]
    cost: Cost
    works_when: str
    """A `Regime`, or `both`."""
    flags: Mapping[str, str]
    """Kind of engine to its flag."""
    effect: str | None
    after: str | None
    lever: Lever | None = None
    needs: tuple[str, ...] = ()
    """Conditions in words, or names of other fixes."""
    conflicts: tuple[str, ...] = ()
    synergies: tuple[str, ...] = ()
    """Names of other fixes, as in `conflicts`."""
    quality_risk: QualityRisk = QualityRisk.NONE
    load: str = BOTH
    """A `LoadLevel`, or `both`."""
    gains: Mapping[str, Gain] = field(default_factory=dict)
    """Target to the expected effect on it; none for a fix that only tickets advise."""
    source: str = EXPECTATION
    depends: str | None = None
    stronger: tuple[str, ...] = ()
    weaker: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()
    never_if: tuple[str, ...] = ()

    def gain(self, causes: Iterable[str]) -> Gain:
        """The range of its effect on these causes: of those it works against, else of all its targets."""
        aimed = [self.gains.get(cause, UNKNOWN_GAIN) for cause in causes if cause in self.targets]
        told = aimed or [self.gains.get(target, UNKNOWN_GAIN) for target in self.targets]
        return Gain(min(one.low for one in told), max(one.high for one in told))

    @property
    def title(self) -> str:
        """The fix, up to its first colon, semicolon or bracket."""
        return re.split(r"[:;(]", self.fix)[0].strip()

    def is_possible(self, shown: AbstractSet[str]) -> bool:
        """Whether the signs and known causes of a case leave the fix possible."""
        return not shown & {*self.never_if} and (not self.only_if or bool(shown & {*self.only_if}))

    def works_in(self, regime: Regime | None) -> bool:
        """True if the fix helps for as long as the regime lasts. An unknown regime excludes no fix."""
        return regime is None or self.works_when in (BOTH, regime.value)

    def fits(self, load: LoadLevel | None) -> bool:
        """True if the fix works at this load level. An unknown level excludes no fix."""
        return load is None or self.load in (BOTH, load.value)

    def known_to(self, engine: str | None) -> bool:
        """Whether this engine can do it: False where others have a flag for it, and this one has none."""
        return engine is None or engine not in ENGINES or not self.flags or engine in self.flags


@dataclass(frozen=True, slots=True)
class Unhelpful:
    """A non-fix: a tempting change that does not help here."""

    do: str
    why: str
    lever: Lever | None = None


@dataclass(frozen=True, slots=True)
class Chapter:
    fixes: tuple[Intervention, ...]
    """Cheapest first, as the runbook has them."""
    not_to_do: tuple[Unhelpful, ...]


@cache
def chapters() -> Mapping[str, Chapter]:
    """Runbook to its fixes and non-fixes. Reads files: not on a loop that has traffic. Raises OSError."""
    folder = files("sidecar").joinpath("diagnosis", "interventions")
    return chapters_of(
        {
            file.name.removesuffix(".yml"): read_yaml(file.read_bytes())
            for file in sorted(folder.iterdir(), key=lambda file: file.name)
            if file.name.endswith(".yml")
        }
    )


@cache
def titles() -> Mapping[str, str]:
    """Name of a fix to its title. Reads files, as `chapters` does."""
    return {fix.name: fix.title for chapter in chapters().values() for fix in chapter.fixes}


def chapters_of(said: Mapping[str, File]) -> Mapping[str, Chapter]:
    """Chapters from parsed files of the form above, by runbook."""
    named = {fix["name"]: _intervention(fix) for one in said.values() for fix in one["fixes"] if "name" in fix}
    return {
        name: Chapter(
            tuple(_meant(fix, named) for fix in one["fixes"]),
            tuple(Unhelpful(item["do"], item["why"], _lever(item)) for item in one["not_to_do"]),
        )
        for name, one in said.items()
    }


def _meant(fix: Mapping[str, Any], named: Mapping[str, Intervention]) -> Intervention:
    if "name" in fix:
        return named[fix["name"]]
    same = named[fix["same_as"]]
    if "targets" not in fix:
        return same
    return replace(same, targets=tuple(fix["targets"]), gains={**same.gains, **_gains(fix["targets"])})


def _gains(targets: Any) -> dict[str, Gain]:
    return {target: Gain(*map(float, gain)) for target, gain in targets.items()} if isinstance(targets, dict) else {}


def _lever(said: Mapping[str, Any]) -> Lever | None:
    return Lever(said["lever"]) if "lever" in said else None


def _intervention(fix: Mapping[str, Any]) -> Intervention:
    return Intervention(
        name=fix["name"],
        fix=fix["fix"],
        targets=tuple(fix["targets"]),
        cost=Cost(fix["cost"]),
        works_when=fix["works_when"],
        flags={engine: fix[engine] for engine in ENGINES if engine in fix},
        effect=fix.get("effect"),
        after=fix.get("after"),
        lever=_lever(fix),
        needs=tuple(fix.get("needs", ())),
        conflicts=tuple(fix.get("conflicts", ())),
        synergies=tuple(fix.get("synergies", ())),
        quality_risk=QualityRisk(fix.get("quality_risk", QualityRisk.NONE)),
        load=fix.get("load", BOTH),
        gains=_gains(fix["targets"]),
        source=fix.get("source", EXPECTATION),
        depends=fix.get("depends"),
        **{key: tuple(fix.get(key, ())) for key in OF_A_CASE},
    )


# --- the order -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fault with all that the order of its fixes depends on."""

    wanted: Mapping[str, float]
    """Cause to its weight: 1 for a known one, else its share of the possible ones. Empty: no cause stands out."""
    phase: str | None = None
    """A fix against this phase as such counts as aimed at each wanted cause; None where several phases are possible."""
    regime: Regime | None = None
    load: LoadLevel | None = None
    not_grown: AbstractSet[str] = frozenset()
    """Causes whose number has not grown."""
    shown: AbstractSet[str] = frozenset()
    """Signs of the case, and causes that are known."""

    def is_aimed(self, fix: Intervention) -> bool:
        """Whether the fix works against a wanted cause, or its phase as such; True of each if no cause stands out."""
        return not self.wanted or bool({*fix.targets} & {*self.wanted, *self._phases()})

    def tier(self, fix: Intervention) -> tuple[bool, bool, bool, bool, bool]:
        """Sort key before the score: what has not grown, what lacks evidence, what comes too late, what is aimed elsewhere, and projects come later."""
        targets = {*fix.targets}
        idle = targets <= self.not_grown - {*self.wanted}
        unfounded = bool(fix.evidence) and not self.shown & {*fix.evidence}
        return idle, unfounded, not fix.works_in(self.regime), not self.is_aimed(fix), fix.cost is Cost.PROJECT

    def score(self, fix: Intervention) -> float:
        """The expected effect over the effort, at least 0."""
        if not fix.fits(self.load):
            return 0.0
        on = {one: self._expected(fix.gains.get(one, UNKNOWN_GAIN), fix) for one in fix.targets}
        if self.wanted:
            value = sum(
                weight * on.get(cause, on.get(self.phase or _phase_of(cause), 0.0))
                for cause, weight in self.wanted.items()
            )
        else:
            value = sum(on.values()) / len(on)
        return value / EFFORT[fix.cost] * (RISK_LEAVES if fix.quality_risk is QualityRisk.CHECK else 1.0)

    def _phases(self) -> set[str]:
        return {_phase_of(cause) for cause in self.wanted} if self.phase is None else {self.phase}

    def _expected(self, gain: Gain, fix: Intervention) -> float:
        if self.shown & {*fix.weaker}:
            return gain.low
        return gain.high if self.shown & {*fix.stronger} else (gain.low + gain.high) / 2


def _phase_of(cause: str) -> str:
    """The phase of a cause; the text itself where it is none, as of `unattributed`."""
    return str(PHASE_OF[Cause(cause)]) if cause in {*Cause} else cause


def possible_causes(phase: str) -> tuple[Cause, ...]:
    """The causes that a phase can have as far as nothing tells. Slow tokens may be wide steps, which are load, and prompts between them,
    as well as dear steps. Few engines have GPUs for prefill alone, so no slow transfer is suspected; rejections are counted, not suspected.
    """
    own = (cause for cause in CAUSES_BY_PHASE.get(phase, ()) if cause not in {Cause.KV_TRANSFER, Cause.REJECTED})
    return (*own, *((Cause.LOAD, Cause.PROMPT_MIX) if phase == Blame.DECODE else ()))


def ordered(fixes: Iterable[Intervention], case: Case) -> list[Intervention]:
    """The fixes that the case leaves possible, best first; equals in the order given. A fix that comes too late is kept: a spike may stay."""
    left = [(case.tier(fix), case.score(fix), fix) for fix in fixes if fix.is_possible(case.shown)]
    pulled: Counter[Lever] = Counter()
    found: list[Intervention] = []
    while left:
        best = min(
            left,
            key=lambda one: (
                one[0],
                -one[1] * (REPEATED_LEVER_LEAVES ** pulled[one[2].lever] if one[2].lever else 1.0),
            ),
        )
        left.remove(best)
        found.append(best[2])
        if best[2].lever is not None:
            pulled[best[2].lever] += 1
    return found


def ranked(
    fixes: Iterable[Intervention],
    phase: str,
    causes: Iterable[Cause],
    *,
    regime: Regime | None,
    load: LoadLevel | None,
    engine: str | None,
    not_grown: AbstractSet[str] = frozenset(),
    shown: AbstractSet[str] | None = None,
) -> list[Intervention]:
    """The fixes that this engine can do, best first (`ordered`). `causes`: empty if none is known, so that each of the phase's may be it.
    `shown`: signs and known causes; None: the given causes are known, and no sign.
    """
    known = [str(cause) for cause in causes]
    wanted = known or [str(cause) for cause in possible_causes(phase)]
    case = Case(
        wanted=dict.fromkeys(wanted, 1.0 / max(len(wanted), 1)),
        phase=phase,
        regime=regime,
        load=load,
        not_grown=not_grown,
        shown={*known} if shown is None else shown,
    )
    return ordered((fix for fix in fixes if fix.known_to(engine)), case)
