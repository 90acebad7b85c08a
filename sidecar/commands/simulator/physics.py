"""The constants of one simulated replica: costs of a step, limits of the scheduler, and the knobs that faults change.

It contains durations and limits, and the one formula that turns a batch into seconds. Requests, queues and instants are
in `simulation.py`; the numbers for particular hardware are in `replica_presets.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """A scheduler's limits, named after vLLM's flags. Raises ValueError if vLLM would refuse to start with them."""

    max_num_seqs: int
    max_num_batched_tokens: int
    """The token budget of one step, shared by decodes (one each) and prompt chunks."""
    max_model_len: int
    """Prompt plus output tokens of one request."""
    kv_blocks: int
    block_size: int = 16
    """Tokens in a KV block."""
    chunked_prefill: bool = True
    """If False, a prompt is computed in one step or waits until it fits into one."""
    prefix_caching: bool = True

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.max_num_batched_tokens, self.max_model_len, self.block_size) < 1:
            raise ValueError("limits must be positive")
        if self.blocks_for(self.max_model_len) > self.kv_blocks:
            raise ValueError("kv_blocks cannot hold one request of max_model_len: it could never finish")
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunked prefill the token budget must hold a prompt of max_model_len")

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)


@dataclass(frozen=True, slots=True)
class Costs:
    """Durations in seconds. A step takes `step + per_sequence * decodes + per_kv_token * (their context)`, plus, for
    every prompt chunk of n tokens, `per_prompt_token * n + per_prompt_token_context * n * (mean context of the chunk)`.

    The last term makes prefill superlinear: over a whole prompt it adds up to half its coefficient times the square of
    the length, for any number of chunks.
    """

    step_seconds: float
    """Reading the weights once, kernel launches, all-reduces: every step takes this time."""
    per_sequence_seconds: float = 0.0
    per_kv_token_seconds: float = 0.0
    per_prompt_token_seconds: float = 0.0
    per_prompt_token_context_seconds: float = 0.0
    front_end_request_seconds: float = 0.0
    """The API server's serial work on each request before the scheduler: parse, template, tokenise, IPC."""
    front_end_token_seconds: float = 0.0
    delivery_seconds: float = 0.0
    """From a token's existence to its bytes on the socket: IPC, detokenise, serialise. It delays, without queueing."""

    def decode(self, sequences: int, context_tokens: int) -> float:
        """Seconds of a step's fixed part and its decodes; the whole step if it has no prompt chunks."""
        return self.step_seconds + self.per_sequence_seconds * sequences + self.per_kv_token_seconds * context_tokens

    def chunk(self, tokens: int, context_before: int) -> float:
        """Seconds that a prompt chunk adds to its step."""
        context = context_before + tokens / 2
        return tokens * (self.per_prompt_token_seconds + self.per_prompt_token_context_seconds * context)

    def front_end(self, prompt_tokens: int) -> float:
        """Seconds of the serial front end's work on one request."""
        return self.front_end_request_seconds + self.front_end_token_seconds * prompt_tokens


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings that a fault changes while the simulation runs. The defaults are a healthy replica."""

    front_end_extra_seconds: float = 0.0
    """Added to every request's time in the front end. It delays the request, but does not occupy the server."""
    front_end_factor: float = 1.0
    """Multiplies the serial front end's work, as a slow tokeniser does: requests queue for it."""
    slots: int | None = None
    """At most this many sequences are admitted (None: max_num_seqs). Those already running stay."""
    prefill_factor: float = 1.0
    decode_factor: float = 1.0
    """Multiplies every part of a step that is not a prompt chunk."""
    kv_blocks: int | None = None
    """Size of the pool in blocks (None: as built); at least enough for one request of max_model_len."""
    hung: bool = False
    """If True, no step ends and none begins; the front end and the network continue to work."""

    def __post_init__(self) -> None:
        numbers = (
            self.front_end_extra_seconds,
            self.front_end_factor,
            self.prefill_factor,
            self.decode_factor,
            self.slots or 0,
        )
        if min(numbers) < 0:
            raise ValueError("knobs must not be negative")
