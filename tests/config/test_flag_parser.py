"""A command line is read strictly: what nearly exists is suggested, an older spelling is taken and told, no secret is repeated."""

from collections.abc import Mapping

import pytest

from sidecar.config.flag_parser import Parser, shown_word
from sidecar.config.folding import MISUSED


def parser(old: Mapping[str, str] | None = None) -> Parser:
    made = Parser(prog="sidecar try", old=old)
    for name in ("config.file", "engine.url", "proxy.listen-address", "output"):
        made.add_argument(f"--{name}", dest=name)
    return made


def refused(made: Parser, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        made.parse_args(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("--engine-url=http://a", '--engine-url: there is no such flag; did you mean "--engine.url"?'),
        ("--config=x", '--config: there is no such flag; did you mean "--config.file"?'),
        (
            "--proxy.listen_address=:1",
            '--proxy.listen_address: there is no such flag; did you mean "--proxy.listen-address"?',
        ),
        ("--colour", "--colour: there is no such flag"),
        ("there", "'there' is no flag: every flag begins with --"),
        ("--key=http://me:secret@host", "--key: there is no such flag"),
        ("http://me:secret@host", "'http://host' is no flag: every flag begins with --"),
    ],
)
def test_a_flag_that_is_unknown_is_told_with_the_nearest_one(
    given: str, error: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its value nor a password in it is repeated."""
    monkeypatch.setenv("COLUMNS", "200")

    assert refused(parser(), given) == MISUSED
    assert capsys.readouterr().err.splitlines()[-1] == f"sidecar try: {error}"
    assert parser().unknown([given]) == [error]


def test_every_unknown_flag_of_a_line_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(parser(), "--engine-url=a", "--config=b") == MISUSED

    told = " ".join(capsys.readouterr().err.split())
    assert [suggested in told for suggested in ('"--engine.url"', '"--config.file"')] == [True, True]


def test_a_strict_parser_refuses_in_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The flags that a command suggests are its own, also where the parser of all commands called it."""
    root = Parser(prog="sidecar")
    command = root.add_subparsers(dest="command").add_parser("serve", strict=True)
    command.add_argument("--engine.url")

    assert refused(root, "serve", "--engine-url=x") == MISUSED
    assert 'sidecar serve: --engine-url: there is no such flag; did you mean "--engine.url"?' in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_word_out_of_a_closed_set_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    made = Parser(prog="sidecar try")
    made.add_argument("what", choices=("rules", "routes"))

    assert refused(made, "rulez") == MISUSED
    assert 'did you mean "rules"?' in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("given", [["--url=http://a"], ["--url", "http://a"]])
def test_an_older_spelling_is_taken_and_told_in_one_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    known = parser(old={"--url": "--engine.url"}).parse_args(given)

    assert vars(known)["engine.url"] == "http://a"
    assert capsys.readouterr().err == "sidecar try: --url is --engine.url now; the next release takes only that\n"


def test_a_password_is_taken_out_of_a_word() -> None:
    assert [shown_word(word) for word in ("http://me:se@cret@h:1", "--x=me:pw@h", "plain")] == [
        "http://h:1",
        "--x=h",
        "plain",
    ]
