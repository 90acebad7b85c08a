"""The confirming checks of the runbooks: the name of a query to the function that answers it for this pod, and to its words.

A query in a runbook has its check's name behind `promql` on the line that opens it. No PromQL is evaluated here: each check
is a reader of the one history, and `tests/diagnosis/test_confirming_prometheus.py` holds it against a real Prometheus on the same
series. It refuses to judge: the runbook says beside each query what to expect. An unknown number is `unknown`, with the
reason, and never 0. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sidecar.diagnosis.wording import digits, percent, seconds, times
from sidecar.history import rows as r
from sidecar.history.rows import Moment, NotKnownError, Reader
from sidecar.history.series import LONG_SECONDS
from sidecar.history.slices import Sliced, run_now
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Histogram
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import Cause, is_worth_naming
from sidecar.timeline.outcome import Outcome


LINES_SHOWN = 8
"""Lines of one answer; more are counted in its last line."""
TEN_MINUTES_SECONDS = 600.0
QUARTER_HOUR_SECONDS = 900.0
_OF_LANE = ("model", "lane")
_OF_MODEL = ("model",)


def _number(unit: str) -> Callable[[float], str]:
    return lambda value: f"{digits(value)} {unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    read: Reader
    say: Callable[[float], str]
    """A value as text, with its unit."""
    by: tuple[str, ...] = ()
    """Labels of the rows, in the order of the reader."""
    nothing: str = "none"
    """The meaning of an answer without a row."""
    beside: tuple[Reader, Callable[[float], str]] | None = None
    """One more number that belongs to it, where it is known."""
    usual: Cause | None = None
    """The cause of which this number is a sign: the size that an open incident has of it is said too, else its number over the usual one, or
    that it has not grown."""


@dataclass(frozen=True, slots=True)
class Answer:
    known: bool
    lines: tuple[str, ...]
    """Sentences without a full stop; text in backticks is a label's value."""


def _misses(*by: str, phase: str = "", of: tuple[str, ...] = _OF_MODEL) -> Reader:
    only = {"phase": phase} if phase else {}
    return r.above_zero(r.growth(c.SLO_ROOT_CAUSE_MISSES_TOTAL, *by, of=of, only=only))


def _size(phase: Blame) -> Check:
    """The size of the open incident's root, if the root is of this phase."""
    read = r.gauge(
        c.INCIDENT_SIZE_RATIO, "cause", only={"phase": phase}, absent=f"no incident with a size is open for {phase}"
    )
    return Check(read=read, by=("cause",), say=lambda ratio: f"{times(ratio)} the usual")


def _slowest(q: float, metric: Histogram, *of: str) -> Check:
    return Check(read=r.quantile_of(q, metric, of=of), say=seconds)


_ENGINE_STATES = {1: "1: it answers", 0: "0: it does not answer", -1: "-1: it has stopped in the middle of its work"}
_NO_MISS = "no miss was decided in the window"

