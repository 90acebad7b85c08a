"""The world around one run: everything that makes it unkind although nothing is broken.

Noise, odd lengths, late or merged reads, the number of pods and the way an engine is built are the same with and
without the fault: they are drawn from the seed before the incident is. It knows the ranges and their reasons. It
refuses to know incidents (`kinds.py`) and how a world is played (`play.py`, `wire.py`, `product.py`).
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Mode(StrEnum):
    """The information that the product gets from the engine of a run."""

    REPORTS = "reports"
    """A report for almost every request, usage with cached tokens, and the engine's metrics."""
    ESTIMATOR = "estimator"
    """No report; usage with cached tokens, and the engine's metrics."""
    BLIND = "blind"
    """No report, no cached tokens, no metrics of the engine: only its bytes and its health check."""


class Topology(StrEnum):
    """How the engine behind one port is built."""

    ONE = "one"
    """One scheduler, one model."""
    RANKS = "ranks"
    """Two data-parallel ranks: two schedulers that answer in turn. A fault hits both."""
    MODELS = "models"
    """Two models with a scheduler each; the lane `batch` asks the second one."""
    PIPELINE = "pipeline"
    """Two micro-batches in flight: the steps of one overlap the steps of the other."""
    DISAGGREGATED = "disaggregated"
    """Prompts are computed by one scheduler and decoded by another; the KV cache is transferred between them."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """A CPU quota: a process runs for the first `run_seconds` of each period, and stands still for the rest."""

    run_seconds: float
    period_seconds: float = 0.1
    """The kernel's default period of a cgroup."""


@dataclass(frozen=True, slots=True)
class World:
    """The defaults are the kindest world: one pod, no noise, each event in a read of its own."""

    utilisation: float | None = None
    """Load before the fault as a share of the load at which the queue grows without bound; None: the seed's load
    factor (`play.load_factor`), which is at most 0.58 of it."""
    step_noise: float = 0.0
    """Standard deviation of the logarithm of each step's length."""
    length_sigma: float | None = None
    """Standard deviation of the logarithm of lengths; None: lengths are uniform in the lane's spread."""
    coalesced: float = 0.0
    """Share of events, 0 to 1, that are read together with the next one."""
    throttle: Throttle | None = None
    """CPU quota of the sidecar, mild enough that no objective is missed because of it."""
    stream_interval: int = 1
    """Tokens in each event after the first."""
    tokens_a_step: float = 1.0
    """Mean tokens that a sequence gets in each decode step (speculative decoding); 1: no speculation."""
    estimated_lengths: bool = False
    """The product estimates each prompt's tokens from its bytes until usage states them, instead of knowing them."""
    topology: Topology = Topology.ONE
    herd: int = 1
    """Number of usual requests of a lane that come within `HERD_SECONDS`: an agent's calls, or a nightly job's. The rates stay."""
    lunch: bool = False
    """Whether the load rises to its highest in the quarter of an hour before the fault, and in the minutes after it."""
    pods: int = 1
    at_fault: int = 1
    """Number of pods that the fault hits: the first ones."""
    sidecar_restarts_after_seconds: float | None = None
    """The sidecar of every pod that is at fault restarts so many seconds after the fault began; None: none restarts."""

    def __post_init__(self) -> None:
        if not 1 <= self.at_fault <= self.pods:
            raise ValueError("at least one pod is at fault, and at most all")


HERD_SECONDS = 0.5
KIND_WORLD = World()
"""The world of the bench before November 2026: kinder than any real one."""

FLEETS = ((1, 1), (1, 1), (1, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (4, 2), (4, 4), (8, 1), (16, 1))
"""Numbers of pods, and of those that are at fault: one, half or all. A third has one pod, as most tests have."""


def unkind_world(seed: int | str) -> World:
    """The world that a seed draws. Each unkindness is drawn by itself, so that seeds combine them."""
    rng = Random(f"{seed}/world")
    pods, at_fault = rng.choice(FLEETS)
    topology = rng.choice((Topology.ONE,) * 6 + tuple(each for each in Topology if each is not Topology.ONE))
    return World(
        utilisation=rng.uniform(0.3, 0.9),
        step_noise=rng.choice((0.0, 0.05, 0.12, 0.2)),
        length_sigma=rng.choice((None, 0.4, 0.7)),
        coalesced=rng.choice((0.0, rng.uniform(0.0, 0.3))),
        throttle=rng.choice((None, None, None, Throttle(0.06))),
        stream_interval=rng.choice((1, 1, 1, 1, 4, 10)),
        tokens_a_step=rng.choice((1.0, 1.0, 1.0, 1.8, 2.6)) if topology is not Topology.DISAGGREGATED else 1.0,
        estimated_lengths=rng.random() < 0.7,
        topology=topology,
        pods=pods,
        at_fault=at_fault,
        sidecar_restarts_after_seconds=rng.uniform(60.0, 400.0) if rng.random() < 0.06 else None,
    )
