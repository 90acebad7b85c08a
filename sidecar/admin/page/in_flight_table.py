"""The requests in flight now: counts per lane, and the oldest requests one by one with stage and age.

Draws the facts of `observe/in_flight.py`. A wait is split into queue and prefill only when it is over; until then the
table names both.
"""

from collections.abc import Mapping, Sequence
from html import escape

from sidecar.admin.page.html import plain, section, table
from sidecar.admin.page.picture import seconds
from sidecar.observe.in_flight import Inside, LaneInFlight
from sidecar.observe.request_record import Stage


OLDEST = 12
_PHASE = {
    Stage.WAITING: ("unattributed", "waiting: queue, prefill or first token"),
    Stage.STREAMING: ("decode", "streaming: decode"),
    Stage.HELD: ("stream", "held back by its client: stream"),
}


def in_flight(by_lane: Mapping[str, LaneInFlight] | None, oldest: Sequence[Inside]) -> str:
    """The section. `by_lane`: None where it is not known. `oldest`: the oldest requests in flight, oldest first."""
    if by_lane is None:
        why = "Not known: no traffic passes here (--no-proxy). The engine's own numbers of waiting and running requests are below."
        return section("in-flight", "In flight", "now", plain(why), folds=True)
    rows = [
        [
            escape(lane),
            f"{inside.waiting:,}",
            f"{inside.streaming:,}",
            f"{inside.held:,}",
            "none" if inside.oldest_seconds is None else seconds(inside.oldest_seconds),
        ]
        for lane, inside in sorted(by_lane.items())
    ]
    if not rows:
        return section("in-flight", "In flight", "now", plain("No request has come yet."), folds=True)
    heads = ["lane", "waiting", "streaming", "of these held by the client", "oldest waiting"]
    body = table("Requests in flight by lane", heads, rows)
    if oldest:
        of = [[_stage(one), escape(one.labels.lane), seconds(one.age_seconds)] for one in oldest]
        body += f"<h3>The oldest</h3>{table('The oldest requests in flight', ['stage', 'lane', 'age'], of)}"
    return section("in-flight", "In flight", "now", body, folds=True)


def _stage(one: Inside) -> str:
    phase, words = _PHASE[one.stage]
    return f'<i class="p-{phase}"></i>{words}'
