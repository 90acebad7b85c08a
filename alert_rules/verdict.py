"""One verdict per namespace, model, lane and objective: the votes of the requests that missed, corrected by evidence. Recording rules.

In order: faults of an engine, pod by pod; the votes of one window; where they waited; where that is moved to by evidence; the
state of the engine, while too few ledgers have closed; and the leader, with hysteresis. Exactly one phase comes out, or none where
nothing missed. All tiers and all alerts use it.
"""

from alert_rules.burn import FEWEST_MISSES, WHO
from alert_rules.evidence import MODEL
from alert_rules.rule import Record
from sidecar.slo.causes import NO_CAUSE, Cause


FEWEST_VOTES = 5
LEAD = 0.1
"""A new leader must be ahead by ten points."""
LOOKS = 8
"""At 15 s each: two minutes."""
SPLIT_ENOUGH = 0.2
"""Below this share of split votes nobody knows where the misses waited."""
COLLAPSED = 0.25
"""Of its usual self: no engine decodes four times faster from one minute to the next."""
PREEMPTED = 0.05
KV_FULL_RATIO = 0.85
"""On average: a request that does not fit waits while there are still some blocks free."""
FAULTY_SHARE = 0.5
"""Of a lane's misses: from here on its page is the engine's."""

_POD = "namespace, pod"
_POD_MODEL = f'group by ({_POD}, model) (llm_requests_received_total{{model!="other"}})'


def _fault(cause: str, expr: str, why: str) -> Record:
    return Record("pod:llm_engine_fault:cause", expr, why, {"cause": str(cause)})


FAULTS = (
    _fault(
        Cause.DOWN,
        f"max by ({_POD}) (llm_engine_up == 0 or increase(llm_engine_restarts_total[5m]) > 0) * 0 + 1",
        "The engine is down, or has come back within five minutes.",
    ),
    _fault(
        Cause.SILENCE,
        f"max by ({_POD}) (increase(llm_engine_stalled_seconds_total[5m]) > 0) * 0 + 1",
        "Within five minutes it has been silent for longer than the work explains that was pending: what piled up meanwhile is its doing.",
    ),
    _fault(
        Cause.PREEMPTION,
        f"""
        (
          sum by ({_POD}) (rate(llm_engine_preemptions_total[5m]))
            >= {PREEMPTED} * sum by ({_POD}) (rate(llm_requests_received_total[5m])) > 0
        ) * 0 + 1
        """,
        "One request in twenty, or more, is preempted.",
    ),
)
KV_FULL = Record(
    "pod:llm_engine_kv:full",
    f"""
    (
      min by ({_POD}) (avg_over_time(llm_engine_kv_cache_usage_ratio[1m])) >= {KV_FULL_RATIO}
      and on ({_POD}) min by ({_POD}) (avg_over_time(llm_engine_requests_waiting[1m])) >= 1
    ) * 0 + 1
    """,
    "Over the last minute the KV cache was as good as full while requests waited.",
)
KV_FULL_SHARE = Record(
    "model:llm_engine_kv:full_ratio",
    f"""
    sum by ({MODEL}) (
      group by ({_POD}) (pod:llm_engine_kv:full) * on ({_POD}) group_right () {_POD_MODEL}
    ) / on ({MODEL}) count by ({MODEL}) ({_POD_MODEL})
    """,
    "Share of a model's pods of which that is true.",
)
FAULTY = Record(
    "lane:llm_slo_misses:faulty_ratio",
    f"""
    sum by ({WHO}, cause) (
      (
          pod:llm_engine_fault:cause{{cause="{Cause.DOWN}"}}
        or on ({_POD})
          pod:llm_engine_fault:cause{{cause="{Cause.SILENCE}"}}
        or on ({_POD})
          pod:llm_engine_fault:cause
      )
        * on ({_POD}) group_right (cause) sum by ({WHO}, pod) (increase(llm_slo_misses_total[5m]))
    ) / on ({WHO}) group_left () (sum by ({WHO}) (increase(llm_slo_misses_total[5m])) > 0)
    """,
    "Share of a lane's misses that stand on pods whose engine has a fault: those pages are the engine's, not a phase's.",
)