CHECKS: Mapping[str, Check] = {
    # --- misses and their roots ---
    "roots-of-model": Check(
        read=_misses("phase", "cause"), by=("phase", "cause"), say=_number("misses"), nothing=_NO_MISS
    ),
    "roots-of-pod": Check(
        read=_misses("phase", "cause", of=()), by=("phase", "cause"), say=_number("misses"), nothing=_NO_MISS
    ),
    "engine-causes": Check(
        read=_misses("cause", phase=Blame.ENGINE), by=("cause",), say=_number("misses"), nothing=_NO_MISS
    ),
    "sidecar-causes": Check(
        read=_misses("cause", phase=SIDECAR), by=("cause",), say=_number("misses"), nothing=_NO_MISS
    ),
    "missed-share": Check(
        read=r.over(r.growth(c.SLO_MISSES_TOTAL, of=_OF_MODEL), r.growth(c.SLO_REQUESTS_TOTAL, of=_OF_MODEL)),
        say=percent,
    ),
    "usual-values-from": Check(
        read=r.gauge(c.BASELINE_INFO, "source", "provisional"),
        by=("source", "provisional"),
        say=lambda _one: "in force",
    ),
    # --- requests ---
    "outcomes-but-ok": Check(
        read=r.above_zero(
            r.per_second(c.REQUESTS_TOTAL, "outcome", of=_OF_LANE, without={"outcome": (Outcome.OK, Outcome.ACCEPTED)})
        ),
        by=("outcome",),
        say=_number("a second"),
    ),
    "cut-off-requests": Check(
        read=r.above_zero(
            r.growth(
                c.REQUESTS_TOTAL,
                *("lane", "outcome"),
                only={"outcome": (Outcome.ENGINE_TRUNCATED, Outcome.ENGINE_UNREACHABLE, Outcome.ENGINE_ERROR)},
                seconds=LONG_SECONDS,
            )
        ),
        by=("lane", "outcome"),
        say=_number("requests"),
    ),
    "rejected-share": Check(
        read=r.over(
            r.growth(c.REQUESTS_TOTAL, of=_OF_LANE, only={"outcome": Outcome.REJECTED}),
            r.growth(c.REQUESTS_TOTAL, of=_OF_LANE),
        ),
        say=percent,
    ),
    "cancels-while-waiting": Check(
        read=r.over(
            r.growth(c.CLIENT_CANCELS_TOTAL, of=_OF_LANE, only={"stage": "waiting"}, seconds=TEN_MINUTES_SECONDS),
            r.growth(c.REQUESTS_RECEIVED_TOTAL, of=_OF_LANE, seconds=TEN_MINUTES_SECONDS),
        ),
        say=percent,
    ),
    "ttft-slowest-twentieth": _slowest(0.95, c.TIME_TO_FIRST_TOKEN_SECONDS, *_OF_LANE),
    "in-flight-by-state": Check(read=r.gauge(c.REQUESTS_IN_FLIGHT, "state"), by=("state",), say=_number("requests")),
    "mean-prompt-by-lane": Check(
        read=r.over(r.growth(c.STATED_PROMPT_TOKENS_TOTAL, "lane"), r.growth(c.STATED_PROMPTS_TOTAL, "lane")),
        by=("lane",),
        say=_number("tokens"),
        usual=Cause.PROMPT_MIX,
    ),
    "prompt-tokens-received": Check(
        read=r.per_second(c.RECEIVED_PROMPT_TOKENS_TOTAL, of=_OF_MODEL),
        say=_number("tokens a second"),
        usual=Cause.LOAD,
    ),
    # Both counters grow only where usage states cached tokens: a lane without is left out, and is not told 0 %.
    "cached-share-by-lane": Check(
        read=r.over(
            r.growth(c.CACHED_PROMPT_TOKENS_TOTAL, "lane"),
            r.plus(r.growth(c.CACHED_PROMPT_TOKENS_TOTAL, "lane"), r.growth(c.UNCACHED_PROMPT_TOKENS_TOTAL, "lane")),
        ),
        by=("lane",),
        say=percent,
        usual=Cause.UNCACHED,
    ),
    # --- the split of their time ---
    "split-share": Check(
        read=r.over(
            r.growth(c.PHASE_ATTRIBUTION_TOTAL, of=("lane",), without={"source": "none"}, seconds=LONG_SECONDS),
            r.growth(c.PHASE_ATTRIBUTION_TOTAL, of=("lane",), seconds=LONG_SECONDS),
        ),
        say=percent,
    ),
    "unsplit-by-reason": Check(
        read=r.above_zero(
            r.per_second(
                c.PHASE_ATTRIBUTION_TOTAL, "reason", of=("lane",), only={"source": "none"}, seconds=LONG_SECONDS
            )
        ),
        by=("reason",),
        say=_number("requests a second"),
        nothing="every request has a split",
    ),
    "splits-by-source": Check(
        read=r.above_zero(r.per_second(c.PHASE_ATTRIBUTION_TOTAL, "source", "reason", seconds=QUARTER_HOUR_SECONDS)),
        by=("source", "reason"),
        say=_number("requests a second"),
    ),
    "agreement-by-phase": Check(read=r.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO, "phase"), by=("phase",), say=digits),
    "first-token-mean-by-bucket": Check(
        read=r.mean(
            c.REQUEST_PHASE_SECONDS,
            "prompt_bucket",
            of=_OF_LANE,
            only={"streaming": "true", "phase": Blame.FIRST_TOKEN},
        ),
        by=("prompt_bucket",),
        say=seconds,
    ),
    # --- the engine ---
    "kv-usage-while-waiting": Check(
        read=r.while_above_zero(r.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO), r.gauge(c.ENGINE_REQUESTS_WAITING)),
        say=lambda ratio: f"{percent(ratio)} full",
        nothing="no request waits in the engine now",
        beside=(r.gauge(c.ENGINE_REQUESTS_WAITING), _number("waiting")),
        usual=Cause.LOAD,
    ),
    "kv-usage-highest": Check(
        read=r.highest(c.ENGINE_KV_CACHE_USAGE_RATIO), say=lambda ratio: f"{percent(ratio)} full at the most"
    ),
    "preempted-share": Check(
        read=r.over(r.growth(c.ENGINE_PREEMPTIONS_TOTAL), r.growth(c.REQUESTS_RECEIVED_TOTAL)),
        say=lambda ratio: f"{digits(ratio)} preemptions for each request",
    ),
    "prefix-hits-share": Check(
        read=r.over(
            r.growth(c.ENGINE_PREFIX_CACHE_HITS_TOTAL, seconds=QUARTER_HOUR_SECONDS),
            r.growth(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL, seconds=QUARTER_HOUR_SECONDS),
        ),
        say=percent,
        usual=Cause.UNCACHED,
    ),
    "decode-cost": _size(Blame.DECODE),
    "prefill-cost": _size(Blame.PREFILL),
    "kv-transfer-slowest-twentieth": _slowest(0.95, c.KV_TRANSFER_SECONDS, *_OF_MODEL),
    "connect-slowest-percent": _slowest(0.99, c.ENGINE_CONNECT_SECONDS, "lane"),
    "engine-state": Check(
        read=r.minus(r.gauge(c.ENGINE_UP), r.gauge(c.ENGINE_STALLED)), say=lambda state: _ENGINE_STATES[round(state)]
    ),
    "unexplained-silence": Check(
        read=r.minus(r.gauge(c.ENGINE_SILENCE_SECONDS), r.gauge(c.ENGINE_SILENCE_EXPECTED_SECONDS)),
        say=lambda value: f"{value:.1f} s",
    ),
    "engine-restarts": Check(read=r.growth(c.ENGINE_RESTARTS_TOTAL, seconds=LONG_SECONDS), say=_number("restarts")),
    "traffic-seen": Check(read=r.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO), say=percent),
    # --- the way to the client ---
    "paused-for-readers": Check(
        read=r.per_second(c.STREAM_PAUSED_SECONDS_TOTAL, of=("lane",)), say=_number("s of pause in each second")
    ),
    "reads-with-many-events": Check(
        read=r.over(
            r.growth(c.STREAM_READS_TOTAL, of=("lane",), only={"result": "many"}),
            r.growth(c.STREAM_READS_TOTAL, of=("lane",)),
        ),
        say=percent,
    ),
    "gaps-without-a-step": Check(read=r.share_up_to(0.0005, c.INTER_TOKEN_SECONDS, of=("lane",)), say=percent),
    # --- the sidecar itself ---
    "failures-by-reason": Check(
        read=r.above_zero(r.per_second(c.FAILURES_TOTAL, "reason")), by=("reason",), say=_number("a second")
    ),
    "turned-away-here": Check(
        read=r.per_second(c.FAILURES_TOTAL, only={"reason": "too_many_in_flight"}), say=_number("a second")
    ),
    "late-timers": Check(
        read=r.over(
            r.growth(c.EVENT_LOOP_CHECKS_TOTAL, without={"result": "in_time"}),
            r.growth(c.EVENT_LOOP_CHECKS_TOTAL),
        ),
        say=percent,
    ),
    "very-late-timers": Check(
        read=r.over(
            r.growth(c.EVENT_LOOP_CHECKS_TOTAL, only={"result": "very_late"}),
            r.growth(c.EVENT_LOOP_CHECKS_TOTAL),
        ),
        say=percent,
    ),
    "late-reads": Check(
        read=r.over(
            r.growth(c.TIMED_READS_TOTAL, only={"result": "late"}),
            r.growth(c.TIMED_READS_TOTAL),
        ),
        say=percent,
    ),
    "overflown-labels": Check(
        read=r.above_zero(r.per_second(c.LABEL_OVERFLOW_TOTAL, "label", seconds=QUARTER_HOUR_SECONDS)),
        by=("label",),
        say=_number("a second"),
    ),
    "series-held": Check(read=r.gauge(c.SERIES), say=_number("series")),
    "dropped-by-reason": Check(
        read=r.above_zero(r.per_second(c.DROPPED_TOTAL, "reason", seconds=TEN_MINUTES_SECONDS)),
        by=("reason",),
        say=_number("a second"),
    ),
    "open-ledgers": Check(read=r.gauge(c.OPEN_LEDGERS), say=_number("requests")),
    "config-taken": Check(
        read=r.gauge(c.CONFIG_LAST_RELOAD_SUCCESSFUL),
        say=lambda taken: "1: the last reload was taken" if taken else "0: the last reload was refused",
    ),
    "config-age": Check(read=r.age(r.gauge(c.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS)), say=seconds),
}
"""Name of a query in the runbooks to its check."""


