"""`sidecar serve` before each real engine, which it has to recognise, under clients of every kind: who is split, by what, and how rightly.

Each engine is one `Case`. Three clients for each of its slots make a real queue. The first load, of kinds that the engine reports on, teaches and
is compared with the engine's own sums; the second one has all kinds, those that leave among them, and is judged. Each row is kept for the table
(`mixed_table.py`). Where the engine exports spans they are the truth of requests on which it reports nothing in its answers: the sidecar does not
get them.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from random import Random

import pytest

from tests.real.dynamo_environment import DynamoBuild
from tests.real.dynamo_record import TIMING
from tests.real.dynamo_server import Shape, running_dynamo
from tests.real.environment import BuildError, Environment, Say
from tests.real.mixed_clients import (
    CHAT,
    LEAVING,
    MESSAGE,
    OPENAI,
    RESPONSE,
    TOOL,
    TOOLS,
    TWO_CHOICES,
    TWO_CHOICES_USAGE,
    TWO_PROMPTS,
    Body,
    Kind,
    Seen,
    play,
    questions,
)
from tests.real.mixed_table import CHECKOUT, Row, Truth, keep, row_of, sums_beside
from tests.real.server import MODEL, SLOTS, RunningEngine
from tests.real.told import Line, page_of, total_of, uptime
from tests.real.traced_vllm import BATCH_SECONDS, Traced, traced_vllm
from tests.real.triton_environment import TRITON, triton_environment
from tests.real.triton_server import RunningTriton, running_triton
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tools import missing


CLIENTS = 3 * SLOTS
TAUGHT, JUDGED = 80, 360
PAUSE_SECONDS = 0.25
"""Mean pause of a client between two requests: some requests find the engine idle, most do not."""
LEARNS_SECONDS = 600.0
"""An engine without any report is learned from for so long at most."""
LEARNS_AT_ONCE = 60
SETTLES_SECONDS = 40.0
QUIET_SECONDS = 0.8
"""Between two requests that are alone at Triton: its page is read 0.2 to 0.5 s after the first one's end."""
NEAR_SECONDS, HIDDEN_SECONDS = 0.005, 0.06
"""Triton's way to its model and back takes up to 25 ms on a busy machine, and is a part of its compute."""


_PAUSES = Random(43)


@dataclass(frozen=True, slots=True)
class Case:
    """One engine, and the kinds of clients that it serves."""

    name: str
    title: str
    engine: RunningEngine
    reported: tuple[Kind, ...]
    """The engine reports on these in its answers."""
    unreported: tuple[Kind, ...] = ()
    leaving: tuple[Kind, ...] = LEAVING
    own: Callable[[], Mapping[str, float]] = dict
    """The engine's own sums of seconds, by phase."""
    truth: Callable[[Seen, Line], Truth | None] = lambda _seen, _line: None
    """The engine's own queue and prefill of one request, where there is a second source."""
    settles_seconds: float = 0.0
    """After a load: the truth may come later."""
    config: str = ""
    model: str = MODEL
    """"" where the path names it."""
    counts: tuple[int, int] = (TAUGHT, JUDGED)
    clients: int = CLIENTS
    pause: Callable[[], float] = lambda: _PAUSES.expovariate(1 / PAUSE_SECONDS)

    @property
    def taught(self) -> tuple[Kind, ...]:
        """The kinds whose requests all have output: the engine's sums have the others too, and there is nothing to compare."""
        return tuple(kind for kind in self.reported if kind is not TOOLS)


@dataclass(frozen=True, slots=True)
class Load:
    """One load that was played: what the sidecar and the clients tell of it."""

    lines: list[Line]
    seen: dict[str, Seen]

    def of(self, kinds: Sequence[Kind]) -> list[Line]:
        return [line for line in self.lines if self.seen[line.request_id].question.kind in kinds]


