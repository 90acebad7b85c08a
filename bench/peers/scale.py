"""The part `scale` of `make bench-full`: the compiled sidecar with more and more lanes, models and prompt buckets.

Each size is a sidecar of its own, with a config that names its lanes and models, and with a load that uses each lane with each
model and prompts of all lengths: its series have values. The curves of the other parts, over streams and prompts, stand here too.
"""

import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.checkout import REPOSITORY
from bench.peers import proxies
from bench.peers.bench import Bench
from bench.peers.curves import Curve, Point
from bench.peers.measure import Window
from bench.peers.parts import MAIN_STREAMS, PROMPT_TITLES, Plan
from bench.peers.proxies import Proxy
from bench.peers.table import Column, Results


SERIES_LIMIT = 100_000
"""Above the shipped limit: the sidecar refuses a config that makes more than its limit in full use."""


@dataclass(frozen=True, slots=True)
class Size:
    """One sidecar of the part."""

    lanes: int
    models: int
    edges: tuple[int, ...]
    """The edges of its prompt buckets, in tokens; they make one bucket more, and `unknown`."""

    @property
    def row(self) -> str:
        return f"scale-{self.lanes}-{self.models}"

    @property
    def title(self) -> str:
        lanes, models = "lane" + "s" * (self.lanes > 1), "model" + "s" * (self.models > 1)
        return f"{self.lanes} {lanes}, {self.models} {models}, {len(self.edges) + 1} prompt buckets"

    @property
    def config(self) -> str:
        """The sidecar's config, in YAML: each lane has objectives, and the header x-lane names it."""
        lanes = [f"lane-{number}" for number in range(self.lanes)]
        models = [f"bench/model-{number}" for number in range(self.models)]
        objectives = ", ".join(f"{lane}: {{preset: interactive}}" for lane in lanes)
        return (
            f"metrics: {{series_limit: {SERIES_LIMIT}}}\n"
            f"engine: {{models: [{', '.join(models)}]}}\n"
            f"lanes: {{default: {lanes[0]}, header: x-lane, names: [{', '.join(lanes[1:])}]}}\n"
            f"prompt_buckets: {{edges: [{', '.join(map(str, self.edges))}]}}\n"
            f"objectives: {{{objectives}}}\n"
        )

    @property
    def load(self) -> dict[str, int]:
        """The load's options for it."""
        return {"lanes": self.lanes, "models": self.models}


SIZES = (
    Size(1, 1, (4096,)),
    Size(4, 2, (512, 4096, 16384)),
    Size(10, 4, (512, 4096, 16384, 65536)),
)
TITLES = {size.row: size.title for size in SIZES}
SCRAPES = 6
START_SECONDS = 3.0
SCRAPE_SECONDS = 1.0
"""All scrapes of one sidecar in one round take so long together."""
COLUMNS = (
    Column("scale-series", "series on the page", 0),
    Column("scale-used", "of them not 0", 0),
    Column("scale-event", "CPU per event, 300 streams, us"),
    Column("scale-request", "CPU per request, us", 0),
    Column("scale-resident", "RSS, MB", 0),
    Column("scale-first", "the first scrape after load, ms"),
    Column("scale-scrape", "a scrape without load, ms"),
    Column("scale-page", "its page, KB", 0),
)
CURVED = COLUMNS[2:7]


def values_of(page: Iterable[bytes]) -> list[float]:
    """The value of each series on a page of metrics."""
    return [float(line.rsplit(b" ", 1)[1]) for line in page if line.strip() and not line.startswith(b"#")]


def scrape(web_port: int) -> tuple[float, bytes]:
    """The page of metrics, and the seconds from the request to its last byte."""
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/metrics", timeout=10) as page:
        text = page.read()
    return time.perf_counter() - began, text


def scraped(fetch: Callable[[], tuple[float, bytes]]) -> dict[str, float]:
    """The figures of the page, fetched some times while nothing else runs.

    The first scrape writes each series anew that the load has changed; the time of the later ones, which find it written, is their median.
    """
    found = [fetch() for _ in range(SCRAPES)]
    page = found[-1][1]
    values = values_of(page.splitlines())
    return {
        "scale-series": len(values),
        "scale-used": sum(1 for value in values if value),
        "scale-first": found[0][0] * 1e3,
        "scale-scrape": median(seconds for seconds, _ in found[1:]) * 1e3,
        "scale-page": len(page) / 1e3,
    }


def event_figures(window: Window) -> dict[str, float]:
    return {"scale-event": window.cpu_us("tokens"), "scale-resident": window.resident_mb}


def play(bench: Bench, plan: Plan) -> None:
    """Requests first, which bring each lane, model and length of prompt; then streams; then the page."""
    if "sidecar" not in bench.running:
        return
    with ExitStack() as stack:
        starts = {size: partial(proxies.sidecar, usage=True, tree=REPOSITORY, config=size.config) for size in SIZES}
        bench.start([Proxy(size.row, size.title, start) for size, start in starts.items()], stack)
        for round_ in range(plan.rounds):
            for size in SIZES:
                if size.row not in bench.running:
                    continue
                plan.progress.say(f"scale, round {round_ + 1} of {plan.rounds}: {size.title}", seconds_of_one(plan))
                options = {"k": 8, **plan.timing, **size.load}
                bench.window(
                    size.row, round_, "requests", options, lambda window: {"scale-request": window.cpu_us("requests")}
                )
                bench.window(
                    size.row, round_, "streams", {"n": MAIN_STREAMS, **plan.timing, **size.load}, event_figures
                )
                web_port = bench.running[size.row].web_port
                for column, value in scraped(partial(scrape, web_port)).items() if web_port else ():
                    bench.results.add(size.row, column, round_, value)
        for size in SIZES:
            bench.running.pop(size.row, None)


def seconds_of_one(plan: Plan) -> float:
    """One sidecar in one round."""
    return 2 * plan.window_seconds + SCRAPE_SECONDS


def seconds(_rows: int, plan: Plan) -> float:
    """The whole part."""
    return len(SIZES) * (START_SECONDS + plan.rounds * seconds_of_one(plan))


STREAMS = {1: "1", 10: "10", 30: "30", 100: "100", 300: "300", 1000: "1,000 of a fifth of the rate"}
COMPARED = ("sidecar", "vllm-router")


def curves(results: Results) -> list[Curve]:
    """All curves of a run: over streams and over prompts of each compared row, and over the series of this part."""
    found = []
    for cost, column, over, sizes in (
        ("CPU per event, us", "event", "streams of 50 tokens a second", STREAMS),
        ("CPU per prompt, us", "prompt", "bytes of the prompt", PROMPT_TITLES),
        ("to the engine's last byte, us", "last", "bytes of the prompt", PROMPT_TITLES),
    ):
        for row in COMPARED:
            points = tuple(Point(size, label, row, f"{column}-{size}") for size, label in sizes.items())
            found.append(Curve(cost, row, over, points))
    counted = {size.row: results.values(size.row, "scale-series") for size in SIZES}
    series = {row: median(values.values()) for row, values in counted.items() if values}
    for shown in CURVED:
        points = tuple(Point(size, f"{size:,.0f}", row, shown.key) for row, size in series.items())
        found.append(Curve(shown.title, "sidecar", "series", points))
    return found