def answered(name: str, moment: Moment) -> Sliced[Answer]:
    """The present answer of this pod to the query of this name. Raises KeyError for a name that is not in the table."""
    check = CHECKS[name]
    try:
        found = yield from check.read(moment)
    except NotKnownError as error:
        return Answer(False, (f"unknown: {error}",))
    ordered = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    lines = [_line(key, check.say(value)) for key, value in ordered[:LINES_SHOWN]] or [check.nothing]
    if len(ordered) > LINES_SHOWN:
        lines.append(f"and {len(ordered) - LINES_SHOWN} more")
    more = (*_beside(check, moment), *_usual(check, moment))
    if more and check.by:
        lines.append(f"in all: {', '.join(more)}")  # of the pod, and of none of the rows
    elif more:
        lines[-1] = ", ".join((lines[-1], *more))
    return Answer(True, tuple(lines))


def _line(key: tuple[str, ...], said: str) -> str:
    return f"{', '.join(f'`{value}`' for value in key)}: {said}" if key else said


def _beside(check: Check, moment: Moment) -> list[str]:
    if check.beside is None:
        return []
    read, say = check.beside
    try:
        return [say(value) for value in run_now(read(moment)).values()]
    except NotKnownError:
        return []


def _usual(check: Check, moment: Moment) -> list[str]:
    if check.usual is None:
        return []
    gauges, cause = moment.now.gauges, check.usual
    told = [size for key, size in gauges[c.INCIDENT_SIZE_RATIO.name].items() if key[1] == cause]
    ratio = told[0] if told else gauges[c.EVIDENCE_RATIO.name].get((str(cause),))
    if ratio is None:
        return []
    grown = is_worth_naming(cause, ratio)
    return [f"`{cause}` is {times(ratio)} the usual" if grown else f"`{cause}` has not grown"]
