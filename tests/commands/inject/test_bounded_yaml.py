"""Files that unfold, nest or hold what a terminal obeys: refused with the place, or told without harm, at the command's own door."""

import io
import sys
import unicodedata

import pytest

from sidecar.cli import main
from sidecar.commands.inject.bounded_yaml import MOST_LEVELS, MOST_REPEATED
from tests.support.kustomize import IMAGE


Streams = pytest.CaptureFixture[str]
POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: CONTAINER, image: vllm/vllm-openai}]}}}
"""


def run(command: str, text: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Exit code, output, and the error output on one line."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    code = main([command, *(["--all", IMAGE] if command == "inject" else [])])
    said = capsys.readouterr()
    return code, said.out, " ".join(said.err.split())


def laughs(levels: int, each: str = "[{}]") -> str:
    """Nine aliases a level."""
    lines = ["kind: A", "a0: &a0 {x: 1}"]
    lines += [f"a{at}: &a{at} {each.format(', '.join([f'*a{at - 1}'] * 9))}" for at in range(1, levels + 1)]
    return "\n".join(lines) + "\n"


def nested(levels: int, opens: str = "[", closes: str = "]") -> str:
    return f"kind: A\na: {opens * levels}{closes * levels}\n"


CHAIN = "kind: A\na0: &a0 [1]\n" + "".join(f"a{at}: &a{at} [*a{at - 1}]\n" for at in range(1, 400))
TOO_DEEP, TOO_OFTEN = (
    f"this is nested deeper than {MOST_LEVELS} levels",
    f"aliases repeat more than {MOST_REPEATED} values",
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (laughs(4), f"standard input:6:25: {TOO_OFTEN}"),
        (laughs(40), f"standard input:6:25: {TOO_OFTEN}"),
        (laughs(9, "{{<<: [{}]}}"), f"standard input:6:25: {TOO_OFTEN}"),
        ("kind: A\na: &a [1, *a]\n", "standard input:2:11: an alias stands in what it names"),
        ("kind: A\na: &a 1\nb: &a {c: *a}\n", "standard input:3:11: an alias stands in what it names"),
        (CHAIN, f"standard input:100:12: {TOO_DEEP}"),
        (nested(400), f"standard input:2:103: {TOO_DEEP}"),
        (nested(400, "{a: ", "}"), f"standard input:2:397: {TOO_DEEP}"),
        ("kind: A\n? " + "[" * 400 + "]" * 400 + "\n: 1\n", "standard input:2:3: this key is no word"),
        ("kind: A\na: &a {b: 1}\nc: {*a : 2}\n", "standard input:3:5: this key is no word"),
        ("kind: A\n" + "".join(f"{' ' * at}a:\n" for at in range(150)), f"standard input:101:100: {TOO_DEEP}"),
        pytest.param('{"kind": "A",\n"a": ' + "[" * 10_000 + "]" * 10_000 + "}", f"standard input:2:105: {TOO_DEEP}", marks=pytest.mark.long),
        ('{"kind": "A",\n"a": ' + "[" * 200 + "]" * 200 + "}", f"standard input:2:105: {TOO_DEEP}"),
        ("kind: A\n--- # \x1b[31m\nkind: B\n", "standard input:2:7: this is no YAML: the character U+001B"),
        ('{"kind": "\x9b"}', "standard input:1:11: this is no YAML: the character U+009B"),
    ],
    ids=["laughs", "more laughs", "merges", "itself", "the name of an earlier one", "a chain", "lists", "maps", "a key", "an alias as a key", "lines",
         "JSON that Python's reader refuses", "JSON", "a marker", "a raw character"],
)  # fmt: skip
def test_what_unfolds_beyond_the_bound_is_refused_with_its_place(
    text: str, told: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, said = run("inject", text, capsys, monkeypatch)

    assert (code, out) == (2, "")
    assert f"sidecar inject: {told}" in said


@pytest.mark.parametrize("command", ["uninject", "bypass"])
def test_the_ways_out_read_within_the_same_bound(
    command: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, said = run(command, laughs(4), capsys, monkeypatch)

    assert (code, out) == (2, "")
    assert f"sidecar {command}: standard input:6:25: {TOO_OFTEN}" in said


@pytest.mark.long
def test_what_is_within_the_bound_is_attached(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every walk over the values must bear it, inside of the pod too."""
    aliases = ", ".join(f"&a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 4))
    beside = f"extra: [&a0 1, {aliases}], deep: {'[' * (MOST_LEVELS - 5)}{']' * (MOST_LEVELS - 5)}, containers:"
    code, out, _ = run("inject", POD.replace("containers:", beside), capsys, monkeypatch)

    assert (code, "--engine.url=" in out) == (0, True)
    assert run("uninject", out, capsys, monkeypatch)[0] == 0


@pytest.mark.parametrize("written", ["\\e[31m", "\\u009b31m", "\\u202e", "\\a", "\\x7f"])
def test_a_character_that_a_terminal_obeys_is_never_printed(
    written: str, capsys: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a name, where it is escaped: in the error output, and in the commands of `bypass`."""
    service = '---\napiVersion: v1\nkind: Service\nmetadata: {name: "sX"}\nspec: {selector: {app: a}, ports: [{port: 80, targetPort: 8000}]}\n'
    text = f"{POD}{service}".replace("NAME", '"nX"').replace("CONTAINER", '"cX"').replace("X", written)
    code, out, said = run("inject", text, capsys, monkeypatch)
    assert code == 0
    bypassed = run("bypass", out, capsys, monkeypatch)
    back = run("uninject", out, capsys, monkeypatch)

    assert [each for each in (said, *bypassed[1:], back[2]) if not each.replace("\n", "").isprintable()] == []
    assert [each for each in out + back[1] if each != "\n" and unicodedata.category(each) == "Cc"] == []
    assert "Deployment n\\" in said
