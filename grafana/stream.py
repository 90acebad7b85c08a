"""After the first token: decode and delivery. The engine makes tokens slowly, or something on their way holds them back."""

from grafana.colours import WARN
from grafana.panel import RATIO, Board, Kind, Panel, Row
from grafana.query import LANE, PODS_NAME, Query, distribution, lane_quantile, samples_behind
from grafana.shapes import GAPS, OK, POINT_AT_IT, TPOTS, engine_cost, phase_tail, tail, waited_in
from sidecar.commands.export.rules.dashboard_rules import NOW
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED
from sidecar.pod.costs.cost_names import Part


_READS = "reads from the engine that brought output events, of streamed inference requests"
_BURSTS = (
    'sum by (pod) (rate(llm_stream_reads_total{result="many"}[R])) / sum by (pod) (rate(llm_stream_reads_total[R])) > 0'
)

_CONFIRM = Row(
    "Confirm: decode, or delivery",
    (
        tail(
            "tpot",
            "llm_time_per_output_token_seconds",
            "Time per output token",
            "What the objective is about: one number for each answer. A gap of seconds in a long answer hardly shows in it: the"
            " objective stall is on the longest one.",
            TPOTS,
        ),
        waited_in("tpot"),
        Panel(
            Kind.LINES,
            "KV transfer p95 by lane",
            "Where prefill and decode run on workers of their own: the move of the KV cache between them, a part of a phase."
            f" {POINT_AT_IT}",
            f"{OK} whose engine reported a transfer",
            "s",
            (lane_quantile("llm_kv_transfer_seconds"), samples_behind("llm_kv_transfer_seconds")),
            logarithmic=True,
            empty="no transfer reported",
        ),
    ),
)

_DECODE = Row(
    "Decode: the engine makes tokens slowly",
    (
        engine_cost(Part.DECODE),
        Panel(
            Kind.LINES,
            "The quiet gap: p10 between tokens by lane",
            "A tenth of all gaps is shorter than this. Grown: each step got longer. Unchanged while p95 grew: prompts are computed in"
            f" between, or something buffers. Over the last {NOW} at each point. {POINT_AT_IT}",
            GAPS,
            "s",
            (lane_quantile("llm_inter_token_seconds", of=0.1), samples_behind("llm_inter_token_seconds", of=0.1)),
            logarithmic=True,
            empty=f"fewer than {SAMPLES_NEEDED[0.1]} in {NOW}",
        ),
        Panel(
            Kind.HEATMAP,
            "Between tokens, distribution",
            "Two bands: plain steps, and steps that carry prompt chunks.",
            GAPS,
            "s",
            distribution("llm_inter_token_seconds"),
        ),
    ),
)

_STREAM = Row(
    "Delivery: held back, before or behind the sidecar",
    (
        phase_tail("stream", "Framing and delivery, slow clients, and what a hop before the sidecar held back."),
        Panel(
            Kind.LINES,
            "Reads that bring more than five events at once, by pod",
            "Near 0 on a direct connection. Above 0.1 something between engine and sidecar collects events and lets go of them in bursts.",
            _READS,
            RATIO,
            (Query(_BURSTS, PODS_NAME),),
            steps=((0.1, WARN),),
            empty="none",
        ),
        Panel(
            Kind.LINES,
            "Paused for slow clients, by lane",
            "Seconds for which reading from the engine stood still because a client did not keep up, in each second. Rising with the"
            " misses: the client's side, mostly an ingress.",
            "streamed inference requests, when they end; summed over streams, so several slow clients make more than one second a second",
            RATIO,
            (Query("sum by (lane) (rate(llm_stream_paused_seconds_total[R])) > 0", LANE),),
            beyond_one=True,
            empty="none",
        ),
        Panel(
            Kind.BARS,
            "Cancels by stage",
            "Where clients leave: while they upload, while they wait, while it streams.",
            "inference requests whose client left before the end",
            "reqps",
            (
                Query("sum by (stage) (rate(llm_client_cancels_total[R])) > 0", "{{stage}}"),
                Query(
                    "sum by (outcome, source) (rate(llm_unfinished_output_tokens_total[R])) > 0",
                    "tokens for nothing: {{outcome}}, by {{source}}",
                    unit="cps",
                ),
            ),
            empty="none",
        ),
    ),
)

BOARD = Board(
    "llm-stream",
    "LLM after the first token: decode and delivery",
    "Tokens after the first come too slowly: longer steps, steps spent on prompts, or tokens that are made in time and do not get through.",
    (_CONFIRM, _DECODE, _STREAM),
    runbooks=("LLMDecodeBurn", "LLMStreamBurn", "LLMEventsInBursts"),
)