@dataclass(frozen=True, slots=True)
class Study:
    case: Case
    taught: Load
    judged: Load
    sums: list[tuple[float, float]]
    """Our sum and the engine's own of each phase, over the first load."""
    in_flight: float
    """Requests that the sidecar takes to be in flight when all is over."""

    def row(self, name: str, title: str, kinds: Sequence[Kind], sums: Sequence[tuple[float, float]] = ()) -> Row:
        """The row of these kinds, which is kept. Without `sums`, over the requests themselves."""
        lines = self.judged.of(kinds)
        found = {line.request_id: self.case.truth(self.judged.seen[line.request_id], line) for line in lines}
        truth = {name: split for name, split in found.items() if split is not None}
        row = row_of(name, title, lines, self.judged.seen, sums=sums or sums_beside(lines, truth), truth=truth)
        keep(row)
        return row


def study_of(
    case: Case, folder: Path, say: Say, learn: Callable[[SidecarProcess, "Player"], None] | None = None
) -> Study:
    config = folder / "sidecar.yml"
    config.write_text(f"log:\n  headers: [x-request-id]\n{case.config}")
    with running_sidecar(case.engine.url, folder, flags=[f"--config.file={config}"]) as sidecar:
        player = Player(case, sidecar)
        before = case.own()
        taught = player.play(case.taught, case.counts[0])
        after = case.own()
        if learn is not None:
            learn(sidecar, player)
        judged = player.play((*case.reported, *case.unreported, *case.leaving), case.counts[1])
        time.sleep(case.settles_seconds)
        in_flight = total_of(page_of(sidecar), "llm_requests_in_flight")
    sums = [(sum_of(taught.lines, phase), after[phase] - before[phase]) for phase in before]
    say(f"  {case.title}: sums {sums}; {uptime()}")
    return Study(case, taught, judged, sums, in_flight)


class Player:
    """Plays loads through one sidecar. Each has its own names and prompts."""

    def __init__(self, case: Case, sidecar: SidecarProcess) -> None:
        self.case, self.sidecar, self.loads = case, sidecar, 0

    def play(self, kinds: Sequence[Kind], count: int, clients: int | None = None) -> Load:
        self.loads += 1
        known = len(self.sidecar.log_lines("request"))
        asked = questions(kinds, count, self.case.model, f"{self.case.name}-{self.loads}", seed=self.loads)
        seen = asyncio.run(play(self.sidecar.port, asked, clients or self.case.clients, self.case.pause))
        lines = self.sidecar.wait_for_log_lines("request", known + count, patience_seconds=SETTLES_SECONDS)
        by_name = {line.request_id: line for line in map(Line, lines)}
        return Load([by_name[name] for name in seen if name in by_name], seen)


def sum_of(lines: Sequence[Line], phase: str) -> float:
    """Our sum of a phase that the engine states; what it made and was held back before it came here is a part of its decode."""
    held = fsum(line.number("held_seconds") for line in lines if "held_seconds" in line.fields)
    return fsum(line.phases.get(phase, 0.0) for line in lines if "phases" in line.fields) + (
        held if phase == "decode" else 0.0
    )


def told(row: Row, study: Study) -> str:
    """The row, and the kinds of those that were not split."""
    kinds = {line.request_id: study.judged.seen[line.request_id].question.kind.name for line in study.judged.lines}
    unsplit = [line for line in study.judged.lines if line.fields.get("source") == "none"]
    return f"{row}; not split: {dict(Counter((kinds[line.request_id], line.fields['reason']) for line in unsplit))}"


def act_on() -> set[str]:
    """The reasons for which docs/troubleshooting.md says what to do."""
    table = (CHECKOUT / "docs" / "troubleshooting.md").read_text().partition("| `reason` |")[2].partition("\n\n")[0]
    return {reason for line in table.splitlines() for reason in re.findall(r"`(\w+)`", line.partition(" | ")[0])}


def those_who_left_are_no_errors(study: Study) -> None:
    """Each client that left is counted as that, in the stage in which it was, and holds nothing any more."""
    left = study.judged.of(study.case.leaving)
    assert {line.fields["outcome"] for line in left} <= {"client_cancelled", "ok"}
    stages = Counter(line.fields["cancelled_in"] for line in left if line.fields["outcome"] == "client_cancelled")
    assert min(stages["waiting"], stages["streaming"]) > 0
    assert stages.total() >= 0.9 * len(left)
    others = {line.fields["outcome"] for line in study.judged.lines if line not in left}
    assert others == {"ok"}
    assert study.in_flight == 0


