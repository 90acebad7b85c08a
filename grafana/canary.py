"""Two versions side by side, and the gate: does the new one miss, fail or lose more, lane by lane, by more than chance.

The gate is the query that rollouts ask (`rollouts.py`). The version is `app_version`, a label that Prometheus puts on the
target from the pod's label `app.kubernetes.io/version` (README); it is not called `version`, which
`llm_sidecar_build_info` and `llm_engine_info` have already.
"""

from grafana.colours import FINE, RED
from grafana.gate_query import FAILS_BELOW, Versions, gate_query
from grafana.panel import Board, Choice, Kind, Panel, Row
from grafana.query import WHO, Query, summed
from grafana.shapes import ENDED, ENGINE, FIRST_TOKENS, OK, POINT_AT_IT, STREAMED_OK, TPOTS
from sidecar.commands.compare.gate_questions import CUT_QUESTION, GATE_QUESTIONS, OBJECTIVE_OF, Asked, Counted, Question
from sidecar.commands.export.rules.dashboard_rules import quantile, samples
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED
from sidecar.timeline.finish import Finish


BOTH = 'app_version=~"$baseline|$canary"'
LANE = "{{lane}} ({{model}} {{namespace}} {{cluster}})"
VERSIONED = "{{app_version}} {{lane}} ({{model}} {{namespace}} {{cluster}})"
NOT_COMPARED = "one version, or no traffic"
_TWO_VERSIONS = 12
"""Height of a panel whose legend has two rows for each lane of both versions."""
CANARYS = "Canary's "
"""Every tile of the gate begins so."""


def _worse(yes: str, no: str) -> tuple[tuple[float, float, str, str], ...]:
    """The answers of the gate as words: at the limit itself a rollout passes."""
    return ((FAILS_BELOW, 1, no, FINE), (0, FAILS_BELOW, yes, RED))


_VERSIONS = Versions(both=BOTH, canary='app_version="$canary"')
_OF = "of the two versions chosen, in minutes in which both had requests"
_ALONE = {
    "baseline": 'app_version="$baseline",app_version!="$canary"',
    "canary": 'app_version="$canary",app_version!="$baseline"',
}
"""Matchers of what is compared: no version is compared with itself."""


def _share(counted: Counted, version: str) -> str:
    matchers = ",".join(filter(None, (_ALONE[version], counted.matchers)))
    return f"sum by (WHO) (increase({counted.metric}{{{matchers}}}[W]))"


def _part(question: Question, version: str) -> str:
    return f"{_share(question.counted, version)} / {_share(question.of, version)}"


def _more(question: Question) -> str:
    """By how much the canary's share is above the baseline's; below it, where less is worse."""
    parts = [_part(question, version) for version in ("canary", "baseline")]
    worse, better = parts if question.more_is_worse else reversed(parts)
    return f"({worse}) - ({better})"


def _gate(asked: Asked, what: str, about: str, population: str) -> Panel:
    """The gate's tile for one question."""
    return Panel(
        Kind.STAT,
        f"{CANARYS}{what}",
        f"{about} Worse: two equal versions would look so different in less than {100 * FAILS_BELOW:g} % of rollouts, however often one looks;"
        " there a rollout is failed. Not worse: it is not shown that the canary is worse. Unknown: there is nothing to compare.",
        f"{population}; {_OF}",
        "percentunit",
        (Query(gate_query(GATE_QUESTIONS[asked], _VERSIONS, "W", by=WHO), LANE, ranges=_worse("worse", "not worse")),),
        width=6 if asked in OBJECTIVE_OF or asked is Asked.GOODPUT else 8,
        height=6,
        empty=f"unknown: no such objective, {NOT_COMPARED}" if asked in OBJECTIVE_OF else f"unknown: {NOT_COMPARED}",
    )


