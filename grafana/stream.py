"""The dashboard of delivery: the engine made the tokens, and something on their way held them back."""

from grafana.panel import ORANGE, RED, Board, Kind, Panel, Row
from grafana.query import Query, quantiles, rates, share
from grafana.shapes import ENDED, GAPS, burn, phase_heatmap, phase_quantiles, waited_in


_READS = "reads from the engine that brought output events, of streamed inference requests"
_PAUSES = "streamed inference requests, when they end; summed over streams, so several slow clients make more than one second a second"
_BURSTS = (
    '1 - sum by (POD, lane) (rate(llm_stream_events_per_read_bucket{le=~"5|5.0"}[R]))'
    " / sum by (POD, lane) (rate(llm_stream_events_per_read_count[R]))"
)

_CONFIRM = Row(
    "Confirm: held back, before or behind the sidecar",
    (
        Panel(
            Kind.LINES,
            "Paused for slow clients",
            "Seconds for which reading from the engine stood still because a client did not keep up, in each second. Above 0 and rising"
            " with the misses: the client's side, mostly an ingress.",
            _PAUSES,
            "percentunit",
            (Query("sum by (POD, lane) (rate(llm_stream_paused_seconds_total[R]))", "{{lane}} {{pod}} {{namespace}}"),),
        ),
        Panel(
            Kind.LINES,
            "Reads that bring more than five events at once",
            "Near 0 on a direct connection. Above 0.1 something between engine and sidecar collects events and lets go of them in bursts.",
            _READS,
            "percentunit",
            (Query(_BURSTS, "{{lane}} {{pod}} {{namespace}}"),),
            steps=((0.1, ORANGE),),
        ),
    ),
)

_REGIME = Row("Spike or steady state", (burn(objective="tpot"), waited_in("tpot")))

_STREAM = Row(
    "Delivery itself",
    (
        phase_quantiles("stream", "Framing and delivery, slow clients, and what a hop before the sidecar held back."),
        phase_heatmap("stream", width=12),
        Panel(
            Kind.HEATMAP,
            "Events in one read, distribution",
            "Mostly one on a direct connection. Speculative decoding or a stream interval above 1 make several normal.",
            _READS,
            "short",
            (Query("sum by (le) (increase(llm_stream_events_per_read_bucket[R]))", "{{le}}"),),
        ),
        Panel(
            Kind.LINES,
            "Between tokens p10 and p99 by lane",
            "Buffering makes TTFT longer and the gaps shorter at once: p10 falls to nothing while p99 grows.",
            GAPS,
            "s",
            quantiles("llm_inter_token_seconds", of=(0.1, 0.99)),
        ),
    ),
)

_CLIENTS = Row(
    "The clients",
    (
        Panel(
            Kind.LINES,
            "Cancels by stage",
            "Where clients leave: while they upload, while they wait, while it streams.",
            "inference requests whose client left before the end",
            "reqps",
            (
                rates(
                    "llm_client_cancels_total", by="WHO, stage", legend="{{lane}} {{stage}} ({{model}} {{namespace}})"
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Upload p50, p95 by lane",
            "The client's time to send its request; no phase, and no objective is about it. A slow network shows here first.",
            "inference requests that arrived whole",
            "s",
            quantiles(
                "llm_request_upload_seconds", by="namespace, lane", legend="{{lane}} ({{namespace}})", of=(0.5, 0.95)
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Open connections",
            "To clients and to the engine, idle ones included.",
            "connections of the sidecar, inference or not",
            "short",
            (Query("sum by (POD, side) (llm_sidecar_open_connections)", "{{side}} {{pod}} {{namespace}}"),),
            width=8,
        ),
    ),
)

_REFUTE = Row(
    "What would prove it wrong",
    (
        Panel(
            Kind.LINES,
            "The sidecar's own delay p99",
            "Overhead: from the read of bytes to their write. Loop lag: how late a timer fires. High: the slow hop is the sidecar itself.",
            "overhead: 1 response read in 64, inference or not; lag: a periodic timer",
            "s",
            (
                Query(
                    "histogram_quantile(0.99, sum by (POD, le) (rate(llm_sidecar_overhead_seconds_bucket[R])))",
                    "overhead {{pod}} {{namespace}}",
                ),
                Query(
                    "histogram_quantile(0.99, sum by (POD, le) (rate(llm_sidecar_event_loop_lag_seconds_bucket[R])))",
                    "loop lag {{pod}} {{namespace}}",
                ),
            ),
            width=8,
            steps=((0.005, ORANGE), (0.05, RED)),
        ),
        phase_quantiles("decode", "If decode grew by as much, the engine was late too.", width=8),
        Panel(
            Kind.LINES,
            "Answers that came at once, by lane",
            "The engine, or a hop in front of the sidecar, held the tokens back until the end. Their time per token is undefined.",
            f"streamed answers with outcome ok, over all {ENDED}",
            "percentunit",
            (share("llm_answers_held_back_total", "llm_requests_total"),),
            width=8,
        ),
    ),
)

BOARD = Board(
    "llm-stream",
    "LLM stream and delivery",
    "Tokens are made in time and do not get through. The client's side, the engine's side, and what would prove it wrong.",
    (_CONFIRM, _REGIME, _STREAM, _CLIENTS, _REFUTE),
    runbooks=("LLMStreamBurn", "LLMEventsInBursts"),
)
