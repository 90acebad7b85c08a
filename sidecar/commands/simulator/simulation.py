"""Continuous batching in virtual time: one replica's front end, FCFS queue, mixed steps of prefill and decode, KV pool.

Pure: time is an argument, nothing is random, nothing waits. It creates the phases of every request, so it knows them
exactly. HTTP, text and clocks are elsewhere (`player.py` plays it in real time), and so are arrivals (`workload.py`).
Random numbers are elsewhere too: noise and the luck of speculative decoding are passed in.

A step is planned when the previous one ends, as vLLM V1 does. First come the running requests in order. Each gets the
tokens that it lacks (one for a decode), within the token budget. If blocks run out, the youngest running request is
preempted: its KV is dropped, and it is recomputed from the head of the queue. Then waiting requests are admitted in
order, while budget, slots and blocks last. When a request has no tokens left to compute, its next token exists at the
end of the step.

With speculative decoding a decode may get several tokens at the end of a step. The step costs the same, and the blocks
for these tokens are held from the next step on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from sidecar.commands.simulator.kv import KvPool
from sidecar.commands.simulator.physics import Costs, Knobs, Limits


@dataclass(frozen=True, slots=True)
class Phases:
    """The exact phases of a finished request in seconds; they add up to its whole time in the engine.

    Definitions as in vLLM: queue until first scheduled, prefill until the first token, decode until the last. The wait
    of a preempted request counts as prefill or decode, as in vLLM.
    """

    front_end_seconds: float
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    delivery_seconds: float


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """The state of one request. Instants are in seconds of virtual time; None: not reached yet."""

    prompt_tokens: int
    output_tokens: int
    hashes: Sequence[bytes]
    """Hashes of the prompt's full KV blocks, each chained to those before it."""
    arrived_at: float
    submitted_at: float
    """When the scheduler gets the request; known at arrival, because the front end is a queue of known work."""
    delivery_seconds: float
    scheduled_at: float | None = None
    token_instants: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    aborted_at: float | None = None
    computed: int = 0
    """Tokens with their KV in the pool."""
    shared: list[bytes] = field(default_factory=list)
    """Held blocks that other requests may find by their hash."""
    private: int = 0
    """Held blocks that only this request uses."""
    published: int = 0
    """Prompt blocks with their hash in the pool, published by this request or by another one."""

    @property
    def lacking(self) -> int:
        """Tokens to compute before the next token exists: 1 for a decode."""
        return self.prompt_tokens + len(self.token_instants) - self.computed

    @property
    def decoding(self) -> bool:
        """True between the first token and the last, while all KV is in place."""
        return bool(self.token_instants) and self.lacking == 1

    @property
    def admitted(self) -> bool:
        """True while it runs: every scheduled request holds blocks from its first step until its end or preemption."""
        return self.private > 0 or bool(self.shared)

    @property
    def finished(self) -> bool:
        return len(self.token_instants) == self.output_tokens

    @property
    def phases(self) -> Phases:
        """The phases; available only for a finished request."""
        assert self.finished
        assert self.scheduled_at is not None
        first, last = self.token_instants[0], self.token_instants[-1]
        return Phases(
            self.submitted_at - self.arrived_at,
            self.scheduled_at - self.submitted_at,
            first - self.scheduled_at,
            last - first,
            self.delivery_seconds,
        )


class Progress(NamedTuple):
    """New tokens of one request: those numbered `first` to `first + tokens - 1`, counted from 0."""

    request: SimulatedRequest
    first: int
    tokens: int

    @property
    def instants(self) -> list[float]:
        """The instant at which each token came into existence."""
        return self.request.token_instants[self.first : self.first + self.tokens]

    @property
    def complete(self) -> bool:
        """True if the request's last token is among them."""
        return self.first + self.tokens == self.request.output_tokens


