"""The `capacity` command as a person uses it: worked cases, errors in its flags, refusals that say what would help."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.capacity.answer import Origin, RefusedError
from sidecar.capacity.capacity_command import main
from sidecar.capacity.flags import parser
from sidecar.capacity.observation import Reading
from sidecar.cli import main as cli


SEVENTY_B = ("--model=llama-3.3-70b", "--model.weights=140GB", "--gpu=h100", "--gpu.count=4", "--gpu.reserve=40GB")
SEVEN_B = (
    "--model.layers=32",
    "--model.kv-heads=8",
    "--model.head-dim=128",
    "--model.weights=14GB",
    "--gpu.memory=80GB",
)
LOAD = (
    "--rate=12",
    "--wait=200ms",
    "--slots=64",
    "--service=1:3s",
    "--service=64:11s",
    "--prefill=9:200ms",
    "--prefill=1:900ms",
)
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command with --output=json, and return its answers by topic."""

    def ask(*flags: str, rc: int = 0, **seams: Any) -> dict[str, Any]:
        assert main([*flags, "--output=json"], **seams) == rc
        return {answer["topic"]: answer for answer in json.loads(capsys.readouterr().out)["answers"]}

    return ask


# --- worked cases ------------------------------------------------------------------------------------------------------------


def test_the_issues_figures_for_a_70b(run: Run) -> None:
    """1.34 GB for 4,096 tokens (10.74 with 64 heads); 50 users with 8,544 tokens each; 95.7 tokens a second."""
    answers = run(*SEVENTY_B, "--users=50")

    assert answers["kv"]["numbers"]["sequence_bytes"] / 1e9 == pytest.approx(1.34, abs=0.005)
    assert answers["kv"]["numbers"]["sequence_bytes_by_query_heads"] / 1e9 == pytest.approx(10.74, abs=0.005)
    assert answers["memory"]["numbers"]["longest_tokens"] == 8544
    assert answers["decode"]["numbers"]["weights_only_tokens_per_second"] == pytest.approx(95.7, abs=0.05)


@pytest.mark.parametrize(("reserve", "fits"), [("8GB", True), ("16GB", False)])
def test_the_issues_figures_for_a_7b(run: Run, reserve: str, fits: bool) -> None:
    answers = run(*SEVEN_B, f"--gpu.reserve={reserve}", "--users=200", "--tokens=2048")

    assert answers["memory"]["numbers"]["fits"] is fits


def test_the_text_says_the_same_as_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SEVENTY_B, "--users=50"]) == 0

    text = capsys.readouterr().out
    for said in ("takes 1.34 GB", "It is not 10.7 GB", "50 users may have 8,544 tokens each", "At most 95.7 tokens/s"):
        assert said in text


def test_every_number_says_where_it_comes_from(run: Run) -> None:
    facts = {fact["name"]: fact["origin"] for fact in run(*SEVENTY_B, "--users=50")["decode"]["facts"]}

    assert facts["weights_bytes"] == Origin.GIVEN
    assert facts["gpu_bandwidth"] == Origin.LOOKED_UP
    assert facts["kv_block_size"] == Origin.ASSUMED
    assert facts["cache_bytes"] == Origin.DERIVED


def test_a_config_file_is_a_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}'
    )

    assert run(f"--model.config={path}")["kv"]["numbers"]["token_bytes"] == 131_072


def test_replicas_by_hand(run: Run) -> None:
    numbers = run(*LOAD)["replicas"]["numbers"]
    waits = {row["replicas"]: row["wait_seconds"] for row in numbers["rows"]}

    assert numbers["replicas"] == 7
    assert waits[7] <= 0.2 < waits[6]


def test_a_router_that_knows_the_queues_gets_a_range(run: Run) -> None:
    numbers = run(*LOAD, "--router=shortest")["replicas"]["numbers"]

    assert (numbers["replicas_at_best"], numbers["replicas"]) == (4, 7)


