"""Two versions side by side, and the gate: p99 of the new one at most 10 % above the old one's, lane by lane.

The version is `app_version`, a label that Prometheus puts on the target from the pod's label `app.kubernetes.io/version`
(README); it is not called `version`, which `llm_sidecar_build_info` and `llm_engine_info` have already.
"""

from grafana.panel import RED, YELLOW, Board, Choice, Kind, Panel, Row
from grafana.query import LANE, Query
from grafana.shapes import ENDED, FIRST_TOKENS, OK, STREAMED_OK, TPOTS


GATE = 0.10
"""The p99 of the canary may be this share above the baseline's."""

BOTH = 'app_version=~"$baseline|$canary"'
VERSIONED = "{{app_version}} {{lane}} ({{model}} {{namespace}})"


def _p99(histogram: str, version: str, window: str = "[R]") -> str:
    function = "increase" if window == "[W]" else "rate"
    return f'histogram_quantile(0.99, sum by (WHO, le) ({function}({histogram}_bucket{{app_version="${version}"}}{window})))'


def _regression(histogram: str) -> Query:
    return Query(f"{_p99(histogram, 'canary', '[W]')} / {_p99(histogram, 'baseline', '[W]')} - 1", LANE)


def _part(version: str, part: str) -> str:
    return (
        f'sum by (WHO) (increase({part}{{app_version="${version}"}}[W]))'
        f' / sum by (WHO) (increase(llm_requests_total{{app_version="${version}"}}[W]))'
    )


def _errors(version: str) -> str:
    return (
        f'sum by (WHO) (increase(llm_requests_total{{app_version="${version}",outcome=~"engine_.*|rejected|sidecar_error"}}[W]))'
        f' / sum by (WHO) (increase(llm_requests_total{{app_version="${version}"}}[W]))'
    )


def _gate(title: str, about: str, population: str, query: Query, steps: tuple[tuple[float, str], ...]) -> Panel:
    return Panel(
        Kind.STAT, title, about, population, "percentunit", (query,), width=6, height=6, steps=steps, decimals=1
    )


_REGRESSED = ((GATE / 2, YELLOW), (GATE, RED))

_GATE = Row(
    "The gate, over the time shown: red does not go out",
    (
        _gate(
            "TTFT p99: canary over baseline",
            "0 is no change, 10 % is the gate. With few requests a p99 is a single request: see the traffic below.",
            f"{FIRST_TOKENS}; of the two versions chosen",
            _regression("llm_time_to_first_token_seconds"),
            _REGRESSED,
        ),
        _gate(
            "TPOT p99: canary over baseline",
            "As TTFT, for the tokens after the first: the two can move against each other.",
            f"{TPOTS}; of the two versions chosen",
            _regression("llm_time_per_output_token_seconds"),
            _REGRESSED,
        ),
        _gate(
            "Goodput lost",
            "By how much the share of good requests is lower on the canary. Only lanes with objectives have it.",
            f"{ENDED}; of the two versions chosen",
            Query(
                f"({_part('baseline', 'llm_good_requests_total')}) - ({_part('canary', 'llm_good_requests_total')})",
                LANE,
            ),
            ((0.01, YELLOW), (0.05, RED)),
        ),
        _gate(
            "Errors added",
            "By how much the share of rejected and failed requests is higher on the canary. Cancels and client errors are neither.",
            f"{ENDED}; of the two versions chosen",
            Query(f"({_errors('canary')}) - ({_errors('baseline')})", LANE),
            ((0.001, YELLOW), (0.01, RED)),
        ),
    ),
)


def _side_by_side(title: str, about: str, population: str, histogram: str) -> Panel:
    queries = tuple(
        Query(
            f"histogram_quantile({q}, sum by (WHO, app_version, le) (rate({histogram}_bucket{{{BOTH}}}[R])))",
            f"p{q * 100:g} {VERSIONED}",
            exemplars=True,
        )
        for q in (0.5, 0.99)
    )
    return Panel(Kind.LINES, title, about, population, "s", queries)