_ASKED = (
    (
        Asked.TTFT_MISSES,
        "TTFT misses",
        "Requests whose first token came after its threshold.",
        "requests that count for the objective ttft",
    ),
    (
        Asked.TPOT_MISSES,
        "TPOT misses",
        "Requests whose tokens after the first came too slowly: the two can move against each other.",
        "requests that count for the objective tpot",
    ),
    (
        Asked.E2E_MISSES,
        "E2E misses",
        "Whole answers that came too late: the objective of lanes whose answers are not streamed.",
        "requests that count for the objective e2e",
    ),
    (
        Asked.GOODPUT,
        "goodput lost",
        "Requests that did not meet every objective. Only lanes with objectives have it.",
        ENDED,
    ),
    (Asked.ERRORS, "errors", "Rejected and failed requests. Cancels and client errors are neither.", ENDED),
    (Asked.EMPTY_ANSWERS, "empty answers", "Answers with no text, no reasoning and no tool call.", OK),
    (
        Asked.REPEATED_ANSWERS,
        "repeated answers",
        "Answers that the engine ended because they repeated themselves, which vLLM does for requests that ask for this check.",
        OK,
    ),
)
"""Each question of the gate: its name, its words, what it is about, and the requests that it counts."""
_SIZES = Panel(
    Kind.TABLE,
    "How much worse the canary is",
    "The share of requests on the canary less that on the baseline; of goodput, the baseline's less the canary's. Above 0 the canary is"
    " worse. Whether that can be chance, the tiles above say.",
    f"{ENDED}; of answers, {OK}; of the two versions chosen",
    "percentunit",
    tuple(Query(_more(GATE_QUESTIONS[asked]), what, decimals=2) for asked, what, *_ in _ASKED),
    width=24,
    height=6,
    order=("lane", "model", "cluster", "namespace"),
    empty=NOT_COMPARED,
)

_GATE = Row("The gate over the time shown: $canary against $baseline", (*(_gate(*one) for one in _ASKED), _SIZES))


def _side_by_side(title: str, population: str, histogram: str) -> Panel:
    by, matchers = "WHO, app_version", f"{{{BOTH}}}"
    queries = (
        *(
            Query(quantile(q, histogram, by=by, matchers=matchers), f"p{q * 100:g} {VERSIONED}", exemplars=True)
            for q in (0.5, 0.95)
        ),
        Query(samples(histogram, by=by, matchers=matchers), f"counted {VERSIONED}", counts=True),
    )
    about = (
        f"Both versions, lane by lane, over five minutes: p50 from {SAMPLES_NEEDED[0.5]} requests on, p95 from {SAMPLES_NEEDED[0.95]}."
        f" {POINT_AT_IT} `sidecar compare` tells a p99 with its interval."
    )
    return Panel(Kind.LINES, title, about, population, "s", queries, width=12, height=_TWO_VERSIONS)


_LINES = Row(
    "Side by side",
    (
        _side_by_side("Time to first token p50, p95", FIRST_TOKENS, "llm_time_to_first_token_seconds"),
        _side_by_side("Time per output token p50, p95", TPOTS, "llm_time_per_output_token_seconds"),
    ),
)


_SENTINELS = Row(
    "Faster, but worse? $canary against $baseline",
    (
        Panel(
            Kind.TABLE,
            "Answers cut",
            "The answer ended at a limit of tokens. More often: two equal versions would look so different in less than"
            f" {100 * FAILS_BELOW:g} % of rollouts. No rollout is failed by it: whether longer or shorter answers are worse depends on what"
            " was changed.",
            f"{OK}; {_OF}",
            "percentunit",
            (
                *(
                    Query(f"{_part(CUT_QUESTION, version)} >= 0", f"cut: {version}", unit="percentunit", decimals=1)
                    for version in ("baseline", "canary")
                ),
                Query(
                    gate_query(CUT_QUESTION, _VERSIONS, "W", by=WHO),
                    "canary's are cut",
                    ranges=_worse("more often", "not more often"),
                ),
            ),
            width=24,
            height=6,
            order=("lane", "model", "cluster", "namespace"),
            empty=NOT_COMPARED,
        ),
    ),
)