@dataclass(slots=True)
class Totals:
    """Totals of a replica since it started; vLLM's counters show these."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0


class Simulation:
    """One replica. Each call passes its instant, never before an earlier one; all events up to it happen first."""

    def __init__(
        self,
        limits: Limits,
        costs: Costs,
        noise: Callable[[], float] | None = None,
        accepted: Callable[[], int] | None = None,
    ) -> None:
        """`noise`: factor of the next step's length, above 0; called once for each step.

        `accepted`: number of tokens, at least 1, that a decode gets from its step (speculative decoding); called once
        for each decode in each step, in the order of `running`. None: every decode gets 1.
        """
        self._noise = noise
        self._accepted = accepted
        self._next_factor: float | None = None
        """Factor of the step that has not begun yet, once it is drawn."""
        self.limits = limits
        self.costs = costs
        self.knobs = Knobs()
        self.totals = Totals()
        self.pool = KvPool(limits.kv_blocks)
        self.now = 0.0
        self.running: list[SimulatedRequest] = []
        self.waiting: deque[SimulatedRequest] = deque()
        self._front_end: deque[SimulatedRequest] = deque()
        self._front_end_free_at = 0.0
        self._last_submitted_at = 0.0
        self._step: list[tuple[SimulatedRequest, int]] = []
        self._step_ends_at = inf
        self._hung_at: float | None = None
        self._progress: list[Progress] = []

    def arrive(
        self, at: float, prompt_tokens: int, output_tokens: int, hashes: Sequence[bytes] = ()
    ) -> SimulatedRequest:
        """A request enters the front end. Raises ValueError if it is empty or longer than max_model_len."""
        if min(prompt_tokens, output_tokens) < 1 or prompt_tokens + output_tokens > self.limits.max_model_len:
            raise ValueError(f"at least 1 token of prompt and of output, at most {self.limits.max_model_len} in sum")
        if len(hashes) > prompt_tokens // self.limits.block_size:
            raise ValueError("only full blocks of the prompt have hashes")
        self._happen(at)
        work = self.costs.front_end(prompt_tokens) * self.knobs.front_end_factor
        self._front_end_free_at = max(at, self._front_end_free_at) + work
        submitted_at = max(self._front_end_free_at + self.knobs.front_end_extra_seconds, self._last_submitted_at)
        self._last_submitted_at = submitted_at
        request = SimulatedRequest(prompt_tokens, output_tokens, hashes, at, submitted_at, self.costs.delivery_seconds)
        self._front_end.append(request)
        self._happen(at)
        return request

    def abort(self, at: float, request: SimulatedRequest) -> None:
        """The client of a request has left: slot and blocks are free at once; a step in flight keeps its length."""
        self._happen(at)
        if request.finished or request.aborted_at is not None:
            return
        request.aborted_at = at
        self.totals.aborted += 1
        if request in self.running:
            self.running.remove(request)
            self._drop_blocks(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        self._happen(at)

    def adjust(self, at: float, **changes: Any) -> None:
        """Change knobs (fields of `Knobs`). A step in flight keeps its length, except for a hang, which stops it."""
        self._happen(at)
        knobs = replace(self.knobs, **changes)
        blocks = self.limits.kv_blocks if knobs.kv_blocks is None else knobs.kv_blocks
        if blocks < self.limits.blocks_for(self.limits.max_model_len):
            raise ValueError("a pool that cannot hold one request of max_model_len would never finish it")
        if knobs.hung and self._hung_at is None:
            self._hung_at = at
        elif not knobs.hung and self._hung_at is not None:
            self._step_ends_at += at - self._hung_at
            self._hung_at = None
        self.knobs = knobs
        self.pool.resize(blocks)
        while self.pool.available < 0:
            self._preempt_youngest()
        self._happen(at)

    def advance(self, until: float) -> list[Progress]:
        """Simulate up to and including `until`; returns all tokens not yet returned, in order."""
        self._happen(until)
        progress, self._progress = self._progress, []
        return progress

    def next_event_at(self) -> float | None:
        """Instant of the next event if no other call comes before; None: no event will happen."""
        at = min(
            self._front_end[0].submitted_at if self._front_end else inf, inf if self.knobs.hung else self._step_ends_at
        )
        return None if at == inf else at

    def run(self, arrivals: Iterable[tuple[float, int, int]]) -> list[SimulatedRequest]:
        """Simulate all arrivals (at, prompt tokens, output tokens), given in order of time, until the last token."""
        requests = []
        for at, prompt_tokens, output_tokens in arrivals:
            requests.append(self.arrive(at, prompt_tokens, output_tokens))
            self._progress.clear()
        self.advance(inf)
        return requests

    def _happen(self, until: float) -> None:
        if until < self.now:
            raise ValueError("an instant is earlier than the last one")
        while True:
            submitted_at = self._front_end[0].submitted_at if self._front_end else inf
            if self._step_ends_at == inf and not self.knobs.hung:
                self._begin(min(until, submitted_at))
            at = min(submitted_at, inf if self.knobs.hung else self._step_ends_at)
            if at > until or at == inf:
                break
            self.now = at
            if submitted_at == at:
                request = self._front_end.popleft()
                if request.aborted_at is None:
                    self.waiting.append(request)
            else:
                self._end_step()
        if until != inf:
            self.now = until

    def _begin(self, limit: float) -> None:
        while self._stretch(limit):
            pass
        self._plan()
        if not self._step:
            return
        seconds = 0.0
        decodes = context = 0
        for request, tokens in self._step:
            if request.decoding:
                decodes += 1
                context += request.computed
            else:
                seconds += self.costs.chunk(tokens, request.computed)
        seconds = seconds * self.knobs.prefill_factor + self.costs.decode(decodes, context) * self.knobs.decode_factor
        self._step_ends_at = self.now + seconds * self._factor()
        self._next_factor = None

    def _factor(self) -> float:
        """Noise of the next step: the same at every call, until the step has begun."""
        if self._noise is None:
            return 1.0
        if self._next_factor is None:
            self._next_factor = self._noise()
        return self._next_factor

    def _plan(self) -> None:
        self._step = []
        budget = self.limits.max_num_batched_tokens
        preemptions = self.totals.preemptions
        at = 0
        while at < len(self.running) and budget:
            request = self.running[at]
            tokens = min(request.lacking, budget)
            # The youngest request is this one or a later one, so no request already in the step is ever preempted.
            while not self._hold(request, request.computed + tokens):
                self._preempt_youngest()
                if at == len(self.running):
                    break
            else:
                self._step.append((request, tokens))
                budget -= tokens
                at += 1
        if preemptions == self.totals.preemptions:
            self._admit(budget)

    def _admit(self, budget: int) -> None:
        while self.waiting and budget and len(self.running) < self._slots():
            request = self.waiting[0]
            size = self.limits.block_size
            # At least one token is always computed: even a fully cached prompt needs the output of its last position.
            usable = request.hashes[: (request.lacking - 1) // size] if self.limits.prefix_caching else ()
            cached = self.pool.match(usable)
            tokens = min(request.lacking - cached * size, budget)
            if tokens < request.lacking - cached * size and not self.limits.chunked_prefill:
                break
            request.shared = list(usable[:cached])
            self.pool.claim(request.shared)
            # The whole request must fit, not only its first chunk (vLLM: scheduler_reserve_full_isl). Otherwise long
            # prompts would preempt each other for ever.
            fits = self.limits.blocks_for(request.lacking) - cached <= self.pool.available
            if not fits or not self._hold(request, cached * size + tokens):
                self._drop_blocks(request)
                break
            self.waiting.popleft()
            self.running.append(request)
            request.published = cached
            request.computed = cached * size
            if request.scheduled_at is None:
                request.scheduled_at = self.now
                request.cached_tokens = cached * size
                self.totals.prefix_queries += request.prompt_tokens
                self.totals.prefix_hits += cached * size
            self._step.append((request, tokens))
            budget -= tokens

    def _slots(self) -> int:
        return self.limits.max_num_seqs if self.knobs.slots is None else min(self.knobs.slots, self.limits.max_num_seqs)

    def _end_step(self) -> None:
        step, self._step, self._step_ends_at = self._step, [], inf
        for request, tokens in step:
            # The request was aborted while the step ran, or preempted because the pool shrank.
            if not request.admitted:
                continue
            more = self._accepted() if self._accepted is not None and request.decoding else 1
            request.computed += tokens
            self._publish(request)
            if not request.lacking:
                more = min(more, request.output_tokens - len(request.token_instants))
                request.computed += more - 1
                self._emit(request, (self.now,) * more)

    def _stretch(self, limit: float) -> bool:
        """Play several decode-only steps at once if no event can come between them: same instants, with less work.

        False if this is not possible or saves nothing, or if the first such step would not end before `limit`.
        """
        running = self.running
        if not running or (self.waiting and len(running) < self._slots()):
            return False
        size, left = self.limits.block_size, [each.output_tokens - len(each.token_instants) for each in running]
        steps = min(left)
        if self._accepted is None:
            blocks = len(running) * (steps // size + 1)
        else:  # a request may get all its tokens in these steps
            blocks = sum(tokens // size + 1 for tokens in left)
        if steps < 2 or blocks > self.pool.available or len(running) > self.limits.max_num_batched_tokens:
            return False
        if not all(request.decoding for request in running):
            return False
        made = self._decode_alike(steps, limit) if self._accepted is None else self._speculate(left, limit)
        if not made[0]:
            return False
        self.now = made[0][-1]
        for request, instants in zip(tuple(running), made, strict=True):
            request.computed += len(instants)
            self._hold(request, request.computed)
            self._emit(request, instants)
        return True

    def _decode_alike(self, steps: int, limit: float) -> list[list[float]]:
        """For each running request the instants of its tokens, one in each step that ends before `limit`."""
        running = self.running
        context = sum(request.computed for request in running)
        seconds = self.costs.decode(len(running), context) * self.knobs.decode_factor
        growth = self.costs.per_kv_token_seconds * len(running) * self.knobs.decode_factor
        at = self.now
        instants: list[float] = []
        for _ in range(steps):
            at += seconds * self._factor()
            seconds += growth
            if at >= limit:  # a request submitted exactly at a step's end joins the next step, which must be planned
                break
            self._next_factor = None
            instants.append(at)
        return [instants] * len(running)

    def _speculate(self, left: list[int], limit: float) -> list[list[float]]:
        """Like `_decode_alike`, with several tokens in each step, until a request has all the tokens that it has left."""
        assert self._accepted is not None
        context = sum(request.computed for request in self.running)
        at = self.now
        made: list[list[float]] = [[] for _ in left]
        while all(len(instants) < most for instants, most in zip(made, left, strict=True)):
            at += self.costs.decode(len(left), context) * self.knobs.decode_factor * self._factor()
            if at >= limit:
                break
            self._next_factor = None
            for instants, most in zip(made, left, strict=True):
                more = min(self._accepted(), most - len(instants))
                context += more
                instants.extend((at,) * more)
        return made

    def _emit(self, request: SimulatedRequest, instants: Sequence[float]) -> None:
        if not request.token_instants:
            self.totals.prompt_tokens += request.prompt_tokens
        self._progress.append(Progress(request, len(request.token_instants), len(instants)))
        request.token_instants.extend(instants)
        self.totals.generation_tokens += len(instants)
        if request.finished:
            self.totals.finished += 1
            self.running.remove(request)
            self._drop_blocks(request)

    def _hold(self, request: SimulatedRequest, tokens: int) -> bool:
        more = self.limits.blocks_for(tokens) - len(request.shared) - request.private
        if more > 0 and not self.pool.reserve(more):
            return False
        request.private += max(more, 0)
        return True

    def _publish(self, request: SimulatedRequest) -> None:
        if not self.limits.prefix_caching:
            return
        whole = min(request.computed // self.limits.block_size, len(request.hashes))
        for block in request.hashes[request.published : whole]:
            if self.pool.publish(block):
                request.private -= 1
                request.shared.append(block)
        request.published = max(request.published, whole)

    def _drop_blocks(self, request: SimulatedRequest) -> None:
        self.pool.release(request.shared, request.private)
        request.shared = []
        request.private = 0
        request.published = 0

    def _preempt_youngest(self) -> None:
        request = self.running.pop()
        self._drop_blocks(request)
        request.computed = 0
        request.preemptions += 1
        self.totals.preemptions += 1
        self.waiting.appendleft(request)