VOTES = (
    Record(
        "lane:llm_slo_votes:increase5m",
        f"sum by ({WHO}, phase) (increase(llm_slo_blamed_misses_total[5m]))",
        "Votes of the last five minutes.",
    ),
    Record(
        "lane:llm_slo_votes:increase30m",
        f"sum by ({WHO}, phase) (increase(llm_slo_blamed_misses_total[30m]))",
        "Votes of the last half hour, for lanes that miss seldom.",
    ),
    Record(
        "lane:llm_slo_votes:window",
        f"""
          lane:llm_slo_votes:increase5m and on ({WHO}) lane:llm_slo_misses:increase5m >= {FEWEST_MISSES}
        or
          lane:llm_slo_votes:increase30m unless on ({WHO}) lane:llm_slo_misses:increase5m >= {FEWEST_MISSES}
        """,
        "The window that the verdict is over: five minutes, or thirty where five hold too few misses.",
    ),
    Record(
        "lane:llm_slo_votes:split",
        f'sum by ({WHO}) (lane:llm_slo_votes:window{{phase!="unattributed"}})',
        "Votes that know where their request waited.",
    ),
    Record(
        "lane:llm_slo_waited_in:ratio",
        f'lane:llm_slo_votes:window{{phase!="unattributed"}} / on ({WHO}) group_left () (lane:llm_slo_votes:split > 0)',
        "Where the missed requests waited, as shares of the split votes.",
    ),
    Record(
        "lane:llm_slo_verdict:decided",
        f"""
        (
          lane:llm_slo_votes:split >= {FEWEST_VOTES}
          and on ({WHO}) lane:llm_slo_votes:split >= {SPLIT_ENOUGH} * sum by ({WHO}) (lane:llm_slo_votes:window)
        ) * 0 + 1
        """,
        "Enough ledgers have closed, and enough of them know.",
    ),
)

_DEARER = f'model:llm_evidence:top{{evidence=~"{Cause.PREFILL_COST}|{Cause.UNCACHED}"}}'
_VOTING = f"(sum by ({WHO}) (lane:llm_slo_votes:window) * 0 + 1)"
MOVED = Record(
    "lane:llm_slo_verdict:moved",
    f"""
      {_VOTING} * on ({MODEL}) group_left (evidence) ({_DEARER} * 0 + 1)
    or on ({WHO})
      {_VOTING} * on (namespace, model, lane) group_left (evidence) (
        label_replace(
          (
            lane:llm_prompt_tokens:longer unless on ({MODEL}) model:llm_evidence:top{{evidence!="{Cause.PROMPT_MIX}"}}
          ) * 0 + 1,
          "evidence", "{Cause.PROMPT_MIX}", "", ""
        )
        unless on ({MODEL}) model:llm_engine_kv:full_ratio >= {FAULTY_SHARE}
      )
    """,
    """
    Lanes whose waiting is not the queue's own: of all that has grown, prefill's cost or what has to be computed has grown most; or
    the lane's own prompts have grown, and it is not KV blocks that they wait for. In the other lanes that is the queue.
    """,
)
BURSTS = Record(
    "lane:llm_slo_verdict:bursts",
    f"""
    sum by ({WHO}) (lane:llm_slo_votes:window{{objective="ttft"}}) * 0 + 1
    and on ({MODEL}) model:llm_evidence:ratio{{evidence="{Cause.DECODE_COST}"}} < {COLLAPSED}
    """,
    "The quiet gap between tokens has all but vanished: they are collected somewhere and come together, so the first comes late.",
)
HELD = Record(
    "lane:llm_slo_verdict:waited_in",
    f"""
    sum by ({WHO}, phase) (
        lane:llm_slo_waited_in:ratio unless on ({WHO}) lane:llm_slo_verdict:bursts
      or
        label_replace(
          label_replace(lane:llm_slo_waited_in:ratio and on ({WHO}) lane:llm_slo_verdict:bursts, "was", "$1", "phase", "(.+)"),
          "phase", "stream", "phase", "queue|prefill|first_token"
        )
    )
    """,
    "Where they waited, with what was held back given to stream: an engine that does not report, or the estimator, cannot tell it.",
)
SHARE = Record(
    "lane:llm_slo_verdict:by_votes",
    f"""
    sum by ({WHO}, phase) (
        lane:llm_slo_verdict:waited_in unless on ({WHO}, phase) label_replace(lane:llm_slo_verdict:moved, "phase", "queue", "", "")
      or
        label_replace(
          label_replace(
            lane:llm_slo_verdict:waited_in{{phase="queue"}} and on ({WHO}) lane:llm_slo_verdict:moved,
            "phase", "prefill", "", ""
          ),
          "moved", "from queue", "", ""
        )
    ) and on ({WHO}) lane:llm_slo_verdict:decided
    """,
    "The shares, with the queue's given to prefill where prefill made the queue.",
)

