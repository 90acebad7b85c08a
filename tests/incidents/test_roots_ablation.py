"""Each rule is left out by itself."""

from dataclasses import replace

from bench.incidents.job import Job
from bench.incidents.world import Mode
from bench.roots.ablation import ALL, rules
from bench.roots.verdicts import Told
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause, Unknown, root_of, unknown
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts
from sidecar.pod.reasons import Reason
from sidecar.pod.signs import Signs
from tests.incidents.made_up_cases import case_of, fired


LOADED = Signs(grown={Cause.LOAD: Factor(2.0, 1.9, 2.1)}, kv_full=True)


def told(number: int, phase: str) -> Told:
    """One run with one lane, which is broken by its queue and paged with this phase."""
    case = replace(case_of([fired(660.0, phase)]), kind=f"shape-{number}", seed=number)
    return Told(Job(f"shape-{number}", "engine", number), Mode.REPORTS, [case], [], frozenset({phase}), True, 0.0)


def test_a_decision_without_a_rule_is_made_from_the_others() -> None:
    roots = {}
    for name, make in rules().items():
        decision = make()
        decision.see(0.0, LOADED)
        weights = decision.weighed(Facts(waited_in=Blame.QUEUE)).weights
        roots[name] = max(weights, key=weights.__getitem__)

    assert roots[ALL] == roots["ratio of uncached"] == root_of(Cause.LOAD)
    assert {roots[f"reason {Reason.GROWN}"], roots["ratio of load"]} == {root_of(Cause.KV)}
    assert unknown(Unknown.UNCLEAR) not in roots.values()
