"""The numbers that a verdict lacks, and the questions that would change its order: which of `questions.yml` apply.

This module knows the conditions. The texts are in the data file.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis import bound
from sidecar.diagnosis.findings import Missing, Number, Question, State
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import BEFORE_THE_FIRST_TOKEN, RootPhase, Verdict
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause


FEWEST_SAMPLES = 20
"""First tokens, or requests judged by any objective, that a diagnosis without a verdict needs."""
CONTRADICTION = 1.5
"""Ratio of a part to its whole above which different populations and bucket edges no longer explain it."""
REPORTS_AGREE = (0.5, 2.0)
"""Range of reported over counted seconds in which a verdict may rest on either."""
SEEN_ENOUGH = 0.5
"""Share of the engine's requests that the sidecar must see."""


@cache
def questions() -> Mapping[str, Question]:
    """All questions by name. Reads a file."""
    said: dict[str, Any] = read_yaml(files("sidecar").joinpath("diagnosis", "questions.yml").read_text("utf-8"))
    return {name: Question(**one) for name, one in said.items()}


def missing(measured: Measured, verdict: Verdict | None, *, missed: bool = False) -> tuple[Missing, ...]:
    """The reasons for a refusal; empty if an answer is possible.

    `verdict`: of the objective that is broken. A decided miss needs no split of its time, and no further samples, so nothing
    that pages is refused. `missed`: an objective is broken by its misses, which need no further samples.
    """
    if verdict is not None and verdict.roots:
        return ()
    return tuple(_disagreements(measured) or ([] if missed else _too_little(measured)))


def _disagreements(m: Measured) -> list[Missing]:
    found = []
    ttft, e2e = m.ttft.p99_seconds, m.e2e.p99_seconds
    parts = [phase.p99_seconds for of, phase in m.phases.items() if of in BEFORE_THE_FIRST_TOKEN]
    if ttft is not None and m.source == "hand":
        if e2e is not None and ttft > CONTRADICTION * e2e:
            found.append(f"a time to first token of {ttft:g} s in requests of {e2e:g} s")
        found += [
            f"a part of {part:g} s in a time to first token of {ttft:g} s"
            for part in parts
            if part is not None and part > CONTRADICTION * ttft
        ]
    low, high = REPORTS_AGREE
    found += [
        f"requests report {ratio:.0%} of the {phase} that the engine counts"
        for phase, ratio in m.agreement.items()
        if not low <= ratio <= high and (m.traffic_seen is None or m.traffic_seen >= SEEN_ENOUGH)
    ]
    missed = [Missing(f"Sources disagree: {what}", questions()["agreement"].how) for what in found]
    if m.traffic_seen is not None and m.traffic_seen < SEEN_ENOUGH:
        missed.append(
            Missing(f"The sidecar saw {m.traffic_seen:.0%} of the engine's requests", questions()["bypass"].how)
        )
    return missed


def _too_little(m: Measured) -> list[Missing]:
    if m.source == "hand":
        told = {"ttft": m.ttft.p99_seconds, "inter_token": m.inter_token.p99_seconds}
        return [Missing(questions()[name].ask, questions()[name].how) for name, p99 in told.items() if p99 is None]
    samples = m.ttft.samples or 0
    if not m.load.arrivals_per_second and not samples:
        return [Missing("No request within the window", questions()["traffic"].how, few_samples=True)]
    if max(latency.judged or 0.0 for latency in (m.ttft, m.inter_token, m.e2e, m.stall)) >= FEWEST_SAMPLES:
        # An objective of the lane's own was judged, whatever the other latencies lack.
        return []
    if not samples and not m.ttft.judged and m.e2e.misses is not None and m.e2e.judged != 0:
        # No answer is streamed here: whole answers have an objective of their own.
        return []
    # Only a Prometheus can be asked for a longer window.
    more = questions()["samples" if m.source == "prometheus" else "samples_here"].how
    if samples < FEWEST_SAMPLES:
        return [
            Missing(
                f"Only {samples} first tokens within the window; {FEWEST_SAMPLES} are the least", more, few_samples=True
            )
        ]
    if not m.inter_token.samples and not m.by_spans:
        return [
            Missing(
                "No gap between tokens within the window, so one of the two latencies is unknown",
                questions()["no_gap"].how,
                few_samples=True,
            )
        ]
    return []


def open_questions(
    m: Measured,
    first: Objective,
    phase: RootPhase,
    cause: Cause | None,
    numbers: Mapping[Objective, Number],
) -> tuple[Question, ...]:
    """Questions whose answers would change the order of the steps, most important first."""
    hand = m.source == "hand"
    told = {of for of, time in m.phases.items() if time.p99_seconds is not None or time.mean_seconds is not None}
    before = first is Objective.TTFT
    both = all(numbers[of].state is State.BROKEN for of in (Objective.TTFT, Objective.TPOT))
    asked = {
        # After a restart, or a process killed for memory, all other numbers are symptoms. An overload explains both numbers.
        "memory": hand and both and (bound.load(m) or 0.0) <= 1.0,
        "queue_wait": before and phase == Blame.UNATTRIBUTED and Blame.QUEUE not in told,
        "rate_scope": before and (bound.load(m) or 0.0) > 1.0,
        "prefill_time": before and hand and phase == Blame.PREFILL and Blame.PREFILL not in told,
        "split": not hand and not m.verdicts and phase == Blame.UNATTRIBUTED,
        "baseline": not hand and not m.ratios and phase == Blame.QUEUE,
        "slow_readers": hand and phase == Blame.DECODE,
        "quiet_gap": hand and phase == Blame.DECODE,
        "kv_usage": phase in (Blame.QUEUE, Blame.UNATTRIBUTED) and before and m.load.kv_usage is None,
        "cached": phase in (Blame.PREFILL, Blame.UNATTRIBUTED) and before and m.load.cached is None,
        "regime": m.regime is None and cause is not Cause.DOWN,
        "thresholds": any(one.latency.threshold_assumed for one in numbers.values() if one.state is not State.UNKNOWN),
        "engine": m.engine is None,
    }
    return tuple(questions()[name] for name, applies in asked.items() if applies)
