"""The panel of the parts of phases, as a real Prometheus answers it: parts and rest add up to their phase, and what no engine states is absent.

Two pods of one job are written by the ledger's own rule (`parts_of`): the engine of the one states parts, that of the other none.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

import pytest

from sidecar.ledger.account import Phase, Share, Source
from sidecar.ledger.phase_parts import Part, StatedPart, parts_of
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from tests.drawn.asking import ALL, SCRAPE_SECONDS, Look, filled_in
from tests.grafana.boards import Json, board, panels
from tests.grafana.query_rules import VARIABLES
from tests.support.backfilled import backfilled, sample_line, samples_of


pytestmark = pytest.mark.long

BEGAN_AT = 1_767_225_600
BUSY_STEPS, QUIET_STEPS = 40, 20
REQUESTS_A_STEP = 4
SECONDS: Mapping[Phase, float] = {Phase.QUEUE: 0.9, Phase.PREFILL: 0.2, Phase.FIRST_TOKEN: 0.4}
PARTED: Sequence[tuple[StatedPart, ...]] = (
    (
        StatedPart(Part.ROUTER, 0.05),
        StatedPart(Part.PREFILL_QUEUE, 0.8),
        StatedPart(Part.KV_TRANSFER, 0.3),
        StatedPart(Part.DECODE_ADMISSION, 0.0),
    ),
    (StatedPart(Part.ROUTER, 0.05),),
)
"""The reports of every second request: where the second states nothing of first_token, its first_token is in no mean."""
PODS: Mapping[str, Sequence[tuple[StatedPart, ...]]] = {"parted": PARTED, "plain": ((),)}


class Pod:
    """The registry of one pod, and its page at each scrape."""

    def __init__(self, name: str) -> None:
        self.target = {"namespace": "serving", "job": "llm-phase-sidecar", "pod": name}
        self.reports = cycle(PODS[name])
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
        self.lines: list[str] = []

    def serves(self) -> None:
        """One request, as the recorder writes it."""
        shares = tuple(Share(phase, seconds, Source.ENGINE) for phase, seconds in SECONDS.items())
        for share in shares:
            labels = ("llama", "chat", "0-512", "true", share.phase.value, share.source.value)
            self.metrics.histogram(c.REQUEST_PHASE_SECONDS).child(*labels).observe(share.seconds)
        for part in parts_of(shares, next(self.reports)):
            self.metrics.histogram(c.REQUEST_PHASE_PART_SECONDS).child(
                "llama", "chat", part.phase.value, part.part
            ).observe(part.seconds)

    def is_scraped(self, at_unix: float) -> None:
        for metric in (c.REQUEST_PHASE_SECONDS, c.REQUEST_PHASE_PART_SECONDS):
            names = [label.name for label in metric.labels]
            for values, child in self.metrics.histogram(metric).children.items():
                own = dict(zip(names, values, strict=True)) | self.target
                for suffix, more, value in samples_of(child):
                    self.lines.append(sample_line(metric.name + suffix, own | more, value, at_unix))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Ten minutes of requests at both pods, then five without."""
    pods = [Pod(name) for name in PODS]
    for step in range(BUSY_STEPS + QUIET_STEPS):
        for pod in pods:
            for _ in range(REQUESTS_A_STEP if step < BUSY_STEPS else 0):
                pod.serves()
            pod.is_scraped(BEGAN_AT + step * SCRAPE_SECONDS)
    # Series by series, as the format wants it.
    lines = sorted((line for pod in pods for line in pod.lines), key=lambda line: line.partition("{")[0])
    with backfilled(tmp_path_factory.mktemp("prometheus"), lines, f"--query.lookback-delta={SCRAPE_SECONDS}s") as one:
        yield one


def shown(url: str, *, steps: tuple[int, int] = (5, BUSY_STEPS - 1), **chosen: str) -> dict[str, list[float]]:
    """Each line of the panel by its name in the legend, at the points between these scrapes."""
    panel: Json = next(one for one in panels(board("llm-queue")) if one["title"].startswith("Parts of phases"))
    began_at, ended_at = (BEGAN_AT + step * SCRAPE_SECONDS for step in steps)
    look = Look(url, began_at, ended_at)
    (target,) = panel["targets"]
    assert target["legendFormat"] == "{{phase}}: {{part}}"
    answers = look.answers(filled_in(target["expr"], look, dict.fromkeys(VARIABLES, ALL) | chosen), instant=False)
    return {
        f"{one['metric']['phase']}: {one['metric']['part']}": [float(value) for _, value in one["values"]]
        for one in answers
    }


def test_parts_and_rest_are_means_of_the_requests_whose_engine_states_a_part(url: str) -> None:
    """A part that only some of them state counts as none in the others, whose rest has that time. A part without time has no line."""
    found = {name: values[-1] for name, values in shown(url).items()}

    assert found == pytest.approx(
        {
            "queue: router": 0.05,
            "queue: prefill_queue": 0.4,
            "queue: rest": 0.45,
            "first_token: kv_transfer": 0.3,
            "first_token: rest": 0.1,
        }
    )


def test_at_each_point_they_add_up_to_their_phase(url: str) -> None:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * (BUSY_STEPS - 5))
    for name, values in shown(url).items():
        phase = name.partition(":")[0]
        sums[phase] = [one + another for one, another in zip(sums[phase], values, strict=True)]

    assert sums == {
        phase: pytest.approx([SECONDS[Phase(phase)]] * (BUSY_STEPS - 5)) for phase in ("queue", "first_token")
    }


def test_an_engine_that_states_no_part_has_no_line(url: str) -> None:
    """And no zero: the panel then says that the engine states none."""
    (panel,) = [one for one in panels(board("llm-queue")) if one["title"].startswith("Parts of phases")]

    assert shown(url, pod="plain") == {}
    assert panel["fieldConfig"]["defaults"]["noValue"].startswith("the engine states no parts")


def test_without_a_request_there_is_no_line(url: str) -> None:
    assert shown(url, steps=(BUSY_STEPS + 8, BUSY_STEPS + QUIET_STEPS - 1)) == {}
