"""Input of the diagnosis: any measurement, as a Hypothesis strategy, and one lane with a verdict on its page.

It builds `Measured` values only; it knows neither how they are diagnosed nor how a diagnosis is drawn.
"""

from dataclasses import replace

from hypothesis import strategies as st

from sidecar.diagnosis.measured import Latency, Load, Measured, PhaseTime, Regime
from sidecar.diagnosis.verdict import GROWN_CAUSES, Verdict
from sidecar.slo.attribution import VOTES, Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


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


@st.composite
def verdicts(draw: st.DrawFn) -> dict[Objective, Verdict]:
    found = {}
    for objective in draw(st.sets(st.sampled_from(list(Objective)))):
        phase = draw(st.sampled_from(VOTES[objective]))
        found[objective] = Verdict(
            phase=phase,
            cause=draw(st.none() | st.sampled_from(list(Cause))),
            waited_in={} if phase is Blame.UNATTRIBUTED else {phase: 1.0},
            votes=draw(st.floats(0, 100)),
            provisional=draw(st.booleans()),
            moved=draw(st.booleans()),
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
    phases=st.dictionaries(
        st.sampled_from([Blame(phase) for phase in ("queue", "prefill", "first_token", "decode")]), times
    ),
    verdicts=verdicts(),
    ratios=st.dictionaries(st.sampled_from(list(GROWN_CAUSES)), st.floats(0, 5)),
    baseline=st.booleans(),
    load=st.builds(
        Load,
        arrivals_per_second=amounts,
        prompt_mean_tokens=amounts,
        output_mean_tokens=amounts,
        waiting=amounts,
        running=amounts,
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


def verdict(phase: Blame, cause: Cause | None = None, votes: float = 40.0, **told: bool) -> Verdict:
    return Verdict(phase=phase, cause=cause, waited_in={phase: 1.0}, votes=votes, **told)


def live(one: Verdict, **told: object) -> Measured:
    base = Measured(
        source="sidecar",
        lane="chat",
        ttft=BROKEN,
        inter_token=WELL,
        verdicts={Objective.TTFT: one},
        baseline=True,
        engine="vllm",
        load=Load(arrivals_per_second=10.0, kv_usage=0.5, cached=0.2),
    )
    return replace(base, **told)  # type: ignore[arg-type]
