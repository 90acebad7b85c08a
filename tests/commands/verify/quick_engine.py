"""A simulated engine whose tokens come a millisecond apart, with a context that holds the longest probe."""

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.replica_presets import Preset
from sidecar.commands.simulator.workload import Shape, Workload


QUICK = Preset(
    name="quick",
    model="quick-model",
    quantization="none",
    gpu_type="none",
    limits=Limits(max_num_seqs=2, max_num_batched_tokens=2048, max_model_len=4096, kv_blocks=512),
    costs=Costs(step_seconds=0.001, per_prompt_token_seconds=1e-6, front_end_request_seconds=0.001),
    reference_load=Workload((Shape(1, 100, 20),)),
)
