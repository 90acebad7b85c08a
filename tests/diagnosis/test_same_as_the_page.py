"""A page and a diagnosis name the same phase and the same cause: one rule, written twice, compared by promtool on many cases.

The input of the rules is given as it would be recorded (votes, evidence, faults, state), drawn at random around every
threshold; promtool evaluates the other recording rules, which must agree with `decide`.
"""

import random
import subprocess
from pathlib import Path

import yaml

from alert_rules import burn, evidence, verdict
from sidecar.diagnosis import engine_evidence as own_evidence
from sidecar.diagnosis import facts as reading
from sidecar.diagnosis.verdict import (
    COLLAPSED,
    FAULTS,
    FAULTY_SHARE,
    FEWEST_MISSES,
    FEWEST_VOTES,
    GROWN_CAUSES,
    LEAD,
    SPLIT_ENOUGH,
    WORTH_NAMING,
    Case,
    Verdict,
    decide,
)
from sidecar.slo.attribution import VOTES, Blame
from sidecar.slo.causes import NO_CAUSE, Cause
from sidecar.slo.objective import Objective
from tests.support.tools import need_tool


CASES = 250
GIVEN = (
    "pod:llm_engine_fault:cause",
    "pod:llm_engine_kv:full",
    "model:llm_engine_kv:full_ratio",
    "lane:llm_slo_misses:faulty_ratio",
    "lane:llm_slo_votes:increase5m",
    "lane:llm_slo_votes:increase30m",
    "model:llm_requests:avg1m",
    "model:llm_engine_requests:avg1m",
    "model:llm_waiting:phase",
)
"""Recorded series that the test gives in place of the rules."""


def test_the_numbers_are_the_same() -> None:
    theirs = {
        "FEWEST_MISSES": burn.FEWEST_MISSES,
        "WORTH_NAMING": evidence.WORTH_NAMING,
        "FEWEST_VOTES": verdict.FEWEST_VOTES,
        "LEAD": verdict.LEAD,
        "COLLAPSED": verdict.COLLAPSED,
        "SPLIT_ENOUGH": verdict.SPLIT_ENOUGH,
        "FAULTY_SHARE": verdict.FAULTY_SHARE,
        "PREEMPTED": verdict.PREEMPTED,
        "KV_FULL_RATIO": verdict.KV_FULL_RATIO,
    }

    assert theirs == {
        "FEWEST_MISSES": FEWEST_MISSES,
        "WORTH_NAMING": WORTH_NAMING,
        "FEWEST_VOTES": FEWEST_VOTES,
        "LEAD": LEAD,
        "COLLAPSED": COLLAPSED,
        "SPLIT_ENOUGH": SPLIT_ENOUGH,
        "FAULTY_SHARE": FAULTY_SHARE,
        "PREEMPTED": reading.PREEMPTED,
        "KV_FULL_RATIO": reading.KV_FULL_RATIO,
    }


def test_the_limits_of_a_baseline_are_the_same() -> None:
    """The rules have these two numbers only as text."""
    burns = f">= {own_evidence.DISTURBED_BURN:.0f} and"
    misses = f"increase2m >= {own_evidence.DISTURBED_MISSES:.0f})"

    assert (burns in evidence.DISTURBED.expr, misses in evidence.DISTURBED.expr) == (True, True)


def drawn(dice: random.Random) -> Case:
    """One case. Shares, ratios and votes avoid ties, because both sides may break them differently."""
    objective = dice.choice(list(Objective))
    phases = VOTES[objective]
    misses = dice.choice([0.0, 6.0, 9.9, 10.0, 40.0])
    scale = dice.choice([0.5, 2.0, 10.0])
    votes = {phase: dice.choice([0.0, dice.uniform(0.1, 3.0) * scale]) for phase in phases}
    older = {phase: count + dice.uniform(0.0, 2.0) * scale for phase, count in votes.items()}
    grown = dice.sample(list(GROWN_CAUSES), dice.choice([0, 0, 1, 3]))
    ratios = {
        which: dice.choice([WORTH_NAMING, 1.6]) if which in grown else dice.choice([1.0, 1.2]) for which in GROWN_CAUSES
    }
    if dice.random() < 0.15:
        ratios[Cause.DECODE_COST] = dice.choice([0.2, 0.3])
    state = dice.choice([{}, {Blame.QUEUE: dice.uniform(0.2, 0.9)}, {Blame.PREFILL: dice.uniform(0.55, 0.9)}])
    return Case(
        objective=objective,
        misses_5m=misses,
        misses_30m=misses + 5.0,
        votes_5m=votes,
        votes_30m=older,
        ratios=ratios,
        faulty={dice.choice(FAULTS): dice.uniform(0.1, 0.9)} if dice.random() < 0.2 else {},
        kv_full=dice.choice([0.0, 0.0, 1.0]) if objective is not Objective.TPOT else 0.0,
        waiting={phase: ratio for phase, ratio in state.items() if phase is Blame.PREFILL or ratio >= 0.5},
        longer=dice.random() < 0.3,
        kv_full_pods=dice.choice([0.0, 0.4, 0.6]),
    )


