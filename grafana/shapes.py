"""Panels that several dashboards share, and the populations that they are about, each said once.

Knows the phases' histograms and the recorded series of the roots. Refuses to know where on a dashboard they stand.
"""

from grafana.panel import ORANGE, PHASE_COLOURS, RED, YELLOW, Kind, Panel
from grafana.query import ENGINE_OF, LANE, Query, gauge, quantiles
from grafana.surroundings import kept
from sidecar.diagnosis.verdict import LEAST_CONFIDENCE
from sidecar.export.rules.burn import PAGING, WHO
from sidecar.slo.attribution import SIDECAR, Blame
from sidecar.slo.step_model import Part


OK = "inference requests with outcome ok"
STREAMED_OK = "streamed inference requests with outcome ok"
FIRST_TOKENS = "streamed inference requests that got a token, whatever their outcome"
GAPS = "gaps between two output events of one choice, of every streamed inference request, as they happen"
TPOTS = "streamed inference requests with outcome ok, one choice and at least two tokens by the engine's usage"
COUNTED = (
    "inference requests that count for the objective, decided at the first token or the deadline; client errors never count,"
    " cancels only after the deadline"
)
MISSES = "requests that missed an objective, when their ledger is closed, which may be long after the miss"
DECIDED = (
    "requests that missed an objective, at most 15 s after the miss; of the shortest window that still burns, without pods that"
    " have a page of their own"
)
ARRIVALS = "inference requests whose body arrived whole, at their arrival"
ENDED = "inference requests that ended, whatever their outcome"
ENGINE = "all requests of the engine, also those that did not come through the sidecar, by its own metrics"
PODS = "pods whose sidecar is scraped"
INSIDE = "inference requests inside the sidecar now"
KNOWN_SPLIT = f"{STREAMED_OK} whose split is known"

TIMES = "none"
"""The unit of a multiple: 2.5 times. A share has percentunit."""


def phase_quantiles(phase: str, about: str, *, width: int = 12) -> Panel:
    """p50, p95 and p99 of one phase, by lane."""
    return Panel(
        Kind.LINES,
        f"{name_of(phase)} p50, p95, p99 by lane",
        f"{about} Quantiles of phases do not add up: for shares look at the means.",
        f"{KNOWN_SPLIT}; measured, or estimated where the attribution says so",
        "s",
        quantiles("llm_request_phase_seconds", selector=f'{{phase="{phase}",streaming="true"}}', exemplars=True),
        width=width,
    )


def phase_heatmap(phase: str, *, width: int = 8) -> Panel:
    """How one phase is distributed, over time."""
    return Panel(
        Kind.HEATMAP,
        f"{name_of(phase)}, distribution",
        "How many requests fell into which bucket; a second band is a second kind of request, which no mean shows.",
        KNOWN_SPLIT,
        "s",
        (
            Query(
                f'sum by (le) (increase(llm_request_phase_seconds_bucket{{phase="{phase}",streaming="true"}}[R]))',
                "{{le}}",
                exemplars=True,
            ),
        ),
        width=width,
    )


def phase_by_length(phase: str, *, width: int = 12) -> Panel:
    """Mean of one phase by lane and prompt bucket."""
    selected = f'{{phase="{phase}",streaming="true"}}'
    return Panel(
        Kind.LINES,
        f"Mean {name_of(phase).lower()} by prompt length",
        "The mean seconds of the phase, by lane and prompt bucket. All lengths together: the engine. The long ones only: the prompts.",
        KNOWN_SPLIT,
        "s",
        (
            Query(
                f"sum by (WHO, prompt_bucket) (rate(llm_request_phase_seconds_sum{selected}[R]))"
                f" / sum by (WHO, prompt_bucket) (rate(llm_request_phase_seconds_count{selected}[R]))",
                "{{lane}} {{prompt_bucket}} ({{model}} {{namespace}})",
            ),
        ),
        width=width,
    )


def name_of(phase: str) -> str:
    """As a heading has it."""
    return phase.replace("_", " ").capitalize()