_MISSING = f"(sum by ({WHO}) (lane:llm_slo_misses:increase30m) > 0) * 0 + 1"
_UNDECIDED = f"({_MISSING} unless on ({WHO}) lane:llm_slo_verdict:decided)"
_ENGINE_TO_MODEL = (
    f'on ({_POD}) group_right () group by ({_POD}, model) (llm_requests_received_total{{model!="other"}})'
)

STATE = (
    Record(
        "model:llm_requests:avg1m",
        f"sum by ({MODEL}, state) (avg_over_time(llm_requests_in_flight[1m]))",
        "Requests inside the sidecar, waiting for their first token or streaming.",
    ),
    Record(
        "model:llm_engine_requests:avg1m",
        f"sum by ({MODEL}) (sum by ({_POD}) (avg_over_time(llm_engine_requests_waiting[1m])) * {_ENGINE_TO_MODEL})",
        "Requests in the engine's queue, by the engine.",
        {"state": "waiting"},
    ),
    Record(
        "model:llm_engine_requests:avg1m",
        f"sum by ({MODEL}) (sum by ({_POD}) (avg_over_time(llm_engine_requests_running[1m])) * {_ENGINE_TO_MODEL})",
        "Requests that it works on: those in prefill, and those that stream here.",
        {"state": "running"},
    ),
    Record(
        "model:llm_waiting:phase",
        f"""
        (
          sum by ({MODEL}) (model:llm_engine_requests:avg1m{{state="waiting"}})
            / (sum by ({MODEL}) (model:llm_requests:avg1m{{state="waiting"}}) > 0)
        ) >= 0.5
        """,
        "By Little's law the stage that holds most of the waiting is where most of the waiting is done: in the engine's queue.",
        {"phase": "queue"},
    ),
    Record(
        "model:llm_waiting:phase",
        f"""
        (
          (
            sum by ({MODEL}) (model:llm_engine_requests:avg1m{{state="running"}})
              - sum by ({MODEL}) (model:llm_requests:avg1m{{state="streaming"}})
          ) / (sum by ({MODEL}) (model:llm_requests:avg1m{{state="waiting"}}) > 0)
        ) > 0.5
        """,
        "Or in prefill: running there, and not streaming here.",
        {"phase": "prefill"},
    ),
)

PROVISIONAL = (
    Record(
        "lane:llm_slo_verdict:provisional",
        f"""
        ({_UNDECIDED}) * on ({MODEL}) group_left (phase) (topk by ({MODEL}) (1, model:llm_waiting:phase) * 0 + 1)
        unless on (objective) label_replace(vector(1), "objective", "tpot", "", "")
        """,
        "Too few ledgers have closed: where those who wait now are, by the engine's own state.",
    ),
    Record(
        "lane:llm_slo_verdict:by_state",
        f"""
        sum by ({WHO}, phase) (
            lane:llm_slo_verdict:provisional
              unless on ({WHO}, phase) label_replace(lane:llm_slo_verdict:moved, "phase", "queue", "", "")
          or
            label_replace(
              lane:llm_slo_verdict:provisional{{phase="queue"}} and on ({WHO}) lane:llm_slo_verdict:moved,
              "phase", "prefill", "", ""
            )
        )
        """,
        "What the state says counts as one whole vote, and is moved by the same evidence.",
    ),
    Record(
        "lane:llm_slo_verdict:by_nobody",
        f"{_UNDECIDED} unless on ({WHO}) lane:llm_slo_verdict:provisional",
        "Nobody knows.",
        {"phase": "unattributed"},
    ),
)

