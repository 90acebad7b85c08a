"""The table of the real engines: how many requests of mixed clients were split, by what, and how far from the engine's own word.

Pure but for the two files: a row comes from log lines of the sidecar, records of the clients and the engine's own numbers. Each run of
`test_mixed_clients.py` leaves its rows in `.cache/real-engines/`; `python -m tests.real.mixed_table` writes docs/evidence/real-engines.md from
them.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import comb, fsum
from pathlib import Path
from statistics import median
from types import MappingProxyType

from bench import machine
from tests.real.mixed_clients import Seen
from tests.real.told import Line


CHECKOUT = Path(__file__).parents[2]
ROWS = CHECKOUT / ".cache" / "real-engines"
PAGE = CHECKOUT / "docs" / "evidence" / "real-engines.md"
DIFFERS_RATIO, DIFFERS_SECONDS = 0.2, 0.02
"""Queue and prefill are asked about where the truth differs by more than one of these: of the longer one, and in seconds."""
LEAST_CHANCE = 0.01
ORDER = (
    "vllm",
    "vllm-untold",
    "vllm-messages",
    "vllm-silent",
    "llama_cpp",
    "dynamo",
    "dynamo-routed",
    "dynamo-disaggregated",
    *(
        f"dynamo-load-{shape}{traced}"
        for traced in ("-traced", "")
        for shape in ("aggregated", "kv_routed", "disaggregated")
    ),
    "triton-quiet",
    "triton-busy",
)
"""The rows on the page, from the top; others follow."""

Truth = Mapping[str, float]
"""The engine's own seconds of one request, by phase."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Answers to "queue or prefill?" where the truth differs enough. A request without a split is no right answer."""

    asked: int
    right: int

    @property
    def share(self) -> float:
        return self.right / self.asked if self.asked else 1.0

    def holds(self, share: float) -> bool:
        """So many are right, or all but one: a tenth of few requests is few."""
        return self.share >= share or self.right == self.asked - 1

    def allows(self, share: float) -> bool:
        """A rate of `share` is not refuted: it gives as few right answers as these in at least 1 of 100 such samples (binomial law).

        On 1 December this tree was right in 287 of 298, in four samples .945 to .986, and 7628e029 in .933 to .986 on the same machine: one
        sample of 75 lies below a rate of .95 by chance in each third run.
        """
        below = range(self.right + 1)
        return fsum(comb(self.asked, n) * share**n * (1 - share) ** (self.asked - n) for n in below) >= LEAST_CHANCE


@dataclass(frozen=True, slots=True)
class Row:
    """One row. Shares are of the streamed requests that ended well and had output: of no others there is a time to first token to split."""

    name: str
    title: str
    requests: int
    streamed: int
    sources: dict[str, int]
    """Source of the split, `none` for those without one, to requests."""
    reasons: dict[str, int]
    """Why there is none, and how often."""
    named: int
    """Their model is known."""
    sized: int
    """Their bucket is known."""
    sum_seconds: float | None
    """Largest difference of one phase's sum to the engine's own; None where it has none."""
    sum_ratio: float | None
    """The same as a share of the engine's sum."""
    client_median_seconds: float | None
    client_most_seconds: float | None
    """Difference of the TTFT to the client's clock."""
    verdicts: Verdicts | None = None
    slowest: Verdicts | None = None
    """The slowest tenth alone."""
    when: str = ""
    machine: str = field(default="")

    def share(self, *sources: str) -> float:
        """The share that these sources split."""
        return fsum(self.sources.get(source, 0) for source in sources) / self.streamed if self.streamed else 0.0

    @property
    def model_known(self) -> float:
        return self.named / self.streamed if self.streamed else 0.0

    @property
    def bucket_known(self) -> float:
        return self.sized / self.streamed if self.streamed else 0.0


def row_of(
    name: str,
    title: str,
    lines: Sequence[Line],
    seen: Mapping[str, Seen],
    *,
    sums: Sequence[tuple[float, float]] = (),
    truth: Mapping[str, Truth] = MappingProxyType({}),
) -> Row:
    """`seen`: what clients saw; empty if no client looked. `sums`: pairs of our sum and the engine's own, one for each phase that it states. `truth`:
    by the request's id.
    """
    streamed = [line for line in lines if line.fields["outcome"] == "ok" and "ttft_seconds" in line.fields]
    apart = sorted(clock_differences(streamed, seen))
    furthest = max(sums, key=lambda pair: abs(pair[0] - pair[1]), default=None)
    judged = [line for line in streamed if line.request_id in truth]
    return Row(
        name,
        title,
        len(lines),
        len(streamed),
        dict(Counter(str(line.fields["source"]) for line in streamed)),
        dict(Counter(str(line.fields["reason"]) for line in streamed if line.fields["source"] == "none")),
        sum(line.fields["model"] != "other" for line in streamed),
        sum(line.fields["prompt_bucket"] != "unknown" for line in streamed),
        None if furthest is None else abs(furthest[0] - furthest[1]),
        max((abs(ours - theirs) / theirs for ours, theirs in sums if theirs), default=None),
        median(apart) if apart else None,
        apart[-1] if apart else None,
        verdicts(judged, truth) if judged else None,
        verdicts(slowest_tenth(judged), truth) if judged else None,
        datetime.now(UTC).strftime("%Y-%m-%d"),  # noqa: TID251  a date for people
        machine.named(),
    )


