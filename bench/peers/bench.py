"""One run of the bench: the proxies that could be started, the windows that are played on them, and the figures so far.

A window in which other processes of the machine took more than a tenth of a core is played again, twice at most, and the
quietest counts: their figures are those of another machine. Knows neither rows nor parts.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.peers.build import MissingError
from bench.peers.measure import FailedError, Generator, Window, resident_mb
from bench.peers.proxies import BrokenError, Proxy, Running
from bench.peers.table import Results


Figures = Callable[[Window], dict[str, float]]
QUIET_SHARE = 0.1
"""The most that all other processes of the machine may take together, as a ratio of one core."""
TIMES = 3
WARM_UP = {"k": 8, "settle_ms": 0, "window_ms": 1000}


class Progress:
    """Lines on stderr: what is measured now, and how long it still takes."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def say(self, what: str, seconds: float) -> None:
        """Begin something that takes so many of the seconds."""
        print(f"[{max(0.0, self._left) / 60:.1f} min left] {what}", file=sys.stderr, flush=True)
        self._left -= seconds


class Bench:
    """The generator, the proxies that run, and the results so far."""

    def __init__(self, generator: Generator, results: Results, folder: Path) -> None:
        self.generator, self.results, self._folder = generator, results, folder
        self.running: dict[str, Running] = {}
        self.windows = self.noisy = 0

    def start(self, chosen: Iterable[Proxy], stack: ExitStack) -> None:
        """Start each and let it serve requests for a second; one that cannot be started has its reason in the results."""
        for proxy in chosen:
            print(f"starting {proxy.title}", file=sys.stderr, flush=True)
            try:
                self.running[proxy.key] = running = stack.enter_context(
                    proxy.start(self.generator.port, self.folder(proxy.key))
                )
            except (MissingError, BrokenError, OSError) as error:
                self.results.fail(proxy.key, " ".join(str(error).split())[:500])
                continue
            if running.pid is not None:
                self.results.add(proxy.key, "rest", 0, resident_mb(running.pid))
                self.results.add(proxy.key, "start", 0, running.start_seconds * 1000)
                self.window(proxy.key, 0, "requests", WARM_UP, lambda _: {})

    def folder(self, name: str) -> Path:
        """An empty folder for the files of one proxy."""
        number = sum(1 for _ in self._folder.iterdir())
        own = self._folder / f"{number}-{name}"
        own.mkdir()
        return own

    def play(self, key: str, mode: str, options: Mapping[str, int]) -> Window:
        """One window of a proxy, played again while the machine is not quiet. Raises FailedError."""
        found: list[Window] = []
        for _ in range(TIMES):
            found.append(self.generator.play(mode, self.running[key], options))
            if found[-1].others_share <= QUIET_SHARE:
                break
        self.windows += 1
        quietest = min(found, key=lambda each: each.others_share)
        self.noisy += quietest.others_share > QUIET_SHARE
        return quietest

    def window(self, key: str, round_: int, mode: str, options: Mapping[str, int], figures: Figures) -> None:
        """One window; its figures, or the reason why it has none, are added to the results."""
        try:
            found = figures(self.play(key, mode, options))
        except FailedError as failed:
            self.results.fail(key, f"{mode} {dict(options)}, round {round_ + 1}: {failed}")
            return
        for column, value in found.items():
            self.results.add(key, column, round_, value)