def waited_in(objective: str, *, width: int = 12) -> Panel:
    """Where the missed requests waited: what the page quotes."""
    return Panel(
        Kind.LINES,
        f"Where the {objective.upper()} misses waited",
        "Shares of the misses whose split is known: the series that the page quotes. Where they waited is not what broke: behind a"
        " slow prefill, other requests wait in the queue.",
        f"{MISSES}; only those with a known split, of the last five minutes",
        "percentunit",
        (
            Query(
                f'lane:llm_slo_waited_in:ratio{{objective="{objective}"}}',
                f"{{{{lane}}}} {ENGINE_OF} {{{{phase}}}}",
            ),
        ),
        width=width,
        empty="no misses",
        by_phase=True,
    )


def evidence(*, width: int = 12) -> Panel:
    """The ratios of each pod to its usual values."""
    return Panel(
        Kind.LINES,
        "What has grown: now over what is usual, by pod",
        "Load, prompt lengths, uncached prompt tokens, answer lengths, and the cost of the same prefill and decode work, each over its"
        " usual value on this pod, which is learned while no objective burns. The sidecar weighs them when it decides a root.",
        "all requests of a pod in the last minute or two, whatever their lane",
        TIMES,
        (gauge("llm_evidence_ratio", by="POD, cause", legend="{{cause}} ({{pod}} {{namespace}})"),),
        width=width,
        steps=((1.2, YELLOW),),
        empty="no baseline yet",
        decimals=2,
    )


def engine_cost(part: Part, *, width: int = 12) -> Panel:
    """The cost of the engine's work now over its usual cost."""
    work = "a step of the same sequences and contexts" if part is Part.DECODE else "the same uncached prompt tokens"
    return Panel(
        Kind.LINES,
        f"Cost of {part}: now over what is usual, by pod",
        f"What {work} costs now over what it cost while no objective burned, with an interval of 95 %; an estimate. An interval"
        " above 1: the work is dearer than it was.",
        GAPS,
        TIMES,
        tuple(
            gauge(f'{name}{{part="{part}"}}', legend=f"{{{{pod}}}} {{{{namespace}}}}{words}")
            for name, words in (
                ("llm_engine_cost_ratio", ""),
                ("llm_engine_cost_ratio_low", " at least"),
                ("llm_engine_cost_ratio_high", " at most"),
            )
        ),
        width=width,
        decimals=2,
        empty="unknown: the sidecar's dashboard says why",
    )


def burn(windows: tuple[str, ...] = ("5m", "30m", "6h"), *, objective: str = "", width: int = 12) -> Panel:
    """Burn rates on several windows: a spike has only the short one up."""
    chosen = f'{{objective="{objective}"}}' if objective else ""
    said = objective or "{{objective}}"
    return Panel(
        Kind.LINES,
        "Error budget burn: spike or steady",
        "Error budget spent over error budget earned; 1 is what the target allows, from 10 on it pages. Only the short window high:"
        " a spike. All of them: steady state.",
        COUNTED,
        TIMES,
        tuple(
            Query(
                f"lane:llm_slo_burn:ratio_rate{window}{chosen}",
                f"{{{{lane}}}} {said} {window} {ENGINE_OF}",
            )
            for window in windows
        ),
        width=width,
        steps=((1, ORANGE), (10, RED)),
        decimals=1,
    )


def waiting(*, width: int = 12) -> Panel:
    """The engine's own queue and batch, by pod."""
    return Panel(
        Kind.LINES,
        "The engine: waiting and running",
        "Waiting above 0 with running flat: the batch limit. A queue that never returns to 0 grows without bound. One pod with the"
        " whole queue: that replica, or the balancing.",
        ENGINE,
        "short",
        (
            gauge("llm_engine_requests_waiting", legend="{{pod}} {{namespace}} waiting"),
            gauge("llm_engine_requests_running", legend="{{pod}} {{namespace}} running"),
        ),
        width=width,
        empty="the engine does not say",
    )