def series(number: int, case: Case) -> dict[str, float]:
    """A case as recorded series, in a namespace of its own."""
    own = f'namespace="n{number}",model="m"'
    who = f'{own},lane="l",objective="{case.objective.value}"'
    told = {
        f"lane:llm_slo_misses:increase5m{{{who}}}": case.misses_5m,
        f"lane:llm_slo_misses:increase30m{{{who}}}": case.misses_30m,
        f"model:llm_engine_kv:full_ratio{{{own}}}": case.kv_full_pods,
        **{f'lane:llm_slo_votes:increase5m{{{who},phase="{phase.value}"}}': n for phase, n in case.votes_5m.items()},
        **{f'lane:llm_slo_votes:increase30m{{{who},phase="{phase.value}"}}': n for phase, n in case.votes_30m.items()},
        **{f'lane:llm_slo_misses:faulty_ratio{{{who},cause="{of.value}"}}': n for of, n in case.faulty.items()},
        **{f'model:llm_waiting:phase{{{own},phase="{of.value}"}}': n for of, n in case.waiting.items()},
    }
    for which, ratio in case.ratios.items():
        told[f'model:llm_evidence:ratio{{{own},evidence="{which.value}"}}'] = ratio
    if case.top is not None:
        told[f'model:llm_evidence:top{{{own},evidence="{case.top.value}"}}'] = case.ratios[case.top]
    if case.longer:
        told[f'lane:llm_prompt_tokens:longer{{{own},lane="l"}}'] = 2.0
    if case.kv_full:
        told[f'pod:llm_engine_kv:full{{namespace="n{number}",pod="p"}}'] = 1.0
    return told


def judged(cases: dict[int, Case], verdicts: dict[int, Verdict], folder: Path) -> str:
    rules = [
        {"record": rule.name, "expr": rule.expr, **({"labels": dict(rule.labels)} if rule.labels else {})}
        for rule in verdict.VERDICTS
        if rule.name not in GIVEN
    ]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "verdict", "rules": rules}]}))
    inputs = [
        {"series": name, "values": f"{value:.9f}+0x12"}
        for number, case in cases.items()
        for name, value in series(number, case).items()
    ]
    inputs += [
        {
            "series": f'llm_slo_misses_total{{namespace="n{number}",model="m",lane="l",pod="p",objective="{case.objective.value}"}}',
            "values": "0+10x12",
        }
        for number, case in cases.items()
        if case.kv_full
    ]

    def expected(label: str) -> list[dict[str, object]]:
        return [
            {
                "labels": f'lane:llm_slo_verdict:{label}{{namespace="n{number}",model="m",lane="l",'
                f'objective="{cases[number].objective.value}",{label}="{getattr(one, label) or NO_CAUSE}"}}',
                "value": 1,
            }
            for number, one in verdicts.items()
        ]

    asked = [
        {"expr": f"lane:llm_slo_verdict:{label}", "eval_time": "5m", "exp_samples": expected(label)}
        for label in ("phase", "cause")
    ]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "30s",
        "tests": [{"interval": "30s", "input_series": inputs, "promql_expr_test": asked}],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(test, width=10_000))
    command = [str(need_tool("promtool")), "test", "rules", str(folder / "test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_rules_say_what_the_diagnosis_says(tmp_path: Path) -> None:
    dice = random.Random(5)
    cases = {number: drawn(dice) for number in range(CASES)}
    verdicts = {number: found for number, case in cases.items() if (found := decide(case)) is not None}

    complaint = judged(cases, verdicts, tmp_path)

    assert complaint == "", differing(complaint, cases, verdicts)
    assert {one.phase for one in verdicts.values()} == set(Blame)
    assert {one.cause for one in verdicts.values()} == {*GROWN_CAUSES, *FAULTS, Cause.KV, Cause.SLOTS, None}
    assert {one.collected for one in verdicts.values()} == {True, False}
    assert {(one.moved, one.provisional) for one in verdicts.values()} == {
        *((False, False), (False, True), (True, False), (True, True))
    }


def differing(complaint: str, cases: dict[int, Case], verdicts: dict[int, Verdict]) -> str:
    """The cases in which promtool differs, with the samples that are on one side alone."""
    lines = [line for line in complaint.splitlines() if "exp:" in line or "got:" in line]
    sides = [set(line.split("{", 1)[-1].split("}, {")) for line in lines]
    odd = [sample for left, right in zip(sides[::2], sides[1::2], strict=False) for sample in left ^ right]
    numbers = sorted({int(sample.split('namespace="n')[1].split('"')[0]) for sample in odd if 'namespace="n' in sample})
    return "\n".join(f"{n}: {cases[n]}\n  ours: {verdicts.get(n)}" for n in numbers[:5]) + "\n" + complaint[:3000]


def test_a_wrong_case_is_found(tmp_path: Path) -> None:
    """Otherwise promtool's success above would prove nothing."""
    case = Case(objective=Objective.TTFT, misses_5m=20, misses_30m=20, votes_5m={Blame.QUEUE: 20.0})
    right = decide(case)
    assert right is not None
    wrong = Verdict(phase=Blame.PREFILL, cause=None, waited_in={}, votes=20.0)

    assert judged({0: case}, {0: right}, tmp_path) == ""
    assert "FAILED" in judged({0: case}, {0: wrong}, tmp_path)
