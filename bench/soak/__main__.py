"""The soak: `make soak`, which is `python -m bench.soak`. Ten minutes of 2,000 streams through a network that breaks each second.

The real sidecar runs in its own process; engine and clients in one each, each with a relay (`chaos_relay.py`) before it. From a
seed a fault a second is drawn: its kind, its side, its share of the connections; and the places at which the engine cuts what it
writes. With `--whole-network` there are no faults, and no answer may be cut. Beside the streams: slow readers, clients that
leave, uploads, idle connections, hostile writers, a scrape and a probe each second. It asserts, throughout and at the end:

- each byte that a client gets is the computed one, and a stream that ends is whole;
- no more answers are cut than connections were broken;
- every request has exactly one outcome, and nothing is left in flight;
- no outcome names the engine without a broken connection to it;
- memory stays below its part of the manifest's limit, and returns after the last stream (`invariants.py` has the figures);
- every page of metrics can be read, every probe is answered, no file leaks, no exception is logged.

2,000 streams at 2 events a second are 4,000 events a second through four processes: about one core of two, so that a machine
with two cores is busy and not saturated. It trusts no time. Exit code 1 if anything is broken.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.soak.faults import Kind, Side, drawn
from bench.soak.invariants import (
    LEFT_BY_MANY_MIB,
    OF_THE_LIMIT,
    SETTLE_SECONDS,
    Books,
    broken_accounts,
    broken_blame,
    read_log,
)
from bench.soak.side import SideProcess
from bench.soak.watched import Watched
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tools.budgets_page import shipped_memory_bytes


SOAKED_STREAMS = 2000
SPREAD_SECONDS = 10.0
"""In which all streams begin."""
EVENTS = (20, 60)
"""Fewest and most events of one stream."""
SAY_SECONDS = 10
LOG_SECONDS = 30.0
"""Patience for the last lines of the log."""
WARM_UP_CLIENTS, CALM_CLIENTS, CALM_REQUESTS = 50, 20, 5
EXTRA_FILES = 40
"""Files at the end above those before the load: connections to the engine that wait for the next request."""
REQUESTS = "requests.jsonl"
CONFIG = "proxy: {{max_in_flight: {places}}}\n"
PLACES_A_STREAM = 1.5
"""Requests that may be in flight, for each stream: the default is below 2,000, and a client that asks again after a fault comes
before its old request is settled."""
FLAGS = ("--log.level=info",)


@dataclass
class Run:
    """One soak, from the warm-up to the table."""

    asked: argparse.Namespace
    sidecar: SidecarProcess
    watched: Watched
    engine: SideProcess
    clients: SideProcess
    broken: list[str] = field(default_factory=list)
    faults: Counter[tuple[Kind, Side]] = field(default_factory=Counter)
    before_kib: int = 0
    after_kib: int = 0
    files_before: int = 0
    files_after: int = 0
    books: Books = field(default_factory=Books)

    def play(self) -> None:
        """Warm up, break the network for the time that was asked for, let it heal, then look at what is left."""
        self._ask(WARM_UP_CLIENTS, requests=2, calm=True)
        self._until("the warm-up ends", lambda: not self.clients.now()["clients"])
        self.clients.next()
        self.before_kib, self.files_before = self.watched.resident_kib(), self.watched.files()
        self._ask(self.asked.streams, spread_seconds=min(SPREAD_SECONDS, self.asked.minutes * 12), beside=True)
        faults = drawn(self.asked.seed)
        began = time.monotonic()
        second = 0
        while second < self.asked.minutes * 60 and not self._too_broken():
            second += 1
            with suppress(subprocess.TimeoutExpired):  # a fault a second, by the clock, unless the sidecar ends
                self.sidecar.process.wait(timeout=max(0.0, began + second - time.monotonic()))
            if not self.asked.whole_network:
                fault = next(faults)
                self.faults[fault.kind, fault.side] += 1
                (self.engine if fault.side is Side.ENGINE else self.clients).order({"fault": fault.as_words()})
            self._look()
            if second % SAY_SECONDS == 0:
                self._say(second)
        self.clients.order({"stop": True})
        self._until("the last stream ends", lambda: not self.clients.now()["clients"])
        self._settle()
        self._calm()
        self._compare()

    def _too_broken(self) -> bool:
        return self.sidecar.process.poll() is not None or len(self.watched.broken) > 100

    def _ask(self, clients: int, **words: object) -> None:
        self.clients.order({"clients": clients, **words})
        self.clients.next()

    def _look(self) -> None:
        self.watched.look()
        blame = broken_blame(self.watched.outcomes, self._engine_injuries())
        if blame:
            # The relay's report may be a second old: asked again before it counts.
            self.engine.next()
            self.broken += [
                said for said in broken_blame(self.watched.outcomes, self._engine_injuries()) if said not in self.broken
            ]

    def _engine_injuries(self) -> int:
        said = self.engine.now()
        return int(said["injured"]) + int(said["refused"])

    def _until(self, what: str, done: Callable[[], bool], *, patience_seconds: float = 180.0) -> bool:
        deadline = time.monotonic() + patience_seconds
        while not done():
            if time.monotonic() > deadline or self.sidecar.process.poll() is not None:
                self.broken.append(f"after {patience_seconds:.0f} s it is not so that {what}")
                return False
            self.clients.next()
            self.watched.look()
        return True

    def _settle(self) -> None:
        """Within 60 s of the last stream nothing is left of the load: no request, no ledger, no memory."""
        bound = self.before_kib + LEFT_BY_MANY_MIB * 1024

        def settled() -> bool:
            self.after_kib = self.watched.resident_kib()
            return not any(self.watched.left().values()) and self.after_kib <= bound

        if not self._until("the sidecar is as before", settled, patience_seconds=SETTLE_SECONDS):
            self.broken.append(f"left: {self.watched.left()}, {self.after_kib} KiB of memory; {self.before_kib} before")
        self.files_after = self.watched.files()
        if self.files_after > self.files_before + EXTRA_FILES:
            self.broken.append(f"{self.files_after} files are open; before the load there were {self.files_before}")

    def _calm(self) -> None:
        """Without a fault, every request is whole and has the outcome ok: the sidecar has taken no harm."""
        before, counted = self.watched.outcomes, Counter(self.clients.next()["counts"])
        self._ask(CALM_CLIENTS, requests=CALM_REQUESTS, calm=True)
        self._until("the calm requests end", lambda: not self.clients.now()["clients"])
        grown = Counter(self.clients.next()["counts"]) - counted
        self._until("the calm requests are counted", lambda: not any(self.watched.left().values()))
        self.watched.look()
        outcomes = {name: count - before.get(name, 0.0) for name, count in self.watched.outcomes.items()}
        if not outcomes.get("ok") == sum(outcomes.values()) == grown["whole"] == grown["sent"]:
            self.broken.append(f"without a fault: {dict(grown)} at the clients, and outcomes {outcomes}")

    def _compare(self) -> None:
        self._until("the log has a line for each outcome", self._all_logged, patience_seconds=LOG_SECONDS)
        requests, odd = self._logged()
        lines = self._file().read_text().splitlines()
        self.books = books = Books(
            requests=[json.loads(line) for line in lines],
            logged=requests,
            outcomes=self.watched.outcomes,
            lines_held_back=self.watched.lines_held_back,
            engine_requests=int(self.engine.next()["requests"]),
            engine_injuries=self._engine_injuries(),
            client_injuries=int(self.clients.now()["injured"]),
        )
        self.broken += [*odd[:5], *broken_accounts(books), *self.clients.now()["wrong"]]
        if unreadable := self.engine.now()["unreadable"]:
            self.broken.append(f"the engine could not read {unreadable} requests")
        limit_kib = shipped_memory_bytes() / 1024
        if self.watched.peak_kib > OF_THE_LIMIT * limit_kib:
            self.broken.append(
                f"{self.watched.peak_kib} KiB are above {OF_THE_LIMIT:.0%} of the manifest's {limit_kib:.0f}"
            )
        self.broken += list(dict.fromkeys(self.watched.broken))[:10]

    def _logged(self) -> tuple[list[dict[str, Any]], list[str]]:
        return read_log(self.sidecar.log.read_text().splitlines())

    def _all_logged(self) -> bool:
        """A thread of the sidecar writes the last lines."""
        return len(self._logged()[0]) + self.watched.lines_held_back >= sum(self.watched.outcomes.values())

    def _file(self) -> Path:
        return Path(self.asked.folder) / REQUESTS

    # --- words -------------------------------------------------------------------------------------------------------

    def _say(self, second: int) -> None:
        said, counts = self.clients.now(), Counter(self.clients.now()["counts"])
        print(
            f"soak: {second:5} s  {said['live']:5} live  {counts['whole']:7} whole  {counts['cut']:6} cut  "
            f"{counts['wrong']} wrong  {self.watched.resident_kib() / 1024:5.0f} MiB  {self.watched.failed_probes} failed probes",
            flush=True,
        )

    def table(self) -> str:
        """The faults, the counts, and how much is broken."""
        counts = Counter(self.clients.now()["counts"])
        outcomes = ", ".join(f"{name} {count:.0f}" for name, count in self.watched.outcomes.items() if count)
        kinds = ", ".join(f"{kind} {self.faults[kind, Side.CLIENT]}+{self.faults[kind, Side.ENGINE]}" for kind in Kind)
        rows = {
            "seed, minutes, streams": f"{self.asked.seed}, {self.asked.minutes:g}, {self.asked.streams}",
            "faults, clients' side + engine's side": kinds,
            "connections injured, client + engine": f"{self.clients.now()['injured']} + {self.engine.now()['injured']}",
            "requests sent, whole, cut": f"{counts['sent']}, {counts['whole']}, {counts['cut']}",
            "answers cut whose client had not left": str(self.books.cut),
            "writes that the engine cut": f"{self.engine.now()['cut_writes']}",
            "answers by status": ", ".join(f"{name} {n}" for name, n in counts.items() if name.startswith("status"))
            or "all 200",
            "answers with a wrong byte": str(counts["wrong"]),
            "outcomes": outcomes,
            "hostile connections, idle ones closed": f"{counts['hostile connections']}, {counts['idle closed']}",
            "scrapes, probes, failed probes": f"{self.watched.scrapes}, {self.watched.probes}, {self.watched.failed_probes}",
            "memory before, most, after": " ".join(
                f"{kib / 1024:.0f} MiB" for kib in (self.before_kib, self.watched.peak_kib, self.after_kib)
            ),
            "files before, after": f"{self.files_before}, {self.files_after}",
            "broken": str(len(self.broken)),
        }
        return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        asked.folder = folder
        config = Path(folder, "soak.yml")
        config.write_text(CONFIG.format(places=max(1024, int(PLACES_A_STREAM * asked.streams))))
        flags = [*FLAGS, f"--config.file={config}"]
        engine = SideProcess("bench.soak.engine_side", {"seed": asked.seed})
        sides = [engine]
        try:
            with running_sidecar(f"http://127.0.0.1:{engine.last['port']}", Path(folder), flags=flags) as sidecar:
                order = {
                    "port": sidecar.port,
                    "seed": asked.seed,
                    "gap_milliseconds": asked.gap_milliseconds,
                    "events": EVENTS,
                    "file": str(Path(folder, REQUESTS)),
                }
                sides.append(SideProcess("bench.soak.client_side", order))
                run = Run(asked, sidecar, Watched(sidecar), engine, sides[1])
                run.play()
                table = run.table()
                if asked.report is not None and run.broken:
                    asked.report.with_suffix(".log").write_bytes(sidecar.log.read_bytes())
                    asked.report.with_suffix(".jsonl").write_bytes(Path(folder, REQUESTS).read_bytes())
        finally:
            for side in sides:
                side.stop()
    print(table)
    for said in run.broken:
        print(f"soak: BROKEN: {said}")
    if asked.report is not None:
        asked.report.write_text("\n".join([table, *run.broken, ""]))
    return 1 if run.broken else 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description="streams through a network that breaks each second")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of faults")
    parser.add_argument("--streams", type=int, default=SOAKED_STREAMS, help="concurrent streams")
    parser.add_argument("--gap-milliseconds", type=int, default=500, help="between two events of a stream")
    parser.add_argument("--seed", type=int, default=11, help="of the faults, of the clients and of the engine's cuts")
    parser.add_argument("--whole-network", action="store_true", help="no faults: then no answer may be cut")
    parser.add_argument("--report", type=Path, help="file for the table; the log goes beside it if something broke")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
