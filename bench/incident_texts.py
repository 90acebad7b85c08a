"""All that a person reads of ten incidents, from the page to the diagnosis: `python -m bench.incident_texts`.

Each incident is played in virtual time on a simulated engine. Prometheus' own rule engine writes the page; at the scrape at which it begins
to fire, the diagnosis of the same process is taken, as `sidecar diagnose` prints it and as the head of the runbook tells it. The texts
stand in one file that a person can read through. It takes ten minutes on one core, and refuses to judge: readers do.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from random import Random

from bench import checkout
from bench.incidents.engines import BY_NAME as ENGINES_BY_NAME
from bench.incidents.job import engine_for
from bench.incidents.kinds import BY_NAME
from bench.incidents.play import load_factor, play
from bench.incidents.product import Product
from bench.incidents.prometheus import Firing, Heard, hear, names_in
from bench.incidents.world import Mode
from sidecar.admin.runbook_page import present
from sidecar.commands.diagnose.terminal import MOST_LINES, text
from sidecar.config.folding import WIDTH
from sidecar.diagnosis.document import document
from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.history.ring import History
from sidecar.history.slices import run_now


KINDS = (
    *("burst", "few-slots", "prompts-beyond-kv", "prefill-slow", "cache-lost"),
    *("tokeniser", "decode-slow", "hop", "slow-clients", "crash"),
)
SEED, SEED_OF = 10, {"prefill-slow": 11}
"""The seed of a run; with 10, prompts become too little dearer for a page."""
WRITTEN_TO = checkout.REPOSITORY / "docs" / "incident-texts.md"
ANNOTATIONS = ("summary", "description")
"""The title of a page and its text."""
_TAG = re.compile(r"<[^>]*>")
_HEAD = f"""# Ten incidents, as a person reads them

`python -m bench.incident_texts` wrote this page: each incident is played on a simulated engine whose clock begins at 1970-01-01 00:00 UTC, and
the texts are those of the instant at which its first page fires. Read it through after a change of a text. `sidecar diagnose` answers in at
most {MOST_LINES} lines of {WIDTH} columns, unless `--all` is asked for. These pages tell no p95 beside its threshold: the bench hands promtool
no histogram for it, as a lean pod does not.
"""


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
    kind, engine = BY_NAME[kind_name], ENGINES_BY_NAME[engine_for(kind_name, seed)]
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


def first_page(run: Watched) -> Firing | None:
    """The first page about a lane; None if none came."""
    pages = [each for each in run.heard.during if each.labels.get("severity") == "page" and each.lane is not None]
    return min(pages, key=lambda each: each.at, default=None)


def told(kind: str, run: Watched) -> Iterator[str]:
    """The texts of one incident, in Markdown."""
    yield f"## {kind}: {BY_NAME[kind].says}"
    page = first_page(run)
    if page is None:
        yield "No page came."
        return
    yield f"The page, {page.at - run.fault_at:.0f} s after the fault:"
    yield _quoted("\n\n".join(page.annotations[name].strip() for name in ANNOTATIONS))
    found = [diagnose(each) for each in run.seen[page.at].values()]
    about = next(each for each in found if page.lane is not None and each.measured.lane == page.lane[0])
    yield "The head of its runbook:"
    yield _quoted(unescape(_TAG.sub("", present(page.alert, about, page.lane and page.lane[0], None))))
    yield "`sidecar diagnose` on the pod:"
    yield _quoted(text(document(found), WIDTH, whole=False))


def _quoted(words: str) -> str:
    return "\n".join(["```text", words.rstrip("\n"), "```"])


def main() -> int:
    parts = [_HEAD.strip()]
    for kind in KINDS:
        print(f"{kind} ...", file=sys.stderr, flush=True)
        parts += told(kind, watched(kind, SEED_OF.get(kind, SEED), Mode.REPORTS))
    WRITTEN_TO.write_text("\n\n".join(parts) + "\n", "utf-8")
    print(f"written: {WRITTEN_TO}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
