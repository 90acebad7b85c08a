"""What NVIDIA Dynamo says about the time a request took (1.6.1, `lib/llm/src/protocols/openai/nvext.rs`, `common/timing.rs`).

It knows `nvext.timing` on the last chunk: its `prefill_wait_time_ms` is the wait in the front end and its router, and its
`prefill_time_ms` runs from the dispatch to a worker until the first token, so the engine's own queue hides in it. Neither
is a phase of ours: the two come as one, and the TTFT is `unattributed`, reason `engine_merges_phases`. The engine behind
Dynamo can be asked instead: its spans have the same trace.

It is read where the client asked for it, and never asked for. Asking would be safe for the request (`nvext` is an object
that ignores what it does not know), but the answer could not be taken out again: it stands in the chunk with the finish
reason, not in one of its own, and it would not split the TTFT anyway.
"""

from collections.abc import Mapping

from sidecar.engines.durations import MILLISECONDS, seconds_of
from sidecar.engines.kind import Channel, EngineKind, Ran, Wire
from sidecar.ledger.report import EngineReport


MERGED = ("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms")


class Dynamo(EngineKind):
    """Dynamo."""

    name = "dynamo"
    title = "NVIDIA Dynamo"
    channels = (
        Channel(
            source="`nvext.timing` on the last chunk",
            version="read in 1.6.1",
            flags='each request: `"nvext": {"extra_fields": ["timing"]}`',
            exact="nothing",
            missing="queue and prefill come as one: unattributed, reason `engine_merges_phases`",
            ran=Ran.FIXTURES,
            follows="`lib/llm/src/protocols/openai/nvext.rs` at 03f06d19",
        ),
    )
    advice = "let the engine behind Dynamo export its spans to the sidecar: Dynamo alone states queue and prefill as one number"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """That it merges the phases, where it says anything about them."""
        nvext = extras.get("nvext")
        timing = nvext.get("timing") if isinstance(nvext, Mapping) else None
        if not isinstance(timing, Mapping):
            return None
        stated = any(seconds_of(timing.get(name), MILLISECONDS) is not None for name in MERGED)
        return EngineReport(merged=True) if stated else None