# --- vLLM ------------------------------------------------------------------------------------------------------------------

VLLM_REPORTED = (*OPENAI, TOOLS, RESPONSE)
VLLM_UNREPORTED = (*(MESSAGE,) * 4, TWO_CHOICES, TWO_CHOICES_USAGE, TWO_PROMPTS)
VLLM_PHASES = ("queue", "prefill", "decode")
CALLS_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def vllm_case(traced: Traced, name: str) -> Case:
    def own() -> dict[str, float]:
        page = traced.engine.metrics()
        return {phase: page.get(f"vllm:request_{phase}_time_seconds_sum", 0.0) for phase in VLLM_PHASES}

    def truth(seen: Seen, _line: Line) -> Truth | None:
        return traced.spans.by_trace.get(seen.question.trace)

    return Case(
        name,
        "vLLM 0.32",
        traced.engine,
        VLLM_REPORTED,
        VLLM_UNREPORTED,
        own=own,
        truth=truth,
        settles_seconds=BATCH_SECONDS + 1,
    )


@pytest.fixture(scope="module")
def vllm_study(vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Study:
    with traced_vllm(vllm_built, tmp_path_factory.mktemp("vllm"), say, *CALLS_TOOLS) as traced:
        return study_of(vllm_case(traced, "vllm"), tmp_path_factory.mktemp("sidecar"), say)


@pytest.mark.core
def test_vllm_tells_of_each_kind_that_it_reports_on(vllm_study: Study, say: Say) -> None:
    row = vllm_study.row("vllm", "vLLM 0.32, kinds that it reports on", VLLM_REPORTED, vllm_study.sums)
    say(f"  {told(row, vllm_study)}")

    assert row.share("engine") >= 0.99
    assert min(row.model_known, row.bucket_known) >= 0.99
    assert row.sum_ratio is not None
    assert row.sum_ratio < 0.01


@pytest.mark.core
def test_vllms_other_kinds_are_estimated(vllm_study: Study, say: Say) -> None:
    row = vllm_study.row("vllm-untold", "vLLM 0.32, messages, n = 2, two prompts", VLLM_UNREPORTED)
    say(f"  {told(row, vllm_study)}")

    assert row.share("engine", "estimated") >= 0.95
    assert row.reasons.keys() <= act_on()
    assert min(row.model_known, row.bucket_known) >= 0.99


@pytest.mark.core
def test_vllms_messages_waited_where_its_spans_say(vllm_study: Study, say: Say) -> None:
    """Queue or prefill? The truth is in vLLM's spans, which this sidecar does not get."""
    row = vllm_study.row("vllm-messages", "vLLM 0.32, `/v1/messages` alone", (MESSAGE,))
    say(f"  {told(row, vllm_study)}")

    assert row.verdicts is not None
    assert row.slowest is not None
    assert row.verdicts.asked >= 50
    assert row.verdicts.allows(0.95)
    assert row.slowest.holds(0.9)


@pytest.mark.core
def test_vllms_clients_that_left_are_no_errors(vllm_study: Study) -> None:
    those_who_left_are_no_errors(vllm_study)


def learn(sidecar: SidecarProcess, player: Player) -> None:
    """Traffic below saturation, as many clients as slots, until the estimator is ready or the time is over."""
    deadline = time.monotonic() + LEARNS_SECONDS
    while time.monotonic() < deadline and not total_of(
        page_of(sidecar), "llm_estimator_ready", model=player.case.engine.model
    ):
        player.play(player.case.reported, LEARNS_AT_ONCE, SLOTS)


def test_vllm_that_reports_nothing_is_estimated(
    vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flags = (*CALLS_TOOLS, "--no-enable-per-request-metrics")
    with traced_vllm(vllm_built, tmp_path_factory.mktemp("vllm-silent"), say, *flags) as traced:
        study = study_of(vllm_case(traced, "vllm-silent"), tmp_path_factory.mktemp("sidecar"), say, learn)
    row = study.row("vllm-silent", "vLLM 0.32 without reports", (*VLLM_REPORTED, *VLLM_UNREPORTED))
    say(f"  {told(row, study)}")

    assert row.share("estimated") >= 0.95
    assert row.reasons.keys() <= act_on()
    assert min(row.model_known, row.bucket_known) >= 0.99
    assert row.verdicts is not None
    assert row.slowest is not None
    assert row.verdicts.share >= 0.95
    assert row.slowest.holds(0.9)


# --- llama.cpp -------------------------------------------------------------------------------------------------------------


def _native(prompt: str, tokens: int) -> Body:
    return {"prompt": prompt, "n_predict": tokens, "stream": True, "ignore_eos": True}


NATIVE = Kind("native", "/completion", _native)


@pytest.fixture(scope="module")
def llama_cpp_study(llama_cpp: RunningEngine, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Study:
    def own() -> dict[str, float]:
        return {"decode": llama_cpp.metrics()["llamacpp:tokens_predicted_seconds_total"]}

    def truth(_seen: Seen, line: Line) -> Truth | None:
        """A stream's head comes when a slot starts on the prompt: `test_llama_cpp_ledgers.py`."""
        marks = line.marks
        if "first_token_at" not in marks:
            return None
        return {
            "queue": marks["headers_at"] - marks["sent_at"],
            "prefill": marks["first_token_at"] - marks["headers_at"],
        }

    case = Case(
        "llama_cpp",
        "llama.cpp b11434",
        llama_cpp,
        (*OPENAI, NATIVE, TOOLS, RESPONSE),
        (*(MESSAGE,) * 4, TWO_CHOICES, TWO_CHOICES_USAGE),
        own=own,
        truth=truth,
    )
    return study_of(case, tmp_path_factory.mktemp("sidecar"), say)


def test_llama_cpp_is_split_on_each_api(llama_cpp_study: Study, say: Say) -> None:
    kinds = (*llama_cpp_study.case.reported, *llama_cpp_study.case.unreported)
    row = llama_cpp_study.row("llama_cpp", "llama.cpp b11434", kinds, llama_cpp_study.sums)
    say(f"  {told(row, llama_cpp_study)}")

    assert row.share("engine", "derived", "estimated") >= 0.99
    assert min(row.model_known, row.bucket_known) >= 0.99
    assert row.sum_ratio is not None
    # The engine's sum alone holds the decode of an answer without any output, such as one whose grammar allows only its end: 0 to 2.3 % here.
    assert row.sum_ratio < 0.03
    assert row.verdicts is not None
    assert row.verdicts.share >= 0.95


def test_llama_cpps_clients_that_left_are_no_errors(llama_cpp_study: Study) -> None:
    those_who_left_are_no_errors(llama_cpp_study)


# --- Triton ----------------------------------------------------------------------------------------------------------------


def _text(prompt: str, _tokens: int) -> Body:
    return {"text_input": prompt}


def _model(name: str, leaves: str = "") -> Kind:
    return Kind(f"{name} {leaves}", f"/v2/models/{name}/generate_stream", _text, leaves)


QUIET, BUSY = (6, 30), (6, 40)
"""The first requests prove the models' names."""
BUSY_CLIENTS, BUSY_PAUSE_SECONDS = 3, 0.1


@pytest.fixture(scope="module")
def triton(say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    try:
        build = triton_environment(say)
    except BuildError as error:
        missing(f"no Triton can be installed here: {error}")
    with running_triton(build, tmp_path_factory.mktemp("triton"), say) as engine:
        yield engine


def triton_case(triton: RunningTriton, name: str, leaving: tuple[Kind, ...] = ()) -> Case:
    return Case(
        name,
        "Triton 2.51",
        triton,
        (_model("talker"), _model("batched")),
        leaving=leaving,
        config=f"engine:\n  metrics_port: {triton.metrics_port}\n",
        model="",
    )


@pytest.mark.core
def test_triton_is_split_where_requests_are_alone(
    triton: RunningTriton, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = triton_case(triton, "triton-quiet")
    case = replace(case, counts=QUIET, clients=1, pause=lambda: QUIET_SECONDS, truth=at_triton)
    study = study_of(case, tmp_path_factory.mktemp("sidecar"), say)
    row = study.row("triton-quiet", f"{TRITON}, each request alone", case.reported)
    say(f"  {told(row, study)}")

    assert row.share("engine", "derived") >= 0.9
    assert row.reasons.keys() <= act_on()
    assert row.model_known >= 0.99
    assert wrong_at_triton(study) == []


@pytest.mark.core
def test_triton_beside_others_is_never_split_wrongly(
    triton: RunningTriton, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> None:
    leaving = (_model("talker", "queue"), _model("talker", "decode"))
    case = replace(
        triton_case(triton, "triton-busy", leaving),
        counts=BUSY,
        clients=BUSY_CLIENTS,
        pause=lambda: BUSY_PAUSE_SECONDS,
        truth=at_triton,
    )
    study = study_of(case, tmp_path_factory.mktemp("sidecar"), say)
    row = study.row("triton-busy", f"{TRITON}, three clients", case.reported)
    say(f"  {told(row, study)}")

    assert row.model_known >= 0.99
    assert wrong_at_triton(study) == []
    assert row.reasons.keys() <= act_on()
    assert study.in_flight == 0


def at_triton(seen: Seen, line: Line) -> Truth | None:
    """The model says how long it took. Before it there was Triton's queue alone."""
    if not seen.first_text:
        return None
    took = float(seen.first_text)
    return {"queue": max(0.0, line.number("ttft_seconds") - took), "prefill": took}


def wrong_at_triton(study: Study) -> list[tuple[str, dict[str, float], Truth]]:
    """Splits with a queue that cannot be, and those that hide one: who waits for another request waits for HIDDEN_SECONDS at least."""
    found = []
    for line in study.judged.lines:
        truth = at_triton(study.judged.seen[line.request_id], line) if line.fields["outcome"] == "ok" else None
        if truth is not None and line.fields["source"] != "none":
            more = line.phases["queue"] - truth["queue"]
            found += [] if -HIDDEN_SECONDS < more < NEAR_SECONDS else [(line.request_id, line.phases, truth)]
    return found


# --- Dynamo ----------------------------------------------------------------------------------------------------------------


def _timed(kind: Kind) -> Kind:
    return Kind(f"{kind.name}, timing", kind.path, lambda prompt, tokens: {**kind.body(prompt, tokens), **TIMING})


def _calls(prompt: str, tokens: int) -> Body:
    return {**OPENAI[0].body(prompt, tokens), "tools": [TOOL]}


DYNAMO_KINDS = (*OPENAI, *map(_timed, OPENAI[:4]), Kind("tools", CHAT, _calls), RESPONSE, MESSAGE)
DYNAMO_SHAPES = {
    Shape.AGGREGATED: ("dynamo", 0.97),
    Shape.KV_ROUTED: ("dynamo-routed", 0.97),
    Shape.DISAGGREGATED: ("dynamo-disaggregated", 0.95),
}


def dynamo_is_split(build: DynamoBuild, shape: Shape, say: Say, folders: pytest.TempPathFactory) -> None:
    name, share = DYNAMO_SHAPES[shape]
    with running_dynamo(build, folders.mktemp(name), say, shape) as dynamo:
        case = Case(name, "Dynamo 1.6.1", dynamo, DYNAMO_KINDS)
        study = study_of(case, folders.mktemp("sidecar"), say, learn)
    row = study.row(name, f"Dynamo 1.6.1 and its mocker, {shape.name.lower().replace('_', ' ')}", DYNAMO_KINDS)
    say(f"  {told(row, study)}")

    assert row.share("engine", "estimated") >= share
    assert row.reasons.keys() <= act_on()
    assert min(row.model_known, row.bucket_known) >= 0.99


@pytest.mark.core
def test_dynamo_is_split_for_all_clients(
    dynamo_built: DynamoBuild, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dynamo_is_split(dynamo_built, Shape.AGGREGATED, say, tmp_path_factory)


@pytest.mark.parametrize("shape", [Shape.KV_ROUTED, Shape.DISAGGREGATED], ids=lambda shape: shape.name.lower())
def test_dynamo_with_several_workers_is_split_for_all_clients(
    dynamo_built: DynamoBuild, shape: Shape, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dynamo_is_split(dynamo_built, shape, say, tmp_path_factory)
