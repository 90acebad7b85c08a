"""The parts of `make bench-full` beyond those of `make bench`: prompts, saturation, idle streams, and the sidecar under stress.

Situations in which only the sidecar is measured are rows of their own: scraped each second with the status page open,
reloaded each second, every request missing its objective, minutes of varied traffic.
"""

import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from bench.checkout import REPOSITORY
from bench.peers import proxies, scale
from bench.peers.bench import Bench, Figures
from bench.peers.build import MissingError
from bench.peers.measure import FailedError, Window
from bench.peers.parts import (
    MAIN_STREAMS,
    MEASURES_NO_USAGE,
    PROMPT_TITLES,
    QUICK,
    SLOW,
    Part,
    Plan,
    event_figures,
    request_figures,
    rows_of,
)
from bench.peers.proxies import BrokenError, Proxy
from bench.peers.rows import MANY
from bench.peers.table import Column


STREAMS = ((1, 20_000), (10, 20_000), (30, 20_000), (100, 20_000), (300, 20_000), (1000, 100_000))
PROMPTS_A_WINDOW = 30
FIRST_RATE, STEP, LAST_RATE = 10_000, 1.1, 70_000
"""Events a second of the search for the most that one core carries."""
MOST_ADDED_US = 10_000
BUSY_SHARE = 0.95
"""Above it, engine and load are the limit."""
RATE_WINDOW = {"settle_ms": 500, "window_ms": 1500, "cut": 1}
IDLE = {"n": 5000, "gap_us": 10_000_000, "spread_ms": 5000, "settle_ms": 1000, "window_ms": 5000, "cut": 1}
STARTS = 5
SITUATIONS = {
    "sidecar": "sidecar, usage asked and cut",
    "scraped": "... scraped each second, status page open",
    "reloaded": "... reloaded each second",
    "missed": "... every request misses its objective",
}
MINUTES = "sidecar"
MINUTE_SECONDS = 55.0
"""After it, a minute of varied traffic plays no further window."""


def prompt_figures(size: int, window: Window) -> dict[str, float]:
    return {
        f"prompt-{size}": window.cpu_us("requests"),
        f"first-{size}": window.quantile_us("to_first_byte_ns", "p50"),
        f"last-{size}": window.quantile_us("to_last_byte_ns", "p50"),
    }


def prompts(bench: Bench, plan: Plan) -> None:
    """Single prompts of rising size."""
    for round_ in range(plan.rounds):
        for size in PROMPT_TITLES:
            for key in rows_of(bench, round_, *MEASURES_NO_USAGE):
                plan.progress.say(f"prompts, round {round_ + 1} of {plan.rounds}: {key}, {size} bytes", 1.2)
                options = {"bytes": size, "count": PROMPTS_A_WINDOW}
                bench.window(key, round_, "prompt", options, partial(prompt_figures, size))


def logprobs(bench: Bench, plan: Plan) -> None:
    """Streams whose events carry log probabilities and token ids, three times as long."""
    for round_ in range(plan.rounds):
        for key in rows_of(bench, round_, *SLOW):
            plan.progress.say(f"logprobs, round {round_ + 1} of {plan.rounds}: {key}", plan.window_seconds)
            options = {"n": MAIN_STREAMS, "logprobs": 1, **plan.timing}
            bench.window(key, round_, "streams", options, lambda window: {"event-logprobs": window.cpu_us("tokens")})


def ends(bench: Bench, plan: Plan) -> None:
    """Three hundred streams that end in the same step."""

    def figures(window: Window) -> dict[str, float]:
        return {f"ends-{which}": window.quantile_us("first_token_ns", which) / 1e3 for which in ("p50", "p99")}

    for round_ in range(plan.rounds):
        for key in rows_of(bench, round_, *SLOW):
            plan.progress.say(f"ends, round {round_ + 1} of {plan.rounds}: {key}", 1.8)
            bench.window(key, round_, "ends", {"n": MAIN_STREAMS}, figures)


def saturation(bench: Bench, plan: Plan) -> None:
    """A rising rate, until the added p99 is twice above 10 ms at the same rate, or engine and load are the limit."""
    for key in rows_of(bench, 0, *SLOW):
        rate = float(FIRST_RATE)
        while rate <= LAST_RATE:
            plan.progress.say(f"saturation: {key}, {rate:,.0f} events a second", 2.6)
            found = carried(bench, key, round(rate / 50)) or carried(bench, key, round(rate / 50))
            if found is None:
                break
            bench.results.add(key, "rate", 0, found)
            rate *= STEP
        time.sleep(1.0)  # the streams that were cut


def carried(bench: Bench, key: str, streams: int) -> float | None:
    """Events a second that came through with a p99 of at most 10 ms; None if they did not."""
    try:
        window = bench.play(key, "streams", {"n": streams, **RATE_WINDOW})
        late = window.quantile_us("added_ns", "p99") > MOST_ADDED_US
    except FailedError:
        return None
    if late and window.busy_share > BUSY_SHARE:
        bench.results.fail(key, "saturation: engine and load are the limit, the proxy may carry more")
    return None if late else window.number("tokens") / window.number("window_ns") * 1e9


def idle(bench: Bench, plan: Plan) -> None:
    """Five thousand streams with a token each ten seconds."""

    def figures(window: Window) -> dict[str, float]:
        seconds = window.number("window_ns") / 1e9
        return {"idle-cpu": window.proxy_cpu_seconds / seconds * 1e3, "idle-resident": window.resident_mb}

    for key in rows_of(bench, 1, *SLOW):
        plan.progress.say(f"idle streams: {key}", 14)
        bench.window(key, 0, "streams", IDLE, figures)
        time.sleep(2.0)


