"""Every kind of incident: what changes, how much of it a seed draws, and what is truly wrong. The table that pages are graded by.

It knows faults and their names. It refuses to know what the product says of them: the labels here were written down before any
rule was run, with the reason beside each set that has more than one.

*Root* is the fault that was put in, as the phase whose owners can mend it. Where two phases are both right, both stand there:

- More load, or longer answers, fill the batch and then the queue: that slow tokens are then the queue's or the decode's doing are two
  sentences about one cause, so for TPOT both count.
- An unstreamed answer is one number, in which waiting and a fuller batch add up: queue and decode both count under load.
- A KV pool that ran full while requests waited is the engine's memory and the queue's reason: where the simulator says that it was
  so, `engine` counts beside queue.
- A slower prefill makes steps longer, and so every stream's tokens, and an unstreamed answer is mostly that: TPOT and E2E name
  decode or prefill.
- A slow decode keeps slots for longer and shares steps with prompts: a TTFT miss is then queue or decode.
- A slow front end is `first_token` where the answer is streamed; where it is not, the ledger has no such phase: `unattributed`.
- A hop that collects tokens is no hop of unstreamed answers.
- A new process is an engine event, and its cold cache and first steps are slow prefills: engine or prefill.
- Long prompts are prefill in their own lane. In the others they are the queue.
- Two faults at once: either.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.incidents import draws
from bench.incidents.draws import Draw


Labels = frozenset[str]
Roots = Mapping[str, Labels]
"""Objective to the phases that are right for it."""


def _roots(ttft: str, tpot: str, e2e: str) -> Roots:
    """Each a list of phases, with spaces."""
    return {name: frozenset(phases.split()) for name, phases in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e))}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident and its truth."""

    name: str
    says: str
    """What happens."""
    draw: Draw
    roots: Roots
    own_lane: Mapping[str, Roots] = field(default_factory=dict)
    """Lane to labels of its own."""
    kv: bool = False
    """`engine` counts too where the KV pool truly ran full while requests waited."""
    front_end: bool = False
    """The estimator cannot see it, and nobody promised that it would."""

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
    Kind("burst", "arrivals multiply for minutes", draws.burst, _LOAD, kv=True),
    Kind("overload", "arrivals grow, and stay", draws.overload, _LOAD, kv=True),
    Kind("long-outputs", "answers grow and keep their slots", draws.long_outputs, _LOAD, kv=True),
    Kind(
        "prompts-beyond-kv",
        "prompts grow: max-batch is too high for the KV cache",
        draws.prompts_beyond_kv,
        _LOAD,
        kv=True,
    ),
    Kind("few-slots", "max-batch is set too low", draws.few_slots, _LOAD),
    Kind(
        "long-tail",
        "very long prompts arrive in the batch lane",
        draws.long_tail,
        _roots("queue", "decode", "queue decode prefill"),
        own_lane={"batch": _roots("prefill", "decode", "queue decode prefill")},
    ),
    Kind("cache-lost", "shared beginnings of prompts are no longer cached", draws.cache_lost, _PREFILL),
    Kind("prefill-slow", "prompts take longer to compute", draws.prefill_slow, _PREFILL),
    Kind(
        "interference",
        "many more prompts with next to no answers: decodes share their steps",
        draws.interference,
        _INTERFERENCE,
    ),
    Kind(
        "decode-slow",
        "decoding takes longer (bandwidth, placement)",
        draws.decode_slow,
        _roots("queue decode", "decode", "decode queue"),
    ),
    Kind(
        "preemption",
        "running requests are thrown out of a full KV pool",
        draws.preemption,
        _roots("engine queue", "engine", "engine queue"),
    ),
    Kind("crash", "the engine dies and comes back", draws.crash, _ENGINE),
    Kind("hang", "no step ends for a while", draws.hang, _ENGINE),
    Kind(
        "cold-start",
        "a new process takes over at full traffic",
        draws.cold_start,
        _roots("engine prefill", "engine decode prefill", "engine prefill"),
    ),
    Kind("slow-clients", "clients of one lane read slower than tokens come", draws.slow_clients, _STREAM),
    Kind("hop", "something between engine and sidecar collects tokens", draws.hop, _STREAM),
    Kind(
        "tokeniser",
        "the serial front end is slow",
        draws.tokeniser,
        _roots("first_token", "first_token decode", "first_token unattributed"),
        front_end=True,
    ),
    Kind("noisy-tenant", "one lane's arrivals multiply", draws.noisy_tenant, _LOAD, kv=True),
    Kind("two-faults", "two of the above at once: right is what is right for either", draws.two, _EITHER),
)
BY_NAME = {kind.name: kind for kind in KINDS}
