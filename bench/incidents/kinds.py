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
- A sidecar that lacks CPU reads late. Its owner mends that, and `sidecar` says so. `stream` counts, as the sidecar is the
  hop that collects tokens; so does `unattributed`, as nothing that was measured broke. `first_token` does not count:
  its owner searches the engine's front end, which is well.
- A slow transfer of KV caches comes between the first token and the second: decode.
- An overload after a planned restart is due to load. The restart is over and was harmless: `engine` does not count.

These are the *lenient* sets (`Kind.root`); the phase of the injected cause is in each of them, whatever a lane waited in.
The *strict* ones (`Kind.strict`) are the phases of the injected causes
(`sidecar/pod/causes.py`), with the three accept-sets of issue 4: queue or engine when the KV pool ran full, either of two
faults, and queue in the lanes that long prompts do not belong to. A TPOT is missed in decode, whatever broke, unless
tokens come late after the engine has made them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.incidents import sampling
from bench.incidents.sampling import Sampler
from bench.incidents.world import Topology
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import PHASE_OF, Cause


Labels = frozenset[str]
Roots = Mapping[str, Labels]
"""Objective to its right phases."""


def _roots(ttft: str, tpot: str, e2e: str) -> Roots:
    """Right phases from text: the phases of each objective, separated by spaces. A stall is missed between tokens, as a TPOT is."""
    told = (("ttft", ttft), ("tpot", tpot), ("e2e", e2e), ("stall", tpot))
    return {name: frozenset(phases.split()) for name, phases in told}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident and its truth."""

    name: str
    says: str
    """Description of the incident in words."""
    sample: Sampler
    roots: Roots
    causes: tuple[Cause, ...] = ()
    """Causes that it injects. Empty if each incident of this kind is made of other kinds (`Incident.made_of`)."""
    own_lane: Mapping[str, Roots] = field(default_factory=dict)
    """Lane to its own roots; all other lanes have `roots`."""
    kv: bool = False
    """`engine` counts too if the KV pool really ran full while requests waited."""
    front_end: bool = False
    """The estimator cannot see it, so it is left out of the bounds without reports."""
    topologies: frozenset[Topology] | None = None
    """Engines that it can happen to; None: all."""
    slow: bool = False
    """Traffic is so thin that no window of minutes has misses enough for a page, although every request is missed."""

    @property
    def phases(self) -> Labels:
        """Phases of its causes."""
        return frozenset(str(PHASE_OF[cause]) for cause in self.causes)

    def root(self, lane: str, objective: str, *, kv_ran_full: bool) -> Labels:
        """The phases that are right for one lane and objective, with every reading that describes the same fault."""
        # The team of the injected fault is never the wrong one, whatever the lane waited in.
        labels = self.own_lane.get(lane, self.roots)[objective] | self.phases
        return labels | {"engine"} if self.kv and kv_ran_full else labels

    def strict(self, lane: str, objective: str, *, kv_ran_full: bool) -> Labels:
        """The phases of the causes, and no more than the three accept-sets of issue 4."""
        right = set(self.phases)
        if not right:
            return frozenset()
        if self.kv and kv_ran_full:
            right |= {Blame.QUEUE.value, Blame.ENGINE.value}
        if self.own_lane and lane not in self.own_lane:
            right.add(Blame.QUEUE.value)
        if objective in (Objective.TPOT, Objective.STALL) and not right & _BEHIND_THE_ENGINE:
            right.add(Blame.DECODE.value)
        return frozenset(right)


_LOAD = _roots("queue", "decode queue", "queue decode")
_PREFILL = _roots("prefill", "decode prefill", "prefill decode")
_ENGINE = _roots("engine", "engine", "engine")
_STREAM = _roots("stream", "stream", "stream")
_INTERFERENCE = _roots("queue", "decode", "queue decode")
_DECODE = _roots("queue decode", "decode", "decode queue")
_LONG_PROMPTS = _roots("queue", "decode", "queue decode prefill")
_OF_LONG_PROMPTS = _roots("prefill", "decode", "queue decode prefill")
"""In the lane that they belong to."""
_COLD = _roots("engine prefill", "engine decode prefill", "engine prefill")
_EITHER = _roots("", "", "")
_SIDECAR = _roots("sidecar stream unattributed", "sidecar stream unattributed", "sidecar stream unattributed")
_BEHIND_THE_ENGINE = frozenset({Blame.STREAM.value, SIDECAR})

KINDS = (
    Kind("burst", "arrivals multiply for minutes", sampling.burst, _LOAD, causes=(Cause.LOAD,), kv=True),
    Kind("overload", "arrivals grow and stay high", sampling.overload, _LOAD, causes=(Cause.LOAD,), kv=True),
    Kind(
        "long-outputs",
        "answers grow and keep their slots",
        sampling.long_outputs,
        _LOAD,
        causes=(Cause.LONGER_OUTPUTS,),
        kv=True,
    ),
    Kind(
        "prompts-beyond-kv",
        "prompts grow: max-batch is too high for the KV cache",
        sampling.prompts_beyond_kv,
        _LOAD,
        causes=(Cause.KV,),
        kv=True,
    ),
    Kind("few-slots", "max-batch is set too low", sampling.few_slots, _LOAD, causes=(Cause.SLOTS,)),
    Kind(
        "long-tail",
        "very long prompts arrive in the batch lane",
        sampling.long_tail,
        _LONG_PROMPTS,
        causes=(Cause.PROMPT_MIX,),
        own_lane={"batch": _OF_LONG_PROMPTS},
    ),
    Kind(
        "cache-lost",
        "shared beginnings of prompts are no longer cached",
        sampling.cache_lost,
        _PREFILL,
        causes=(Cause.UNCACHED,),
    ),
    Kind(
        "prefill-slow", "prompts take longer to compute", sampling.prefill_slow, _PREFILL, causes=(Cause.PREFILL_COST,)
    ),
    Kind(
        "interference",
        "many more prompts with very short answers, which share the steps of decodes",
        sampling.interference,
        _INTERFERENCE,
        causes=(Cause.LOAD,),
    ),
    Kind(
        "decode-slow",
        "decoding takes longer (bandwidth, placement)",
        sampling.decode_slow,
        _DECODE,
        causes=(Cause.DECODE_COST,),
    ),
    Kind(
        "preemption",
        "running requests are thrown out of a full KV pool",
        sampling.preemption,
        _roots("engine queue", "engine", "engine queue"),
        causes=(Cause.PREEMPTION,),
        kv=True,
    ),
    Kind("crash", "the engine dies and comes back", sampling.crash, _ENGINE, causes=(Cause.DOWN,)),
    Kind("hang", "no step ends for a while", sampling.hang, _ENGINE, causes=(Cause.SILENCE,)),
    Kind(
        "cold-start",
        "a new process takes over at full traffic",
        sampling.cold_start,
        _COLD,
        causes=(Cause.RESTART,),
    ),
    Kind(
        "slow-clients",
        "clients of one lane read slower than tokens come",
        sampling.slow_clients,
        _STREAM,
        causes=(Cause.CLIENT,),
    ),
    Kind("hop", "something between engine and sidecar collects tokens", sampling.hop, _STREAM, causes=(Cause.HOP,)),
    Kind(
        "tokeniser",
        "the serial front end is slow",
        sampling.tokeniser,
        _roots("first_token", "first_token decode", "first_token unattributed"),
        causes=(Cause.FRONT_END,),
        front_end=True,
    ),
    Kind("noisy-tenant", "one lane's arrivals multiply", sampling.noisy_tenant, _LOAD, causes=(Cause.LOAD,), kv=True),
    Kind("two-faults", "two of the above at once; a phase that is right for either is right", sampling.two, _EITHER),
    Kind(
        "ramp",
        "arrivals rise for ten minutes and stay high",
        sampling.ramp,
        _LOAD,
        causes=(Cause.LOAD,),
        kv=True,
    ),
    Kind(
        "burst-30s",
        "arrivals multiply for half a minute",
        sampling.burst_30s,
        _LOAD,
        causes=(Cause.LOAD,),
        kv=True,
    ),
    Kind(
        "restart-then-overload",
        "arrivals grow and stay high, minutes after a planned restart that did no harm",
        sampling.restart_then_overload,
        _LOAD,
        causes=(Cause.LOAD,),
    ),
    Kind(
        "hang-unstreamed",
        "no step ends for a while, and a long answer that is not streamed is in flight",
        sampling.hang_unstreamed,
        _ENGINE,
        causes=(Cause.SILENCE,),
    ),
    Kind("errors", "the engine answers requests with errors", sampling.errors, _ENGINE, causes=(Cause.ERRORS,)),
    Kind(
        "throttled-sidecar",
        "the sidecar lacks CPU and reads late",
        sampling.throttled_sidecar,
        _SIDECAR,
        causes=(Cause.SIDECAR_LATE,),
    ),
    Kind(
        "prompts-grow",
        "prompts of all lanes grow, and the KV cache has room",
        sampling.prompts_grow,
        _PREFILL,
        causes=(Cause.PROMPT_MIX,),
    ),
    Kind(
        "kv-transfer",
        "KV caches take longer from the prefill worker to the decode worker",
        sampling.kv_transfer,
        _roots("decode", "decode", "decode"),
        causes=(Cause.KV_TRANSFER,),
        topologies=frozenset({Topology.DISAGGREGATED}),
    ),
    Kind(
        "one-a-minute",
        "with one request a minute, all are missed: a hang, a crash or a slow prefill; the phase of that is right",
        sampling.one_a_minute,
        _EITHER,
        slow=True,
    ),
    Kind(
        "merged-reads",
        "prompts or decodes are slow, a cache is lost, load grows or slots are few, and tokens are read together"
        " meanwhile; the phase of the fault is right",
        sampling.merged_reads,
        _EITHER,
    ),
    Kind(
        "restart-to-few-slots",
        "a restart that sets max-batch too low; the phase of the slots is right",
        sampling.restart_to_few_slots,
        _EITHER,
    ),
)
MORE = (
    Kind(
        "rejections",
        "the engine turns requests away",
        sampling.rejections,
        _roots("queue", "queue", "queue"),
        causes=(Cause.REJECTED,),
    ),
    Kind(
        "acceptance-falls",
        "an engine that speculates accepts fewer tokens a step",
        sampling.acceptance_falls,
        _DECODE,
        causes=(Cause.DECODE_COST,),
    ),
    Kind(
        "gpu-neighbour",
        "prompts and decodes take longer together: heat, or another process on the GPU; either phase is right",
        sampling.gpu_neighbour,
        _EITHER,
    ),
    Kind(
        "short-stalls",
        "the engine stands still for seconds, again and again",
        sampling.short_stalls,
        _ENGINE,
        causes=(Cause.SILENCE,),
    ),
    Kind("slow-network", "the way to all clients is slow", sampling.slow_network, _STREAM, causes=(Cause.CLIENT,)),
    Kind(
        "lane-of-long-prompts",
        "prompts of 30,000 tokens arrive in one lane",
        sampling.lane_of_long_prompts,
        _LONG_PROMPTS,
        causes=(Cause.PROMPT_MIX,),
        own_lane={"batch": _OF_LONG_PROMPTS},
    ),
    Kind(
        "scale-in",
        "other pods leave, and their requests come here",
        sampling.scale_in,
        _LOAD,
        causes=(Cause.LOAD,),
        kv=True,
    ),
    Kind(
        "scale-out",
        "a fresh pod takes its whole share at once",
        sampling.scale_out,
        _COLD,
        causes=(Cause.RESTART,),
    ),
)
"""Kinds that drawn shapes alone have (`shapes.py`)."""
BY_NAME = {kind.name: kind for kind in (*KINDS, *MORE)}