def sums_beside(lines: Sequence[Line], truth: Mapping[str, Truth]) -> list[tuple[float, float]]:
    """Our sums of queue and prefill and the engine's own, over the requests that are split and of which both are known."""
    both = [line for line in lines if line.request_id in truth and line.fields.get("source", "none") != "none"]
    return [
        (fsum(line.phases[phase] for line in both), fsum(truth[line.request_id][phase] for line in both))
        for phase in ("queue", "prefill")
        if both
    ]


def clock_differences(lines: Sequence[Line], seen: Mapping[str, Seen]) -> list[float]:
    """Seconds between the sidecar's TTFT and the client's, of each request for which its client had one too."""
    found = []
    for line in lines:
        theirs = seen[line.request_id].ttft_seconds if line.request_id in seen else None
        if theirs is not None:
            found.append(abs(theirs - line.number("ttft_seconds")))
    return found


def slowest_tenth(lines: Sequence[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: -line.number("ttft_seconds"))[: max(1, len(lines) // 10)]


def verdicts(lines: Sequence[Line], truth: Mapping[str, Truth]) -> Verdicts:
    """Whether the longer one of queue and prefill is the one that the engine names."""
    asked = right = 0
    for line in lines:
        queue, prefill = truth[line.request_id]["queue"], truth[line.request_id]["prefill"]
        if differs(queue, prefill):
            asked += 1
            ours = line.phases
            right += "queue" in ours and (ours["queue"] > ours["prefill"]) == (queue > prefill)
    return Verdicts(asked, right)


def differs(queue: float, prefill: float) -> bool:
    apart = abs(queue - prefill)
    return apart > DIFFERS_SECONDS or apart > DIFFERS_RATIO * max(queue, prefill)


# --- files -----------------------------------------------------------------------------------------------------------------


def keep(row: Row, folder: Path = ROWS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{row.name}.json").write_text(json.dumps(asdict(row), indent=1) + "\n")


def kept(folder: Path = ROWS) -> list[Row]:
    """The rows of the last runs, in the page's order."""
    found = []
    for path in folder.glob("*.json"):
        told = json.loads(path.read_text())
        told |= {name: told[name] and Verdicts(**told[name]) for name in ("verdicts", "slowest")}
        found.append(Row(**told))
    return sorted(found, key=lambda row: (ORDER.index(row.name) if row.name in ORDER else len(ORDER), row.name))


HEAD = (
    "engine",
    "streamed of all",
    "engine",
    "estimated",
    "not split",
    "model, bucket known",
    "sums",
    "clock",
    "queue or prefill?",
)
_BEFORE = """\
# Real engines under mixed clients

<!-- `python -m tests.real.mixed_table`, from runs of tests/real/test_mixed_clients.py -->

`sidecar serve` knows nothing about the engine behind it (Triton: the port of its page). Twelve clients on four slots send
every API, half of them ask for usage, some have n = 2, tools, structured output or a whole answer, or leave in the queue, the prefill or the
decode. The first requests teach and are not counted. Triton's rows are of text by KServe's API, from one client and three. "Under load" are
280 chats and completions (tests/real/test_dynamo_ledgers.py), the last 160 judged by Dynamo's trace and its mocker's laws of prefills and moves.

Shares are of streamed requests that ended well with output. **sums**: largest difference of a phase's sum to the engine's own, of the first
load or of the split requests (vLLM's spans, llama.cpp's heads, the word of Triton's model). **clock**: difference of the TTFT to the
client's, median and most. **queue or prefill?**: right answers where the engine's own values differ by over 20 % or 20 ms, of all and the
slowest tenth; no split is not right.

"""


def page(rows: Sequence[Row]) -> str:
    table = ["|".join(("", *cells, "")) for cells in (HEAD, ["---"] * len(HEAD), *map(_cells, rows))]
    where = sorted({f"{row.when}, {row.machine}" for row in rows})
    return _BEFORE + "\n".join(table) + "\n\n" + "\n".join(f"{each}." for each in where) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    apart = row.client_median_seconds, row.client_most_seconds
    return (
        row.title,
        f"{row.streamed}/{row.requests}",
        f"{row.share('engine', 'derived', 'wire'):.1%}",
        f"{row.share('estimated'):.1%}",
        ", ".join(f"{count} {reason}" for reason, count in sorted(row.reasons.items())),
        f"{row.model_known:.0%}, {row.bucket_known:.0%}",
        "" if row.sum_seconds is None else f"{row.sum_seconds * 1e3:.1f} ms, {row.sum_ratio or 0:.2%}",
        "" if None in apart else f"{(apart[0] or 0) * 1e3:.1f}, {(apart[1] or 0) * 1e3:.0f} ms",
        "" if row.verdicts is None or row.slowest is None else f"{_told(row.verdicts)}, {_told(row.slowest)}",
    )


def _told(found: Verdicts) -> str:
    return f"{found.right}/{found.asked}"


def main() -> int:
    rows = kept()
    if not rows:
        sys.stderr.write('there are no rows: make test-engines ARGS="-k test_mixed_clients" leaves them\n')
        return 1
    PAGE.write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
