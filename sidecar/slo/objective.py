"""What was promised: for each lane and prompt length a threshold and a target, per objective (design section 7).

Knows numbers and how they are looked up. Refuses to know where they were written (`config_objectives.py`) and who keeps
them (`judge.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.ledger.account import Phase


class Objective(StrEnum):
    """What is promised: the closed set of the label `objective`."""

    TTFT = "ttft"
    """Seconds from the body's last byte to the first token, of a streamed request."""
    TPOT = "tpot"
    """Seconds per output token after the first, of a streamed request."""
    E2E = "e2e"
    """Seconds from the body's last byte to the answer's, of a request that is not streamed."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One promise: `target` of the requests within `threshold_seconds`."""

    threshold_seconds: float
    """Above 0."""
    target: float
    """A ratio between 0 and 1, both left out: 0.99 is 99 %."""

    @property
    def allowed_misses(self) -> float:
        """What one request adds to the error budget."""
        return 1.0 - self.target


TTFT_SHARES: Mapping[Phase, float] = {Phase.QUEUE: 0.28, Phase.PREFILL: 0.69, Phase.FIRST_TOKEN: 0.03}
"""How a TTFT threshold is meant to be spent (design section 7); what is held back before the sidecar has no share."""


@dataclass(frozen=True, slots=True)
class Aims:
    """What a request is held to. None: nothing is promised for that."""

    ttft: Aim | None = None
    tpot: Aim | None = None
    e2e: Aim | None = None
    shares: Mapping[Phase, float] = field(default_factory=lambda: TTFT_SHARES)
    """Phase to its share of the TTFT threshold: queue, prefill, first_token; they add up to 1."""

    def aim(self, objective: Objective) -> Aim | None:
        """The promise for one objective."""
        if objective is Objective.TTFT:
            return self.ttft
        return self.tpot if objective is Objective.TPOT else self.e2e

    def __bool__(self) -> bool:
        """Whether anything at all is promised."""
        return self.ttft is not None or self.tpot is not None or self.e2e is not None


NOTHING = Aims()


class Objectives:
    """Every promise of one config: by lane, then by prompt bucket. Replaced as a whole on reload."""

    def __init__(self, by_lane: Mapping[str, Mapping[str, Aims]] | None = None) -> None:
        """`by_lane`: lane to prompt bucket to aims; every bucket that a request can be in, `unknown` included."""
        self.by_lane = {lane: dict(buckets) for lane, buckets in (by_lane or {}).items()}

    def aims(self, lane: str, prompt_bucket: str) -> Aims:
        """What a request of this lane and length is held to; nothing where the config has nothing."""
        return self.by_lane.get(lane, {}).get(prompt_bucket, NOTHING)