def _shares(title: str, about: str, part: str) -> Panel:
    return Panel(
        Kind.LINES,
        title,
        about,
        ENDED,
        "percentunit",
        (
            Query(
                f"sum by (WHO, app_version) (rate({part}[R])) / sum by (WHO, app_version) (rate(llm_requests_total{{{BOTH}}}[R]))",
                VERSIONED,
            ),
        ),
    )


_LINES = Row(
    "Side by side",
    (
        _side_by_side(
            "Time to first token p50, p99",
            "Both versions, lane by lane.",
            FIRST_TOKENS,
            "llm_time_to_first_token_seconds",
        ),
        _side_by_side(
            "Time per output token p50, p99", "Both versions, lane by lane.", TPOTS, "llm_time_per_output_token_seconds"
        ),
        _shares(
            "Good requests, of all that ended",
            "Requests that met every objective of their lane and length.",
            f"llm_good_requests_total{{{BOTH}}}",
        ),
        _shares(
            "Errors, of all that ended",
            "Rejected and failed requests; cancels and client errors are neither.",
            f'llm_requests_total{{{BOTH},outcome=~"engine_.*|rejected|sidecar_error"}}',
        ),
    ),
)


def _stack(version: str) -> Panel:
    chosen = f'app_version="${version}",streaming="true"'
    return Panel(
        Kind.STACK,
        f"Mean seconds by phase: {version} (${version})",
        "Which phase makes the difference. The line is the mean of the whole request, which the phases add up to.",
        f"{STREAMED_OK}; of this version",
        "s",
        (
            Query(
                f"sum by (phase) (rate(llm_request_phase_seconds_sum{{{chosen}}}[R]))"
                f" / on () group_left () sum(rate(llm_request_seconds_count{{{chosen}}}[R]))",
                "{{phase}}",
            ),
            Query(
                f"sum(rate(llm_request_seconds_sum{{{chosen}}}[R])) / sum(rate(llm_request_seconds_count{{{chosen}}}[R]))",
                "whole request",
            ),
        ),
        width=8,
        total="whole request",
        by_phase=True,
    )


_WHY = Row(
    "Which phase, and is it the same traffic",
    (
        _stack("baseline"),
        _stack("canary"),
        Panel(
            Kind.LINES,
            "Requests by version and lane",
            "Compare only what gets the same kind of traffic; below a hundred requests a p99 says nothing.",
            ENDED,
            "reqps",
            (Query(f"sum by (WHO, app_version) (rate(llm_requests_total{{{BOTH}}}[R]))", VERSIONED),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Mean prompt tokens by version",
            "Longer prompts on one side explain a longer prefill on that side.",
            f"{OK} whose usage the engine stated",
            "short",
            (
                Query(
                    f"sum by (WHO, app_version) (rate(llm_prompt_tokens_sum{{{BOTH}}}[R]))"
                    f" / sum by (WHO, app_version) (rate(llm_prompt_tokens_count{{{BOTH}}}[R]))",
                    VERSIONED,
                ),
            ),
            width=12,
        ),
        Panel(
            Kind.STAT,
            "Pods of each version",
            "How many pods were scraped in the time shown.",
            "pods whose sidecar was scraped",
            "short",
            (
                Query(
                    f"count by (app_version) (group by (POD, app_version) (llm_sidecar_ready{{{BOTH}}}))",
                    "{{app_version}}",
                ),
            ),
            width=12,
            empty="no pod has app_version",
        ),
    ),
)

BOARD = Board(
    "llm-canary",
    "LLM canary: two versions",
    "Choose baseline and canary by app_version. TTFT, TPOT, goodput and errors side by side, with a gate of 10 % on p99.",
    (_GATE, _LINES, _WHY),
    choices=(
        Choice("baseline", "app_version", "llm_sidecar_build_info", "Baseline"),
        Choice("canary", "app_version", "llm_sidecar_build_info", "Canary"),
    ),
)
