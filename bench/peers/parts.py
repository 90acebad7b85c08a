"""The parts of a run: each plays its windows in turns, round by round, and says which figure of a window is which column.

Knows the load's modes and the columns' keys; the tables that show them are at the end. Refuses to know how a proxy is started,
except for the parts of `make bench-full` in `full.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bench.peers.bench import Bench, Figures, Progress
from bench.peers.measure import Window
from bench.peers.table import Column


SETTLE_MS = 600
AROUND_SECONDS = 0.4
"""Each window takes so much longer than its settling and itself: connections, the last answers, reading /proc."""
MEASURES_NO_USAGE = ("sidecar-silent", "pure-silent", "beside-silent")
"""Rows that differ from their neighbour by the usage of streams alone: whole requests are measured once."""
SLOW = ("litellm",)
"""Rows that do not carry 30 streams of 50 a second on one core."""
MODEST_STREAMS = 10
MAIN_STREAMS = 300


@dataclass(slots=True)
class Plan:
    """How much is measured."""

    rounds: int
    seconds: float
    streams: tuple[tuple[int, int], ...]
    """Number of streams, and microseconds between the tokens of each."""
    minutes: float = 10.0
    """Duration of the varied traffic."""
    full: bool = False
    progress: Progress = field(default_factory=lambda: Progress(0))

    @property
    def window_seconds(self) -> float:
        """A window with all that is around it."""
        return self.seconds + SETTLE_MS / 1000 + AROUND_SECONDS

    @property
    def timing(self) -> dict[str, int]:
        return {"settle_ms": SETTLE_MS, "window_ms": round(self.seconds * 1000)}


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its name on the command line, what it does, and how long it takes with so many rows."""

    name: str
    play: Callable[[Bench, Plan], None]
    seconds: Callable[[int, Plan], float]


def rows_of(bench: Bench, round_: int, *without: str) -> list[str]:
    """The rows of a round; the direct one is there for the first only: it is a check, and no comparison."""
    return [key for key in bench.running if key not in without and (key != "direct" or round_ == 0)]


def event_figures(streams: int, window: Window) -> dict[str, float]:
    found = {
        f"event-{streams}": window.cpu_us("tokens"),
        f"p50-{streams}": window.quantile_us("added_ns", "p50"),
        f"p99-{streams}": window.quantile_us("added_ns", "p99"),
    }
    if streams == MAIN_STREAMS:
        found["busy"] = window.busy_share * 100
        if window.resident_mb:
            found["resident-300"] = window.resident_mb
    return found


def request_figures(column: str, window: Window) -> dict[str, float]:
    return {column: window.cpu_us("requests"), f"ttft-{column}": window.quantile_us("first_token_ns", "p50")}


def events(bench: Bench, plan: Plan) -> None:
    """Streams at a steady rate."""
    for round_ in range(plan.rounds):
        for streams, gap_us in plan.streams:
            for key in rows_of(bench, round_, *(SLOW if streams > MODEST_STREAMS else ())):
                plan.progress.say(
                    f"events, round {round_ + 1} of {plan.rounds}: {key}, {streams} streams", plan.window_seconds
                )
                options = {"n": streams, "gap_us": gap_us, **plan.timing}
                bench.window(key, round_, "streams", options, partial(event_figures, streams))


def requests(bench: Bench, plan: Plan) -> None:
    """One-token requests, one after the other on eight connections."""
    kinds = {"request": {}, "request-short": {"most_bytes": 400}, "request-whole": {"whole": 1}}
    for round_ in range(plan.rounds):
        for column, options in kinds.items():
            if column != "request" and not plan.full:
                continue
            for key in rows_of(bench, round_, *MEASURES_NO_USAGE):
                plan.progress.say(
                    f"requests, round {round_ + 1} of {plan.rounds}: {key}, {column}", plan.window_seconds
                )
                figures: Figures = partial(request_figures, column)
                bench.window(key, round_, "requests", {"k": 8, **plan.timing, **options}, figures)


QUICK = (
    Part("events", events, lambda rows, plan: plan.rounds * rows * len(plan.streams) * plan.window_seconds),
    Part(
        "requests",
        requests,
        lambda rows, plan: plan.rounds * rows * (3 if plan.full else 1) * plan.window_seconds,
    ),
)
QUICK_STREAMS = ((100, 20_000), (300, 20_000))

PROMPT_TITLES = {600: "600 B", 6_000: "6 KB", 60_000: "60 KB", 600_000: "600 KB", 2_000_000: "2 MB"}
"""Bytes of the single prompts, and how their columns name them."""


def _prompt_columns(figure: str) -> tuple[Column, ...]:
    return tuple(Column(f"{figure}-{size}", title, 0) for size, title in PROMPT_TITLES.items())


TABLES: dict[str, tuple[Column, ...]] = {
    "Token events and one-token requests": (
        Column("event-100", "CPU per event, 100 streams, us"),
        Column("event-300", "300 streams, us"),
        Column("p50-300", "added to a token, 300 streams: p50, us", 0),
        Column("p99-300", "p99, us", 0),
        Column("request", "CPU per request, us", 0),
        Column("ttft-request", "its first token, p50, us", 0, compared=False),
        Column("rest", "RSS at rest, MB", 0, compared=False),
        Column("resident-300", "at 300 streams, MB", 0, compared=False),
        Column("start", "start to first answer, ms", 0, compared=False),
        Column("busy", "engine and load busy, %", 0, compared=False),
    ),
    "CPU per event by streams, us": (
        Column("event-1", "1 stream"),
        Column("event-10", "10"),
        Column("event-30", "30"),
        Column("event-1000", "1,000 of 10 a second"),
        Column("event-logprobs", "300 with logprobs and token ids"),
    ),
    "Added to a token by streams, p99, us": (
        Column("p99-1", "1 stream", 0),
        Column("p99-10", "10", 0),
        Column("p99-30", "30", 0),
        Column("p99-100", "100", 0),
        Column("p99-1000", "1,000 of 10 a second", 0),
    ),
    "Requests of other kinds": (
        Column("request-short", "CPU per request with a prompt of at most 400 bytes, us", 0),
        Column("request-whole", "not streamed, us", 0),
        Column("ends-p50", "300 streams end in one step, each sends its next request: first token, p50, ms"),
        Column("ends-p99", "p99, ms"),
    ),
    "CPU per prompt, us": _prompt_columns("prompt"),
    "From the client's first byte to the engine's first byte of a prompt, us": _prompt_columns("first"),
    "... and to the engine's last byte, us": _prompt_columns("last"),
    "The most": (
        Column("rate", "events a second on one core, added p99 at most 10 ms", 0),
        Column("idle-cpu", "5,000 idle streams: CPU, ms a second", 0),
        Column("idle-resident", "RSS, MB", 0),
    ),
}
