"""A flag that several commands take has one spelling in all of them, and the earlier spellings still work."""

import re

import pytest

from sidecar.cli import main
from sidecar.commands.shared_flags import OUTPUTS, gone, renamed, shared, wrong_output


ASKING = {
    "capacity": {"engine.url", "output"},
    "compare": {"prometheus.url", "output"},
    "diagnose": {"sidecar.url", "prometheus.url", "output"},
    "doctor": {"sidecar.url", "engine.url", "prometheus.url", "output"},
    "drain": {"sidecar.url", "output"},
    "verify": {"engine.url", "output"},
    "baseline": {"sidecar.url"},
}
SPELLED_ONCE = ("output", "sidecar.url", "engine.url", "prometheus.url")
GONE = ("--url", "--format", "--json")


def flags(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Each flag that a command's help lists, to the shape of its value."""
    assert main([command, "--help"]) == 0
    return dict(re.findall(r"^ +(--[\w.-]+)(?:[ =](\[?[A-Z]\S*))?", capsys.readouterr().out, re.MULTILINE))


@pytest.mark.parametrize("command", ASKING)
def test_every_command_spells_them_alike(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that can print JSON takes --output, and each source that is asked has one name."""
    listed = flags(command, capsys)

    assert {name for name in SPELLED_ONCE if f"--{name}" in listed} == ASKING[command]
    assert {listed[f"--{name}"] for name in ASKING[command] if name != "output"} <= {"URL"}
    assert [name for name in GONE if name in listed] == []


def test_no_other_command_asks_or_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A new command that does stands in the table above."""
    assert main(["--help"]) == 0
    others = set(re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.MULTILINE)) - {*ASKING, "serve", "check"}
    found = {command: [name for name in SPELLED_ONCE if f"--{name}" in flags(command, capsys)] for command in others}

    assert {"demo", "export", "inject"} <= others
    assert {command: names for command, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (["baseline", "export", "--out=b.json", "--url=here"], "--url", "--sidecar.url"),
        (["drain", "--url=here"], "--url", "--sidecar.url"),
        (["doctor", "--format=xml"], "--format", "--output"),
    ],
)
def test_an_earlier_spelling_works_with_a_warning(
    arguments: list[str], old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert renamed(arguments[0]) == {old: new}
    assert main(arguments) == 2

    warning, error, *_ = capsys.readouterr().err.splitlines()
    assert warning == f"sidecar {arguments[0]}: {old} is {new} now; the next release takes only that"
    assert error.startswith(f"sidecar {arguments[0]}: {new}")


@pytest.mark.parametrize("command", ["capacity", "compare", "verify"])
def test_a_flag_that_is_gone_is_refused_with_what_replaces_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And each flag that it names there is one that the command takes."""
    for flag, instead in gone(command).items():
        assert main([command, f"{flag}=1"]) == 2
        assert f"{flag}: is gone; {instead}" in " ".join(capsys.readouterr().err.split())
        assert {f"--{name}" for name in re.findall(r"--([\w.-]*\w)", instead)} <= flags(command, capsys).keys()


def test_a_format_that_is_none_is_told() -> None:
    assert [wrong_output({"output": each}) for each in (*OUTPUTS, "jsn")] == [
        [],
        [],
        ["--output: 'jsn' is neither text nor json; did you mean \"json\"?"],
    ]
    assert wrong_output({}) == []


def test_a_command_may_say_what_it_asks_there() -> None:
    flag = shared("engine.url", "an engine")

    assert (flag.name, flag.shape, flag.words) == ("engine.url", "URL", "an engine")
    assert shared("engine.url").words != flag.words
