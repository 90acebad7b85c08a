"""What SGLang says about the time a request took (read in 0.5.23, `srt/observability/req_time_stats.py`).

It knows the times in the `meta_info` of its own `/generate`, there with `--enable-metrics`: `queue_time` in seconds, the
scheduler's wait (of a request that was retracted, all its waits), and the instants `forward_entry_time` and
`prefill_finished_time`, both of the scheduler's clock, between which lies the prefill. Its OpenAI paths carry none of
them (`return_meta_info` is refused for streams); for those there are its spans and its exported file. The decode is not
stated, so the wire's stands. Older builds (0.5.5) gave `forward_entry_time` on another clock than the prefill's end: the
difference is then absurd, and the ledger refuses it against the wire.
`include_usage` is not added: chunks made by pydantic (completions, tool calls, hidden states) carry `usage: null`.
"""

from collections.abc import Mapping

from sidecar.engines.durations import between, seconds_of
from sidecar.engines.kind import Channel, EngineKind, Ran, Wire
from sidecar.ledger.report import NO_REPORT, EngineReport


class SGLang(EngineKind):
    """SGLang."""

    name = "sglang"
    title = "SGLang"
    channels = (
        Channel(
            source="`meta_info` of `/generate`, streamed and whole",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-metrics`",
            exact="queue, prefill",
            missing="decode (the wire's stands); several prompts or samples in one request; the OpenAI paths",
            ran=Ran.FIXTURES,
            follows="`srt/observability/req_time_stats.py`, `srt/managers/tokenizer_manager.py` of 0.5.23",
        ),
    )
    advice = "start SGLang with --enable-metrics, so that /generate states its times"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        """The times in `meta_info`."""
        meta = extras.get("meta_info")
        if not isinstance(meta, Mapping) or wire.marks.choices > 1:
            return None
        begun, done = (seconds_of(meta.get(name)) for name in ("forward_entry_time", "prefill_finished_time"))
        report = EngineReport(
            queue_seconds=seconds_of(meta.get("queue_time")),
            # An instant of 0 is one that was never taken.
            prefill_seconds=between(begun or None, done or None),
        )
        return None if report == NO_REPORT else report