def kv_usage(*, width: int = 12) -> Panel:
    """How full the KV cache is, by pod."""
    return Panel(
        Kind.LINES,
        "KV cache in use",
        "Above 0.9 while requests wait, memory is what is missing; near 1 the engine preempts.",
        "the KV cache of each pod's engine, of its fullest rank",
        "percentunit",
        (gauge("llm_engine_kv_cache_usage_ratio"),),
        width=width,
        steps=((0.9, ORANGE), (0.95, RED)),
        empty="the engine does not say",
    )


def preemptions(*, width: int = 12) -> Panel:
    """Preempted requests, by pod."""
    return Panel(
        Kind.LINES,
        "Preemptions",
        "Requests that the engine threw out and computes again. Their second wait hides in prefill or decode.",
        ENGINE,
        "reqps",
        (Query("sum by (POD) (rate(llm_engine_preemptions_total[R]))", "{{pod}} {{namespace}}"),),
        width=width,
        empty="the engine does not say",
    )


def prefix_hits(*, width: int = 12) -> Panel:
    """The engine's own hit rate, and what requests report."""
    return Panel(
        Kind.LINES,
        "Prompt tokens from the prefix cache",
        "A fall makes every prompt dearer, and turns up as everybody's queue. By the engine's own counters for each pod, and by"
        " the usage of the requests for each lane.",
        f"by pod: {ENGINE}; by lane: {OK} whose usage states how many tokens were cached",
        "percentunit",
        (
            Query(
                "sum by (POD) (rate(llm_engine_prefix_cache_hits_total[R])) / sum by (POD) (rate(llm_engine_prefix_cache_queries_total[R]))",
                "{{pod}} {{namespace}}",
            ),
            Query(
                "sum by (WHO) (rate(llm_cached_prompt_tokens_total[R]))"
                " / (sum by (WHO) (rate(llm_cached_prompt_tokens_total[R])) + sum by (WHO) (rate(llm_uncached_prompt_tokens_total[R])))",
                LANE,
            ),
        ),
        width=width,
    )


def phase_stack(title: str, about: str, *, streaming: bool, width: int = 8, per_lane: bool = True) -> Panel:
    """Mean seconds by phase, stacked: they add up to the mean request, which is drawn over them."""
    value = "true" if streaming else "false"
    return Panel(
        Kind.STACK,
        title,
        f"{about} Each phase's seconds over all requests, so the stack's height is the mean of the whole request, drawn as a line.",
        f"{'streamed' if streaming else 'not streamed'} {OK}",
        "s",
        (
            Query(
                f'sum by (phase) (rate(llm_request_phase_seconds_sum{{streaming="{value}"}}[R]))'
                f' / on () group_left () sum(rate(llm_request_seconds_count{{streaming="{value}"}}[R]))',
                "{{phase}}",
            ),
            Query(
                f'sum(rate(llm_request_seconds_sum{{streaming="{value}"}}[R])) / sum(rate(llm_request_seconds_count{{streaming="{value}"}}[R]))',
                "whole request",
            ),
        ),
        width=width,
        total="whole request",
        by_phase=True,
        per_lane=per_lane,
    )


_ROOT_COLOURS = {**PHASE_COLOURS, SIDECAR: "semi-dark-blue"}
_LEADING = f"topk by ({WHO}) (1, lane:llm_slo_root:share)"
"""The root that leads in each lane and objective."""


