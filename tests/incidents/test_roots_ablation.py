"""Each rule is left out by itself, and what is lost is told lane by lane."""

from dataclasses import replace

from bench.incidents.job import Job
from bench.incidents.world import Mode
from bench.roots.ablation import ALL, rules, table
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


def test_what_is_lost_is_the_mean_over_lanes_beside_themselves() -> None:
    """One of two lanes is right with all rules alone; a rule that changes nothing loses nothing."""
    grown = f"reason {Reason.GROWN}"
    parts = [
        {name: [told(number, "prefill" if name == grown and number else "queue")] for name in rules()}
        for number in (0, 1)
    ]

    lines = {line[:36].strip(): line[36:].split() for line in table(parts).splitlines()}

    assert lines[grown] == ["+50.0", "[+0.0,", "+100.0]", "of", "2", "+50.0"]
    assert lines["ratio of load"] == ["+0.0", "[+0.0,", "+0.0]", "of", "2", "+0.0"]
    assert list(lines)[1] == grown, "the costliest comes first"
