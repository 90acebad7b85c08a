"""A diagnosis as JSON: what `/diagnosis` answers and `--output=json` prints. The schema stands in docs/diagnosis.md.

Knows keys; members of a closed set are their own text. What is unknown is null or absent, and never 0. Infinity, which
JSON has not, is the string `+Inf`, as in Prometheus.
"""

from collections.abc import Iterable
from dataclasses import asdict
from math import isinf
from typing import Any

from sidecar.diagnosis.findings import Diagnosis, Number, Step
from sidecar.diagnosis.interventions import CHAPTERS


DOCUMENT_VERSION = 1
"""Of the schema. New keys may come without another; a key that goes, or changes its meaning, makes another."""


def document(diagnoses: Iterable[Diagnosis]) -> dict[str, Any]:
    return {"schema_version": DOCUMENT_VERSION, "diagnoses": [one(diagnosis) for diagnosis in diagnoses]}


def one(d: Diagnosis) -> dict[str, Any]:
    m = d.measured
    return {
        "source": m.source,
        "namespace": m.namespace,
        "model": m.model,
        "lane": m.lane,
        "window_seconds": m.window_seconds,
        "engine": m.engine,
        "outcome": d.outcome,
        "time_to_first_token": _number(d.ttft),
        "inter_token": _number(d.inter_token),
        "first": d.first,
        "phase": d.phase,
        "candidates": list(d.candidates),
        "cause": d.cause,
        "confidence": d.confidence,
        "because": list(d.because),
        "evidence": list(d.evidence),
        "second": None if d.second is None else asdict(d.second),
        "regime": d.regime,
        "steps": [_step(step) for step in d.steps],
        "not_to_do": [asdict(item) for item in d.not_to_do],
        "questions": [asdict(question) for question in d.questions],
        "missing": [asdict(missing) for missing in d.missing],
        "runbook": None if d.phase is None else CHAPTERS[d.phase],
        "measured": {
            "phases": {
                phase: {
                    "mean_seconds": _finite(time.mean_seconds),
                    "p99_seconds": _finite(time.p99_seconds),
                    "sources": dict(time.sources),
                }
                for phase, time in m.phases.items()
            },
            "verdicts": {of: asdict(verdict) for of, verdict in m.verdicts.items()},
            "evidence_ratios": dict(m.ratios),
            "load": asdict(m.load),
            "report_agreement": dict(m.agreement),
            "traffic_seen": m.traffic_seen,
            "unsplit": dict(m.unsplit),
        },
        "hints": list(m.hints),
    }


def _number(number: Number) -> dict[str, Any]:
    latency = number.latency
    return {
        "p99_seconds": _finite(latency.p99_seconds),
        "p50_seconds": _finite(latency.p50_seconds),
        "mean_seconds": _finite(latency.mean_seconds),
        "samples": latency.samples,
        "threshold_seconds": latency.threshold_seconds,
        "threshold_assumed": latency.threshold_assumed,
        "state": number.state,
        "over": _finite(number.over),
        "misses": latency.misses,
        "burn": latency.burn,
    }


def _step(step: Step) -> dict[str, Any]:
    what = step.what
    return {
        "name": what.name,
        "do": what.fix,
        "phase": step.phase,
        "targets": list(what.targets),
        "cost": what.cost,
        "works_when": what.works_when,
        "flag": step.flag,
        "flags": dict(what.flags),
        "effect": what.effect,
        "after": list(step.after),
        "lever": what.lever,
        "needs": list(what.needs),
        "conflicts": list(what.conflicts),
        "synergies": list(what.synergies),
        "quality_risk": what.quality_risk,
        "load": what.load,
    }


def _finite(value: float | None) -> float | str | None:
    return "+Inf" if value is not None and isinf(value) else value
