"""The five incidents whose first screen is drawn: each phase's own, on two pods, in the bench's virtual time.

Knows what is injected, where and when. Refuses to know what the product makes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from bench.incidents.engines import BY_NAME as ENGINES
from bench.incidents.engines import EngineConfig
from bench.incidents.kinds import BY_NAME as KINDS
from bench.incidents.play import load_factor, play
from bench.incidents.request import Run
from bench.incidents.world import World
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause


ENGINE = "chunks-2048"
SEED = 11
PODS = 2
LOOK_AFTER_SECONDS = 420.0
"""From the injection to the look at the first screen."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One incident and its truth."""

    kind: str
    """Its name in the bench's table."""
    phase: str
    causes: frozenset[str]
    magnitude: float
    """0: objectives are barely missed; 1: by far."""
    at_fault: int
    """Pods that it hits: the first ones."""


INCIDENTS: Mapping[str, Broken] = {
    "queue": Broken("few-slots", Blame.QUEUE.value, frozenset({Cause.SLOTS.value}), 0.9, 2),
    "prefill": Broken("prefill-slow", Blame.PREFILL.value, frozenset({Cause.PREFILL_COST.value}), 0.9, 1),
    "decode": Broken("decode-slow", Blame.DECODE.value, frozenset({Cause.DECODE_COST.value}), 0.9, 2),
    "stream": Broken("slow-clients", Blame.STREAM.value, frozenset({Cause.CLIENT.value}), 0.9, 2),
    "engine": Broken("crash", Blame.ENGINE.value, frozenset({Cause.DOWN.value, Cause.RESTART.value}), 0.9, 1),
}
"""Keyed by the phase that is truly at fault."""


def pod_name(number: int) -> str:
    """As a Deployment calls its pods: 35 characters, of which they differ in the last five."""
    return f"llama-70b-instruct-7d9f8c6b5d-x7k{number}p"


def played(name: str) -> tuple[EngineConfig, Run]:
    """The engine and the run of one incident, until the look. The same name gives the same run."""
    broken, engine = INCIDENTS[name], ENGINES[ENGINE]
    factor = load_factor(SEED)
    incident = KINDS[broken.kind].sample(engine, factor, broken.magnitude, Random(f"{SEED}/{broken.kind}"))
    run = play(engine, SEED, incident, world=World(pods=PODS, at_fault=broken.at_fault))
    until = run.fault_at + LOOK_AFTER_SECONDS
    run.requests = [request for request in run.requests if request.received_at < until]
    run.states = [state for state in run.states if state.at < until]
    run.ends_at = until
    return engine, run
