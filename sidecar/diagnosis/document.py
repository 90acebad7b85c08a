"""A diagnosis as JSON: the answer of `/diagnosis` and of `--output=json`. The schema is in docs/diagnosis.md.

Members of a closed set are written as their own text. An unknown number is null or absent, and never 0. Infinity, which
JSON does not have, is the string `+Inf`, as in Prometheus.
"""

from collections.abc import Iterable
from dataclasses import asdict
from math import isinf
from typing import Any

from sidecar.accounts.slowest import SlowestRequests
from sidecar.diagnosis.findings import Diagnosis, Number, Step
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import worst_first
from sidecar.diagnosis.verdict import Verdict


DOWN_RUNBOOK = "LLMEngineDown"
"""Runbook for an engine that fails its health checks."""
DOCUMENT_VERSION = 3
"""Version of the schema. A new key does not change it; a key that is removed or changes its meaning does."""


def document(
    diagnoses: Iterable[Diagnosis], down: Iterable[EngineDown] = (), slowest: SlowestRequests | None = None
) -> dict[str, Any]:
    """The whole document, with the lane that a person should read about first. `down`: engines that are down or stalled now, also if no lane had a request. `slowest`: only a sidecar
    knows its slowest requests, a Prometheus does not.
    """
    return {
        "schema_version": DOCUMENT_VERSION,
        "engines_down": [_down(engine) for engine in down],
        "diagnoses": [one(diagnosis) for diagnosis in worst_first(diagnoses)],
        "slowest": None if slowest is None else asdict(slowest),
    }


def _down(engine: EngineDown) -> dict[str, Any]:
    return {**asdict(engine), "pods": list(engine.pods), "runbook": DOWN_RUNBOOK}


def one(d: Diagnosis) -> dict[str, Any]:
    m = d.measured
    return {
        "source": m.source,
        "namespace": m.namespace,
        "job": m.job,
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
        "size": None if d.size is None else d.size.as_json(),
        "reason": d.reason,
        "since_timestamp_seconds": d.since_at,
        "shown_timestamp_seconds": d.shown_at,
        "confidence": d.confidence,
        "because": list(d.because),
        "evidence": list(d.evidence),
        "changes": list(d.changes),
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
            "phase_parts": {phase: asdict(parts) for phase, parts in m.phase_parts.items()},
            "verdicts": {of: _verdict(verdict) for of, verdict in m.verdicts.items()},
            "rejected": m.rejected,
            "own_rejections": m.own_rejections,
            "evidence_ratios": dict(m.ratios),
            "engine_costs": {part: cost._asdict() for part, cost in m.costs.items()},
            "pods": {of: [pod._asdict() for pod in pods] for of, pods in m.pods.items()},
            "load": asdict(m.load),
            "report_agreement": dict(m.agreement),
            "traffic_seen": m.traffic_seen,
            "unsplit": dict(m.unsplit),
        },
        "hints": list(m.hints),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "window_seconds": verdict.seconds,
        "misses": verdict.misses,
        "roots": dict(verdict.roots),
        "undecided": verdict.undecided,
        "phase": verdict.phase,
        "cause": verdict.cause,
        "confidence": verdict.confidence,
        "waited_in": dict(verdict.waited_in),
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
        "judged": latency.judged,
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
        "expect": {"low": step.gain.low, "high": step.gain.high, "source": what.source},
        "told": step.told,
        "effect": what.effect,
        "after": list(step.after),
        "depends": what.depends,
        "lever": what.lever,
        "needs": list(what.needs),
        "conflicts": list(what.conflicts),
        "not_with": list(step.not_with),
        "synergies": list(what.synergies),
        "quality_risk": what.quality_risk,
        "load": what.load,
    }


def _finite(value: float | None) -> float | str | None:
    return "+Inf" if value is not None and isinf(value) else value
