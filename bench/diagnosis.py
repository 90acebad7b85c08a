"""Compares the phase that a diagnosis names with the phase of the page, on incidents: `python -m bench.diagnosis`.

Each run is played once. Prometheus' own rule engine says which burn alerts fire and when. At the scrape at which an
alert fires, the diagnosis of the same process is taken. It knows how to match the two; it refuses to know the
incident's truth.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from bench.incidents.engines import BY_NAME as ENGINES_BY_NAME
from bench.incidents.job import engine_for
from bench.incidents.kinds import BY_NAME as KINDS_BY_NAME
from bench.incidents.kinds import KINDS
from bench.incidents.play import load_factor, play
from bench.incidents.product import Product
from bench.incidents.prometheus import Heard, hear, names_in
from bench.incidents.world import Mode
from sidecar.diagnosis.findings import Outcome
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.history.ring import History
from sidecar.history.slices import run_now
from sidecar.objectives.objective import Objective


BOUND = 0.98
BURNS = frozenset(CHAPTERS.values())


@dataclass(frozen=True, slots=True)
class Compared:
    """One alert that began to fire, and the diagnosis at that scrape."""

    kind: str
    engine: str
    seed: int
    mode: Mode
    lane: str
    objective: str
    seconds: float
    """Seconds from the fault to the alert."""
    page: str
    severity: str
    diagnosis: str
    """The phase, or the outcome of a diagnosis without a phase."""

    @property
    def same(self) -> bool:
        return self.page == self.diagnosis


@dataclass(frozen=True, slots=True)
class Watched:
    """One run whose diagnosis was taken at each scrape, and the alerts that began to fire in it."""

    engine: str
    fault_at: float
    heard: Heard
    seen: Mapping[float, Mapping[str, Measured]]
    """Instant of a scrape to the numbers of each lane."""


def watched(kind_name: str, seed: int, mode: Mode) -> Watched:
    """Play one run, and ask for the diagnosis at each scrape."""
    kind, engine = KINDS_BY_NAME[kind_name], ENGINES_BY_NAME[engine_for(kind_name, seed)]
    rng = Random(f"{seed}/{kind_name}")
    magnitude = rng.random()
    incident = kind.sample(engine, load_factor(seed), magnitude, rng)
    run = play(engine, seed, incident)
    product = Product(engine, run, mode=mode)
    history = History(product.metrics, at=0.0)
    live = LiveDiagnosis(history)
    seen: dict[float, dict[str, Measured]] = {}
    inside = False

    def set_gauges(at: float) -> None:
        # A snapshot makes all gauges compute that are computed at scrape time, which calls this function again.
        nonlocal inside
        if inside:
            return
        inside = True
        now = run_now(history.tick(at))
        live.learn(now)
        seen[at] = {one.lane or "": one for one in run_now(live.lanes(now))}
        inside = False

    product.metrics.before_scrape(set_gauges)
    samples = product.play(names_in())
    samples.without_idle()
    samples.add_target()
    return Watched(engine.name, run.fault_at, hear([samples], run.fault_at, run.ends_at, run.ends_at), seen)


def compared(kind_name: str, seed: int, mode: Mode) -> list[Compared]:
    """Every burn alert of one run with its diagnosis."""
    run = watched(kind_name, seed, mode)
    found = []
    for firing in run.heard.during:
        if firing.alert not in BURNS or firing.lane is None:
            continue
        lane, objective = firing.lane
        found.append(
            Compared(
                kind_name,
                run.engine,
                seed,
                mode,
                lane,
                objective,
                firing.at - run.fault_at,
                firing.labels["phase"],
                firing.labels["severity"],
                said(run.seen[firing.at].get(lane), Objective(objective)),
            )
        )
    return found


def said(measured: Measured | None, objective: Objective) -> str:
    """The phase that the diagnosis names for this objective, also if another objective of the lane is worse."""
    if measured is None:
        return "no traffic"
    found = diagnose(measured)
    if found.outcome is not Outcome.VERDICT:
        return found.outcome.value
    verdict = measured.verdicts.get(objective)
    if found.first is objective or verdict is None:
        return str(found.phase)
    return str(verdict.phase)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=[10])
    parser.add_argument("--kinds", nargs="+", default=[kind.name for kind in KINDS])
    arguments = parser.parse_args()
    every: list[Compared] = []
    for seed in arguments.seeds:
        for kind in arguments.kinds:
            for mode in (Mode.REPORTS, Mode.ESTIMATOR):
                one = compared(kind, seed, mode)
                every += one
                odd = [each for each in one if not each.same]
                print(f"{kind} {seed} {mode}: {len(one) - len(odd)} of {len(one)}", flush=True)
                for each in odd:
                    print(f"  {each}", flush=True)
    if not every:
        print("no alert fired", file=sys.stderr)
        return 1
    share = sum(each.same for each in every) / len(every)
    print(f"\n{share:.1%} of {len(every)} alerts have the diagnosis' phase")
    print(Counter((each.page, each.diagnosis) for each in every).most_common())
    return 0 if share >= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