def test_overload_is_null_in_json_and_words_in_text(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """With three replicas, each would be in prefill for 108 % of the time."""
    rows = run(*LOAD, "--router=shortest")["replicas"]["numbers"]["rows"]
    main([*LOAD, "--router=shortest"])

    assert [row["wait_seconds"] for row in rows if row["replicas"] == 3] == [None]
    assert re.search(r"3: wait grows without end", capsys.readouterr().out)


def test_a_cache_that_is_too_small_bounds_the_slots(run: Run) -> None:
    """The flags ask for 64 slots, but the cache has room for 13 sequences of 32,768 tokens."""
    answers = run(*SEVENTY_B, "--tokens=32768", *LOAD)

    assert {fact["name"]: fact["value"] for fact in answers["replicas"]["facts"]}["slots_in_cache"] == 13


# --- what is running ---------------------------------------------------------------------------------------------------------


def test_a_running_engine_outranks_the_tables(run: Run) -> None:
    """The running engine reports 45,000 blocks of 16 tokens, and at most 16,384 tokens per request."""
    pages = {
        "/metrics": b'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="45000",cache_dtype="auto"} 1.0\n',
        "/v1/models": b'{"data": [{"id": "m", "max_model_len": 16384}]}',
    }
    flags = ("--model=llama-3.3-70b", "--engine.url=http://e:1", "--users=10", "--tokens=8192")

    memory = run(*flags, ask=lambda _url, path: (pages[path], ""))["memory"]

    assert (memory["numbers"]["sequences"], memory["numbers"]["longest_tokens"]) == (87, 16384)
    assert {fact["name"]: fact["origin"] for fact in memory["facts"]}["num_gpu_blocks"] == Origin.MEASURED


def test_an_engine_that_does_not_answer_is_said_and_the_rest_is_answered(run: Run) -> None:
    def no_answer(url: str, path: str) -> tuple[bytes, str]:
        raise RefusedError(f"{url}{path} does not answer: refused")

    answers = run("--model=llama-3.3-70b", "--engine.url=http://e:1", rc=1, ask=no_answer)

    assert answers["engine"]["refusal"] == "http://e:1/metrics does not answer: refused"
    assert answers["kv"]["numbers"]["token_bytes"] == 327_680


def steady(queue_seconds: float, **last: float) -> Callable[[str, float], list[Reading]]:
    """Ten minutes at 2 requests per second with four inside on average: S(n) can be estimated, because the number
    inside varies from two to six."""

    def observe(_url: str, _window: float) -> list[Reading]:
        readings = [Reading(0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
        for step in range(1, 1201):
            before = readings[-1]
            inside = (2, 3, 4, 5, 6, 5, 4, 3)[step % 8]
            # R(n) = n / (1.5 + 0.125 n): 2 per second with four inside.
            ended = before.ended + before.in_flight / (1.5 + 0.125 * before.in_flight) / 2
            readings.append(
                Reading(
                    step / 2,
                    step,
                    ended,
                    ended,
                    inside,
                    step * queue_seconds,
                    step,
                    0,
                    step * 0.1,
                    step,
                    step * 0.1,
                    {0.075: 0, 0.15: step},
                )
            )
        readings[-1] = replace(readings[-1], **last)  # type: ignore[arg-type]
        return [replace(reading, ended=round(reading.ended), ok=round(reading.ok)) for reading in readings]

    return observe


WATCHED = ("--sidecar.url=http://s:1", "--wait=50ms", "--slots=6", "--replicas.now=3")


def test_a_watched_replica_carries_an_answer_for_the_fleet(run: Run) -> None:
    """One of three replicas gets 2 requests per second, so the fleet gets 6; today's wait is above the target, so more
    than three are needed."""
    answer = run(*WATCHED, observe=steady(0.2))["replicas"]

    assert answer["numbers"]["rate"] == pytest.approx(6.0)
    assert answer["numbers"]["replicas"] > 3
    assert {fact["name"]: fact["origin"] for fact in answer["facts"]}["queue_seconds"] == Origin.MEASURED


@pytest.mark.parametrize(
    ("flags", "observe", "words"),
    [
        (WATCHED, steady(60.0), "does not describe this replica"),
        (WATCHED, steady(0.0001), "does not describe this replica"),
        (WATCHED[:2], steady(0.2), "give --slots"),
        ((*WATCHED[:2], "--slots=2"), steady(0.2), "is overloaded"),
        (WATCHED, lambda _url, _window: steady(0.2)("", 0)[:40], "at least 50 of each"),
    ],
    ids=["waits far longer", "hardly waits", "slots unknown", "overloaded", "too few"],
)
def test_a_replica_that_the_model_does_not_describe_is_refused(
    run: Run, flags: tuple[str, ...], observe: Callable[[str, float], list[Reading]], words: str
) -> None:
    assert words in run(*flags, rc=1, observe=observe)["replicas"]["refusal"]


# --- refusals and mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "topic", "words"),
    [
        (("--model=gpt-oss-120b", "--gpu=h100"), "memory", "give --model.weights"),
        (("--model=llama-3.1-8b", "--users=5"), "memory", "give --gpu, or --gpu.memory"),
        (("--model=llama-3.3-70b", "--gpu=h100"), "memory", "nothing is left for the KV cache"),
        (("--model=llama-3.3-70b", "--tpot=20ms"), "decode", "give --gpu, or --gpu.bandwidth"),
    ],
)
def test_a_question_without_its_data_is_refused_and_the_others_are_answered(
    run: Run, flags: tuple[str, ...], topic: str, words: str
) -> None:
    """The exit code is 1 if one question was not answered: a script that asked whether a model fits must not go on."""
    answers = run(*flags, rc=1)

    assert words in answers[topic]["refusal"]
    assert "numbers" not in answers[topic]
    assert "numbers" in answers["kv"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--rate=12", "--wait=200ms"), "the speed of a replica is not known"),
        (("--rate=12", "--wait=200ms", "--slots=8", "--service=8:3s"), "one point does not show"),
        (("--model=llama-3.3-70b", "--gpu.count=6"), "cannot be shared evenly by 6 GPUs"),
    ],
)
def test_where_every_question_is_refused_the_exit_code_says_so(run: Run, flags: tuple[str, ...], words: str) -> None:
    (answer,) = run(*flags, rc=1).values()

    assert words in answer["refusal"]


def test_all_that_is_wrong_is_told_at_once_with_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu=h10", "--tokens=many", "--modle=x", "--wait=1s", "--gpu.utilisation=90", "there"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    for words in (
        'did you mean "h100"?',
        "--tokens='many' is not a whole number",
        'did you mean "model"?',
        "--wait needs a load",
        "is not a share above 0",
        "'there' is no flag",
    ):
        assert words in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "no question is asked"),
        (["--output=json"], "no question is asked"),
        (["--gpu=h100"], "no model is given"),
        (["--model=llama-3.1-8b", "--model.layers=3"], "each describe a model"),
        (["--model.layers=3"], "also needs --model.kv-heads and --model.head-dim"),
        (["--service=1:3s", "--slots=8"], "--wait is missing"),
        (["--service=1:3s", "--rate=1", "--wait=1s"], "--service needs --slots"),
        (["--window=3s", "--rate=1", "--wait=1s"], "give --sidecar.url too"),
        (["--model=llama-3.1-8b", "--model=mistral-7b"], "may be given only once"),
        (["--model"], "expected one argument"),
        (["--model.config=/nowhere/config.json"], "cannot be read: No such file"),
        (["--sidecar.url=https://s", "--wait=1s"], "does not begin with http://"),
        (["--wait=0s", "--rate=1"], "some wait remains"),
        (["--service=8"], "is not REQUESTS:TIME"),
        (["--prefill=0:1s"], "is not WEIGHT:TIME"),
        (["--service.variation=-1"], "is not a coefficient of variation"),
    ],
)
def test_usage_that_cannot_be_meant_is_explained(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == 2
    assert words in capsys.readouterr().err


def test_help_teaches_by_examples_that_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each example of --help is run, except those that need a running server."""
    assert cli(["capacity", "--help"]) == 0
    shown = capsys.readouterr().out.replace("\\\n", " ")
    examples = re.findall(r"^  sidecar capacity (--.*)$", shown, re.MULTILINE)
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096,'
        ' "intermediate_size": 11008, "vocab_size": 32000, "torch_dtype": "bfloat16"}'
    )
    here = [
        example.replace("=config.json", f"={path}").split()
        for example in examples
        if "--sidecar.url" not in example and "--engine.url" not in example
    ]

    assert (len(examples), [main(flags) for flags in here]) == (6, [0] * 4)


def test_every_flag_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text()
    flags = {option for action in parser()._actions for option in action.option_strings} - {"-h", "--help"}

    assert len(flags) > 25
    assert sorted(flag for flag in flags if f"`{flag}" not in page) == []
