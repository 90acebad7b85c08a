"""Rules for pictures alone: quantiles and sums of seconds, recorded so that a dashboard of a large fleet reads few series.

Knows how a quantile, a number of samples and a rate of seconds are asked; the dashboards ask them word for word where nothing is
recorded, so a picture is the same with these rules and without them, only slower. Each rule reads raw series alone. No alert
reads what is recorded here, and the alerts' rules do not need it. Refuses to know panels.
"""

from collections.abc import Iterable

from sidecar.commands.export.rules.burn import ENGINE_LABELS
from sidecar.commands.export.rules.rule import Group, Record
from sidecar.ledger.account import Phase
from sidecar.metrics import histogram_forms
from sidecar.metrics.catalogue import (
    INTER_TOKEN_SECONDS,
    KV_TRANSFER_SECONDS,
    OUTPUT_TOKENS,
    REQUEST_PHASE_SECONDS,
    REQUEST_SECONDS,
    SLO_MISSES_TOTAL,
    SLO_REQUESTS_TOTAL,
    TIME_PER_OUTPUT_TOKEN_SECONDS,
    TIME_TO_FIRST_TOKEN_SECONDS,
)
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED, of_any_form


NOW = "5m"
"""Long enough for a quantile, short enough to be called now: the window of a page's numbers and of these rules."""
BUDGET_DAYS = 30
"""Days of an error budget: the SRE workbook's month, in which targets and the alerts' burn rates are meant."""
LANE_OF = f"{ENGINE_LABELS}, model, lane"
"""Labels of a lane over its pods."""
PROCESS_OF = f"{LANE_OF}, pod, instance"
"""Labels of a lane in one process, whose counters begin anew together."""
SPLIT = "phase, streaming"
"""Labels that tell the phases' series apart, beside those of the lane."""
DRAWN_PHASES = (Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN, Phase.STREAM)
"""Phases of streamed answers whose quantiles are drawn: raw buckets of phases are most of what these rules read."""
_OF_DRAWN_PHASES = f'{{phase=~"{"|".join(DRAWN_PHASES)}",streaming="true"}}'
MARK = "job:llm_sidecar_build_info:count"
"""The series that tells a dashboard since when a group of these rules is evaluated. It has no pod and no prompt bucket."""
PART = "part"
"""The label of `MARK` that names the group: where one of them alone is loaded, dashboards read that one, and the raw series for the rest."""


def quantile(
    of: float, histogram: str, *, by: str, matchers: str = "", window: str = NOW, function: str = "rate"
) -> str:
    """A quantile where its samples carry it, else nothing. `matchers`: `{...}` or nothing."""
    return histogram_forms.quantile(
        of, histogram, window, by=by, matchers=matchers, function=function, at_least=SAMPLES_NEEDED[of]
    )


def samples(histogram: str, *, by: str, matchers: str = "", window: str = NOW) -> str:
    """The samples of a histogram in the window."""
    return f"sum by ({by}) ({of_any_form(f'increase({histogram}_count{matchers}[{window}])')})"


def rates_of(part: str, *, by: str, matchers: str = "") -> str:
    """A second's growth of a `_sum` or a `_count`."""
    return f"sum by ({by}) ({of_any_form(f'rate({part}{matchers}[{NOW}])')})"


def quantile_name(of: float, histogram: str) -> str:
    """The recorded series of a lane's quantile."""
    return f"lane:{histogram}:p{of * 100:g}_rate{NOW}"


def samples_name(histogram: str) -> str:
    """The recorded series of a lane's samples."""
    return f"lane:{histogram}_count:increase{NOW}"


def rate_name(part: str) -> str:
    """The recorded series of a lane's `_sum` or `_count`, in a second."""
    return f"lane:{part}:rate{NOW}"


def process_name(part: str) -> str:
    """The recorded series of one process's counter, `_sum` or `_count`, which rises as a counter does."""
    return f"instance:{part}:sum"


def budget_name(counter: str) -> str:
    """The recorded series of a lane's misses, or of those that the target allows, in an hour."""
    return f"lane:llm_slo_{counter}_total:increase1h"


def _quantile(of: float, histogram: Histogram, by: str = LANE_OF, matchers: str = "") -> Record:
    return Record(
        quantile_name(of, histogram.name),
        quantile(of, histogram.name, by=by, matchers=matchers),
        f"p{of * 100:g} of the last {NOW}, from {SAMPLES_NEEDED[of]} samples on.",
    )


def _samples(histogram: Histogram, by: str = LANE_OF, matchers: str = "") -> Record:
    return Record(
        samples_name(histogram.name),
        samples(histogram.name, by=by, matchers=matchers),
        f"Samples of the last {NOW}, which stand beside the quantile.",
    )


