"""Three named replicas: hardware, limits, costs and the load at which each is described.

The origin of each number stands beside it. The arrival rate at which the mean queue is 90 ms is not here: simulation
finds it (`operating_point.py`), and the demo ships what it found (`demo/operating_points.py`).

The costs are not measured by this project. Each starts from arithmetic that a reader can redo (weights over bandwidth,
FLOPs over peak), and is then set so that the replica shows the phases that the issue asks for; the text says if these
disagree.
"""

from dataclasses import dataclass

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.workload import Shape, Workload


CHAT_WITH_DOCUMENTS = Workload((Shape(0.88, 1500, 150), Shape(0.115, 4096, 150), Shape(0.005, 8192, 150)))
"""1,500-token chats; one request in nine has a document, one in two hundred a long one. Much of the mean queue is time
behind these documents: with equal prompts the same mean queue needs a higher utilisation, and decode becomes slower."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A replica, and the load for which its operating point is stated."""

    name: str
    model: str
    quantization: str
    gpu_type: str
    limits: Limits
    costs: Costs
    reference_load: Workload = CHAT_WITH_DOCUMENTS


LLAMA_70B = Preset(
    name="70b",
    model="llama-3.3-70b-instruct",
    quantization="awq",
    gpu_type="H100x4",
    limits=Limits(max_num_seqs=64, max_num_batched_tokens=2048, max_model_len=16_384, kv_blocks=45_000),
    costs=Costs(
        step_seconds=3.6e-3,
        per_sequence_seconds=2e-5,
        per_kv_token_seconds=2.5e-8,
        per_prompt_token_seconds=8.2e-5,
        per_prompt_token_context_seconds=4.6e-8,
        front_end_request_seconds=0.015,
        front_end_token_seconds=1e-5,
        delivery_seconds=0.01,
    ),
)
"""A 70B model in 4 bits on 4 x H100 (tensor parallel), 64 slots.

- step: 35 GB of weights over 4 x 3.35 TB/s are 2.6 ms; two all-reduces in each of 80 layers at about 6 us make it 3.6.
- per sequence: sampling and kernel tails, 20 us (the order that vLLM shows; no better source).
- per KV token: 80 layers x 2 x 8 heads x 128 x 2 bytes = 328 kB over 13.4 TB/s = 24 ns.
- per prompt token: 140 GFLOP over 4 x 989 TFLOP/s (bf16 peak; 4-bit weights are dequantised) are 35 us at peak; 82 us is 43 % of it.
- per prompt token and token of context: the issue's own durations (about 220, 700 and 2,500 ms for 1.5k, 4k and 8k tokens)
  need 46 ns; attention's own FLOPs (4 x 8,192 x 80 at the same efficiency) need 1.5 ns. The value is set to reach the
  durations; it is not derived.
- token budget 2048: a longer prompt takes one step per 2,048 tokens, and the prompts behind it wait for the last step.
- KV: 320 GB x 0.9 less 35 GB of weights and 17 GB of activations are 236 GB: 45,000 blocks of 5.2 MB, 720k tokens.
- front end and delivery: the issue's 40 ms for a 1,500-token prompt, split 30 in (15 ms + 10 us a token, serial), 10 out.
"""


LLAMA_13B = Preset(
    name="13b",
    model="llama-2-13b-chat",
    quantization="gptq",
    gpu_type="A100x2",
    limits=Limits(max_num_seqs=48, max_num_batched_tokens=2048, max_model_len=16_384, kv_blocks=8_500),
    costs=Costs(
        step_seconds=4.5e-3,
        per_sequence_seconds=2e-5,
        per_kv_token_seconds=2.0e-7,
        per_prompt_token_seconds=8e-5,
        per_prompt_token_context_seconds=8e-9,
        front_end_request_seconds=0.006,
        front_end_token_seconds=4e-6,
        delivery_seconds=0.004,
    ),
)
"""A 13B model in 8 bits on 2 x A100-80GB (tensor parallel), stretched to 16k tokens.

- step: 13 GB over 2 x 2.04 TB/s are 3.2 ms; two all-reduces in each of 40 layers at about 16 us make it 4.5.
- per KV token: no grouped-query attention: 40 x 2 x 5,120 x 2 bytes = 819 kB over 4.1 TB/s = 200 ns.
- per prompt token: 26 GFLOP over 2 x 312 TFLOP/s are 42 us at peak; 80 us is 52 % of it.
- per prompt token and token of context: 4 x 5,120 x 40 FLOP over the same peak at half efficiency are 2.6 ns; 8 with unfused parts.
- KV: 160 GB x 0.9 less 13 GB of weights and 20 GB of activations are 8,500 blocks of 13 MB: 136k tokens, which long
  prompts do exhaust.
- front end and delivery: an API server with less load than the 70B's; an assumption.
"""


SMALL_CHAT = Preset(
    name="small",
    model="small-chat-1b",
    quantization="fp8",
    gpu_type="L4",
    limits=Limits(max_num_seqs=32, max_num_batched_tokens=2048, max_model_len=16_384, kv_blocks=25_000),
    costs=Costs(
        step_seconds=4.5e-3,
        per_sequence_seconds=1e-5,
        per_kv_token_seconds=1.1e-7,
        per_prompt_token_seconds=4e-5,
        per_prompt_token_context_seconds=4e-9,
        front_end_request_seconds=0.003,
        front_end_token_seconds=2e-6,
        delivery_seconds=0.002,
    ),
)
"""A model of 1.2B parameters in 8 bits on one L4: small enough to be simulated on a laptop with little load.

- step: 1.25 GB over 300 GB/s are 4.2 ms; launches make it 4.5.
- per KV token: 16 layers x 2 x 8 heads x 64 x 2 bytes = 33 kB over 300 GB/s = 110 ns.
- per prompt token: 2.5 GFLOP over 121 TFLOP/s are 21 us at peak; 40 us is 52 % of it.
- per prompt token and token of context: 4 x 2,048 x 16 FLOP at the same efficiency are 2 ns; 4 with unfused parts.
- KV: 24 GB x 0.9 less the weights would hold 35,000 blocks of 0.5 MB; 25,000 leaves room for activations.
- front end and delivery: an idle API server; an assumption.
"""


PRESETS = {preset.name: preset for preset in (LLAMA_70B, LLAMA_13B, SMALL_CHAT)}