@contextmanager
def each_second(*fetches: tuple[str, str]) -> Iterator[None]:
    """Fetch these (method, URL) each second, meanwhile."""
    done = threading.Event()

    def fetch() -> None:
        while not done.wait(1.0):
            for method, url in fetches:
                with suppress(OSError):
                    urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5).read()

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def situations(bench: Bench, plan: Plan) -> None:
    """The sidecar alone, beside itself: scraped, reloaded, and with objectives that every request misses."""
    if "sidecar" not in bench.running:
        return
    with ExitStack() as stack:
        start = partial(proxies.sidecar, usage=True, tree=REPOSITORY, config=proxies.MISSED_CONFIG, further=MANY)
        bench.start([Proxy("missed", SITUATIONS["missed"], start)], stack)
        own = bench.running["sidecar"]
        web = f"http://127.0.0.1:{own.web_port}"
        fetched: Mapping[str, tuple[tuple[str, str], ...]] = {
            "sidecar": (),
            "scraped": (("GET", f"{web}/metrics"), ("GET", f"{web}/")),
            "reloaded": (("POST", f"{web}/-/reload"),),
            "missed": (),
        }
        bench.running["scraped"] = bench.running["reloaded"] = own
        for round_ in range(plan.rounds):
            for key, fetches in fetched.items():
                if key not in bench.running:
                    continue
                plan.progress.say(f"situations, round {round_ + 1} of {plan.rounds}: {key}", 2 * plan.window_seconds)
                with each_second(*fetches):
                    options = {"n": MAIN_STREAMS, **plan.timing}
                    bench.window(key, round_, "streams", options, lambda window: _renamed(event_figures(300, window)))
                    options = {"k": 8, **plan.timing}
                    bench.window(
                        key, round_, "requests", options, lambda window: _renamed(request_figures("request", window))
                    )
        if own.web_port is not None:
            bench.results.add(
                "scraped", "series", 0, scale.scraped(partial(scale.scrape, own.web_port))["scale-series"]
            )
        for key in ("scraped", "reloaded", "missed"):
            bench.running.pop(key, None)


def _renamed(figures: dict[str, float]) -> dict[str, float]:
    """Columns of their own: the sidecar's row in the first table has rounds of its own."""
    return {f"as-{column}": value for column, value in figures.items()}


def varied(bench: Bench, plan: Plan) -> None:
    """Minutes of streams, requests of both kinds and long prompts: does a request become dearer, does memory grow?"""
    if MINUTES not in bench.running:
        return
    for minute in range(max(1, round(plan.minutes))):
        plan.progress.say(f"varied traffic, minute {minute + 1} of {plan.minutes:g}", 60)
        until = time.monotonic() + MINUTE_SECONDS
        traffic: tuple[tuple[str, dict[str, int], Figures], ...] = (
            ("streams", {"n": MAIN_STREAMS, "window_ms": 12_000}, lambda w: {"long-event": w.cpu_us("tokens")}),
            ("requests", {"k": 8, "window_ms": 12_000}, lambda w: {"long-request": w.cpu_us("requests")}),
            ("requests", {"k": 32, "whole": 1, "window_ms": 10_000}, lambda _: {}),
            ("prompt", {"bytes": 600_000, "count": 40}, lambda _: {}),
            ("ends", {"n": MAIN_STREAMS}, lambda _: {}),
            ("streams", {"n": 100, "logprobs": 1, "window_ms": 8_000}, lambda w: {"long-resident": w.resident_mb}),
        )
        for mode, options, figures in traffic:
            bench.window(MINUTES, minute, mode, options, figures)
        while time.monotonic() < until:
            bench.window(MINUTES, minute, "requests", {"k": 2, "window_ms": 2_000}, lambda _: {})


def starts(bench: Bench, plan: Plan, among: list[Proxy]) -> None:
    """From the start of the process to its first 200 through the proxy, several times more."""
    for round_ in range(1, STARTS):
        for proxy in among:
            if proxy.key == "direct" or proxy.key not in bench.running or (proxy.key in SLOW and round_ > 1):
                continue
            plan.progress.say(f"start {round_} of {STARTS - 1}: {proxy.key}", 2)
            with suppress(MissingError, BrokenError), proxy.start(bench.generator.port, bench.folder(proxy.key)) as own:
                bench.results.add(proxy.key, "start", round_, own.start_seconds * 1000)


def parts(among: list[Proxy]) -> tuple[Part, ...]:
    """All parts of `make bench-full`, in their order: what leaves a process older comes last."""
    return (
        *QUICK,
        Part("prompts", prompts, lambda rows, plan: plan.rounds * rows * len(PROMPT_TITLES) * 1.2),
        Part("logprobs", logprobs, lambda rows, plan: plan.rounds * rows * plan.window_seconds),
        Part("ends", ends, lambda rows, plan: plan.rounds * rows * 1.8),
        Part("starts", partial(starts, among=among), lambda rows, _: rows * (STARTS - 1) * 2.0),
        Part("situations", situations, lambda _, plan: plan.rounds * 8 * plan.window_seconds),
        Part("scale", scale.play, scale.seconds),
        Part("saturation", saturation, lambda rows, _: rows * 16 * 2.6),
        Part("idle", idle, lambda rows, _: rows * 14.0),
        Part("varied", varied, lambda _, plan: plan.minutes * 60),
    )


SITUATION_COLUMNS = (
    Column("as-event-300", "CPU per event, 300 streams, us"),
    Column("as-p50-300", "added: p50, us", 0),
    Column("as-p99-300", "p99, us", 0),
    Column("as-request", "CPU per request, us", 0),
    Column("series", "series", 0, compared=False),
)