ENGINE = Record(
    "lane:llm_slo_verdict:engine",
    f"""
      topk by ({WHO}) (1, lane:llm_slo_misses:faulty_ratio >= {FAULTY_SHARE})
        unless on ({WHO}) lane:llm_slo_waited_in:ratio{{phase="stream"}} >= {FAULTY_SHARE}
    or on ({WHO})
      (
        sum by ({WHO}) (
          group by ({_POD}) (pod:llm_engine_kv:full)
            * on ({_POD}) group_right () sum by ({WHO}, pod) (increase(llm_slo_misses_total{{objective!="tpot"}}[5m]))
        ) / (sum by ({WHO}) (increase(llm_slo_misses_total{{objective!="tpot"}}[5m])) > 0) >= {FAULTY_SHARE}
        unless on ({MODEL}) model:llm_evidence:top
      )
    """,
    """
    At least half of the misses are on pods with a fault. What was held back behind the engine is no silence of its own; and a full
    KV cache is the cause only where nothing else has grown.
    """,
)
SHARES = Record(
    "lane:llm_slo_verdict:share",
    "lane:llm_slo_verdict:by_votes or lane:llm_slo_verdict:by_state or lane:llm_slo_verdict:by_nobody",
    "What speaks for each phase, 0 to 1.",
)
LEADER = Record(
    "lane:llm_slo_verdict:leader",
    f"""
    topk by ({WHO}) (
      1,
        (lane:llm_slo_verdict:share + {LEAD} * lane:llm_slo_verdict:phase)
      or on ({WHO}, phase)
        lane:llm_slo_verdict:share
    )
    """,
    "What most speaks for, with ten points for the phase that was the verdict a moment ago.",
)
SETTLED = Record(
    "lane:llm_slo_verdict:settled",
    f"""
    (
      count_over_time(lane:llm_slo_verdict:phase[130s]) >= {LOOKS}
      and on ({WHO}) count_over_time(lane:llm_slo_burn:paging[2m]) >= {LOOKS}
      and on ({WHO}) count_over_time(lane:llm_slo_verdict:decided[2m]) >= {LOOKS}
      unless on ({WHO}) (
        count_over_time(lane:llm_slo_verdict:leader[2m]) >= {LOOKS} unless on ({WHO}, phase) lane:llm_slo_verdict:phase
      )
    ) * 0 + 1
    """,
    """
    A verdict that has been paged for two minutes stays until another has led for two: a queue that drains makes prefill look dear
    for a moment, and a page that changes its name wakes a second person. (130 s: the verdict of this very moment is recorded below,
    and Prometheus 3 leaves out what is exactly two minutes old.)
    """,
)
SCORE = Record(
    "lane:llm_slo_verdict:score",
    f"""
      label_replace(lane:llm_slo_verdict:engine * 0 + 2, "phase", "engine", "", "")
    or on ({WHO}, phase)
      lane:llm_slo_verdict:settled * 1.5
    or on ({WHO}, phase)
      lane:llm_slo_verdict:leader
    """,
    "The leader, or the verdict that has settled; a faulty engine outranks both.",
)
VERDICT = Record(
    "lane:llm_slo_verdict:phase",
    f"sum by ({WHO}, phase) (topk by ({WHO}) (1, lane:llm_slo_verdict:score)) * 0 + 1",
    "The verdict: one phase.",
)

_TOP = 'label_replace(model:llm_evidence:top, "cause", "$1", "evidence", "(.+)") * 0 + 1'
CAUSE = Record(
    "lane:llm_slo_verdict:cause",
    f"""
      sum by ({WHO}, cause) (lane:llm_slo_verdict:engine{{cause!=""}}) * 0 + 1
    or on ({WHO})
      label_replace(sum by ({WHO}) (lane:llm_slo_verdict:engine) * 0 + 1, "cause", "{Cause.KV}", "", "")
    or on ({WHO})
      ({_MISSING}) * on ({MODEL}) group_left (cause) ({_TOP})
    or on ({WHO})
      label_replace(sum by ({WHO}) (lane:llm_slo_verdict:phase{{phase="queue"}}), "cause", "{Cause.SLOTS}", "", "")
    or on ({WHO})
      label_replace({_MISSING}, "cause", "{NO_CAUSE}", "", "")
    """,
    "What has grown with it: a hint beside the verdict. A queue that nothing explains is one for slots.",
)

VERDICTS = (
    *FAULTS,
    KV_FULL,
    KV_FULL_SHARE,
    FAULTY,
    *VOTES,
    MOVED,
    BURSTS,
    HELD,
    SHARE,
    *STATE,
    *PROVISIONAL,
    ENGINE,
    SHARES,
    LEADER,
    SETTLED,
    SCORE,
    VERDICT,
    CAUSE,
)