def _finished(reason: Finish) -> Query:
    """A column of the table of versions: answers that ended for this reason."""
    part = f'llm_answers_total{{{BOTH},finish_reason="{reason}"}}'
    whole = f"llm_answers_total{{{BOTH}}}"
    return Query(
        f"sum by (app_version) (increase({part}[W])) / sum by (app_version) (increase({whole}[W])) >= 0",
        reason.replace("_", " "),
        decimals=1,
    )


def _mean_tokens(tokens: str) -> Query:
    total, count = (
        summed(f"rate(llm_{tokens}_tokens_{part}{{{BOTH}}}[R])", by="WHO, app_version") for part in ("sum", "count")
    )
    return Query(f"{total} / {count}", f"{tokens} {VERSIONED}")


def _stack(version: str) -> Panel:
    chosen = f'app_version="${version}",streaming="true"'
    phases = summed(f"rate(llm_request_phase_seconds_sum{{{chosen}}}[R])", by="phase")
    total, requests = (summed(f"rate(llm_request_seconds_{part}{{{chosen}}}[R])") for part in ("sum", "count"))
    return Panel(
        Kind.STACK,
        f"Mean seconds by phase: {version} (${version})",
        "Which phase makes the difference. The line is the mean of the whole request, which the phases add up to.",
        f"{STREAMED_OK}; of this version",
        "s",
        (
            Query(f"{phases} / on () group_left () {requests}", "{{phase}}"),
            Query(f"{total} / {requests}", "whole request"),
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
            "Compare only what gets the same kind of traffic, and as much of it on each pod.",
            ENDED,
            "reqps",
            (Query(f"sum by (WHO, app_version) (rate(llm_requests_total{{{BOTH}}}[R]))", VERSIONED),),
            width=12,
            height=_TWO_VERSIONS,
        ),
        Panel(
            Kind.LINES,
            "Mean prompt and output tokens by version",
            "Longer prompts on one side explain a longer prefill on that side. Longer or shorter answers to the same prompts: the versions"
            " answer differently.",
            f"{OK} whose usage the engine stated",
            "short",
            (_mean_tokens("prompt"), _mean_tokens("output")),
            width=12,
            height=_TWO_VERSIONS,
        ),
        Panel(
            Kind.TABLE,
            "Pods and answers of each version",
            "Pods that were scraped in the time shown; the finish reasons that answers state, as shares; and of the tokens that speculative"
            " decoding proposed, those that the model accepted: a new model with an old draft accepts fewer, and is slower for it.",
            f"{OK}; drafts: {ENGINE}, where it states them",
            "percentunit",
            (
                Query(
                    f"count by (app_version) (group by (POD, app_version) (llm_sidecar_ready{{{BOTH}}}))",
                    "pods",
                    unit="short",
                ),
                *(_finished(reason) for reason in (Finish.STOP, Finish.LENGTH, Finish.TOOL_CALLS)),
                *(_finished(reason) for reason in (Finish.CONTENT_FILTER, Finish.REPETITION)),
                Query(
                    f"sum by (app_version) (increase(llm_engine_accepted_draft_tokens_total{{{BOTH}}}[W]))"
                    f" / sum by (app_version) (increase(llm_engine_draft_tokens_total{{{BOTH}}}[W])) >= 0",
                    "drafts accepted",
                    decimals=0,
                ),
            ),
            width=12,
            height=_TWO_VERSIONS,
            order=("app_version",),
            empty="no pod has app_version",
        ),
    ),
)

BOARD = Board(
    "llm-canary",
    "LLM canary: two versions",
    "Opens with the version of the oldest pods as baseline and that of the youngest as canary. Misses, errors,"
    " goodput, empty and repeated answers side by side, with the gate that rollouts are failed by.",
    (_GATE, _SENTINELS, _LINES, _WHY),
    choices=(
        Choice("baseline", "app_version", "Baseline", youngest_first=False),
        Choice("canary", "app_version", "Canary", youngest_first=True),
    ),
)
