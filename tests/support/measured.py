"""Input of the diagnosis: any measurement, as a Hypothesis strategy, and one lane with a verdict on its page.

It builds `Measured` values only; it knows neither how they are diagnosed nor how a diagnosis is drawn.
"""

from dataclasses import replace

from hypothesis import strategies as st

from sidecar.diagnosis.measured import CostRatio, Latency, Load, Measured, PhaseParts, PhaseTime, PodShare, Regime
from sidecar.diagnosis.verdict import RootPhase, Verdict, root_phase
from sidecar.ledger.phase_parts import PARTED, PHASE_OF_PART, REST
from sidecar.metrics.catalogue import RATIO_CAUSES
from sidecar.objectives.attribution import VOTES, Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import CAUSES_BY_PHASE, ROOT_PHASES, Cause, Per, Unknown
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize


RATIOS = tuple(map(Cause, RATIO_CAUSES))
"""Causes that have a ratio to a usual value."""


seconds = st.one_of(st.none(), st.floats(0.001, 400), st.just(float("inf")))
ratios = st.one_of(st.none(), st.floats(0, 1))
amounts = st.one_of(st.none(), st.floats(0, 5000))
latencies = st.builds(
    Latency,
    p99_seconds=seconds,
    mean_seconds=st.one_of(st.none(), st.floats(0.001, 400)),
    samples=st.one_of(st.none(), st.integers(0, 5000)),
    threshold_seconds=st.one_of(st.none(), st.floats(0.01, 60)),
    misses=st.one_of(st.none(), st.floats(0, 500)),
    burn=st.one_of(st.none(), st.floats(0, 50)),
    misses_long=st.one_of(st.none(), st.floats(0, 500)),
    burn_long=st.one_of(st.none(), st.floats(0, 50)),
)
times = st.builds(
    PhaseTime,
    mean_seconds=st.one_of(st.none(), st.floats(0, 60)),
    p99_seconds=st.one_of(st.none(), st.floats(0, 60)),
    sources=st.sampled_from([{}, {"engine": 1.0}, {"estimated": 0.7, "engine": 0.3}]),
)

parted = st.fixed_dictionaries(
    {},
    optional={
        Blame(phase.value): st.builds(
            PhaseParts,
            requests=st.floats(0.5, 5000),
            mean_seconds=st.fixed_dictionaries(
                {REST: st.floats(0, 60)},
                optional={str(part): st.floats(0, 60) for part, of in PHASE_OF_PART.items() if of is phase},
            ),
        )
        for phase in PARTED
    },
)

sizes = st.builds(
    lambda ratio, per: RootSize(Factor(ratio, 0.8 * ratio, 1.2 * ratio), per), st.floats(1.1, 20), st.sampled_from(Per)
)


@st.composite
def verdicts(draw: st.DrawFn) -> dict[Objective, Verdict]:
    found = {}
    phases = [root_phase(name) for name in ROOT_PHASES]
    for objective in draw(st.sets(st.sampled_from(list(Objective)))):
        roots = draw(st.dictionaries(st.sampled_from(phases), st.floats(0.01, 200), max_size=4))
        waited = draw(st.none() | st.sampled_from([one for one in VOTES[objective] if one is not Blame.UNATTRIBUTED]))
        found[objective] = Verdict(
            roots=roots,
            seconds=draw(st.sampled_from([None, 120.0, 300.0])),
            misses=draw(st.none() | st.floats(0, 300)),
            undecided=draw(st.floats(0.0 if roots else 0.1, 50)),
            causes={phase: draw(st.sampled_from(CAUSES_BY_PHASE.get(phase, tuple(Unknown)))) for phase in roots},
            waited_in={} if waited is None else {waited: 1.0},
            began=draw(st.dictionaries(st.sampled_from(phases), st.floats(1.7e9, 1.8e9), max_size=2)),
            shown=draw(st.dictionaries(st.sampled_from(phases), st.floats(1.7e9, 1.8e9), max_size=2)),
            confidences=draw(st.dictionaries(st.sampled_from(phases), st.floats(0, 1), max_size=2)),
            sizes=draw(st.dictionaries(st.sampled_from(RATIOS), sizes, max_size=2)),
        )
    return found


anything = st.builds(
    Measured,
    source=st.sampled_from(["sidecar", "prometheus", "hand"]),
    lane=st.sampled_from([None, "chat"]),
    model=st.sampled_from([None, "llama"]),
    window_seconds=st.sampled_from([None, 300.0]),
    ttft=latencies,
    inter_token=latencies,
    e2e=latencies,
    stall=latencies,
    phases=st.dictionaries(
        st.sampled_from([Blame(phase) for phase in ("queue", "prefill", "first_token", "decode")]), times
    ),
    phase_parts=parted,
    verdicts=verdicts(),
    ratios=st.dictionaries(st.sampled_from(RATIOS), st.floats(0, 5)),
    costs=st.sampled_from([{}, {"decode": CostRatio(2.2, 2.0, 2.4)}]),
    unknown_costs=st.sampled_from([{}, {"prefill": "few"}]),
    pods=st.sampled_from(
        [{}, {Objective.TTFT: (PodShare("a", 9.0, 0.9, 0.5, True), PodShare("b", 1.0, 0.1, 0.5, False))}]
    ),
    load=st.builds(
        Load,
        arrivals_per_second=amounts,
        prompt_mean_tokens=amounts,
        output_mean_tokens=amounts,
        waiting=amounts,
        running=amounts,
        running_peak=amounts,
        kv_usage=ratios,
        preempted=ratios,
        cached=ratios,
    ),
    engine=st.sampled_from([None, "vllm", "llama_cpp", "auto"]),
    regime=st.sampled_from([None, *Regime]),
    agreement=st.dictionaries(st.sampled_from(["queue", "prefill"]), st.floats(0, 3)),
    traffic_seen=ratios,
    unsplit=st.dictionaries(st.sampled_from(["no_report"]), st.floats(0, 1)),
    hints=st.sampled_from([(), ("--x makes y tell",)]),
)


# --- one lane with a verdict on its page ---

BROKEN = Latency(
    p99_seconds=4.0, samples=500, threshold_seconds=1.0, misses=60.0, burn=5.0, misses_long=90.0, burn_long=2.0
)
WELL = Latency(p99_seconds=0.02, samples=5000, threshold_seconds=0.08, misses=0.0, burn=0.0, burn_long=0.0)


def verdict(phase: RootPhase, cause: Cause | Unknown | None = None, votes: float = 40.0, **told: object) -> Verdict:
    """A verdict whose misses all have this root."""
    causes = {} if cause is None else {phase: cause}
    return replace(Verdict(roots={phase: votes}, seconds=300.0, misses=60.0, causes=causes), **told)  # type: ignore[arg-type]


def live(one: Verdict, **told: object) -> Measured:
    base = Measured(
        source="sidecar",
        lane="chat",
        ttft=BROKEN,
        inter_token=WELL,
        verdicts={Objective.TTFT: one},
        engine="vllm",
        load=Load(arrivals_per_second=10.0, kv_usage=0.5, cached=0.2),
    )
    return replace(base, **told)  # type: ignore[arg-type]