_LANES_RULES = (
    *(_quantile(of, TIME_TO_FIRST_TOKEN_SECONDS) for of in (0.5, 0.95, 0.99)),
    *(_quantile(of, INTER_TOKEN_SECONDS) for of in (0.1, 0.95)),
    _quantile(0.95, TIME_PER_OUTPUT_TOKEN_SECONDS),
    _quantile(0.95, KV_TRANSFER_SECONDS),
    *map(
        _samples,
        (TIME_TO_FIRST_TOKEN_SECONDS, INTER_TOKEN_SECONDS, TIME_PER_OUTPUT_TOKEN_SECONDS, KV_TRANSFER_SECONDS),
    ),
)
_PHASES_RULES = (
    _quantile(0.95, REQUEST_PHASE_SECONDS, f"{LANE_OF}, {SPLIT}", _OF_DRAWN_PHASES),
    _samples(REQUEST_PHASE_SECONDS, f"{LANE_OF}, {SPLIT}", _OF_DRAWN_PHASES),
    Record(
        rate_name(f"{REQUEST_PHASE_SECONDS.name}_sum"),
        rates_of(f"{REQUEST_PHASE_SECONDS.name}_sum", by=f"{LANE_OF}, {SPLIT}"),
        "Seconds of each phase in a second; over the requests below it is the phase's mean, which may be added.",
    ),
    *(
        Record(
            rate_name(f"{REQUEST_SECONDS.name}_{part}"),
            rates_of(f"{REQUEST_SECONDS.name}_{part}", by=f"{LANE_OF}, streaming"),
            why,
        )
        for part, why in (("sum", "Seconds of whole requests in a second."), ("count", "Requests in a second."))
    ),
)
_PODS_RULES = (
    *(
        Record(
            process_name(f"{histogram.name}_{part}"),
            f"sum by ({PROCESS_OF}) ({of_any_form(f'{histogram.name}_{part}')})",
            f"{what} of one process, over prompt lengths; its growth over any time is that of its counters.",
        )
        for histogram in (TIME_TO_FIRST_TOKEN_SECONDS, TIME_PER_OUTPUT_TOKEN_SECONDS)
        for part, what in (("sum", "Seconds"), ("count", "Samples"))
    ),
    Record(
        process_name(f"{OUTPUT_TOKENS.name}_sum"),
        f"sum by ({PROCESS_OF}) ({of_any_form(f'{OUTPUT_TOKENS.name}_sum')})",
        "Tokens of one process, read a fourth as often as they are scraped.",
    ),
    *(
        Record(
            process_name(counter.name),
            f"sum by ({PROCESS_OF}, objective) ({counter.name})",
            f"{what} of one process, over prompt lengths.",
        )
        for counter, what in ((SLO_MISSES_TOTAL, "Misses"), (SLO_REQUESTS_TOTAL, "Judged requests"))
    ),
)


_BUDGETS_RULES = tuple(
    Record(
        budget_name(counter),
        f"sum by ({LANE_OF}, objective) (increase(llm_slo_{counter}_total[1h]))",
        f"{what} of the last hour, of all pods; the sum over the hours of {BUDGET_DAYS} days is that of a budget.",
    )
    for counter, what in (("misses", "Misses"), ("allowed_misses", "Misses that the target allows"))
)


def _group(part: str, rules: tuple[Record, ...], why: str) -> Group:
    mark = Record(
        MARK,
        f"count by ({ENGINE_LABELS}) (llm_sidecar_build_info)",
        "Tells dashboards that this group is evaluated, and since when.",
        {PART: part},
    )
    return Group(f"llm-dashboards-{part}", (mark, *rules), interval="60s", why=why)


GROUPS = (
    _group("pods", _PODS_RULES, "Means of each pod over the time shown: sums and counts, fewer than are scraped."),
    _group("quantiles", _LANES_RULES, "Quantiles by lane, over pods."),
    _group("phases", _PHASES_RULES, "Quantiles and means by lane and phase, over pods."),
    _group(
        "budgets",
        _BUDGETS_RULES,
        f"Budgets of {BUDGET_DAYS} days: a month of raw counters is more than one query may read.",
    ),
)
"""Groups of the file: Mimir takes up to 20 rules in one."""
RECORDED = frozenset(rule.name for group in GROUPS for rule in group.rules)
"""Every series that the file records."""


def parts_read(asked: Iterable[str]) -> tuple[str, ...]:
    """The parts (values of `PART`) whose recorded series these expressions name, in the order of the file."""
    texts = tuple(asked)
    found = []
    for group in GROUPS:
        mark, *rules = group.rules
        if any(rule.name in text for rule in rules for text in texts):
            found.append(mark.labels[PART])
    return tuple(found)
