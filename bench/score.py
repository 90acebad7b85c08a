"""`make score`: does the verdict name what broke, on engines and shapes of faults that no rule was made for? One page.

A change of the decision is judged by this number, and not by the story that asked for it: 60 mode-runs, which are 20 shapes
(`incidents/shapes.py`), each with reports, with the estimator only, and blind. The commit's hash draws shapes, engines and seeds, so that
no rule can have been tuned on them; `--draw TEXT` plays those of another tree again, to compare two trees on the same runs. Definitions are
those of the incident bench (`incidents/measures.py`): S2 counts each lane that burned, and a lane without a page is missed.

`--floors` plays a few shapes that are the same on each tree, in three to four minutes, and fails where S2 is below its floor or wrong pages
are above theirs: `.ci/run` does it, so that a change cannot lose the verdict in silence. It says whether something broke, and not how good
the verdict is.

`--record` writes the figures into docs/evidence/score.json; each later page shows them beside its own. They are of other draws, unless the
text is the same, and the page says so.

It knows what is played and what is told. It refuses to know rules, and how a run is graded.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.checkout import commit, named
from bench.incidents import shapes
from bench.incidents.grade import Case
from bench.incidents.job import DRAWN_PREFIX, EVERY_MODE, Job
from bench.incidents.kept import Kept, frozen
from bench.incidents.measures import Figure, Measure, Woken, bands, by_class, figures, pages_of
from bench.incidents.report import COUNTS, MODE_TITLES, SECONDS, line
from bench.incidents.run import Done, done, woken
from bench.incidents.world import Mode
from bench.parallel import in_parallel


SHAPES = 20
FLOOR_DRAW, FLOOR_SHAPES = "floors", 4
FLOORS: Mapping[Mode, tuple[float, float]] = {
    Mode.REPORTS: (0.9, 0.1),
    Mode.ESTIMATOR: (0.9, 0.1),
    Mode.BLIND: (0.2, 0.3),
}
"""Least S2 and most wrong lanes on these shapes: a little below what they were when they were set (1.0, 1.0, and 0.25 of 20 lanes)."""
LOW = 0.7
"""Classes below it are named."""
RECORD = Path(__file__).parents[1] / "docs" / "evidence" / "score.json"
SHOWN = (
    *(
        Figure.S2,
        Figure.WRONG,
        Figure.UNATTRIBUTED,
        Figure.MISSED,
        Figure.UNPAGED,
        Figure.PAGES_RIGHT,
        Figure.PAGES_WRONG,
    ),
    *(Figure.RECEIVERS, Figure.NOTIFICATIONS, Figure.MEDIAN_SECONDS, Figure.P95_SECONDS),
)
CLASSES: Mapping[str, Callable[[shapes.Shape], str]] = {
    "fault": lambda shape: shape.fault,
    "onset": lambda shape: shape.onset.value,
    "companion": lambda shape: shape.companion.value,
    "place": lambda shape: "{1} of {0} pods".format(*shape.fleet),
    "traffic": lambda shape: shape.traffic.value,
}


@dataclass(frozen=True, slots=True)
class Score:
    """The runs in one mode, and their figures."""

    mode: Mode
    cases: Sequence[Case]
    figures: Mapping[Figure, Measure]


def todo(draw: str, count: int) -> list[Job]:
    """The runs of a text: each shape on an engine of its own, in all modes."""
    return [
        Job(f"{shapes.PREFIX}{draw}-{number}", f"{DRAWN_PREFIX}{draw}-{number}", number, EVERY_MODE)
        for number in range(count)
    ]


def scores(finished: Sequence[Done], told: Sequence[Woken]) -> list[Score]:
    """The figures of each mode."""
    found = []
    for mode in Mode:
        cases = [case for run in finished for case in run.cases if case.mode is mode]
        found.append(Score(mode, cases, figures(cases, [each for each in told if each.mode is mode])))
    return found


# --- the page ----------------------------------------------------------------------------------------------------------


def page(finished: Sequence[Done], found: Sequence[Score], past: Mapping[str, Any] | None) -> str:
    """All that is told, as Markdown. `past`: the recorded figures."""
    rows = [["figure", *(MODE_TITLES[each.mode] for each in found)], ["---"] * (len(found) + 1)]
    for figure in SHOWN:
        cells = []
        for each in found:
            before = (past or {}).get("figures", {}).get(each.mode.value, {}).get(figure.value)
            cells.append(
                _cell(figure, each.figures[figure]) + ("" if before is None else f"; then {_number(figure, before)}")
            )
        rows.append([figure.value, *cells])
    rows.append(["stated confidence is right", *(_confidence(each.cases) for each in found)])
    parts = ["".join(f"| {' | '.join(row)} |\n" for row in rows)]
    if past is not None:
        parts.append(f'*then*: {past["tree"]}, draws of "{past["draw"]}".\n')
    parts.append(_low(finished))
    parts.append("".join(f"- {_run(each)}\n" for each in finished))
    return "\n".join(parts)


def _cell(figure: Figure, measure: Measure) -> str:
    if not measure.size:
        return "-"
    value, low, high = (_number(figure, each) for each in measure[:3])
    return f"{value} [{low}, {high}] of {measure.size}"


def _number(figure: Figure, value: float) -> str:
    return f"{value:.0f}" if figure in SECONDS else f"{value:.2f}" if figure in COUNTS else f"{value:.0%}"


def _confidence(cases: Sequence[Case]) -> str:
    return (
        ", ".join(f"{band.stated:.2f} is {band.right.value:.2f} of {band.right.size}" for band in bands(cases)) or "-"
    )


def _low(finished: Sequence[Done]) -> str:
    """Each class of shapes under `LOW` with reports."""
    cases = [case for run in finished for case in run.cases if case.mode is Mode.REPORTS]
    lines = []
    for title, of in CLASSES.items():
        for name, each in by_class(cases, lambda case, of=of: of(shapes.named(case.kind))).items():  # type: ignore[misc]
            if each.value < LOW:
                lines.append(f"- {title} {name}: {each.value:.0%} of {each.size} lanes in {each.runs} runs\n")
    return f"Under {LOW:.0%} with reports:\n\n" + ("".join(lines) or "- nothing\n")


def _run(run: Done) -> str:
    shape = shapes.named(run.job.kind)
    said = {
        mode: sorted({case.said or "no page" for case in pages_of(run.cases) if case.mode is mode}) for mode in Mode
    }
    phases = sorted({phase for case in run.cases for phase in case.phases})
    told = "; ".join(f"{MODE_TITLES[mode]}: {', '.join(words)}" for mode, words in said.items() if words)
    return f"{run.job.kind.rpartition('-')[2]}: {shape.says} ({shape.magnitude:.2f}). {'|'.join(phases)}; {told or 'nothing burns'}"


def below(found: Sequence[Score]) -> list[str]:
    """Each figure that breaks its floor, in words."""
    broken = []
    for each in found:
        least, most = FLOORS[each.mode]
        s2, wrong = each.figures[Figure.S2].value, each.figures[Figure.WRONG].value
        if not s2 >= least:
            broken.append(f"{MODE_TITLES[each.mode]}: S2 is {s2:.0%}, and at least {least:.0%} is the floor")
        if not wrong <= most:
            broken.append(
                f"{MODE_TITLES[each.mode]}: {wrong:.0%} of the lanes are wrong, and at most {most:.0%} may be"
            )
    return broken


def recorded(found: Sequence[Score], draw: str) -> dict[str, Any]:
    """The figures as they are kept."""
    kept = {
        each.mode.value: {
            figure.value: round(each.figures[figure].value, 4) for figure in SHOWN if each.figures[figure].size
        }
        for each in found
    }
    return {"tree": named(), "draw": draw, "figures": kept}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.score", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", help="text that draws shapes and engines (default: the commit's hash)")
    parser.add_argument(
        "--shapes", type=int, default=SHAPES, help=f"number of shapes, three mode-runs each (default: {SHAPES})"
    )
    parser.add_argument(
        "--floors",
        action="store_true",
        help=f'{FLOOR_SHAPES} shapes of "{FLOOR_DRAW}", against the floors: four minutes',
    )
    parser.add_argument("--record", action="store_true", help="keep the figures in docs/evidence/score.json")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    asked = parser.parse_args()
    if shutil.which("promtool") is None:
        print("promtool is missing: install the Debian package prometheus", file=sys.stderr)
        return 2
    draw = FLOOR_DRAW if asked.floors else (asked.draw or commit()).replace("-", "_")
    runs = todo(draw, FLOOR_SHAPES if asked.floors else asked.shapes)
    began, finished = time.perf_counter(), list[Done]()
    for each in in_parallel(Kept(done, frozen()), runs, asked.jobs):
        finished.append(each)
        print(line(each, len(runs) - len(finished)), flush=True)
    finished.sort(key=lambda each: each.job.seed)
    found = scores(finished, woken(finished))
    past = json.loads(RECORD.read_text()) if RECORD.exists() else None
    minutes = (time.perf_counter() - began) / 60
    print(
        f'\n{page(finished, found, past)}\n{len(runs)} shapes of "{draw}", {len(runs) * len(Mode)} mode-runs in {minutes:.0f} minutes'
    )
    if asked.record:
        RECORD.write_text(json.dumps(recorded(found, draw), indent=1) + "\n")
        print(f"written to {RECORD}")
    broken = below(found) if asked.floors else []
    print("".join(f"\nbelow the floor: {each}" for each in broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
