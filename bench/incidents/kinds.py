"""Table of all kinds of incidents: their sampler, their names and the true phases, by which pages are graded.

It knows faults and their names. It refuses to know the product's verdicts: the labels here were written down before any
rule was run, with a reason for each set of more than one phase.

*Root* is the injected fault, as the phase of the owners who can mend it. Several phases are right in these cases:

- More load, or longer answers, fill the batch and then the queue. Slow tokens are then due to queue and to decode, as
  both describe the same cause: for TPOT both count.
- An unstreamed answer has one latency, in which queue and a fuller batch add up: under load queue and decode count.
- A KV pool that ran full while requests waited is a lack of engine memory and the reason for the queue: then, if the
  simulator shows this, `engine` counts besides queue.
- A slower prefill makes steps longer, and so the tokens of all streams; an unstreamed answer consists mostly of them.
  For TPOT and E2E, decode and prefill count.
- A slow decode keeps slots for longer and shares steps with prompts: for TTFT, queue and decode count.
- A slow front end is `first_token` for streamed answers. The ledger of unstreamed answers has no such phase, so there
  it is `unattributed`.
- A hop that buffers tokens does not affect unstreamed answers.
- A new process is an engine event, and its cold cache and first steps make prefill slow: engine and prefill count.
- Long prompts are prefill in their own lane, and queue in the others.
- With two faults at once, the phases of either fault count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.incidents import sampling
from bench.incidents.sampling import Sampler


Labels = frozenset[str]
Roots = Mapping[str, Labels]
"""Objective to its right phases."""


def _roots(ttft: str, tpot: str, e2e: str) -> Roots:
    """Roots from text: the phases of each objective, separated by spaces."""
    return {name: frozenset(phases.split()) for name, phases in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e))}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident and its truth."""

    name: str
    says: str
    """Description of the incident in words."""
    sample: Sampler
    roots: Roots
    own_lane: Mapping[str, Roots] = field(default_factory=dict)
    """Lane to its own roots; all other lanes have `roots`."""
    kv: bool = False
    """`engine` counts too if the KV pool really ran full while requests waited."""
    front_end: bool = False
    """The estimator cannot see it, so it is left out of the bounds without reports."""

    def root(self, lane: str, objective: str, *, kv_ran_full: bool) -> Labels:
        """The phases that are right for one lane and objective."""
        labels = self.own_lane.get(lane, self.roots)[objective]
        return labels | {"engine"} if self.kv and kv_ran_full else labels


_LOAD = _roots("queue", "decode queue", "queue decode")
_PREFILL = _roots("prefill", "decode prefill", "prefill decode")
_ENGINE = _roots("engine", "engine", "engine")
_STREAM = _roots("stream", "stream", "stream")
_INTERFERENCE = _roots("queue", "decode", "queue decode")
_EITHER = _roots("", "", "")

KINDS = (
    Kind("burst", "arrivals multiply for minutes", sampling.burst, _LOAD, kv=True),
    Kind("overload", "arrivals grow and stay high", sampling.overload, _LOAD, kv=True),
    Kind("long-outputs", "answers grow and keep their slots", sampling.long_outputs, _LOAD, kv=True),
    Kind(
        "prompts-beyond-kv",
        "prompts grow: max-batch is too high for the KV cache",
        sampling.prompts_beyond_kv,
        _LOAD,
        kv=True,
    ),
    Kind("few-slots", "max-batch is set too low", sampling.few_slots, _LOAD),
    Kind(
        "long-tail",
        "very long prompts arrive in the batch lane",
        sampling.long_tail,
        _roots("queue", "decode", "queue decode prefill"),
        own_lane={"batch": _roots("prefill", "decode", "queue decode prefill")},
    ),
    Kind("cache-lost", "shared beginnings of prompts are no longer cached", sampling.cache_lost, _PREFILL),
    Kind("prefill-slow", "prompts take longer to compute", sampling.prefill_slow, _PREFILL),
    Kind(
        "interference",
        "many more prompts with very short answers, which share the steps of decodes",
        sampling.interference,
        _INTERFERENCE,
    ),
    Kind(
        "decode-slow",
        "decoding takes longer (bandwidth, placement)",
        sampling.decode_slow,
        _roots("queue decode", "decode", "decode queue"),
    ),
    Kind(
        "preemption",
        "running requests are thrown out of a full KV pool",
        sampling.preemption,
        _roots("engine queue", "engine", "engine queue"),
    ),
    Kind("crash", "the engine dies and comes back", sampling.crash, _ENGINE),
    Kind("hang", "no step ends for a while", sampling.hang, _ENGINE),
    Kind(
        "cold-start",
        "a new process takes over at full traffic",
        sampling.cold_start,
        _roots("engine prefill", "engine decode prefill", "engine prefill"),
    ),
    Kind("slow-clients", "clients of one lane read slower than tokens come", sampling.slow_clients, _STREAM),
    Kind("hop", "something between engine and sidecar collects tokens", sampling.hop, _STREAM),
    Kind(
        "tokeniser",
        "the serial front end is slow",
        sampling.tokeniser,
        _roots("first_token", "first_token decode", "first_token unattributed"),
        front_end=True,
    ),
    Kind("noisy-tenant", "one lane's arrivals multiply", sampling.noisy_tenant, _LOAD, kv=True),
    Kind("two-faults", "two of the above at once; a phase that is right for either is right", sampling.two, _EITHER),
)
BY_NAME = {kind.name: kind for kind in KINDS}