def verdict_table() -> Panel:
    """One line for each lane and objective that burns: which phase broke, why, how bad; the phase leads to its dashboard."""
    root = "namespace, job, model, phase"
    causes = f"sum by ({root}, cause) (increase(llm_slo_root_cause_misses_total[W])) > 0"
    because = f"* on ({root}) group_left (cause) group by ({root}, cause) (topk by ({root}) (1, {causes}))"
    own = {
        Blame.FIRST_TOKEN: "llm-prefill",
        Blame.UNATTRIBUTED: "llm-sidecar",
        Blame.ENGINE: "llm-fleet",
        SIDECAR: "llm-sidecar",
    }
    # Every phase leads somewhere: its own dashboard, or the one whose panels tell most about it.
    led = f'label_replace({_LEADING} {because}, "dashboard", "llm-$1", "phase", "(.+)")'
    for phase, uid in own.items():
        led = f'label_replace({led}, "dashboard", "{uid}", "phase", "{phase}")'
    phases = tuple(
        (column, phase, colour) for column in ("phase", "waited_in") for phase, colour in _ROOT_COLOURS.items()
    )
    paging = f'max by ({WHO}) (lane:llm_slo_burn:tier{{tier=~"{PAGING}"}})'
    return Panel(
        Kind.TABLE,
        "Verdict: which phase, which lane",
        f"The series that the alerts read. phase is what broke: the root of most decided misses, and of how many; below {LEAST_CONFIDENCE:.0%}"
        " the page is unattributed. cause leads within the phase, over the time shown. waited_in is where most of the missed requests"
        " waited. severity is there while an alert's condition holds. Click the phase.",
        DECIDED,
        TIMES,
        (
            Query(f"sum by ({WHO}, phase, cause, dashboard) ({led})", "of the misses", unit="percentunit"),
            Query(
                f"sum by ({WHO}, waited_in) (label_replace(topk by ({WHO}) (1, lane:llm_slo_waited_in:ratio),"
                ' "waited_in", "$1", "phase", "(.+)"))',
                "share",
                unit="percentunit",
            ),
            Query(
                f"max by ({WHO}) (lane:llm_slo_burn:ratio_rate5m) and on ({WHO}) lane:llm_slo_root:share",
                "burn 5m",
                colours=((1, ORANGE), (10, RED)),
            ),
            Query(
                f'label_replace({paging}, "severity", "page", "", "")'
                f' or label_replace(max by ({WHO}) (lane:llm_slo_burn:tier{{tier="slow"}})'
                f' unless on ({WHO}) {paging}, "severity", "ticket", "", "")',
                "alerting",
                unit="none",
            ),
        ),
        width=24,
        height=7,
        empty="",
        hidden=("dashboard", "alerting"),
        text_colours=(*phases, ("severity", "page", RED), ("severity", "ticket", ORANGE)),
        links=(
            ("phase", "The phase's dashboard", kept("${__data.fields.dashboard}", "namespace", "model", "lane")),
            ("lane", "Lanes and lengths", kept("llm-lanes", "namespace", "model", "lane")),
        ),
        sorted_by="burn 5m",
    )


def verdict_timeline(*, width: int = 24, height: int = 6) -> Panel:
    """The verdict over time, one bar for each lane and objective."""
    numbered = " or ".join(
        f'{number} * group by ({WHO}) (lane:llm_slo_root:share{{phase="{phase}"}} >= {LEAST_CONFIDENCE:g})'
        for number, phase in enumerate(_ROOT_COLOURS, 1)
    )
    return Panel(
        Kind.TIMELINE,
        "Verdict over time",
        f"Which phase broke when: the root of {LEAST_CONFIDENCE:.0%} of the decided misses or more; empty where none has so many, or a lane does not burn.",
        DECIDED,
        "none",
        (Query(numbered, f"{{{{lane}}}} {{{{objective}}}} {ENGINE_OF}"),),
        width=width,
        height=height,
        empty="no misses",
        words=tuple((number, phase, colour) for number, (phase, colour) in enumerate(_ROOT_COLOURS.items(), 1)),
    )


def counted(
    title: str, about: str, population: str, counter: str, label: str, *, unit: str = "reqps", width: int = 8
) -> Panel:
    """A counter by one label, without the children that stand at 0."""
    legend = f"{{{{{label}}}}}"
    return Panel(
        Kind.LINES,
        title,
        about,
        population,
        unit,
        (Query(f"sum by ({label}) (rate({counter}[R])) > 0", legend),),
        width=width,
        empty="none",
    )
