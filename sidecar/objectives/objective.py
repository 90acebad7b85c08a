"""Objectives: for each lane and prompt length a threshold and a target, per objective (design section 7).

Knows the numbers and how they are looked up. Refuses to know where they come from (`config/objectives.py`) and whether
requests meet them (`judge.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.ledger.account import Phase


class Objective(StrEnum):
    """The closed set of the label `objective`."""

    TTFT = "ttft"
    """Seconds from the body's last byte to the first token, of a streamed request."""
    TPOT = "tpot"
    """Seconds per output token after the first, of a streamed request."""
    E2E = "e2e"
    """Seconds from the body's last byte to the answer's, of a request that is not streamed."""
    STALL = "stall"
    """Seconds of the longest gap between outputs of a streamed answer, without the time in which its client did not read."""


TTFT, TPOT, E2E, STALL = Objective.TTFT, Objective.TPOT, Objective.E2E, Objective.STALL
"""The same four, for code that runs for each request: Python 3.11 takes ten times as long to find `Objective.TTFT`."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One objective's numbers: the ratio `target` of the requests must take at most `threshold_seconds`."""

    threshold_seconds: float
    """Above 0."""
    target: float
    """A ratio between 0 and 1, both excluded: 0.99 is 99 %."""
    allowed_misses: float = field(init=False, repr=False, compare=False)
    """Error budget that one request adds: 1 - target, a ratio."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed_misses", 1.0 - self.target)


TTFT_SHARES: Mapping[Phase, float] = {Phase.QUEUE: 0.28, Phase.PREFILL: 0.69, Phase.FIRST_TOKEN: 0.03}
"""Share of a TTFT threshold that each phase may use (design section 7). Output held back has no share."""


@dataclass(frozen=True, slots=True)
class Aims:
    """The objectives of one request. None: it has no such objective."""

    ttft: Aim | None = None
    tpot: Aim | None = None
    e2e: Aim | None = None
    shares: Mapping[Phase, float] = field(default_factory=lambda: TTFT_SHARES)
    """Phase to its share of the TTFT threshold: queue, prefill, first_token; they add up to 1."""
    stall: Aim | None = None

    def aim(self, objective: Objective) -> Aim | None:
        if objective is TTFT:
            return self.ttft
        if objective is TPOT:
            return self.tpot
        return self.e2e if objective is E2E else self.stall

    def __bool__(self) -> bool:
        return self.ttft is not None or self.tpot is not None or self.e2e is not None or self.stall is not None


NO_AIMS = Aims()


class Objectives:
    """All objectives of one config: by lane, then by prompt bucket. Replaced as a whole on reload."""

    def __init__(
        self,
        by_lane: Mapping[str, Mapping[str, Aims]] | None = None,
        encodes: Mapping[str, Aim] | None = None,
        unknown: Iterable[str] = (),
    ) -> None:
        """`by_lane`: lane to prompt bucket to aims, for every bucket that a request can be in, `unknown` included. `encodes`: lane to
        the E2E objective of embeddings, reranking and the like, for lanes that have one. `unknown`: lanes whose config gives prompts of
        unknown length thresholds of their own.
        """
        self.by_lane = {lane: dict(buckets) for lane, buckets in (by_lane or {}).items()}
        self.encodes = dict(encodes or {})
        self.unknown = frozenset(unknown)

    def aims(self, lane: str, prompt_bucket: str) -> Aims:
        """The objectives of a request of this lane and length; NO_AIMS if the config has none."""
        buckets = self.by_lane.get(lane)
        return NO_AIMS if buckets is None else buckets.get(prompt_bucket, NO_AIMS)
