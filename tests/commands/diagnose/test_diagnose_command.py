"""`sidecar diagnose` as a person types it: units, every mistake at once, text and JSON, exit codes."""

import asyncio
import json

import pytest

from sidecar.cli import main
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from tests.admin.broken_lane import broken
from tests.support.admin import Visit, visit


DUMP = (
    *("--ttft-p99=3.2s", "--tpot-p99=80ms", "--rate=60", "--prompt-mean=2200", "--output-mean=180"),
    *("--model-size=13b", "--gpus=2xA100"),
)


def test_json_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diagnose", *DUMP, "--output=json"])

    (found,) = json.loads(capsys.readouterr().out)["diagnoses"]
    assert (code, found["source"], found["phase"], found["candidates"]) == (
        0,
        "hand",
        "unattributed",
        ["queue", "prefill"],
    )
    assert found["second"] == {"objective": "tpot", "phase": "decode", "state": "broken"}


@pytest.mark.parametrize(
    ("lane", "code", "said"),
    [
        ([], 0, "QUEUE"),
        (["--lane=chat"], 0, "QUEUE"),
        (["--lane=batch"], 2, "NO VERDICT"),
        (["--lane=voice"], 2, "No lane had a request within the window: there is nothing to diagnose."),
    ],
)
def test_a_sidecar_that_has_no_verdict_is_a_refusal_and_no_failure(
    lane: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2 as of `capacity`: the sidecar answered, and its data allow no verdict. One verdict of several is one."""
    codes = []

    async def scenario(visit: Visit) -> None:
        broken(visit.metrics)
        visit.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child("llama", "batch").inc(3)
        url = f"--sidecar.url=http://127.0.0.1:{visit.port}"
        codes.append(await asyncio.to_thread(main, ["diagnose", url, *lane]))

    visit(scenario, Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"]))

    assert (codes, capsys.readouterr().out.partition("  ")[0].splitlines()[0]) == ([code], said)


def test_every_mistake_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--tftt=3s", "--ttft-p99=80", "--gpus=2xfoo", "--output=xml", "--window=3s", "--sidecar.url=foo", "more"]

    code = main(["diagnose", *wrong])

    said = capsys.readouterr().err
    assert code == 2
    for about in ("--tftt: ", "--ttft-p99: '80'", "--gpus: '2xfoo'", "--output: 'xml'", "--window", "'foo'", "more"):
        assert about in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--sidecar.url=http://a", "--prometheus.url=http://b"], "one of them"),
        (["--prometheus.url=http://a", "--ttft-p99=1s"], "either ask, or tell"),
        (["--namespace=x"], "only with --prometheus.url"),
        (["--job=x"], "only with --prometheus.url"),
        (["--prometheus.url=http://a", "--window=soon"], "is no duration"),
        (["--sidecar.url=https://"], "is no http:// or https:// address"),
        (["--sidecar.url=http://["], "is no http:// or https:// address"),
        (["--prometheus.url=http://me:CANARY@host:99999"], "'http://host:99999' is no http:// or https:// address"),
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *flags]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert (said in err, "CANARY" in err) == (True, False)


def test_a_sidecar_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diagnose", "--sidecar.url=http://me:secret@127.0.0.1:1"])

    said = capsys.readouterr().err
    assert (code, "http://127.0.0.1:1/diagnosis" in said, "secret" in said) == (1, True, False)


def test_help_teaches_with_examples_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Every example by hand is run as it stands."""
    assert main(["diagnose", "--help"]) == 0
    shown = capsys.readouterr().out.replace("\\\n", " ")
    examples = [line.split()[2:] for line in shown.splitlines() if line.startswith("  sidecar diagnose --ttft")]

    codes = [main(["diagnose", *example]) for example in examples]

    assert codes == [0, 0]
    assert examples[0] == list(DUMP)
